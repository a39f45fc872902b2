/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of the lab. Rank 0 gives orders through memory that all ranks share. All ranks carry them out, until an order ends the ranks.
 *
 *      rank 0    writes the order, board_meet ──▶ carries it out ──▶ board_meet, reads the times
 *      rank r                      board_meet ──▶ carries it out ──▶ board_meet
 */
#include "layers/tools/tune/lab.h"

#include "base/config_read.h"
#include "base/err.h"
#include "base/os.h"
#include "bench/board.h"
#include "chan/chan.h"
#include "chan/slots.h"
#include "exec/exec.h"
#include "layers/tuner/distance.h"
#include "layers/tuner/line_probe.h"
#include "transport/transport.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SAMPLE_NS 1e6 /* Time that the timed calls of a sample should take together. */
/* Minimum number of timed calls of a sample. One of them may begin before its peers have ended the one before. */
#define SAMPLE_CALLS_MIN 4
#define SAMPLE_CALLS_MAX 5000
#define DISTURBED_NS 5000 /* A round trip of at least this time was disturbed by other work. */
#define PROBE_NS 300000
#define OWN_SHARE 0.9   /* The ranks of a CPU should have at least this share of it. */
#define ATTEMPTS 4      /* Number of tries for one sample. */
#define SIZE_NS 4e9     /* Time for one size. After it no round begins. */
#define FEWEST_ROUNDS 5 /* Rounds that are done in any case, even after SIZE_NS. */
#define JUDGED_ROUNDS 3 /* After this number of rounds, slow candidates are left out. */
#define HOPELESS 3.0    /* A candidate is slow if it takes longer than the best one by this factor. */
#define KEPT 6          /* Number of best candidates that are never left out. */
#define ROAMING_BYTES (512u << 10)
#define ROAMING_LAPS 16 /* Laps through all slots until a payload of at most ROAMING_BYTES lies where it began. */
#define LONG_NS 10e6    /* A candidate is left out at once only if its first call takes longer than this. */
/* A candidate is left out at once if its first call takes longer than the best one's by this factor. */
#define HOPELESS_LONG 8.0

enum order_kind { ORDER_OPEN, ORDER_CALL, ORDER_END };

struct orders {
    enum order_kind kind;
    enum lab_class class; /* Class of the communicator. */
    int candidate, calls;
    uint64_t bytes;
    struct collet_unique_id id;
    double ns[LAB_RANKS_MAX];     /* [rank]: time of a call. */
    double cpu_ns[LAB_RANKS_MAX]; /* [rank]: time that the rank had a CPU, per call. */
};

/* One rank, while it measures. */
struct lab_rank {
    struct lab *lab;
    struct board *board;
    struct orders *orders;
    int rank;
    struct collet_comm *comms[LAB_CLASSES][LAB_CANDIDATES_MAX];
    float *in, *out;
};

static void must(const struct lab_rank *bench, enum collet_result result, const char *what) {
    if (result != COLLET_SUCCESS)
        bench_die("rank %d: %s: %s", bench->rank, what, collet_last_error(NULL));
}

/* ---- carrying out orders ---- */

static struct collet_comm **comm_of(struct lab_rank *bench) {
    return &bench->comms[bench->orders->class][bench->orders->candidate];
}

void lab_set_candidate(const struct plan_choice *candidate) {
    char chunk[16], channels[16];
    snprintf(chunk, sizeof chunk, "%u", candidate->protocol == PROTOCOL_SIMPLE ? candidate->chunk_bytes : 0);
    snprintf(channels, sizeof channels, "%d", candidate->nchannels);
    setenv("COLLET_ALGO", candidate->algorithm->name, 1);
    setenv("COLLET_PROTO", protocol_names[candidate->protocol], 1);
    setenv("COLLET_CHUNKSIZE", chunk, 1);
    setenv("COLLET_NCHANNELS", channels, 1);
}

