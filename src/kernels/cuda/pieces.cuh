/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves many pieces in one launch. The pieces do not overlap, so no lane waits for another.
 *
 *    list in memory    │ piece 0 │ piece 1 │ piece 2 │ piece 3 │ …
 *    moved by            warp 0    warp 1    warp 2    warp 0          three warps; a warp has 32 lanes
 *
 *    a piece           │ head │      vectors of 16 bytes      │ tail │
 *    lanes              0 1 2   0   1   2  …   0   1   2  …    0 1
 *                               └ PIECE_UNROLL vectors in flight a lane ┘
 *
 * Vectors have 16 bytes if both ends of the piece lie alike modulo 16, else 4 if they lie alike modulo 4, else 1.
 */
#ifndef COLLET_KERNELS_CUDA_PIECES_CUH
#define COLLET_KERNELS_CUDA_PIECES_CUH

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/piece_work.h"

#define PIECE_UNROLL 4

/* Moves `count` vectors, `unroll` of them at a time. Returns the number of vectors that this lane has come past. */
template <class V, int unroll> BLOCK_FN uint64_t vectors_move(char *to, const char *from, uint64_t i, uint64_t count) {
    const uint64_t stride = PIECE_LANES * sizeof(V);
    V bits[unroll];
#pragma unroll 1
    for (; i + (unroll - 1) * PIECE_LANES < count; i += unroll * PIECE_LANES) {
        vectors_load<V, unroll>(bits, from, i * sizeof(V), stride);
        vectors_store<V, unroll>(bits, to, i * sizeof(V), stride);
    }
    return i;
}

/* At the two ends of a piece there are fewer bytes than a vector has. */
BLOCK_SELDOM void bytes_move(char *to, const char *from, uint64_t bytes) {
    vectors_move<char, 1>(to, from, port_lane() % PIECE_LANES, bytes);
}

template <class V> BLOCK_FN void piece_move_by(char *to, const char *from, uint64_t bytes) {
    uint64_t head = (sizeof(V) - (uintptr_t)to % sizeof(V)) % sizeof(V);
    head = head < bytes ? head : bytes;
    const uint64_t vectors = (bytes - head) / sizeof(V), tail_at = head + vectors * sizeof(V);
    bytes_move(to, from, head);
    const uint64_t next = vectors_move<V, PIECE_UNROLL>(to + head, from + head, port_lane() % PIECE_LANES, vectors);
    vectors_move<V, 1>(to + head, from + head, next, vectors);
    bytes_move(to + tail_at, from + tail_at, bytes - tail_at);
}

BLOCK_FN void piece_move(char *to, const char *from, uint64_t bytes) {
    const uintptr_t skew = (uintptr_t)to ^ (uintptr_t)from;
    if (skew % sizeof(block_vector) == 0)
        piece_move_by<block_vector>(to, from, bytes);
    else if (skew % sizeof(uint32_t) == 0)
        piece_move_by<uint32_t>(to, from, bytes);
    else
        piece_move_by<char>(to, from, bytes);
}

/* Called by all lanes of block number `block`. */
BLOCK_FN void pieces_run(const struct piece_launch *launch, uint32_t block) {
    const struct piece_copy *pieces = (const struct piece_copy *)port_global(launch->pieces);
    const uint64_t warps = port_lanes() / PIECE_LANES;
#pragma unroll 1
    for (uint64_t k = block * warps + port_lane() / PIECE_LANES; k < launch->npieces; k += warps * launch->nblocks)
        piece_move(pieces[k].to, pieces[k].from, pieces[k].bytes);
}

#endif
