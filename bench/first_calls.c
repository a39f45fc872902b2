/* SPDX-License-Identifier: Apache-2.0
 *
 * How soon are two ranks fast that nobody binds, if the scheduler has put both onto one CPU? Two processes are brought to one CPU, may
 * then use all of theirs again, and all-reduce 8 bytes at once. Each row counts the calls of the first milliseconds.
 *
 *    usage: first_calls <rows>
 */
#include "collet.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 2, CALLS = 20000, CALLS_BEFORE = 200, LAST = 1000 };

static float in[2], out[2];
static double us[CALLS];

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

static void call(struct collet_comm *comm) {
    check(collet_allreduce(in, out, 2, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
}

/* The first of the CPUs that this process may use gets both ranks. */
static void meet_on_one_cpu(struct collet_comm *comm) {
    cpu_set_t all, one;
    int first = 0;
    sched_getaffinity(0, sizeof all, &all);
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof one, &one);
    check(collet_barrier(comm, NULL));
    sched_setaffinity(0, sizeof all, &all);
}

static int calls_within(double limit_us) {
    int calls = 0;
    for (double sum = 0; calls < CALLS && (sum += us[calls]) <= limit_us;)
        calls++;
    return calls;
}

static void measure(struct collet_comm *comm, int rank) {
    double last_us = 0;
    for (int k = 0; k < CALLS_BEFORE; k++)
        call(comm);
    meet_on_one_cpu(comm);
    for (int k = 0; k < CALLS; k++) {
        const double from = now_us();
        call(comm);
        us[k] = now_us() - from;
        last_us += k >= CALLS - LAST ? us[k] / LAST : 0;
    }
    if (rank == 0)
        printf("%12d %12d %16.2f\n", calls_within(1000), calls_within(5000), last_us);
}

int main(int argc, char **argv) {
    const int rows = argc == 2 ? atoi(argv[1]) : 0;
    struct collet_unique_id *id = mmap(NULL, sizeof *id, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct collet_comm *comm;
    if (rows < 1 || id == MAP_FAILED) {
        fprintf(stderr, "usage: first_calls <rows>\n");
        return 2;
    }
    check(collet_get_unique_id(id));
    const int rank = fork() == 0;
    check(collet_comm_init_rank(&comm, RANKS, *id, rank));
    if (rank == 0)
        printf("%12s %12s %16s\n", "calls in 1 ms", "in 5 ms", "us, last 1,000");
    for (int row = 0; row < rows; row++)
        measure(comm, rank);
    check(collet_comm_destroy(comm));
    return rank == 0 && wait(NULL) < 0;
}
