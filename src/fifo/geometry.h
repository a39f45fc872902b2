/* SPDX-License-Identifier: Apache-2.0
 *
 * Which elements a block's number means, and where its piece is in a slot: both ends of a connection, host and device
 * ask here.
 *
 *   a region of one call     ├────── block 0 ──────┼────── block 1 ──────┼──── block 2 ────┤
 *   a channel's part of it        ├ part ┤              ├ part ┤              ├ part ┤
 *   one round's piece               ├┤                    ├┤                    ├┤
 *   a slot with all three           ├┤┊├┤┊├┤┊              one behind another, each at a multiple of the protocol's unit
 *
 * There are four kinds of blocks:
 *   a slice of one buffer                the last slices may be short or empty
 *   the block of one rank                blocks of all ranks are equally long
 *   a slice of the block of one rank     the slices lie in rows, see below
 *   the block of one rank, of any size   each block has its own first element and length
 *
 *   a region of two rows     ├── block 0 ──┼── block 1 ──┼─ block 2 ─┤├── block 3 ──┼── block 4 ──┼─ block 5 ─┤
 *                            └─ row 0: what rank 0 has               └─ row 1: what rank 1 has
 *
 * Each channel has its part of every block. In each round the channel moves one piece of the part, of at most chunk_elems.
 * A piece without elements takes no room in a slot, and a slot without elements is not sent. Both ends know this, because both
 * compute the lengths with these functions.
 */
#ifndef COLLET_FIFO_GEOMETRY_H
#define COLLET_FIFO_GEOMETRY_H

#include "fifo/port.h"

#include <stddef.h>
#include <stdint.h>

/* ---- runs of blocks ---- */

/* A run is a list of block numbers, like the vector type of MPI (MPI_Type_vector). It consists of groups of `group` neighbours. The
 * first blocks of two successive groups are `stride` apart. Numbers wrap around at the region's number of blocks. The step says how many
 * blocks its runs have.
 *
 *    first 2, stride 4, group 2, 6 blocks     0 1 [2 3] 4 5 [6 7] 8 9 [10 11]    the blocks whose number has bit 1 set
 *    first 6, stride 1, group 1, 4 blocks     [0 1] 2 3 4 5 [6 7]                neighbours, which wrap around
 *    first 3, stride −1, group 1, 3 blocks    0 [1 2 3] 4                        3, then 2, then 1 */
struct block_run {
    int32_t first, stride, group;
};

/* The number of the i-th block of a run, in a region of nblocks blocks. */
PORT_FN uint32_t geometry_block(const struct block_run *run, uint32_t i, uint32_t nblocks) {
    uint32_t group = (uint32_t)run->group;
    int64_t block = run->first + (int64_t)(i / group) * run->stride + i % group;
    int64_t rest = block % (int64_t)nblocks;
    return (uint32_t)(rest < 0 ? rest + nblocks : rest);
}

/* ---- blocks and their pieces ---- */

struct span {
    uint64_t first, count; /* First element, and number of elements */
};

struct geometry {
    uint64_t row_elems;   /* Elements per row. If row_blocks is 0, the whole region is one row */
    uint64_t block_elems; /* Elements per block. The last blocks of a row may be shorter */
    uint64_t part_first;  /* This channel's part of each block: elements part_first … part_first + part_elems − 1 */
    uint64_t part_elems;
    uint64_t chunk_elems; /* Maximum number of elements of one piece */
    uint64_t nrounds;
    uint32_t row_blocks; /* Blocks per row; 0: the whole region is one row */
    uint32_t channel, nchannels;
};

/* Parts and slices begin at multiples of this many elements, so that few vector loops end with an incomplete vector. */
#define GEOMETRY_ALIGN_ELEMS 16u

PORT_FN uint64_t geometry_min(uint64_t a, uint64_t b) { return a < b ? a : b; }

PORT_FN uint64_t geometry_share(uint64_t elems, uint64_t parts) {
    uint64_t share = (elems + parts - 1) / parts;
    return elems <= GEOMETRY_ALIGN_ELEMS
               ? share
               : (share + GEOMETRY_ALIGN_ELEMS - 1) / GEOMETRY_ALIGN_ELEMS * GEOMETRY_ALIGN_ELEMS;
}

