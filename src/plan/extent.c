/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/extent.h"

/* Minimum bytes of a block per channel. Each further channel costs one more message per hop: some microseconds, in which one NIC sends this
 * many bytes. */
#define PART_BYTES (32u << 10)

void plan_extent(enum prog_collective collective, uint64_t count, int nranks, int nslices, struct work_args *args) {
    bool sliced = prog_is_sliced(collective), rows = !sliced && nslices > 1;
    args->row_elems = sliced || rows ? count : count * (uint64_t)nranks;
    args->row_blocks = rows ? (uint16_t)nslices : 0;
    args->block_elems = sliced || rows ? geometry_share(count, (uint64_t)nslices) : count;
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

#define PIECES 4

uint32_t plan_piece_bytes(uint32_t slot_bytes, uint64_t bytes) {
    const uint64_t piece = bytes / PIECES;
    return piece > slot_bytes ? slot_bytes : piece > slot_bytes / 8 ? (uint32_t)piece : slot_bytes / 8;
}
