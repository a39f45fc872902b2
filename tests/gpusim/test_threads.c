/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of a process whose ranks share a GPU, on a machine with eight queues: can they keep each other waiting?
 */
#include "gpusim/each.h"
#include "gpusim/gpusim.h"

#include "collet.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

void launch_increment(int *of, cudaStream_t stream);
int load_increment(void);

#define GOOD(call) each_equal((long long)(call), 0, #call, collet_last_error(NULL), __LINE__)

enum { RANKS_MAX = 16, BUSY = 12, CALLS = 3 };

struct caller {
    struct collet_comm *comm;
    cudaStream_t stream;
    int *number; /* on the GPU */
};

static atomic_bool over;

static int *number_of(int value) {
    int *number;
    GOOD(cudaMalloc((void **)&number, sizeof(value)));
    GOOD(cudaMemcpy(number, &value, sizeof(value), cudaMemcpyDefault));
    return number;
}

/* What the stream has behind a call waits for it, and keeps the queue that the stream shares. */
static void *call_again_and_again(void *caller_) {
    const struct caller *caller = caller_;
    for (int call = 0; call < CALLS; call++) {
        launch_increment(caller->number, caller->stream);
        GOOD(collet_allreduce(caller->number, caller->number, 1, COLLET_INT32, COLLET_MAX, caller->comm,
                              caller->stream));
        launch_increment(caller->number, caller->stream);
    }
    GOOD(cudaStreamSynchronize(caller->stream));
    return NULL;
}

/* Streams that have nothing to do with collet. */
static void *keep_others_busy(void *number) {
    cudaStream_t streams[BUSY];
    for (int k = 0; k < BUSY; k++)
        GOOD(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking));
    while (!over)
        for (int k = 0; k < BUSY; k++) {
            launch_increment(number, streams[k]);
            if (k == BUSY - 1)
                GOOD(cudaStreamSynchronize(streams[k]));
        }
    return NULL;
}

static void call_by_threads(int nranks) {
    struct collet_comm *comms[RANKS_MAX];
    struct caller callers[RANKS_MAX];
    pthread_t threads[RANKS_MAX], busy;
    int devices[RANKS_MAX], got;
    for (int rank = 0; rank < nranks; rank++)
        devices[rank] = COLLET_DEVICE_CUDA(0);
    GOOD(load_increment());
    GOOD(collet_comm_init_all(comms, nranks, devices));
    for (int rank = 0; rank < nranks; rank++) {
        callers[rank] = (struct caller){.comm = comms[rank], .number = number_of(rank)};
        GOOD(cudaStreamCreateWithFlags(&callers[rank].stream, cudaStreamNonBlocking));
    }
    GOOD(cudaDeviceSynchronize());
    EQUAL(pthread_create(&busy, NULL, keep_others_busy, number_of(0)), 0);
    for (int rank = 0; rank < nranks; rank++)
        EQUAL(pthread_create(&threads[rank], NULL, call_again_and_again, &callers[rank]), 0);
    for (int rank = 0; rank < nranks; rank++)
        pthread_join(threads[rank], NULL);
    over = true;
    pthread_join(busy, NULL);
    for (int rank = 0; rank < nranks; rank++) {
        GOOD(cudaMemcpy(&got, callers[rank].number, sizeof(got), cudaMemcpyDefault));
        EQUAL(got, nranks - 1 + 2 * CALLS);
    }
}

static void two_ranks_get_through(void) { call_by_threads(2); }
static void seven_ranks_get_through(void) { call_by_threads(7); }
static void eight_ranks_get_through(void) { call_by_threads(8); }
static void sixteen_ranks_get_through(void) { call_by_threads(16); }

#define CASES(X)                                                                                                       \
    X(two_ranks_get_through) X(seven_ranks_get_through) X(eight_ranks_get_through) X(sixteen_ranks_get_through)
static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) {
    setenv("GPUSIM_GPUS", "1", 1);
    setenv("COLLET_TIMEOUT", "60", 1);
    return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv);
}
