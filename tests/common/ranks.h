/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a function as the ranks of a job: forked processes, each with one thread or several. No job hangs a test: when one
 * rank fails, dies or is silent for too long, all are killed and the reason is returned.
 *
 *      test program ── fork ──┬─▶ process 0: ranks 0 … threads−1          all share one struct ranks
 *                             └─▶ process 1: ranks threads … 2·threads−1
 */
#ifndef COLLET_TESTS_RANKS_H
#define COLLET_TESTS_RANKS_H

#include "collet.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RANKS_MAX 16
#define RANKS_TEXT_BYTES 1024

struct ranks {
    int nranks, nthreads; /* of the job; of each process */
    void *argument;
    pthread_barrier_t barrier;
    struct collet_unique_id id;
    int expendable[RANKS_MAX]; /* set by the test: this process may die of SIGKILL */
    pid_t pids[RANKS_MAX];     /* of processes, as the parent knows them */
    int leftover;              /* a process that a rank left behind on purpose: killed at the end */
    uint64_t alive_ns;         /* the newest sign of life */
    char doing[256];           /* what is under way, for the report of a hang */
    int failed;                /* whether `failure` has been claimed … */
    int failure_written;       /* … and filled */
    char failure[RANKS_TEXT_BYTES];
};

struct ranks_job {
    int processes, threads; /* threads 0 means 1 */
    int limit_s;            /* longest time without ranks_doing(), or in total where that is not called; 0: 20 */
    void (*run)(struct ranks *ranks, int rank);
    void *argument;
};

/* True if every rank returned from job->run. Else *why says what happened first. */
bool ranks_run(const struct ranks_job *job, char why[RANKS_TEXT_BYTES]);

/* Memory that forked ranks and their parent share; zeroed. */
void *ranks_share(size_t bytes);
void ranks_unshare(void *memory, size_t bytes);

/* ---- for use in the ranks ---- */

void ranks_barrier(struct ranks *ranks);

/* A sign of life, and what the job does now. */
void ranks_doing(struct ranks *ranks, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends the job with a reason. */
void ranks_fail(struct ranks *ranks, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));

/* Ends the job unless result is the expected one; says what the call was and its error text. */
void ranks_expect(struct ranks *ranks, int rank, enum collet_result result, enum collet_result expected,
                  const char *what);
#define ranks_try(ranks, rank, call) ranks_expect(ranks, rank, call, COLLET_SUCCESS, #call)

/* Ends the job unless the condition holds. */
#define ranks_check(ranks, rank, condition)                                                                            \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ranks_fail(ranks, "rank %d: %s:%d: not so: %s", rank, __FILE__, __LINE__, #condition);                     \
    } while (0)

/* A fresh id in ranks->id, the same for all; every rank calls it. */
void ranks_new_id(struct ranks *ranks, int rank);

/* A fresh communicator of all ranks of the job; config may be NULL. Every rank calls it. */
struct collet_comm *ranks_comm(struct ranks *ranks, int rank, const struct collet_config *config);

/* If the job hangs, stderr shows where these communicators stand. Those of ranks_comm() are known. */
void ranks_show_on_hang(struct collet_comm *comm);

uint64_t ranks_now_ns(void);
void ranks_sleep_ms(int ms);

/* How many lines of a log, into which ranks have written, have these words. */
int ranks_log_lines(const char *path, const char *words);

#endif
