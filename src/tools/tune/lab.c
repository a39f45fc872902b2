/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of the lab: rank 0 gives orders through a page that all share, the others carry them out until told to end.
 *
 *      rank 0    writes the order, board_meet ──▶ carries it out ──▶ board_meet, reads the times
 *      rank r                      board_meet ──▶ carries it out ──▶ board_meet
 */
#include "tools/tune/lab.h"

#include "base/err.h"
#include "base/os.h"
#include "bench/board.h"
#include "bench/line_probe.h"
#include "chan/chan.h"
#include "kernels/exec.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SAMPLE_NS 400e3 /* how long the timed calls of a sample should take together … */
#define SAMPLE_CALLS_MAX 2000
#define FAR_NS 220        /* from this on a round trip is far: docs/performance.md */
#define DISTURBED_NS 5000 /* … and from this on other work was in the way */
#define JUDGED_ROUNDS 3   /* after so many rounds … */
#define HOPELESS 3.0      /* … candidates that take so many times as long as the best are left out … */
#define KEPT 6            /* … but for the best so many */

enum order_kind { ORDER_OPEN, ORDER_CALL, ORDER_END };

struct orders {
    enum order_kind kind;
    int candidate, calls;
    uint64_t bytes;
    struct collet_unique_id id;
    double ns[LAB_RANKS_MAX]; /* a call, by rank */
};

/* One rank, while it measures. */
struct bench {
    struct lab *lab;
    struct board *board;
    struct orders *orders;
    int rank;
    struct collet_comm *comms[LAB_CANDIDATES_MAX];
    float *in, *out;
};

static void must(const struct bench *bench, enum collet_result result, const char *what) {
    if (result != COLLET_SUCCESS)
        bench_die("rank %d: %s: %s", bench->rank, what, collet_last_error(NULL));
}

/* ---- names ---- */

const char *lab_name(const struct plan_choice *candidate, char name[LAB_NAME_BYTES]) {
    int at =
        snprintf(name, LAB_NAME_BYTES, "%s %s", candidate->algorithm->name, exec_protocol_names[candidate->protocol]);
    if (candidate->protocol == INTERP_SIMPLE)
        snprintf(name + at, LAB_NAME_BYTES - (size_t)at, " %uK", candidate->chunk_bytes >> 10);
    return name;
}

/* ---- carrying out orders ---- */

static void open_comm(struct bench *bench, const struct plan_choice *candidate) {
    char chunk[16];
    snprintf(chunk, sizeof chunk, "%u", candidate->protocol == INTERP_SIMPLE ? candidate->chunk_bytes : 0);
    setenv("COLLET_ALGO", candidate->algorithm->name, 1);
    setenv("COLLET_PROTO", exec_protocol_names[candidate->protocol], 1);
    setenv("COLLET_CHUNKSIZE", chunk, 1);
    setenv("COLLET_NCHANNELS", "1", 1);
    must(bench,
         collet_comm_init_rank(&bench->comms[bench->orders->candidate], bench->board->nranks, bench->orders->id,
                               bench->rank),
         "a communicator");
}

static void call(struct bench *bench, int times) {
    for (int k = 0; k < times; k++)
        must(bench,
             collet_allreduce(bench->in, bench->out, bench->orders->bytes / sizeof(float), COLLET_FLOAT32, COLLET_SUM,
                              bench->comms[bench->orders->candidate], NULL),
             "allreduce");
}

/* Calls one after another: each begins where its rank is through with the one before. */
static void time_calls(struct bench *bench) {
    int calls = bench->orders->calls;
    call(bench, 1 + calls / 4);
    uint64_t begin_ns = os_now_ns();
    call(bench, calls);
    bench->orders->ns[bench->rank] = (double)(os_now_ns() - begin_ns) / calls;
}

static void carry_out(struct bench *bench) {
    board_meet(bench->board);
    if (bench->orders->kind == ORDER_OPEN)
        open_comm(bench, &bench->lab->candidates[bench->orders->candidate]);
    if (bench->orders->kind == ORDER_CALL)
        time_calls(bench);
    for (int k = 0; k < bench->lab->ncandidates && bench->orders->kind == ORDER_END; k++)
        must(bench, collet_comm_destroy(bench->comms[k]), "the end of a communicator");
    board_meet(bench->board);
}

static void serve(struct bench *bench) {
    do
        carry_out(bench);
    while (bench->orders->kind != ORDER_END);
    _exit(0);
}

/* ---- giving orders ---- */

static void open_all(struct bench *bench) {
    for (int k = 0; k < bench->lab->ncandidates; k++) {
        *bench->orders = (struct orders){.kind = ORDER_OPEN, .candidate = k};
        must(bench, collet_get_unique_id(&bench->orders->id), "a unique id");
        carry_out(bench);
    }
}

