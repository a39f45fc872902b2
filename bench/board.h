/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of one timing loop share beside the library that they measure. It lies in memory mapped by all: from a
 * file when a launcher started the ranks, without a name when they were forked. None of it is touched between the two
 * looks at the clock.
 *
 *   field            written by   read by
 *   seats[r]         rank r       rank 0, after board_meet
 *   last_iteration   rank 0       all, after an align of the library
 *   repeat           rank 0       all, after board_meet
 *   message          rank 0       all, after board_meet
 *   times[r]         rank r       rank 0, after board_meet
 *   switches[r]      rank r       rank 0, after board_meet
 */
#ifndef COLLET_BENCH_BOARD_H
#define COLLET_BENCH_BOARD_H

#include <sched.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BOARD_MAX_RANKS 64
#define BOARD_MAX_ITERATIONS 20000

/* Where a rank runs: the CPUs it may use and the one it is on. */
struct board_seat {
    cpu_set_t allowed;
    int cpu;
};

struct board {
    int nranks;
    int arrived;        /* at the meeting in progress */
    int meeting;        /* number of meetings held */
    int last_iteration; /* number of the last one to be timed, -1: not yet known */
    unsigned spinning;  /* arrivals at barriers of limit_loop.c, where nobody sleeps */
    bool repeat;
    char message[256];
    struct board_seat seats[BOARD_MAX_RANKS];
    long switches[BOARD_MAX_RANKS];                      /* involuntary ones, while calls were timed */
    double times[BOARD_MAX_RANKS][BOARD_MAX_ITERATIONS]; /* microseconds */
};

/* A board for ranks that a launcher started: the same file, empty at first, on every rank. */
struct board *board_open(const char *path, int nranks);

/* A board for ranks that are forked now: every rank returns from this with its number. Rank 0 is the calling process;
 * the others die with it, and it ends when one of them fails. pinned: rank r stays on the r-th allowed CPU, counted
 * round and round. */
struct board *board_fork(int nranks, bool pinned, int *rank);

/* Waits, on rank 0, for the ranks that it forked. */
void board_join(const struct board *board);

/* A barrier that sleeps while it waits and so leaves the CPUs alone. What was written before it is seen after it. */
void board_meet(struct board *board);

/* Takes this rank's seat: notes where it runs. */
void board_sit(struct board *board, int rank);

/* Prints what went wrong and ends the process. */
void bench_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif
#endif
