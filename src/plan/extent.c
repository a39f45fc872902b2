/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/extent.h"

/* Another channel is another message per hop: some microseconds, in which the first one's NIC sends this much. */
#define PART_BYTES (32u << 10)

void plan_extent(enum prog_collective collective, uint64_t count, int nranks, int nblocks, uint64_t *total_elems,
                 uint64_t *block_elems) {
    if (prog_is_sliced(collective)) {
        *total_elems = count;
        *block_elems = geometry_share(count, (uint64_t)nblocks);
    } else {
        *total_elems = count * (uint64_t)nranks;
        *block_elems = count;
    }
}

uint64_t plan_chunk_elems(uint32_t chunk_bytes, uint32_t elem_bytes) {
    uint64_t elems = chunk_bytes / elem_bytes;
    if (elems >= GEOMETRY_ALIGN_ELEMS)
        return elems / GEOMETRY_ALIGN_ELEMS * GEOMETRY_ALIGN_ELEMS;
    return elems > 0 ? elems : 1;
}

int plan_channels(int nchannels, uint64_t block_bytes) {
    if (block_bytes / PART_BYTES >= (uint64_t)nchannels)
        return nchannels;
    return block_bytes < PART_BYTES ? 1 : (int)(block_bytes / PART_BYTES);
}
