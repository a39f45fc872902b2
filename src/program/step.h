/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of a program, as every executor reads it: plain data, the same bytes on a CPU and on a GPU.
 *
 *    the step is about blocks     4    5    6           a run of `count` blocks: fifo/geometry.h says which elements
 *    operand from a peer        │ 4 │ 5 │ 6 │           one slot: the pieces of the run, one behind another
 *    operand in memory            a    b    c           another run of as many blocks, in a region of this rank
 *    place in memory              x    y    z           another run of as many blocks, in a region of this rank
 *    place at a peer            │ 4 │ 5 │ 6 │           one slot: the pieces of the run, one behind another
 *
 * The i-th pieces of all operands are reduced into the i-th pieces of all places. The words are explained in program.h.
 */
#ifndef COLLET_PROGRAM_STEP_H
#define COLLET_PROGRAM_STEP_H

#include "fifo/geometry.h"

enum step_region { STEP_NONE = 0, STEP_IN = 1, STEP_OUT = 2, STEP_TMP = 3, STEP_REGIONS = 4 };

/* Which memory of this rank may peers read directly (layers/memory/loan.h)? OPERAND: the block of IN or OUT that the step passes on
 * unchanged. RESULT: the block of OUT where the step stores its result. */
enum step_loan { STEP_LENDS_NOTHING = 0, STEP_LENDS_OPERAND = 1, STEP_LENDS_RESULT = 2 };

/* When may a peer write its payload directly to the place where this step would store it? IN_TIME: when the step's turn comes.
 * EARLY: at any time of the call, because no other step of this rank touches the block. */
enum step_landing { STEP_LANDS_IN_TIME = 0, STEP_LANDS_EARLY = 1 };

struct prog_step {
    int32_t recv_first, recv_count;     /* Operands from peers, in order: prog.peers[recv_first … +recv_count−1] */
    int32_t send_first, send_count;     /* Peers that get the result: prog.peers[send_first … +send_count−1] */
    int32_t locals_first, locals_count; /* Operands in memory: prog.locals[locals_first … +locals_count−1] */
    int32_t count;                      /* Number of blocks of each operand and of each place */
    struct block_run store, about;      /* Blocks where the result is stored; blocks that the step is about */
    uint8_t store_region, about_region; /* enum step_region; store_region STEP_NONE: the result is not stored */
    uint8_t finish;                     /* 1: the result holds all contributions, so an average divides it */
    uint8_t lends;                      /* enum step_loan */
    uint8_t lends_apart;                /* 1: the step lends only if IN and OUT are different memory */
    uint8_t lands;                      /* enum step_landing */
};

/* An operand in memory. In the step's list it comes after `at` received operands, and after the step's earlier operands in memory. */
struct prog_local {
    int32_t at;
    struct block_run run;
    int32_t region; /* enum step_region */
};

/* The other end of a connection: a rank, and the lane (two ranks may have several connections, on different lanes). */
struct prog_peer {
    int32_t rank, lane;
};

#endif
