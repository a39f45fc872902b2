/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of a program, as every executor reads it: plain data, the same bytes on a CPU and on a GPU.
 * The words are explained in program.h.
 */
#ifndef COLLET_PROGRAM_STEP_H
#define COLLET_PROGRAM_STEP_H

#include <stdint.h>

enum step_region { STEP_NONE = 0, STEP_IN = 1, STEP_OUT = 2 };

struct prog_step {
    int32_t recv_first, recv_count; /* operands from peers: prog.peers[recv_first … +recv_count−1], in this order */
    int32_t send_first, send_count; /* places at peers */
    int32_t local_at;               /* the local operand stands after this many received ones */
    int32_t local_chunk, store_chunk;   /* a step has the length of store_chunk; without a store, that of local_chunk */
    uint8_t local_region, store_region; /* enum step_region; STEP_NONE: absent */
    uint8_t finish;                     /* result is complete: avg divides */
    uint8_t unused;
};

/* The other end of a connection: a rank, and a lane that keeps several connections between two ranks apart. */
struct prog_peer {
    int32_t rank, lane;
};

#endif
