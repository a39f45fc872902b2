/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of a program, as every executor reads it: plain data, the same bytes on a CPU and on a GPU.
 *
 *    the step is about blocks     4    5    6           a run of `count` blocks: fifo/geometry.h says which elements
 *    operand from a peer        │ 4 │ 5 │ 6 │           one slot: the pieces of the run, one behind another
 *    operand in memory            a    b    c           another run of as many blocks, of a region of this rank
 *    place in memory              x    y    z           another one
 *    place at a peer            │ 4 │ 5 │ 6 │           one slot again
 *
 * The i-th pieces of all operands are reduced into the i-th pieces of all places. The words are explained in program.h.
 */
#ifndef COLLET_PROGRAM_STEP_H
#define COLLET_PROGRAM_STEP_H

#include "fifo/geometry.h"

enum step_region { STEP_NONE = 0, STEP_IN = 1, STEP_OUT = 2, STEP_TMP = 3, STEP_REGIONS = 4 };

/* What peers may read in IN or OUT of this rank (layers/memory/loan.h): the step's only operand, which it passes on as it is, so
 * that a copy that it stores need not be read again; or what it has stored. */
enum step_loan { STEP_LENDS_NOTHING = 0, STEP_LENDS_OPERAND = 1, STEP_LENDS_RESULT = 2 };

/* When the payload of a step's only operand may come to lie where the step stores it: in its own time; or, since no other step
 * of the rank touches that block, at any time of the call. */
enum step_landing { STEP_LANDS_IN_TIME = 0, STEP_LANDS_EARLY = 1 };

struct prog_step {
    int32_t recv_first, recv_count; /* operands from peers: prog.peers[recv_first … +recv_count−1], in this order */
    int32_t send_first, send_count; /* places at peers */
    int32_t locals_first, locals_count; /* operands in memory: prog.locals[locals_first … +locals_count−1] */
    int32_t count;                      /* blocks of every operand and place */
    struct block_run store, about;      /* blocks that are stored; blocks whose lengths the pieces have */
    uint8_t store_region, about_region; /* enum step_region; store_region STEP_NONE: nothing is stored */
    uint8_t finish;                     /* the result is complete: avg divides */
    uint8_t lends;                      /* enum step_loan */
    uint8_t lends_apart;                /* it lends only where IN and OUT are apart */
    uint8_t lands;                      /* enum step_landing */
};

/* An operand in memory. It stands behind `at` received ones, and behind those that the table lists before it. */
struct prog_local {
    int32_t at;
    struct block_run run;
    int32_t region; /* enum step_region */
};

/* The other end of a connection: a rank, and a lane that keeps several connections between two ranks apart. */
struct prog_peer {
    int32_t rank, lane;
};

#endif
