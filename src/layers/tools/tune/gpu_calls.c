/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/tune/gpu_calls.h"

#include "base/err.h"
#include "base/os.h"
#include "base/wait.h"
#include "bench/board.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

/* cudaStreamPerThread: by this name each thread has its own stream, so that the work of threads runs side by side. */
#define STREAM_OF_THREAD ((void *)2)

#define LONG_NS 0.9e9

static void must(enum collet_result result, const char *what) {
    if (result != COLLET_SUCCESS)
        bench_die("%s: %s", what, err_last());
}

/* Only the first failure is printed. */
static void fail(struct gpu_calls *calls, const char *why) {
    if (!__atomic_exchange_n(&calls->failed, true, __ATOMIC_RELAXED))
        fprintf(stderr, "collet-tune: an allreduce among GPUs: %s\n", why);
}

/* Did the call or the creation succeed? False: it is not possible here, or it has failed; a failure is printed. */
static bool works(struct gpu_calls *calls, enum collet_result result) {
    if (result != COLLET_SUCCESS && result != COLLET_ERR_UNSUPPORTED)
        fail(calls, err_last());
    return result == COLLET_SUCCESS;
}

static bool comm_works(struct gpu_calls *calls, struct collet_comm *comm) {
    enum collet_result failure;
    if (!works(calls, collet_comm_get_async_error(comm, &failure)))
        return false;
    if (failure != COLLET_SUCCESS)
        fail(calls, collet_last_error(comm));
    return failure == COLLET_SUCCESS;
}

/* ---- one call ---- */

static enum collet_result call(struct gpu_calls *calls, int rank, uint64_t bytes, void *stream) {
    return collet_allreduce(calls->in[rank], calls->out[rank], bytes / sizeof(float), COLLET_FLOAT32, COLLET_SUM,
                            calls->comms[rank], stream);
}

static bool wait_for(struct gpu_calls *calls, int rank, void *stream) {
    struct waiter waiter = {.spin = 100};
    enum collet_result reached;
    if (!works(calls, calls->driver->streams->record(calls->event[rank], stream, false)))
        return false;
    while ((reached = calls->driver->streams->query(calls->event[rank])) == COLLET_IN_PROGRESS)
        wait_pause(&waiter);
    return works(calls, reached) && comm_works(calls, calls->comms[rank]);
}

/* ---- in one group ---- */

static bool call_in_group(struct gpu_calls *calls, uint64_t bytes) {
    enum collet_result result = COLLET_SUCCESS, ended;
    must(collet_group_start(), "a group");
    for (int rank = 0; rank < calls->nranks && result == COLLET_SUCCESS; rank++)
        result = call(calls, rank, bytes, NULL);
    ended = collet_group_end();
    return works(calls, result != COLLET_SUCCESS ? result : ended);
}

static double time_group(struct gpu_calls *calls, uint64_t bytes, int times) {
    uint64_t begin_ns = os_now_ns();
    bool worked = true;
    for (int k = 0; k < times; k++)
        if (!call_in_group(calls, bytes))
            return 0;
    for (int rank = 0; rank < calls->nranks; rank++) {
        struct gpu_scope scope = calls->driver->enter(calls->ordinals[rank]);
        worked = wait_for(calls, rank, NULL) && worked;
        calls->driver->leave(scope);
    }
    return !worked ? 0 : (double)(os_now_ns() - begin_ns) / times;
}

/* ---- in threads ---- */

struct caller {
    struct gpu_calls *calls;
    int rank, times;
    uint64_t bytes, begin_ns, end_ns;
    bool worked;
    pthread_t thread;
    pthread_barrier_t *start;
};

