/* SPDX-License-Identifier: Apache-2.0
 *
 * 1, 2, 4 and 8 ranks, as one group, as threads, and as processes: each is a job of its own, so that one which hangs costs the
 * others nothing. Calls without progress end after five seconds, before the job is killed: so the library says who waits for whom.
 */
#include "gpu/accept_sums.h"

#include "base/os.h"
#include "common/ranks.h"

#include <stdio.h>
#include <stdlib.h>

#define CALL_LIMIT_S "5"
#define JOB_LIMIT_S 12

enum mode { GROUP, THREADS, PROCESSES, MODES };
static const char *const mode_names[MODES] = {"group", "threads", "processes"};

struct job {
    int nranks;
    enum mode mode;
};

static const size_t all_bytes[] = {8, 2u << 20, 64u << 20}, few_bytes[] = {8, 4096};
#define SIZES (slow ? 2 : 3)

static size_t bytes_of(int size) { return slow ? few_bytes[size] : all_bytes[size]; }

/* Processes that take turns on a GPU take milliseconds for a call. */
static int calls_for(const struct job *job, int size) {
    static const int calls[] = {50, 20, 5}, turns[] = {10, 5, 2};
    return slow ? 2 : job->mode == PROCESSES ? turns[size] : calls[size];
}

static void make_comms(struct ranks *ranks, int rank, const struct job *job, struct sums *s) {
    int devices[RANKS_MOST];
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(s->gpus[0])};
    for (int k = 0; k < s->count; k++)
        devices[k] = COLLET_DEVICE_CUDA(s->gpus[k]);
    if (job->mode == GROUP)
        ranks_try(ranks, rank, collet_comm_init_all(s->comms, s->count, devices));
    else
        s->comms[0] = ranks_comm(ranks, rank, &config);
}

/* The work is done, or the communicator has failed and says why. */
static void wait_well(struct ranks *ranks, const struct sums *s) {
    sums_wait(s);
    for (int k = 0; k < s->count; k++) {
        enum collet_result state;
        collet_comm_get_async_error(s->comms[k], &state);
        if (state != COLLET_SUCCESS)
            ranks_fail(ranks, "rank %d: %s: %s", s->first + k, collet_error_string(state),
                       collet_last_error(s->comms[k]));
    }
}

static double time_calls(struct ranks *ranks, int rank, const struct sums *s, size_t elems, int calls) {
    ranks_barrier(ranks);
    const uint64_t start = os_now_ns();
    for (int k = 0; k < calls; k++)
        ranks_try(ranks, rank, sums_call(s, elems));
    wait_well(ranks, s);
    ranks_barrier(ranks);
    return (double)(os_now_ns() - start) / 1e3 / calls;
}

static void run_size(struct ranks *ranks, int rank, const struct job *job, const struct sums *s, int size) {
    const size_t bytes = bytes_of(size), elems = bytes / sizeof(float);
    char why[TRIAL_WHY_BYTES], plan[160];
    ranks_doing(ranks, "%d ranks, %s, %zu bytes", job->nranks, mode_names[job->mode], bytes);
    sums_fill(s, elems);
    ranks_try(ranks, rank, sums_call(s, elems));
    wait_well(ranks, s);
    if (!sums_are_right(s, elems, why))
        ranks_fail(ranks, "%zu bytes: %s", bytes, why);
    const double us = time_calls(ranks, rank, s, elems, calls_for(job, size));
    const double predicted = sums_plan(s, elems, plan);
    if (rank == 0)
        report_figure(&(struct figure){"modes", mode_names[job->mode], plan, job->nranks, bytes, predicted, us, 0});
}

static void run_ranks(struct ranks *ranks, int rank) {
    const struct job *job = ranks->argument;
    struct sums s;
    char gpu[160];
    if (rank % ranks->nthreads == 0)
        ngpus = side->count(gpu, sizeof(gpu));
    ranks_barrier(ranks);
    sums_prepare(&s, job->nranks, rank, job->mode == GROUP ? job->nranks : 1, bytes_of(SIZES - 1));
    make_comms(ranks, rank, job, &s);
    for (int size = 0; size < SIZES; size++)
        run_size(ranks, rank, job, &s, size);
    for (int k = 0; k < s.count; k++)
        ranks_try(ranks, rank, collet_comm_destroy(s.comms[k]));
    sums_finish(&s);
}

static void run_job(struct job *job) {
    struct ranks_job all = {.processes = job->mode == PROCESSES ? job->nranks : 1,
                            .threads = job->mode == THREADS ? job->nranks : 1,
                            .limit_s = slow ? 250 : JOB_LIMIT_S,
                            .run = run_ranks,
                            .argument = job};
    char why[RANKS_TEXT_BYTES] = "", name[40];
    snprintf(name, sizeof(name), "%d ranks, %s", job->nranks, mode_names[job->mode]);
    report_doing("%s", name);
    fflush(stdout);
    judge(ranks_run(&all, why), name, why);
}

void part_modes(void) {
    static const int sizes[] = {2, 4, 1, 8};
    const int n = slow ? 3 : 4;
    report_expect(n * MODES);
    if (!slow)
        setenv("COLLET_TIMEOUT", CALL_LIMIT_S, 1);
    for (int k = 0; k < n; k++)
        for (int mode = 0; mode < MODES; mode++)
            run_job(&(struct job){.nranks = sizes[k], .mode = (enum mode)mode});
    unsetenv("COLLET_TIMEOUT");
}
