/* SPDX-License-Identifier: Apache-2.0
 *
 * Which payloads of a step does a rank lend? A step lends its only operand, if it passes it on unchanged, or else its result, if that is
 * stored in OUT (enum step_loan). Hosts (layers/memory/exec_direct.c) and blocks of GPUs (cuda/block_plain.cuh) ask this of each step of a
 * call that lends. All other calls know nothing of it.
 *
 *    interp_lend ──▶ `lending` of each end of the step ──▶ interp_scatter: such a slot is no place (fifo/proto_direct.h)
 */
#ifndef COLLET_KERNELS_LEND_H
#define COLLET_KERNELS_LEND_H

#include "kernels/operands.h"

/* What a worker lends in a call. */
struct interp_lends {
    uint32_t from; /* Minimum bytes of a payload that any end lends (layers/memory/loan.h); 0: no end lends */
    /* [region]: 0: the region is not lent; host: 1: it is; GPUs: it is lent by all ways up to this one (work_lent_in()). */
    uint8_t regions[STEP_REGIONS];
    uint8_t apart;        /* 1: IN and OUT do not overlap */
    uint8_t root_reduces; /* Host: 1: only the root reduces (interp_lends_to()) */
    uint8_t receives;     /* Host: 1: this rank also receives, so it has no time to help borrowers */
};

/* The region in which the memory lies that a step lends. */
PORT_FN uint32_t interp_lent_region(const struct interp_op *op, const struct prog_step *step) {
    return step->lends == STEP_LENDS_OPERAND ? interp_local_at(op, step->locals_first)->region : STEP_OUT;
}

/* The way by which the step may lend (interp_lends.regions); 0: it lends nothing. */
PORT_FN uint32_t interp_lends_by(const struct interp_op *op, const struct interp_lends *lends,
                                 const struct prog_step *step, uint32_t bytes) {
    if (lends->from - 1 >= bytes || !step->lends || (step->lends_apart && !lends->apart))
        return 0;
    if (step->lends == STEP_LENDS_OPERAND && interp_changes(op, step, 1))
        return 0;
    return lends->regions[interp_lent_region(op, step)];
}

/* The memory that the step lends. A block has listed it by then. */
PORT_FN const void *interp_lent_memory(const struct interp_worker *w, const struct prog_step *step,
                                       const struct interp_piece *piece) {
    if (step->lends == STEP_LENDS_OPERAND)
        return PORT_IN_BLOCK ? interp_src(w)[0] : interp_local(interp_op_of(w), step, 0, 0, w->round, piece);
    return PORT_IN_BLOCK ? interp_dst(w)[0] : interp_store(interp_op_of(w), step, 0, w->round, piece);
}

/* Is the payload lent to this peer? If only the operating system can reach a payload, the peer must copy it before it reduces. If every
 * rank reduces, each copies its part. But a root that reduces alone would also copy alone, so then other ranks send through slots. */
PORT_FN int interp_lends_to(const struct interp_lends *lends, const struct loan_end *end, uint64_t payload,
                            uint32_t bytes) {
    return direct_is_worth(end, payload, bytes) && !(lends->root_reduces && direct_is_by_kernel(end, payload));
}

/* Lends the payload to the peers that can read it directly. Returns the number of these peers. Call it before interp_scatter(). */
PORT_FN int interp_lend(const struct interp_worker *w, const struct interp_lends *lends, const struct prog_step *step,
                        uint32_t bytes, const struct interp_piece *piece) {
    const uint32_t lent = interp_lends_by(interp_op_of(w), lends, step, bytes);
    int n = 0;
    if (lent == 0)
        return 0;
    uint64_t payload = (uint64_t)(uintptr_t)interp_lent_memory(w, step, piece);
    for (int k = 0; k < step->send_count; k++) {
        struct loan_end *end = &interp_send_end(interp_op_of(w), step->send_first + k)->loans;
        int lends_it = interp_lends_to(lends, end, payload, bytes) && (!PORT_IN_BLOCK || lent >= end->way);
        end->lending = lends_it ? payload : 0;
        end->lending_window = lent - (LOAN_WINDOW - 1);
        if (!PORT_IN_BLOCK)
            end->busy = lends->receives;
        n += lends_it;
    }
    return n;
}

#endif
