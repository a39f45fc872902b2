/* SPDX-License-Identifier: Apache-2.0
 *
 * The timing loop: for each size  probe → warm up → time → probe → check, and one line of output. See loop.h.
 *
 *   sample collective=allreduce bytes=4096 us=1.38 iterations=10000 class=near before_ns=115 after_ns=114 attempts=1 switches=0,2 plan=…
 *
 * switches: how often each rank lost its CPU to another thread while calls were timed. plan: what the library says of the call, if anything.
 * class: near, far or one-cpu. A line of class busy (other programs used the CPUs) or changed (the probes before and
 * after differed), at every attempt, is not for use.
 */
#define _GNU_SOURCE
#include "loop.h"
#include "layers/tuner/line_probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NEAR_BELOW_NS 220.0
#define PROBE_NS 2000000      /* for all pairs of CPUs together */
#define PROBE_LEAST_NS 200000 /* for each of them */
#define BUSY_ABOVE_NS 1000.0  /* no two sockets are that far apart: the probe had to share a CPU */
#define BUSY_NAPS 5
#define BUSY_NAP_US 20000
#define ATTEMPTS 4 /* at one size, until both probes agree */
#define COLD_ITERATIONS 3
#define MIN_ITERATIONS 5
#define LINE_BYTES 64
#define LIFE_SECONDS 300 /* of a process, whatever happens */

enum line_class { CLASS_NEAR, CLASS_FAR, CLASS_ONE_CPU, CLASS_BUSY, CLASS_CHANGED };
static const char *const collective_names[] = {"allreduce", "allgather", "reducescatter",
                                               "alltoall",  "broadcast", "reduce"};
static const char *const class_names[] = {"near", "far", "one-cpu", "busy", "changed"};

/* What one rank works with at one size of one collective. */
struct measurement {
    const struct loop_library *library;
    struct board *board;
    int rank;
    enum loop_collective collective;
    size_t elems, count; /* of a buffer; of a call */
    float *in, *out;
};

/* ---- the options ---- */

static void usage(const char *program) {
    bench_die("usage: %s [-n RANKS] [-p] [-R] [-w] [-b BOARD] [-c COLLECTIVES] [-s 8,4K,2M] [-t MILLISECONDS]\n"
              "  -n  fork that many ranks           -p  pin each of them to a CPU\n"
              "  -b  file shared by launched ranks  -s  bytes of the larger buffer  -t  time spent on each size\n"
              "  -c  names with commas; all unless given                       -R  registered buffers\n"
              "  -w  of the limit: ranks write into buffers of others, instead of reading there",
              program);
}

static size_t size_read(const char *text, char **end) {
    size_t size = strtoull(text, end, 10);
    if (**end == 'K' || **end == 'M')
        size <<= *(*end)++ == 'K' ? 10 : 20;
    return size;
}

static bool sizes_read(struct loop_options *options, const char *text) {
    for (options->nsizes = 0; options->nsizes < LOOP_MAX_SIZES; text++) {
        char *end;
        size_t size = size_read(text, &end);
        if (end == text || size == 0 || size % sizeof(float) != 0 || (*end != ',' && *end != '\0'))
            return false;
        options->sizes[options->nsizes++] = size;
        if (*end == '\0')
            return true;
        text = end;
    }
    return false;
}

static bool collectives_read(struct loop_options *options, char *text) {
    options->collectives = 0;
    for (char *name = strtok(text, ","); name != NULL; name = strtok(NULL, ",")) {
        int c = 0;
        while (c < LOOP_COLLECTIVES && strcmp(name, collective_names[c]) != 0)
            c++;
        if (c == LOOP_COLLECTIVES)
            return false;
        options->collectives |= 1u << c;
    }
    return options->collectives != 0;
}