void lab_forget_candidates(void) {
    static const char *const knobs[] = {"COLLET_ALGO", "COLLET_PROTO", "NCCL_PROTO", "COLLET_CHUNKSIZE"};
    for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++)
        unsetenv(knobs[k]);
}

static void open_comm(struct lab_rank *bench, const struct plan_choice *candidate) {
    lab_set_candidate(candidate);
    setenv("COLLET_CPU_DISTANCE", lab_class_names[bench->orders->class], 1);
    must(bench, collet_comm_init_rank(comm_of(bench), bench->board->nranks, bench->orders->id, bench->rank),
         "a communicator");
}

static void call(struct lab_rank *bench, int times) {
    for (int k = 0; k < times; k++)
        must(bench,
             collet_allreduce(bench->in, bench->out, bench->orders->bytes / sizeof(float), COLLET_FLOAT32, COLLET_SUM,
                              *comm_of(bench), NULL),
             "allreduce");
}

static double own_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Number of calls until all memory of the connections is in the caches. Short payloads roam through their slots (fifo/proto_simple.h),
 * so many calls use different memory. The memory of a candidate leaves the caches while other candidates are measured. */
static int calls_of_all_memory(const struct lab *lab, uint64_t bytes) {
    return bytes <= ROAMING_BYTES ? (int)lab->machine[LAB_NEAR].nslots * ROAMING_LAPS : 1;
}

/* Makes calls one after another and times them. Each call begins when its rank is through with the one before. */
static void time_calls(struct lab_rank *bench) {
    int calls = bench->orders->calls, untimed = calls_of_all_memory(bench->lab, bench->orders->bytes);
    call(bench, untimed > calls / 4 ? untimed : 1 + calls / 4);
    double cpu_ns = own_cpu_ns();
    uint64_t begin_ns = os_now_ns();
    call(bench, calls);
    bench->orders->ns[bench->rank] = (double)(os_now_ns() - begin_ns) / calls;
    bench->orders->cpu_ns[bench->rank] = (own_cpu_ns() - cpu_ns) / calls;
}

static void close_all(struct lab_rank *bench) {
    for (int class = 0; class < LAB_CLASSES; class ++)
        for (int k = 0; k < bench->lab->ncandidates; k++)
            must(bench, collet_comm_destroy(bench->comms[class][k]), "the end of a communicator");
}

/* Carries out the present order. Returns its kind, which is read before the second meeting: after that, rank 0 may give the next order. */
static enum order_kind carry_out(struct lab_rank *bench) {
    board_meet(bench->board);
    enum order_kind kind = bench->orders->kind;
    if (kind == ORDER_OPEN)
        open_comm(bench, &bench->lab->candidates[bench->orders->candidate]);
    if (kind == ORDER_CALL)
        time_calls(bench);
    if (kind == ORDER_END)
        close_all(bench);
    board_meet(bench->board);
    return kind;
}

static void serve(struct lab_rank *bench) {
    while (carry_out(bench) != ORDER_END)
        ;
    _exit(0);
}

/* ---- giving orders ---- */

static void open_all(struct lab_rank *bench) {
    for (int k = 0; k < LAB_CLASSES * bench->lab->ncandidates; k++) {
        *bench->orders = (struct orders){
            .kind = ORDER_OPEN, .class = (enum lab_class)(k % LAB_CLASSES), .candidate = k / LAB_CLASSES};
        must(bench, collet_get_unique_id(&bench->orders->id), "a unique id");
        carry_out(bench);
    }
}

/* Did the ranks have their CPUs to themselves? Ranks that measure never sleep, so the time that they had no CPU belongs to
 * other work. */
