/* SPDX-License-Identifier: Apache-2.0
 *
 * What COLLET_TRACE costs in time: two processes all-reduce by communicators that differ in nothing but that, in turns, so a busy
 * machine slows all of them alike. A second communicator without a trace shows how far to trust the figures.
 *
 *    usage: trace <rounds> <bytes>…
 */
#include "collet.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    RANKS = 2,
    MOST_FLOATS = 1 << 18,
    MOST_ROUNDS = 10000,
    CALLS_BEFORE = 300,
    ROUND_BYTES = 1 << 20,
    FEW_CALLS = 16
};

/* The first is what the others are compared with. */
static const struct way {
    const char *name, *every; /* COLLET_TRACE_EVERY; NULL: no trace */
} ways[] = {{"untraced", NULL}, {"again", NULL}, {"traced", "8"}, {"all calls", "1"}};
enum { WAYS = sizeof ways / sizeof *ways };

static float in[MOST_FLOATS], out[MOST_FLOATS];
static double ratio[WAYS][MOST_ROUNDS], us[MOST_ROUNDS];

static void check(enum collet_result result) {
    if (result == COLLET_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", collet_error_string(result), collet_last_error(NULL));
    exit(1);
}

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_size);
    return values[n / 2];
}

static double time_of(struct collet_comm *comm, size_t count, int calls) {
    const double before = now_us();
    for (int k = 0; k < calls; k++)
        check(collet_allreduce(in, out, count, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    return (now_us() - before) / calls;
}

static void measure(struct collet_comm **comms, int rank, size_t bytes, int rounds) {
    const size_t count = bytes / sizeof(float);
    const int calls = (int)(ROUND_BYTES / (bytes + 512)) + FEW_CALLS;
    for (int w = 0; w < WAYS; w++)
        time_of(comms[w], count, CALLS_BEFORE);
    for (int round = 0; round < rounds; round++) {
        us[round] = time_of(comms[0], count, calls);
        for (int w = 1; w < WAYS; w++)
            ratio[w][round] = time_of(comms[w], count, calls) / us[round];
    }
    if (rank != 0)
        return;
    printf("%8zu %10.3f us", bytes, median(us, rounds));
    for (int w = 1; w < WAYS; w++)
        printf(" %+9.1f %%", (median(ratio[w], rounds) - 1) * 100);
    printf("\n");
}

/* No file is written: the communicators end with their process. */
static void run(int rank, int rounds, char **sizes, const int pipe_ends[2]) {
    struct collet_comm *comms[WAYS];
    for (int w = 0; w < WAYS; w++) {
        struct collet_unique_id id;
        if (rank == 0)
            check(collet_get_unique_id(&id));
        if ((rank == 0 ? write(pipe_ends[1], &id, sizeof id) : read(pipe_ends[0], &id, sizeof id)) != sizeof id)
            _exit(1);
        if (ways[w].every != NULL) {
            setenv("COLLET_TRACE", "/dev/null", 1);
            setenv("COLLET_TRACE_EVERY", ways[w].every, 1);
        }
        check(collet_comm_init_rank(&comms[w], RANKS, id, rank));
    }
    for (; *sizes != NULL; sizes++)
        measure(comms, rank, strtoul(*sizes, NULL, 10), rounds);
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv) {
    int pipe_ends[2], status, failed = 0;
    const int rounds = argc > 2 ? atoi(argv[1]) : 0;
    for (int k = 2; k < argc; k++)
        if (strtoul(argv[k], NULL, 10) < sizeof(float) || strtoul(argv[k], NULL, 10) > sizeof in)
            argc = 0;
    if (argc < 3 || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: trace <rounds, 1 … %d> <bytes, 4 … %zu>…\n", MOST_ROUNDS, sizeof in);
        return 2;
    }
    printf("%8s %13s", "bytes", ways[0].name);
    for (int w = 1; w < WAYS; w++)
        printf(" %11s", ways[w].name);
    printf("\n");
    fflush(stdout);
    if (pipe(pipe_ends) != 0)
        return 1;
    unsetenv("COLLET_TRACE");
    for (int rank = 0; rank < RANKS; rank++)
        if (fork() == 0)
            run(rank, rounds, argv + 2, pipe_ends);
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