static void *call_alone(void *caller_) {
    struct caller *caller = caller_;
    struct gpu_calls *calls = caller->calls;
    struct gpu_scope scope = calls->driver->enter(calls->ordinals[caller->rank]);
    caller->worked = wait_for(calls, caller->rank, STREAM_OF_THREAD); /* The stream exists from here on. */
    pthread_barrier_wait(caller->start);
    caller->begin_ns = os_now_ns();
    for (int k = 0; k < caller->times && caller->worked; k++)
        caller->worked = works(calls, call(calls, caller->rank, caller->bytes, STREAM_OF_THREAD));
    caller->worked = caller->worked && wait_for(calls, caller->rank, STREAM_OF_THREAD);
    caller->end_ns = os_now_ns();
    calls->driver->leave(scope);
    return NULL;
}

static double time_threads(struct gpu_calls *calls, uint64_t bytes, int times) {
    struct caller callers[LAB_RANKS_MAX];
    pthread_barrier_t start;
    uint64_t begin_ns = UINT64_MAX, end_ns = 0;
    bool worked = true;
    pthread_barrier_init(&start, NULL, (unsigned)calls->nranks);
    for (int rank = 0; rank < calls->nranks; rank++) {
        callers[rank] = (struct caller){.calls = calls, .rank = rank, .times = times, .bytes = bytes, .start = &start};
        if (pthread_create(&callers[rank].thread, NULL, call_alone, &callers[rank]) != 0)
            bench_die("no thread for rank %d", rank);
    }
    for (int rank = 0; rank < calls->nranks; rank++) {
        pthread_join(callers[rank].thread, NULL);
        worked &= callers[rank].worked;
        begin_ns = callers[rank].begin_ns < begin_ns ? callers[rank].begin_ns : begin_ns;
        end_ns = callers[rank].end_ns > end_ns ? callers[rank].end_ns : end_ns;
    }
    pthread_barrier_destroy(&start);
    return worked ? (double)(end_ns - begin_ns) / times : 0;
}

/* Looks for failures once more after a long call. A call that has reached COLLET_TIMEOUT (at least a second) may end before
 * the library looks at what its blocks say. The library looks every 20 ms. */
static bool look_again(struct gpu_calls *calls) {
    bool worked = true;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    for (int rank = 0; rank < calls->nranks; rank++)
        worked = comm_works(calls, calls->comms[rank]) && worked;
    return worked;
}

double gpu_calls_time(struct gpu_calls *calls, uint64_t bytes, int times) {
    double ns = calls->threads ? time_threads(calls, bytes, times) : time_group(calls, bytes, times);
    return ns * times < LONG_NS || look_again(calls) ? ns : 0;
}

/* ---- life ---- */

bool gpu_calls_open(struct gpu_calls *calls, const struct plan_choice *candidate) {
    lab_set_candidate(candidate);
    return works(calls, collet_comm_init_all(calls->comms, calls->nranks, calls->devices));
}

void gpu_calls_close(struct gpu_calls *calls) {
    for (int rank = 0; rank < calls->nranks; rank++)
        if (calls->failed)
            collet_comm_abort(calls->comms[rank]);
        else
            must(collet_comm_destroy(calls->comms[rank]), "the end of a communicator");
}

void gpu_calls_create(struct gpu_calls *calls, int count, uint64_t bytes) {
    const struct gpu_driver *driver = calls->driver;
    for (int rank = 0; rank < calls->nranks; rank++) {
        const int ordinal = calls->ordinals[rank] = rank % count;
        calls->devices[rank] = COLLET_DEVICE_CUDA(ordinal);
        must(driver->open(ordinal), "a GPU");
        struct gpu_scope scope = driver->enter(ordinal);
        must(driver->memory->create(bytes, &calls->in[rank]), "a buffer");
        must(driver->memory->create(bytes, &calls->out[rank]), "a buffer");
        must(driver->streams->event_create(&calls->event[rank]), "an event");
        driver->leave(scope);
    }
}

void gpu_calls_destroy(struct gpu_calls *calls) {
    for (int rank = 0; rank < calls->nranks; rank++) {
        struct gpu_scope scope = calls->driver->enter(calls->ordinals[rank]);
        calls->driver->memory->destroy_now(calls->in[rank]);
        calls->driver->memory->destroy_now(calls->out[rank]);
        calls->driver->streams->event_destroy(calls->event[rank]);
        calls->driver->leave(scope);
    }
}
