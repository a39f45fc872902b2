/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_GPU_KERNELS_VERSION_H
#define COLLET_LAYERS_GPU_KERNELS_VERSION_H

/* The version of the kernels (src/kernels/block*.cuh). The cost model has constants for one version (layers/tuner/cards.h). Add one whenever
 * the kernels' speed changes.
 *
 *      1   the kernels that first ran on a GPU, on 2026-11-26
 *      2   a block copies the ends of its connections by words of 8 bytes
 */
#define GPU_KERNELS_VERSION 2

#endif