struct loop_options loop_options_read(int argc, char **argv) {
    struct loop_options options = {.milliseconds = 100, .nranks = 2, .collectives = (1u << LOOP_COLLECTIVES) - 1};
    sizes_read(&options, "8,512,4K,32K,256K,2M,16M");
    for (int letter; (letter = getopt(argc, argv, "n:pRwb:c:s:t:")) != -1;) {
        switch (letter) {
        case 'n': options.nranks = atoi(optarg); break;
        case 'p': options.pinned = true; break;
        case 'R': options.registered = true; break;
        case 'w': options.pushes = true; break;
        case 'b': options.board_path = optarg; break;
        case 't': options.milliseconds = atoi(optarg); break;
        case 'c':
            if (!collectives_read(&options, optarg))
                bench_die("-c: names such as allreduce,reduce are needed");
            break;
        case 's':
            if (!sizes_read(&options, optarg))
                bench_die("-s %s: up to %d sizes are needed, each a multiple of 4 bytes, such as 8,4K,2M", optarg,
                          LOOP_MAX_SIZES);
            break;
        default: usage(argv[0]);
        }
    }
    if (optind != argc || options.milliseconds < 1)
        usage(argv[0]);
    alarm(LIFE_SECONDS);
    return options;
}

/* ---- near or far ---- */

/* The CPUs in use: all that the ranks may use when those are no more than the ranks, else those they are on. */
static cpu_set_t cpus_in_use(const struct board *board) {
    cpu_set_t allowed, current;
    CPU_ZERO(&allowed);
    CPU_ZERO(&current);
    for (int r = 0; r < board->nranks; r++) {
        CPU_OR(&allowed, &allowed, &board->seats[r].allowed);
        CPU_SET(board->seats[r].cpu, &current);
    }
    return CPU_COUNT(&allowed) <= board->nranks ? allowed : current;
}

/* The longest round trip between the first CPU in use and another one; 0 if there is no other. */
static double longest_round_trip_ns(const cpu_set_t *cpus) {
    double longest = 0;
    const int pairs = CPU_COUNT(cpus) - 1;
    const uint64_t each_ns = pairs < PROBE_NS / PROBE_LEAST_NS ? PROBE_NS / (pairs > 0 ? pairs : 1) : PROBE_LEAST_NS;
    for (int first = -1, cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, cpus))
            continue;
        if (first < 0) {
            first = cpu;
            continue;
        }
        struct line_trips trips;
        bool answered = line_probe(first, cpu, each_ns, &trips);
        longest =
            fmax(longest, answered ? trips.median_ns : 2 * BUSY_ABOVE_NS); /* as if the CPUs were busy: they are */
    }
    return longest;
}

static enum line_class classify(double round_trip_ns) {
    if (round_trip_ns == 0)
        return CLASS_ONE_CPU;
    if (round_trip_ns > BUSY_ABOVE_NS)
        return CLASS_BUSY;
    return round_trip_ns < NEAR_BELOW_NS ? CLASS_NEAR : CLASS_FAR;
}

/* Probes, on rank 0, while the other ranks sleep; again after a while if other programs use the CPUs. */
static double probe_together(struct board *board, int rank) {
    double round_trip_ns = 0;
    board_sit(board, rank);
    board_meet(board);
    if (rank == 0) {
        cpu_set_t cpus = cpus_in_use(board);
        round_trip_ns = longest_round_trip_ns(&cpus);
        for (int i = 0; i < BUSY_NAPS && classify(round_trip_ns) == CLASS_BUSY; i++) {
            usleep(BUSY_NAP_US);
            round_trip_ns = longest_round_trip_ns(&cpus);
        }
    }
    board_meet(board);
    return round_trip_ns;
}

/* ---- time ---- */

/* Small whole numbers, different on each rank: their sum is exact in any order. */
static float element(int rank, size_t i) { return (float)(rank + 1 + (int)(i % 7)); }

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void call(const struct measurement *m) {
    m->library->calls[m->collective](m->library->state, m->in, m->out, m->count);
}

