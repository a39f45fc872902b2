/* SPDX-License-Identifier: Apache-2.0
 *
 * Results are pushed: the block that sums what all ranks have lent stores the sum where each of them wants it. Rank 1 sums slice 1:
 *
 *      rank 0   lends slice 1 of IN: "its result belongs here" ──▶ ┌───────┐ ──▶ slice 1 of OUT of rank 0
 *      rank 1                                      its own IN ──▶ │  sum  │ ──▶ slice 1 of OUT of rank 1
 *      rank 2   lends slice 1 of IN: "its result belongs here" ──▶ └───────┘ ──▶ slice 1 of OUT of rank 2
 *      ranks 0, 2   hear that it is there (LOAN_LANDED), and copy nothing
 *
 * So of S bytes on n ranks of a GPU, each block of a rank reads S and writes S, in all slices together: nothing is moved twice.
 *
 *    which programs      those in which each result goes back to all who lent its operands (layers/gpu/returns.h)
 *    which steps         those to which all ranks have said where the result belongs. If one has not said it, the result is lent
 *    why it is safe      no other step of the lender touches that place (STEP_LANDS_EARLY, which the verifier has proved). And it is the lender's
 *                        until its loan is over, which is when the sum is stored: a lender that fails waits for that
 *    in place            the place is the lent slice: a lane loads an element of all slices before it stores the sum anywhere
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_PUSH_CUH
#define COLLET_KERNELS_CUDA_BLOCK_PUSH_CUH

#include "kernels/cuda/block_memory.cuh"

/* ---- rank that lends, by lane 0 ---- */

/* Says in the header of the lent slice where its result belongs, if the peer reaches that. */
BLOCK_FN void push_ask(struct block_memory *m, const struct prog_step *step) {
    const struct work_args *args = &m->op.args;
    struct loan_end *loans = &interp_send_end(&m->op, step->send_first)->loans;
    bool reached = loans->way != LOAN_WINDOW && m->lends.regions[STEP_OUT] >= loans->way;
    if (step->lends != STEP_LENDS_OPERAND || loans->lending == 0 || !reached)
        return;
    loans->lending_to = LOAN_RETURNS;
    loans->lending_result = (uint64_t)(uintptr_t)args->out + (loans->lending - (uint64_t)(uintptr_t)args->in);
}

/* ---- rank that sums ---- */

/* Is it the step that sums? */
BLOCK_FN bool push_may(const struct block_memory *m, const struct prog_step *step) {
    return m->own.returns && step->recv_count > 0 && step->send_count > 0;
}

/* Where does the k-th peer want the result? False: it has not said it. Called by the lane of that peer. */
BLOCK_FN bool push_hear(struct block_memory *m, const struct prog_step *step, uint32_t k) {
    const struct fifo_slot_header *header = fifo_header(interp_recv_end(&m->op, step->recv_first + (int)k));
    if (!direct_is_lent(header) || header->loan.address == LOAN_LANDED || header->loan.to != LOAN_RETURNS)
        return false;
    m->lists.dst[k + 1] = (void *)(uintptr_t)header->loan.to_offset;
    return true;
}

/* The places are those that the peers have said, behind the rank's own. Called by lane 0. */
BLOCK_FN void push_places(struct block_memory *m, const struct prog_step *step) {
    m->lists.ndst = 1 + (uint32_t)step->recv_count;
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++)
        interp_send_end(&m->op, step->send_first + k)->loans.lending = LOAN_LANDED;
}

/* ---- rank that hears of it ---- */

BLOCK_FN bool push_has_landed(const struct block_memory *m, const struct prog_step *step) {
    if (!m->own.returns || step->recv_count != 1)
        return false;
    const struct fifo_slot_header *header = fifo_header(interp_recv_end(&m->op, step->recv_first));
    return direct_is_lent(header) && header->loan.address == LOAN_LANDED;
}

#endif
