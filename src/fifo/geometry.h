/* SPDX-License-Identifier: Apache-2.0
 *
 * Which elements a chunk number means: the one function that both ends of a connection, host and device ask.
 *
 *   a region of one call     ├────── block 0 ──────┼────── block 1 ──────┼──── block 2 ────┤   (chunk number = block)
 *   a channel's part of it        ├ part ┤              ├ part ┤              ├ part ┤
 *   one round's piece               ├┤                    ├┤                    ├┤
 *
 * A block is either a slice of one buffer (the last slices may be short or empty) or one rank's block of `count`
 * elements. Each channel has the same part of every block and walks through it, one piece of at most chunk_elems a
 * round. Pieces of no element are skipped by both ends, because both compute the same length here.
 */
#ifndef COLLET_FIFO_GEOMETRY_H
#define COLLET_FIFO_GEOMETRY_H

#include "fifo/port.h"

#include <stddef.h>
#include <stdint.h>

struct geometry {
    uint64_t total_elems; /* of a region of slices; block_elems · blocks where blocks are ranks' */
    uint64_t block_elems; /* distance between blocks, and the length of all but the last slices */
    uint64_t part_first;  /* this channel's part: elements part_first … part_first + part_elems − 1 of each block */
    uint64_t part_elems;
    uint64_t chunk_elems; /* most elements of one piece: what one slot carries */
    uint64_t nrounds;
};

/* Parts and slices begin at multiples of this many elements, so that a vector loop meets a cut seldom. */
#define GEOMETRY_ALIGN_ELEMS 16u

PORT_FN uint64_t geometry_share(uint64_t elems, uint64_t parts) {
    uint64_t share = (elems + parts - 1) / parts;
    return elems <= GEOMETRY_ALIGN_ELEMS
               ? share
               : (share + GEOMETRY_ALIGN_ELEMS - 1) / GEOMETRY_ALIGN_ELEMS * GEOMETRY_ALIGN_ELEMS;
}

/* The geometry of channel `channel` of `nchannels`, for blocks of block_elems in a region of total_elems. */
PORT_FN struct geometry geometry_of(uint64_t total_elems, uint64_t block_elems, uint64_t chunk_elems, uint32_t channel,
                                    uint32_t nchannels) {
    struct geometry g;
    uint64_t part = geometry_share(block_elems, nchannels);
    uint64_t first = channel * part < block_elems ? channel * part : block_elems;
    g.total_elems = total_elems;
    g.block_elems = block_elems;
    g.part_first = first;
    g.part_elems = block_elems - first < part ? block_elems - first : part;
    g.chunk_elems = chunk_elems;
    g.nrounds = (g.part_elems + chunk_elems - 1) / chunk_elems;
    if (g.nrounds == 0)
        g.nrounds = 1; /* one round in which every piece is empty */
    return g;
}

struct span {
    uint64_t first, count; /* elements */
};

PORT_FN uint64_t geometry_min(uint64_t a, uint64_t b) { return a < b ? a : b; }

PORT_FN struct span geometry_piece(const struct geometry *g, uint32_t block, uint64_t round) {
    struct span piece;
    uint64_t block_first = block * g->block_elems;
    uint64_t block_count =
        block_first < g->total_elems ? geometry_min(g->block_elems, g->total_elems - block_first) : 0;
    uint64_t begin = g->part_first + round * g->chunk_elems;
    uint64_t end = geometry_min(geometry_min(begin + g->chunk_elems, g->part_first + g->part_elems), block_count);
    piece.first = block_first + begin;
    piece.count = begin < end ? end - begin : 0;
    return piece;
}

#endif