/* A program computes its inputs anew before each call: this writes each cache line of this rank's input, outside of what is timed. Else
 * the lines would stay in the caches of those ranks that read them where they lie. */
static void rewrite_input(const struct measurement *m) {
    volatile float *input = m->collective == LOOP_BROADCAST ? m->out : m->in;
    if (m->collective == LOOP_BROADCAST && m->rank != 0)
        return;
    for (size_t i = 0; i < m->elems; i += LINE_BYTES / sizeof(float))
        input[i] = element(m->rank, i);
}

/* Makes connections and touches pages. */
static void warm_up(const struct measurement *m) {
    for (int i = 0; i < COLD_ITERATIONS; i++) {
        rewrite_input(m);
        m->library->align(m->library->state);
        call(m);
    }
    if (m->rank == 0)
        m->board->last_iteration = -1;
    board_meet(m->board);
}

/* How often this process has lost its CPU to another one. */
static long switches_so_far(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/* Rank 0 watches the clock and declares an iteration the last one before it enters the align of it: every rank that has
 * left that align sees the declaration. */
static void time_iterations(const struct measurement *m, double limit_us) {
    int i = -1, *last = &m->board->last_iteration;
    double *times = m->board->times[m->rank], from, to = now_us(), deadline = to + limit_us;
    const long before = switches_so_far();
    do {
        i++;
        bool enough = i + 1 == BOARD_MAX_ITERATIONS || (i + 1 >= MIN_ITERATIONS && to > deadline);
        if (m->rank == 0 && enough)
            __atomic_store_n(last, i, __ATOMIC_RELEASE); /* pairs with the load below, through the library's align */
        rewrite_input(m);
        m->library->align(m->library->state);
        from = now_us();
        call(m);
        to = now_us();
        times[i] = to - from;
    } while (i + 1 < BOARD_MAX_ITERATIONS && __atomic_load_n(last, __ATOMIC_ACQUIRE) != i);
    m->board->switches[m->rank] = switches_so_far() - before;
    board_meet(m->board);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over iterations of the slowest rank's time. Overwrites rank 0's row. */
static double median_us(struct board *board) {
    double *slowest = board->times[0];
    int iterations = board->last_iteration + 1;
    for (int i = 0; i < iterations; i++)
        for (int r = 1; r < board->nranks; r++)
            slowest[i] = fmax(slowest[i], board->times[r][i]);
    qsort(slowest, (size_t)iterations, sizeof(slowest[0]), by_value);
    return slowest[iterations / 2];
}

static void print_sample(const struct measurement *m, enum line_class class, double before, double after, int number) {
    const struct board *board = m->board;
    char plan[LOOP_PLAN_BYTES] = "";
    printf("sample collective=%s bytes=%zu us=%.3f iterations=%d class=%s before_ns=%.0f after_ns=%.0f attempts=%d",
           collective_names[m->collective], m->elems * sizeof(float), median_us(m->board), board->last_iteration + 1,
           class_names[class], before, after, number);
    for (int r = 0; r < board->nranks; r++)
        printf("%s%ld", r == 0 ? " switches=" : ",", board->switches[r]);
    if (m->library->plan != NULL)
        m->library->plan(m->library->state, collective_names[m->collective], m->count, plan);
    printf("%s%s\n", plan[0] != '\0' ? " plan=" : "", plan);
    fflush(stdout);
}

/* One attempt at one size; true, on every rank, if it has to be repeated. */
static bool attempt(const struct measurement *m, int milliseconds, int number) {
    struct board *board = m->board;
    double before = probe_together(board, m->rank);
    warm_up(m);
    time_iterations(m, milliseconds * 1e3);
    double after = probe_together(board, m->rank);
    if (m->rank == 0) {
        enum line_class class = classify(before) == classify(after) ? classify(before) : CLASS_CHANGED;
        board->repeat = (class == CLASS_CHANGED || class == CLASS_BUSY) && number < ATTEMPTS;
        if (!board->repeat)
            print_sample(m, class, before, after, number);
    }
    board_meet(board);
    return board->repeat;
}

/* ---- results ---- */

static float sum_of(const struct measurement *m, size_t i) {
    float sum = 0;
    for (int r = 0; r < m->board->nranks; r++)
        sum += element(r, i);
    return sum;
}

/* What element i of this rank's result must be. */
static float expected(const struct measurement *m, size_t i) {
    size_t block = i / m->count, within = i % m->count, own = (size_t)m->rank * m->count;
    switch (m->collective) {
    case LOOP_ALLGATHER: return element((int)block, within);
    case LOOP_REDUCESCATTER: return sum_of(m, own + i);
    case LOOP_ALLTOALL: return element((int)block, own + within);
    case LOOP_BROADCAST: return element(0, i);
    default: return sum_of(m, i);
    }
}

/* Elements of this rank's result. */
static size_t results(const struct measurement *m) {
    if (m->collective == LOOP_REDUCE && m->rank != 0)
        return 0;
    return m->collective == LOOP_REDUCESCATTER ? m->count : m->elems;
}

static void check(const struct measurement *m) {
    size_t errors = 0;
    memset(m->out, 0xff, m->elems * sizeof(float)); /* NaN everywhere */
    if (m->collective == LOOP_BROADCAST && m->rank == 0)
        memcpy(m->out, m->in, m->elems * sizeof(float));
    call(m);
    for (size_t i = 0; i < results(m); i++)
        errors += m->out[i] != expected(m, i);
    if (errors > 0)
        bench_die("rank %d: %s: %zu of %zu elements are wrong", m->rank, collective_names[m->collective], errors,
                  results(m));
}

static float *buffer_allocate(const struct measurement *m) {
    const struct loop_library *library = m->library;
    size_t bytes = m->elems * sizeof(float);
    void *buffer = library->allocate != NULL ? library->allocate(library->state, bytes) : malloc(bytes);
    if (buffer == NULL)
        bench_die("no memory for a buffer of %zu bytes", bytes);
    return (float *)buffer;
}

static void buffer_release(const struct measurement *m, float *buffer) {
    if (m->library->release != NULL)
        m->library->release(m->library->state, buffer);
    else
        free(buffer);
}

static void measure(struct measurement *m, int milliseconds) {
    m->in = buffer_allocate(m);
    m->out = buffer_allocate(m);
    for (size_t i = 0; i < m->elems; i++)
        m->in[i] = element(m->rank, i);
    memset(m->out, 0, m->elems * sizeof(float));
    for (int number = 1; attempt(m, milliseconds, number); number++)
        ;
    if (!m->library->unchecked)
        check(m);
    buffer_release(m, m->in);
    buffer_release(m, m->out);
}

/* Blocks are whole elements: sizes that the ranks cannot divide among themselves are left out. */
static void measure_collective(struct measurement *m, const struct loop_options *options) {
    size_t parts =
        m->collective == LOOP_ALLGATHER || m->collective == LOOP_REDUCESCATTER || m->collective == LOOP_ALLTOALL
            ? (size_t)m->board->nranks
            : 1;
    for (int i = 0; i < options->nsizes; i++) {
        m->elems = options->sizes[i] / sizeof(float);
        m->count = m->elems / parts;
        if (m->elems % parts == 0)
            measure(m, options->milliseconds);
    }
}

void loop_run(const struct loop_options *options, const struct loop_library *library, struct board *board, int rank) {
    struct measurement m = {.library = library, .board = board, .rank = rank};
    for (int c = 0; c < LOOP_COLLECTIVES; c++) {
        m.collective = (enum loop_collective)c;
        if (library->calls[c] != NULL && (options->collectives >> c & 1))
            measure_collective(&m, options);
    }
}
