/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the simulated machine's contract have in common. Each case is a process, since a failure of a GPU stays.
 */
#ifndef COLLET_GPUSIM_CONTRACT_H
#define COLLET_GPUSIM_CONTRACT_H

#include "layers/gpu/cuda_entry.h"
#include "gpusim/each.h"
#include "gpusim/gpusim.h"
#include "gpusim/landed.h"
#include "gpusim/machine.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

/* kernels.cu */
void launch_store(int *to, int value, cudaStream_t stream);
void launch_increment(int *of, cudaStream_t stream);
void launch_copy(int *to, const int *from, cudaStream_t stream);
void launch_spin(const int *until, cudaStream_t stream);
cudaError_t load_store(void);
void launch_of_bytes(int n, char *last);
cudaError_t blocks_of_store(int *blocks, int lanes);

#define GOOD(call) EQUAL(call, cudaSuccess)

static inline int *number_on(int gpu, int value) {
    int *number;
    GOOD(cudaSetDevice(gpu));
    GOOD(cudaMalloc((void **)&number, sizeof(*number)));
    GOOD(copy_landed(number, &value, sizeof(value)));
    return number;
}

static inline int number_at(const int *number) {
    int value;
    GOOD(cudaMemcpy(&value, number, sizeof(value), cudaMemcpyDefault));
    return value;
}

static inline cudaStream_t stream_here(void) {
    cudaStream_t stream;
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

/* A word that kernels wait for. Kernels are loaded here: loading waits for those that run. */
static inline int *gate(void) {
    int *word;
    GOOD(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocDefault));
    *word = 1;
    launch_spin(word, NULL);
    launch_store(word, 1, NULL);
    launch_increment(word, NULL);
    GOOD(cudaDeviceSynchronize());
    *word = 0;
    return word;
}
static inline void gate_open(int *word) { __atomic_store_n(word, 1, __ATOMIC_RELEASE); }

static inline int *number_of_pool(void) {
    int *number;
    GOOD(cudaSetDevice(1));
    GOOD(cudaMallocAsync((void **)&number, sizeof(*number), NULL));
    GOOD(cudaSetDevice(0));
    GOOD(cudaDeviceEnablePeerAccess(1, 0));
    return number;
}

/* Opens a gate 50 ms later. What waits for a kernel at the gate comes back when it is open. */
struct opener {
    int *word;
    _Atomic int is_open;
};

static inline void *open_later(void *opener_) {
    struct opener *opener = opener_;
    usleep(50000);
    opener->is_open = 1;
    gate_open(opener->word);
    return NULL;
}

static inline void open_later_in_stream(void *opener) { open_later(opener); }

static inline void opens_before(struct opener *opener, void (*call)(void *argument), void *argument) {
    pthread_t thread;
    EQUAL(pthread_create(&thread, NULL, open_later, opener), 0);
    call(argument);
    EQUAL(opener->is_open, 1);
    pthread_join(thread, NULL);
}

/* A word that a kernel waits for already, and no other kernel is loaded. */
static inline int *spin_alone(void) {
    int *word;
    GOOD(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocDefault));
    *word = 0;
    launch_spin(word, stream_here());
    return word;
}

static inline void *number_in_pageable_memory(int value) {
    static int number;
    number = value;
    return &number;
}

#define SM_BLOCKS 32

/* Blocks that have begun on GPU 0, once so many grids have come to it and had the time to begin. */
static inline uint64_t blocks_begun(uint64_t grids) {
    struct gpusim_counts counts;
    for (gpusim_counts(0, &counts); counts.grids < grids; gpusim_counts(0, &counts))
        usleep(1000);
    const uint64_t later = counts.instructions + 100000;
    for (; counts.instructions < later; gpusim_counts(0, &counts))
        usleep(1000);
    return counts.blocks;
}

#endif
