/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_GPU_KERNELS_VERSION_H
#define COLLET_LAYERS_GPU_KERNELS_VERSION_H

/* Of the kernels (src/kernels/block*.cuh), for the constants that the cost model has of them (layers/tuner/cards.h): one more whenever
 * their speed changes.
 *
 *      1   what ran on a GPU first, on 2026-11-26
 *      2   a block copies the ends of its connections by words of 8 bytes
 */
#define GPU_KERNELS_VERSION 2

#endif
