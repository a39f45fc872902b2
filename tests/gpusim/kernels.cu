/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels for the tests of the contract: they write a number, add one to it, and wait for a word. Stubs of nvcc launch them.
 */
#include <cuda_runtime_api.h>

static __global__ void store(int *to, int value) { *to = value; }
static __global__ void increment(int *of) { *of += 1; }
static __global__ void copy(int *to, const int *from) { *to = *from; }
static __global__ void spin(const volatile int *until) {
    while (*until == 0)
        __nanosleep(100);
}

extern "C" void launch_store(int *to, int value, cudaStream_t stream) { store<<<1, 1, 0, stream>>>(to, value); }
extern "C" void launch_increment(int *of, cudaStream_t stream) { increment<<<1, 1, 0, stream>>>(of); }
extern "C" void launch_copy(int *to, const int *from, cudaStream_t stream) { copy<<<1, 1, 0, stream>>>(to, from); }

template <int N> struct bytes { char of[N]; };
template <int N> static __global__ void take(bytes<N> all, char *last) { *last = all.of[N - 1]; }
extern "C" void launch_of_bytes(int n, char *last) {
    if (n == 4000)
        take<4000><<<1, 1>>>(bytes<4000>(), last);
    else
        take<4200><<<1, 1>>>(bytes<4200>(), last);
}

extern "C" cudaError_t load_store(void) {
    struct cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, (const void *)store);
}
extern "C" cudaError_t load_increment(void) {
    struct cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, (const void *)increment);
}
extern "C" cudaError_t blocks_of_store(int *blocks, int lanes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)store, lanes, 0);
}
extern "C" void launch_spin(const int *until, cudaStream_t stream) { spin<<<1, 32, 0, stream>>>(until); }
