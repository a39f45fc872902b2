/* SPDX-License-Identifier: Apache-2.0
 *
 * One timing loop for every library, so that numbers of collet and of its peers can stand in one table.
 *
 *   collet_loop.c  mpi_loop.c  gloo_loop.cc  oneccl_loop.cc    start one library, lend its calls to the loop
 *   limit_loop.c                               moves what a collective must move, and nothing else: the limit of them all
 *   loop.c                                     the loop: probe, warm up, time, probe, check; prints one line a size
 *   board.c                                    a page that the ranks share beside the library: times, CPUs, agreement
 *   ../src/layers/tuner/line_probe.c                   round trip of a cache line between two CPUs
 *   table.py                                   the lines of all runs → medians and ratios
 *   ../scripts/bench-peers.sh                  builds these and runs them in turns
 *
 *   rank 0  │ probe │ warm up │ write align call  write align call  write align call … │ probe │ check │
 *   rank 1  │ sleep │ warm up │ write align call  write align call  write align call … │ sleep │ check │
 *                                           └─t──┘            └─t──┘            └─t──┘
 *
 * Before each call each rank writes its input anew, in every cache line, as programs do. A measurement is the median over iterations of the
 * largest t of any rank. It counts only if both probes gave the same
 * class (near, far): on some machines two CPUs are neighbours at one moment and far apart at the next, and a comparison
 * across that change says nothing. Read next: loop.c.
 */
#ifndef COLLET_BENCH_LOOP_H
#define COLLET_BENCH_LOOP_H

#include "board.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOOP_MAX_SIZES 32
#define LOOP_PLAN_BYTES 80

/* Reductions are sums. Roots are rank 0. A broadcast takes place in `out`. */
enum loop_collective {
    LOOP_ALLREDUCE,
    LOOP_ALLGATHER,
    LOOP_REDUCESCATTER,
    LOOP_ALLTOALL,
    LOOP_BROADCAST,
    LOOP_REDUCE,
    LOOP_COLLECTIVES
};

/* count: elements of the whole buffer, or of one rank's block where a buffer is made of such blocks. */
typedef void loop_function(void *state, const float *in, float *out, size_t count);

/* What the loop needs from a library. All calls block, and end the process if the library reports a failure. */
struct loop_library {
    void *state;
    void (*align)(void *state);                   /* returns at about the same time on all ranks: a barrier */
    loop_function *calls[LOOP_COLLECTIVES];       /* NULL: it has none, and nothing is measured */
    bool unchecked;                               /* its results are not those of the collective */
    void *(*allocate)(void *state, size_t bytes); /* buffers of calls; NULL: malloc and free */
    void (*release)(void *state, void *buffer);
    /* Says in a word without blanks how a collective of so many elements is run; NULL: it does not say. */
    void (*plan)(void *state, const char *collective, size_t count, char text[LOOP_PLAN_BYTES]);
};

struct loop_options {
    size_t sizes[LOOP_MAX_SIZES]; /* bytes */
    int nsizes;
    unsigned collectives;   /* bit c: enum loop_collective c */
    int milliseconds;       /* to spend on the timed iterations of one size */
    int nranks;             /* of programs that fork their ranks themselves */
    bool pinned;            /* such ranks stay on one CPU each, in turn */
    bool registered;        /* buffers are those that the library makes for calls; only collet has them */
    bool pushes;            /* the limit: ranks write into buffers of others, instead of reading there */
    const char *board_path; /* of programs that a launcher starts: the file through which their ranks share the board */
};

/* Reads the command line (a wrong one ends the process) and starts the clock that bounds the life of the process. */
struct loop_options loop_options_read(int argc, char **argv);

/* Times the library at every size, on every rank together; rank 0 prints. Ends the process if a result is wrong. */
void loop_run(const struct loop_options *options, const struct loop_library *library, struct board *board, int rank);

#ifdef __cplusplus
}
#endif
#endif
