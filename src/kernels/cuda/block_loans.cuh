/* SPDX-License-Identifier: Apache-2.0
 *
 * Loans between GPUs (fifo/proto_direct.h): a slot says where the payload lies in memory of the producer's GPU, and the
 * consumer's block reads it there. Nobody copies parts, and nobody helps:
 *
 *    producer's block                     the slot's header             consumer's block
 *    says where the payload is ────────▶ address
 *    publishes the slot ───────────────▶ (tail) ─────────────────────▶ has data
 *                                        claimed ◀──────────────────── 1: from now on it reads
 *    ends when all its loans are over ◀─ (head) ◀───────────────────── has read it
 *
 *    a block that fails   claimed := STOPPED. If that was 1, it waits until head moves, or until the consumer, which has
 *                         failed, too, says in `done` that it does not read
 *
 * A loan needs what is true of NVLink and of memory of one GPU: the consumer's GPU reads the producer's memory, and both may
 * exchange a word of it. Which ends lend, the transport says; which buffers are lent, the host (struct work). To a consumer in
 * another process an address says nothing: there the slot also names the window that it lies in (layers/gpu/windows.h).
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_LOANS_CUH
#define COLLET_KERNELS_CUDA_BLOCK_LOANS_CUH

#include "kernels/cuda/block_wait.cuh"
#include "kernels/lend.h"

#define LOAN_READING 1u /* in `claimed` */

/* ---- consumer, each end by the lane that looks at it ---- */

/* Returns the address at which this GPU reaches the lent payload of the slot. */
BLOCK_FN const char *loan_reached(const struct fifo_end *end, const struct fifo_loan *loan) {
    uint64_t add =
        end->loans.way == LOAN_WINDOW ? *(const uint64_t *)port_global(&end->loans.windows[loan->offset]) : 0;
    return (const char *)(uintptr_t)(loan->address + add);
}

/* Claims the payload of the slot, if it was lent. All slots of the step have arrived, so the block does not wait before it has read it.
 * False: its owner has taken it back. */
BLOCK_FN bool loan_take(struct fifo_end *end) {
    struct fifo_loan *loan = &fifo_header(end)->loan;
    if (end->loans.way == LOAN_NONE || !direct_is_lent(fifo_header(end)) || loan->address == LOAN_LANDED)
        return true;
    end->loans.taken = loan_reached(end, loan);
    return port_flag_swap(&loan->claimed, LOAN_READING) == 0;
}

/* Does not read the payload. Its header says already that somebody reads, also if its owner has taken it back. */
BLOCK_FN void loan_leave(struct fifo_end *end) {
    if (end->loans.taken != NULL)
        port_flag_store(&fifo_header(end)->loan.done, 1); /* pairs with loan_end_one() */
    end->loans.taken = NULL;
}

/* ---- producer, by lane 0 ---- */

/* Ends a loan. When this returns, nobody reads the memory any more, unless the reader was stopped while it read. */
BLOCK_FN void loan_end_one(const struct fifo_end *end, uint64_t position) {
    struct fifo_slot_header *header =
        (struct fifo_slot_header *)port_global(&end->headers[position & (end->nslots - 1)]);
    struct fifo_loan *loan = &header->loan;
    if (!direct_is_lent(header) || loan->address == LOAN_LANDED ||
        port_flag_swap(&loan->claimed, LOAN_STOPPED) != LOAN_READING)
        return;
    uint64_t began_ns = port_clock_ns();
    for (uint32_t looks = 0;
         (int64_t)(port_load_acquire(end->head) - position) <= 0 && port_flag_load(&loan->done) == 0; looks++) {
        if (port_clock_ns() - began_ns > LOAN_STOP_NS)
            return;
        port_pause(looks);
    }
}

/* The block has failed. Ends all loans of this end from position `since` on. Headers of earlier slots may tell of older loans, because
 * slots with lines do not write headers. */
BLOCK_SELDOM void loans_end(const struct fifo_end *end, uint64_t since) {
    end = (const struct fifo_end *)port_shared(end);
    uint64_t head = port_load_acquire(end->head); /* pairs with fifo_consumed() */
    for (uint64_t at = (int64_t)(head - since) > 0 ? head : since; (int64_t)(end->loans.until - at) > 0; at++)
        loan_end_one(end, at);
}

/* Waits until everything that the first n ends have lent was read. */
BLOCK_SELDOM enum work_failure loans_wait(struct interp_block *block, uint32_t n, const struct work_status *status) {
    struct block_wait wait = {0, 0};
    enum work_failure failure = WORK_FINE;
    block = (struct interp_block *)(uintptr_t)port_shared(block);
#pragma unroll 1
    for (uint32_t k = 0; k < n && failure == WORK_FINE; k++) {
        uint32_t at = block->at[INTERP_BLOCK_PEERS + k];
        block->worker.blocked_on = k;
        while (at != INTERP_NO_END && failure == WORK_FINE && !direct_is_over(interp_block_end(block, at)))
            failure = block_pause(&wait, status);
    }
    return failure;
}

#endif
