/* SPDX-License-Identifier: Apache-2.0
 *
 * What reduce_variant.c asks of a CPU beyond what a compiler makes of loops, with AVX-512: the same as with AVX2. Wider
 * conversions and streamed stores were measured and gave nothing.
 */
#ifndef COLLET_KERNELS_REDUCE_AVX512_H
#define COLLET_KERNELS_REDUCE_AVX512_H

#include "kernels/reduce_avx2.h"

#endif
