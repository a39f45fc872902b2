/* SPDX-License-Identifier: Apache-2.0
 *
 * PORT_FN: the specifiers of a small function in a header that is compiled as C11, as C++17 and, by nvcc, for host and device. Such a
 * function can also tell nvcc in which memory an address lies.
 */
#ifndef COLLET_BASE_PORT_H
#define COLLET_BASE_PORT_H

/* Is this code compiled for a GPU? Then the compiler removes the code for CPUs. */
#if defined(__CUDA_ARCH__)
#define PORT_IS_GPU 1
#else
#define PORT_IS_GPU 0
#endif

/* Is this code compiled for lanes of a block: a GPU's, or one that the host emulates (fifo/lanes.h)? */
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

/* Tells nvcc that an address is in global memory, where all buffers, slots and programs lie. Then nvcc can use shorter
 * instructions. */
PORT_FN const void *port_global(const void *address) {
#if defined(__CUDA_ARCH__)
    __builtin_assume(__isGlobal(address));
#endif
    return address;
}

#endif