static bool had_their_cpus(const struct lab_rank *bench) {
    const struct board_seat *seats = bench->board->seats;
    for (int r = 0; r < bench->board->nranks; r++) {
        double longest_ns = 0, own_ns = 0;
        for (int with = 0; with < bench->board->nranks; with++)
            if (seats[with].cpu == seats[r].cpu) {
                longest_ns = fmax(longest_ns, bench->orders->ns[with]);
                own_ns += bench->orders->cpu_ns[with];
            }
        if (own_ns < OWN_SHARE * longest_ns)
            return false;
    }
    return true;
}

/* Takes a sample. Returns the time of a call in ns, of the slowest rank. */
static double sample(struct lab_rank *bench, enum lab_class class, int candidate, uint64_t bytes, int calls) {
    *bench->orders =
        (struct orders){.kind = ORDER_CALL, .class = class, .candidate = candidate, .bytes = bytes, .calls = calls};
    carry_out(bench);
    double ns = 0;
    for (int r = 0; r < bench->board->nranks; r++)
        ns = fmax(ns, bench->orders->ns[r]);
    return ns;
}

/* Measures the distance between CPUs. False: the probe was disturbed. If both ranks are on one CPU, *class does not change. */
static bool probe(struct lab_rank *bench, enum lab_class *class) {
    const struct board_seat *seats = bench->board->seats;
    struct line_trips trips;
    if (seats[0].cpu == seats[1].cpu)
        return true;
    if (!line_probe(seats[0].cpu, seats[1].cpu, PROBE_NS, &trips) || trips.median_ns >= DISTURBED_NS)
        return false;
    *class = trips.median_ns >= LINE_TRIP_FAR_NS ? LAB_FAR : LAB_NEAR;
    bench->lab->trips_ns[*class] = (float)trips.median_ns;
    return true;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Leaves out hopeless candidates, by the least time that each has taken. */
static void judge(const struct lab *lab, const double *least_ns, double least_long_ns, double hopeless, bool *alive) {
    double sorted[LAB_CANDIDATES_MAX];
    int n = lab->ncandidates;
    memcpy(sorted, least_ns, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    double kept_ns = fmax(sorted[n < KEPT ? n - 1 : KEPT - 1], fmax(hopeless * sorted[0], least_long_ns));
    for (int k = 0; k < n; k++)
        alive[k] = alive[k] && least_ns[k] <= kept_ns;
}

/* Takes a sample for a cell. It is taken again if something was in the way. *now is the class that the last good probe
 * found. */
static void fill_cell(struct lab_rank *bench, int size, int candidate, int round, double *least_ns,
                      enum lab_class *now) {
    struct lab *lab = bench->lab;
    struct lab_cell *cell = &lab->cells[size][candidate];
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        double calls = fmin(fmax(SAMPLE_NS / *least_ns, SAMPLE_CALLS_MIN), SAMPLE_CALLS_MAX);
        enum lab_class class = *now;
        double ns = sample(bench, class, candidate, lab->options.sizes[size], (int)calls);
        bool alone = had_their_cpus(bench), probed = probe(bench, now);
        *least_ns = fmin(*least_ns, ns);
        if (alone && probed && class == *now) {
            cell->us[round] = (float)(ns / 1000);
            cell->class[round] = (uint8_t) class;
            return;
        }
        lab->dropped++;
    }
}

/* Touches the memory that calls of this size use, because until then its pages come one by one. Returns the time of a call
 * in ns. */
static double warm_up(struct lab_rank *bench, enum lab_class class, int candidate, uint64_t bytes) {
    double ns = sample(bench, class, candidate, bytes, 1);
    return ns >= LONG_NS ? ns : sample(bench, class, candidate, bytes, (int)bench->lab->machine[LAB_NEAR].nslots);
}

static void measure_size(struct lab_rank *bench, int size) {
    struct lab *lab = bench->lab;
    double least_ns[LAB_CANDIDATES_MAX];
    bool alive[LAB_CANDIDATES_MAX];
    enum lab_class now = LAB_NEAR;
    probe(bench, &now);
    for (int k = 0; k < lab->ncandidates; k++) {
        alive[k] = true;
        warm_up(bench, now == LAB_NEAR ? LAB_FAR : LAB_NEAR, k, lab->options.sizes[size]);
        least_ns[k] = warm_up(bench, now, k, lab->options.sizes[size]);
    }
    judge(lab, least_ns, LONG_NS, HOPELESS_LONG, alive);
    double until_ns = (double)os_now_ns() + SIZE_NS;
    for (int round = 0; round < lab->rounds; round++) {
        if (round >= FEWEST_ROUNDS && (double)os_now_ns() > until_ns)
            break;
        for (int k = 0; k < lab->ncandidates; k++)
            if (alive[k])
                fill_cell(bench, size, k, round, &least_ns[k], &now);
        if (round + 1 == JUDGED_ROUNDS)
            judge(lab, least_ns, 0, HOPELESS, alive);
    }
}

/* ---- the machine and its candidates ---- */

static int cpus_allowed(void) {
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

/* The context of reach_of(). */
struct reach_context {
    const struct lab *lab;
    enum lab_class class;
    bool wire;
    struct sim_loan loan;
};

static enum net_reach reach_of(const void *context, int from, int to) {
    const struct reach_context *apart = context;
    int cpus = apart->lab->cpus;
    if (apart->wire)
        return NET_REMOTE;
    /* Ranks of one CPU are near: board_fork() binds rank r to CPU r modulo the number of CPUs. */
    return apart->class == LAB_FAR && from % cpus != to % cpus ? NET_FAR : NET_NEAR;
}

static struct sim_loan loan_of(const void *context, int from, int to) {
    (void)from, (void)to;
    return ((const struct reach_context *)context)->loan;
}

static void describe_net(struct lab *lab, const struct config *config, enum lab_class class) {
    int n = lab->options.nranks, numbers[LAB_RANKS_MAX], place[LAB_RANKS_MAX] = {0};
    const char *transport = lab->options.transport;
    struct reach_context apart = {lab, class, strcmp(transport, "tcp") == 0 || strcmp(transport, "verbs") == 0,
                                  net_loan_of_processes(config)};
    for (int r = 0; r < n; r++)
        numbers[r] = r;
    struct net_source source = {lab->topo, NULL, n, 1, numbers, place, false, reach_of, loan_of, &apart};
    if (net_create(&source, &lab->net[class]) != COLLET_SUCCESS)
        bench_die("%s", err_last());
}

static void describe_machine(struct lab *lab, const struct config *config, const struct cost_table *costs,
                             uint32_t nslots) {
    int n = lab->options.nranks;
    lab->shape = PROG_FLAT(n);
    lab->cpus = config->cpus > 0 ? (int)config->cpus : cpus_allowed();
    if (topo_synthetic("1 cpu", &lab->topo) != COLLET_SUCCESS)
        bench_die("%s", err_last());
    for (int r = 0; r < n; r++)
        lab->crowd[r] = (double)n / lab->cpus;
    for (int class = 0; class < LAB_CLASSES; class ++) {
        describe_net(lab, config, (enum lab_class) class);
        lab->machine[class] = (struct cost_machine){
            .costs = costs,
            .cast = {SIM_EACH, 1, n},
            .nshapes = 1,
            .shapes = &lab->shape,
            .whole = &lab->shape,
            .net = lab->net[class],
            .crowd = lab->crowd,
            .nslots = nslots,
        };
    }
}

static void add_candidate(struct lab *lab, const struct algorithm *algorithm, const struct tuner_way *way,
                          int nchannels) {
    int k = lab->ncandidates++;
    if (k == LAB_CANDIDATES_MAX)
        bench_die("more than %d candidates", LAB_CANDIDATES_MAX);
    lab->candidates[k] = (struct plan_choice){algorithm, way->protocol, nchannels, way->chunk_bytes, 0};
}

void lab_list_algorithm(struct lab *lab, const struct algorithm *algorithm, const int *channels, size_t n) {
    struct tuner_way ways[TUNER_WAYS_MAX];
    int nways = tuner_ways(&lab->limits, ways);
    for (int k = 0; k < nways; k++)
        for (size_t c = 0; c < n; c++)
            add_candidate(lab, algorithm, &ways[k], channels[c]);
}

void lab_forget_samples(struct lab *lab) {
    for (int size = 0; size < LAB_SIZES_MAX; size++)
        for (int k = 0; k < LAB_CANDIDATES_MAX; k++)
            memset(lab->cells[size][k].class, LAB_CLASSES, sizeof lab->cells[size][k].class);
}

void lab_create(const struct lab_options *options, const struct cost_table *costs, struct lab **lab_p) {
    struct config config;
    struct lab *lab = calloc(1, sizeof *lab);
    lab_forget_candidates();
    setenv("COLLET_NCHANNELS", "1", 1);
    setenv("COLLET_TRANSPORT", options->transport, 1);
    if (lab == NULL || config_read(&config) != COLLET_SUCCESS)
        bench_die("%s", lab == NULL ? "no memory" : err_last());
    lab->options = *options;
    lab_forget_samples(lab);
    const struct chan_scale scale = {options->nranks, options->nranks, transport_named(options->transport)->messages,
                                     false, false};
    struct fifo_layout layouts[PROG_CONNECTS_COUNT];
    chan_layouts(&config, &scale, layouts);
    if (tuner_limits_read(&config, layouts, 1, &lab->limits) != COLLET_SUCCESS)
        bench_die("%s", err_last());
    describe_machine(lab, &config, costs, layouts[PROG_TO_FEW].nslots);
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        if (a->collective == PROG_ALLREDUCE && algorithm_applies(a, &lab->shape))
            lab_list_algorithm(lab, a, &(const int){1}, 1);
    *lab_p = lab;
}

/* ---- all of it ---- */

static void make_buffers(struct lab_rank *bench) {
    uint64_t most = sizeof(float);
    for (int size = 0; size < bench->lab->options.nsizes; size++)
        most = bench->lab->options.sizes[size] > most ? bench->lab->options.sizes[size] : most;
    bench->in = malloc(most);
    bench->out = malloc(most);
    if (bench->in == NULL || bench->out == NULL)
        bench_die("rank %d: no memory for two buffers of %llu bytes", bench->rank, (unsigned long long)most);
    memset(bench->in, 0, most);
    memset(bench->out, 0, most);
}

void lab_measure(struct lab *lab, int rounds) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    struct lab_rank bench = {.lab = lab};
    lab->rounds = rounds;
    bench.orders = mmap(NULL, sizeof *bench.orders, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bench.orders == MAP_FAILED)
        bench_die("no memory that the ranks could share");
    bench.board = board_fork(lab->options.nranks, true, &bench.rank);
    make_buffers(&bench);
    board_sit(bench.board, bench.rank);
    if (bench.rank > 0)
        serve(&bench);
    open_all(&bench);
    for (int size = 0; size < lab->options.nsizes; size++)
        measure_size(&bench, size);
    *bench.orders = (struct orders){.kind = ORDER_END};
    carry_out(&bench);
    board_join(bench.board);
    munmap(bench.board, sizeof *bench.board);
    munmap(bench.orders, sizeof *bench.orders);
    free(bench.in);
    free(bench.out);
    sched_setaffinity(0, sizeof allowed, &allowed);
}

void lab_destroy(struct lab *lab) {
    for (int class = 0; class < LAB_CLASSES; class ++) {
        for (int k = 0; k < ALGORITHMS_MAX; k++)
            cost_stage_close(lab->stages[class][k]);
        net_destroy(lab->net[class]);
    }
    topo_destroy(lab->topo);
    model_destroy(lab->model);
    chart_destroy(lab->map);
    free(lab);
}
