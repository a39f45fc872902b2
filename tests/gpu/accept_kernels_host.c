/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of accept_kernels.h where the GPU is emulated: the host does their work, when the stream has done its own.
 */
#include "gpu/accept.h"
#include "gpu/accept_expect.h"
#include "gpu/accept_kernels.h"

#include <string.h>

static void load(void) {}

static void fill(const struct expect_region *region, void *stream) {
    side->stream_wait(stream);
    for (uint64_t elem = 0; elem < region->elems; elem++)
        expect_store(region, elem, expect_before(region, elem));
}

static void check(const struct expect_region *region, int *wrong, void *stream) {
    side->stream_wait(stream);
    for (uint64_t elem = 0; elem < region->elems; elem++)
        if (!expect_is_right(region, elem, expect_load(region, elem)))
            *wrong = 1;
}

static void empty(void *stream) { side->stream_wait(stream); }

static void copy(void *to, const void *from, size_t bytes, void *stream) {
    side->stream_wait(stream);
    memcpy(to, from, bytes);
}

static void fused(const struct fused_buffers *b, void *stream) {
    side->stream_wait(stream);
    for (size_t k = 0; k < b->count; k++) {
        float sum = 0;
        for (int rank = 0; rank < b->nranks; rank++)
            sum += b->in[rank][k];
        for (int rank = 0; rank < b->nranks; rank++)
            b->out[rank][k] = sum;
    }
}

const struct accept_kernels accept_kernels_host = {load, fill, check, empty, copy, fused};
