/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the acceptance itself: they fill and check regions, and they are the limits beside which a collective is measured. On a
 * GPU that is emulated, the host does the same.
 */
#ifndef COLLET_TESTS_ACCEPT_KERNELS_H
#define COLLET_TESTS_ACCEPT_KERNELS_H

#include <stddef.h>

struct expect_region;

#define FUSED_RANKS 8
struct fused_buffers {
    const float *in[FUSED_RANKS];
    float *out[FUSED_RANKS];
    int nranks;
    size_t count;
};

struct accept_kernels {
    void (*load)(void); /* all of them, before a kernel runs that waits */
    void (*fill)(const struct expect_region *region, void *stream);
    /* Stores 1 if an element is wrong. The word is of pinned memory, on which not every machine has atomic operations. */
    void (*check)(const struct expect_region *region, int *wrong, void *stream);
    void (*empty)(void *stream);                                          /* a kernel that does nothing */
    void (*copy)(void *to, const void *from, size_t bytes, void *stream); /* on a GPU */
    void (*fused)(const struct fused_buffers *buffers, void *stream);     /* sums all inputs into each output */
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct accept_kernels accept_kernels_cuda; /* in builds with CUDA */
extern const struct accept_kernels accept_kernels_host;
#ifdef __cplusplus
}
#endif

#endif
