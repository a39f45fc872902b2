/* SPDX-License-Identifier: Apache-2.0
 *
 * PORT_FN: a small function of a header that is compiled as C11, as C++17 and, by nvcc, for host and device. And what such a function
 * tells nvcc about addresses.
 */
#ifndef COLLET_BASE_PORT_H
#define COLLET_BASE_PORT_H

/* Is this code for lanes of a GPU? The compiler leaves out what only CPUs do. */
#if defined(__CUDA_ARCH__)
#define PORT_IS_GPU 1
#else
#define PORT_IS_GPU 0
#endif

/* Or for lanes of a block, a GPU's or one that the host runs (fifo/lanes.h)? */
#if defined(__CUDA_ARCH__) || defined(PORT_EMULATED)
#define PORT_IN_BLOCK 1
#else
#define PORT_IN_BLOCK 0
#endif

#if defined(__CUDACC__)
#define PORT_FN static __host__ __device__ inline
#else
#define PORT_FN static inline
#endif

/* Buffers, slots and programs are global memory, whatever their addresses have passed through: a GPU reaches it by shorter
 * instructions. */
PORT_FN const void *port_global(const void *address) {
#if defined(__CUDA_ARCH__)
    __builtin_assume(__isGlobal(address));
#endif
    return address;
}

#endif