/* ns a call: the slowest rank's. */
static double sample(struct bench *bench, int candidate, uint64_t bytes, int calls) {
    *bench->orders = (struct orders){.kind = ORDER_CALL, .candidate = candidate, .bytes = bytes, .calls = calls};
    carry_out(bench);
    double ns = 0;
    for (int r = 0; r < bench->board->nranks; r++)
        ns = bench->orders->ns[r] > ns ? bench->orders->ns[r] : ns;
    return ns;
}

/* A machine that cannot be probed (one CPU) has one class. LAB_CLASSES: the probe was disturbed. */
static enum lab_class probe(struct bench *bench) {
    const struct board *board = bench->board;
    double ns = line_round_trip_ns(board->seats[0].cpu, board->seats[board->nranks > 1].cpu);
    if (ns >= DISTURBED_NS)
        return LAB_CLASSES;
    enum lab_class class = ns >= FAR_NS ? LAB_FAR : LAB_NEAR;
    bench->lab->trips_ns[class] = (float)ns;
    return class;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Leaves out what is hopeless: of the least of a few samples each. */
static void judge(const struct lab *lab, const double *least_ns, bool *alive) {
    double sorted[LAB_CANDIDATES_MAX];
    int n = lab->ncandidates;
    memcpy(sorted, least_ns, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    double kept_ns = sorted[n < KEPT ? n - 1 : KEPT - 1];
    for (int k = 0; k < n; k++)
        alive[k] = least_ns[k] <= kept_ns || least_ns[k] <= HOPELESS * sorted[0];
}

static void measure_size(struct bench *bench, int size) {
    struct lab *lab = bench->lab;
    uint64_t bytes = lab->options.sizes[size];
    double least_ns[LAB_CANDIDATES_MAX];
    bool alive[LAB_CANDIDATES_MAX];
    for (int k = 0; k < lab->ncandidates; k++) {
        alive[k] = true;
        least_ns[k] = sample(bench, k, bytes, 1);
    }
    enum lab_class before = probe(bench);
    for (int round = 0; round < lab->options.rounds; round++) {
        for (int k = 0; k < lab->ncandidates; k++) {
            if (!alive[k])
                continue;
            double calls = SAMPLE_NS / least_ns[k];
            double ns = sample(bench, k, bytes,
                               calls < 1                  ? 1
                               : calls < SAMPLE_CALLS_MAX ? (int)calls
                                                          : SAMPLE_CALLS_MAX);
            enum lab_class after = probe(bench);
            struct lab_cell *cell = &lab->cells[size][k];
            least_ns[k] = ns < least_ns[k] ? ns : least_ns[k];
            if (before == after && after != LAB_CLASSES)
                cell->us[after][cell->count[after]++] = (float)(ns / 1000);
            else
                lab->dropped++;
            before = after;
        }
        if (round + 1 == JUDGED_ROUNDS)
            judge(lab, least_ns, alive);
    }
}

/* ---- the machine and its candidates ---- */

static int cpus_allowed(void) {
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

static void describe_machine(struct lab *lab, const struct config *config, const struct cost_table *costs) {
    int n = lab->options.nranks;
    bool wire = strcmp(lab->options.transport, "tcp") == 0 || strcmp(lab->options.transport, "verbs") == 0;
    lab->shape = PROG_FLAT(n);
    for (int r = 0; r < n; r++)
        lab->ranks_of_node[r] = n;
    memset(lab->link, wire ? LINK_NET : LINK_MEMORY, sizeof lab->link);
    lab->machine = (struct cost_machine){
        .costs = costs,
        .nranks = n,
        .shape = lab->shape,
        .whole = &lab->shape,
        .link = lab->link,
        .node_of = lab->node_of,
        .node_gbps = lab->node_gbps,
        .ranks_of_node = lab->ranks_of_node,
        .cpus = config->cpus > 0 ? (int)config->cpus : cpus_allowed(),
        .nslots = chan_layout(config, n, false).nslots,
    };
}

static void add_candidate(struct lab *lab, const struct algorithm *algorithm, enum interp_protocol protocol,
                          uint32_t chunk_bytes) {
    int n = lab->options.nranks, k = lab->ncandidates++;
    if (k == LAB_CANDIDATES_MAX)
        bench_die("more than %d candidates", LAB_CANDIDATES_MAX);
    lab->candidates[k] = (struct plan_choice){algorithm, protocol, 1, chunk_bytes, 0};
    lab->progs[k] = calloc((size_t)n, sizeof **lab->progs);
    for (int r = 0; r < n; r++)
        if (lab->progs[k] == NULL || algorithm_build(algorithm, &lab->shape, r, 0, &lab->progs[k][r]) != COLLET_SUCCESS)
            bench_die("%s: %s", algorithm->name, err_last());
}

static void list_candidates(struct lab *lab) {
    struct tuner_way ways[TUNER_WAYS_MAX];
    int nways = tuner_ways(&lab->limits, ways);
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (int k = 0; k < nways && a->collective == PROG_ALLREDUCE && algorithm_applies(a, &lab->shape); k++)
            add_candidate(lab, a, ways[k].protocol, ways[k].chunk_bytes);
}

static void lab_create(const struct lab_options *options, const struct cost_table *costs, struct lab **lab_p) {
    struct config config;
    struct lab *lab = calloc(1, sizeof *lab);
    static const char *const free_knobs[] = {"COLLET_ALGO", "COLLET_PROTO", "NCCL_PROTO", "COLLET_CHUNKSIZE"};
    for (size_t k = 0; k < sizeof free_knobs / sizeof *free_knobs; k++)
        unsetenv(free_knobs[k]);
    setenv("COLLET_NCHANNELS", "1", 1);
    setenv("COLLET_TRANSPORT", options->transport, 1);
    if (lab == NULL || config_read(&config) != COLLET_SUCCESS)
        bench_die("%s", lab == NULL ? "no memory" : err_last());
    lab->options = *options;
    struct fifo_layout layout = chan_layout(&config, options->nranks, false);
    if (tuner_limits_read(&config, &layout, 1, &lab->limits) != COLLET_SUCCESS)
        bench_die("%s", err_last());
    describe_machine(lab, &config, costs);
    list_candidates(lab);
    *lab_p = lab;
}

/* ---- all of it ---- */

static void make_buffers(struct bench *bench) {
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

void lab_measure(const struct lab_options *options, const struct cost_table *costs, struct lab **lab_p) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    lab_create(options, costs, lab_p);
    struct bench bench = {.lab = *lab_p};
    bench.orders = mmap(NULL, sizeof *bench.orders, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bench.orders == MAP_FAILED)
        bench_die("no memory that the ranks could share");
    bench.board = board_fork(options->nranks, true, &bench.rank);
    make_buffers(&bench);
    board_sit(bench.board, bench.rank);
    if (bench.rank > 0)
        serve(&bench);
    open_all(&bench);
    for (int size = 0; size < options->nsizes; size++)
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
    for (int k = 0; k < lab->ncandidates; k++) {
        for (int r = 0; r < lab->options.nranks; r++)
            prog_destroy(lab->progs[k][r]);
        free(lab->progs[k]);
    }
    free(lab);
}

/* ---- what was measured, what is predicted ---- */

enum lab_class lab_class_of(const struct lab *lab, int size) {
    int count[LAB_CLASSES] = {0};
    for (int k = 0; k < lab->ncandidates; k++)
        for (int class = 0; class < LAB_CLASSES; class ++)
            count[class] += lab->cells[size][k].count[class];
    return count[LAB_FAR] > count[LAB_NEAR] ? LAB_FAR : LAB_NEAR;
}

struct lab_value lab_value(const struct lab *lab, int size, int candidate, enum lab_class class) {
    const struct lab_cell *cell = &lab->cells[size][candidate];
    int n = cell->count[class];
    double sorted[LAB_ROUNDS_MAX];
    if (n == 0)
        return (struct lab_value){0, 0};
    for (int k = 0; k < n; k++)
        sorted[k] = cell->us[class][k];
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    return (struct lab_value){median, (sorted[n - 1 - n / 4] - sorted[n / 4]) / 2 / median};
}

double lab_predict_us(struct lab *lab, const struct cost_table *costs, int size, int candidate) {
    double ns;
    lab->machine.costs = costs;
    if (tuner_predict(&lab->machine, lab->progs[candidate], &lab->candidates[candidate], lab->options.sizes[size], 1,
                      &ns) != COLLET_SUCCESS)
        bench_die("%s", err_last());
    return ns / 1000;
}

int lab_choice(struct lab *lab, const struct cost_table *costs, int size) {
    struct plan_choice choice;
    lab->machine.costs = costs;
    if (tuner_choose(&lab->machine, &lab->limits, PROG_ALLREDUCE, lab->options.sizes[size], 1, &choice) !=
        COLLET_SUCCESS)
        bench_die("%s", err_last());
    int k = 0;
    while (k < lab->ncandidates &&
           (lab->candidates[k].algorithm != choice.algorithm || lab->candidates[k].protocol != choice.protocol ||
            lab->candidates[k].chunk_bytes != choice.chunk_bytes))
        k++;
    if (k == lab->ncandidates)
        bench_die("the tuner chose %s with a chunk of %u bytes, which is no candidate here", choice.algorithm->name,
                  choice.chunk_bytes);
    return k;
}