/* A channel's part of a block, counted from the block's first element. */
PORT_FN struct span geometry_part(uint64_t block_elems, uint32_t channel, uint32_t nchannels) {
    uint64_t share = geometry_share(block_elems, nchannels);
    struct span part;
    part.first = geometry_min(channel * share, block_elems);
    part.count = geometry_min(block_elems - part.first, share);
    return part;
}

/* The geometry of one channel, if the region is one row of row_elems. */
PORT_FN struct geometry geometry_of(uint64_t row_elems, uint64_t block_elems, uint64_t chunk_elems, uint32_t channel,
                                    uint32_t nchannels) {
    struct geometry g;
    struct span part = geometry_part(block_elems, channel, nchannels);
    g.row_elems = row_elems;
    g.row_blocks = 0;
    g.block_elems = block_elems;
    g.part_first = part.first;
    g.part_elems = part.count;
    g.chunk_elems = chunk_elems;
    g.nrounds = (g.part_elems + chunk_elems - 1) / chunk_elems;
    if (g.nrounds == 0)
        g.nrounds = 1; /* In this one round every piece is empty */
    g.channel = channel;
    g.nchannels = nchannels;
    return g;
}

/* The geometry of one channel, if each block has its own length. longest: the number of elements of the longest block. */
PORT_FN struct geometry geometry_of_extents(uint64_t longest, uint64_t chunk_elems, uint32_t channel,
                                            uint32_t nchannels) {
    struct geometry g = geometry_of(longest, longest, chunk_elems, channel, nchannels);
    g.nrounds = (geometry_share(longest, nchannels) + chunk_elems - 1) / chunk_elems;
    if (g.nrounds == 0)
        g.nrounds = 1;
    return g;
}

/* The piece of a block in one round. part: the channel's part, counted from the block's first element. The block has block_count
 * elements, and its first one is element block_first of the region. */
PORT_FN struct span geometry_cut(struct span part, uint64_t block_first, uint64_t block_count, uint64_t chunk_elems,
                                 uint64_t round) {
    struct span piece;
    uint64_t begin = part.first + round * chunk_elems;
    uint64_t end = geometry_min(geometry_min(begin + chunk_elems, part.first + part.count), block_count);
    piece.first = block_first + begin;
    piece.count = begin < end ? end - begin : 0;
    return piece;
}

/* The piece in one round of a block that has its own first element and length (`extent`). */
PORT_FN struct span geometry_piece_of(const struct geometry *g, struct span extent, uint64_t round) {
    struct span part = geometry_part(extent.count, g->channel, g->nchannels);
    return geometry_cut(part, extent.first, extent.count, g->chunk_elems, round);
}

PORT_FN struct span geometry_piece(const struct geometry *g, uint32_t block, uint64_t round) {
    struct span part = {g->part_first, g->part_elems};
    uint64_t row_first = 0;
    if (g->row_blocks > 0 && block >= g->row_blocks) {
        row_first = block / g->row_blocks * g->row_elems;
        block %= g->row_blocks;
    }
    uint64_t first = block * g->block_elems;
    uint64_t count = first < g->row_elems ? geometry_min(g->block_elems, g->row_elems - first) : 0;
    return geometry_cut(part, row_first + first, count, g->chunk_elems, round);
}

/* ---- pieces in a slot ---- */

/* The bytes that a piece takes in a slot with several pieces: its length, rounded up to the protocol's unit. */
PORT_FN uint32_t geometry_padded(uint32_t bytes, uint32_t unit_bytes) {
    return (bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

/* The maximum bytes of each piece in a slot of slot_bytes, if the program's longest message has `longest_run` pieces. */
PORT_FN uint32_t geometry_room(uint32_t slot_bytes, uint32_t longest_run, uint32_t unit_bytes) {
    return longest_run > 1 ? slot_bytes / longest_run / unit_bytes * unit_bytes : slot_bytes;
}

#endif
