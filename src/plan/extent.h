/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the geometry of a call (fifo/geometry.h): how long its regions and blocks are, and how many channels it uses.
 */
#ifndef COLLET_PLAN_EXTENT_H
#define COLLET_PLAN_EXTENT_H

#include "fifo/call.h"
#include "program/program.h"

/* Computes the elements per region, row and block of a call, for an algorithm that cuts buffers, or blocks of ranks, into nslices. */
void plan_extent(enum prog_collective collective, uint64_t count, int nranks, int nslices, struct work_args *args);

/* The number of whole elements in a chunk of chunk_bytes, but at least 1. */
uint64_t plan_chunk_elems(uint32_t chunk_bytes, uint32_t elem_bytes);

/* The bytes of each piece of a message: a quarter of the message, but at most slot_bytes and at least an eighth of slot_bytes. With several
 * pieces, the reader can begin while the writer still writes. A short message is one piece. */
uint32_t plan_piece_bytes(uint32_t slot_bytes, uint64_t bytes);

/* The number of channels, at most nchannels, for a call on host memory with blocks of block_bytes. */
int plan_channels(int nchannels, uint64_t block_bytes);

#endif
