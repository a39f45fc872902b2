/* SPDX-License-Identifier: Apache-2.0
 *
 * What direct ends need of a worker in a call. borrow.h and landings.h fill it in, for exec_direct.c.
 */
#ifndef COLLET_LAYERS_MEMORY_DIRECT_H
#define COLLET_LAYERS_MEMORY_DIRECT_H

#include "exec/visit.h"
#include "kernels/lend.h"
#include "layers/memory/loan.h"

struct direct_worker {
    struct interp_lends lends;
    uint32_t borrows_from; /* Minimum bytes of a payload that any end borrows; 0: no end borrows */
    bool lands;            /* The worker offers places to its producers */
    bool waits;            /* All steps are done, but consumers may still read what the worker has lent */
    uint32_t said_pc;      /* With said_round, the first step whose landings are not announced yet */
    uint64_t said_round;
};

/* The address where a step stores its only operand unchanged; NULL: the step has more operands, or changes its operand. */
static inline char *direct_place_of(const struct interp_op *op, const struct prog_step *step, uint64_t round,
                                    const struct interp_piece *piece) {
    bool copies = step->recv_count == 1 && step->locals_count == 0 && step->count == 1 &&
                  step->store_region == STEP_OUT && !(step->finish && op->args.divisor > 1);
    return copies ? interp_store(op, step, 0, round, piece) : NULL;
}

#endif
