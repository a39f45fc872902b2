/* SPDX-License-Identifier: Apache-2.0
 *
 * From a call to its geometry (fifo/geometry.h): how long its regions and blocks are, and over how many channels it goes.
 */
#ifndef COLLET_PLAN_EXTENT_H
#define COLLET_PLAN_EXTENT_H

#include "fifo/call.h"
#include "program/program.h"

/* Elements of a call's regions, rows and blocks under an algorithm that cuts buffers, or blocks of ranks, into nslices. */
void plan_extent(enum prog_collective collective, uint64_t count, int nranks, int nslices, struct work_args *args);

/* Whole elements in a chunk of chunk_bytes, ≥ 1. */
uint64_t plan_chunk_elems(uint32_t chunk_bytes, uint32_t elem_bytes);

/* A message, or a part of one, goes in so long pieces, that reading begins while it is being written: in four, or as many as slots of
 * so many bytes make of it. A short one is not cut. */
uint32_t plan_piece_bytes(uint32_t slot_bytes, uint64_t bytes);

/* How many of nchannels a call on host memory, with blocks of block_bytes, is spread over. */
int plan_channels(int nchannels, uint64_t block_bytes);

#endif
