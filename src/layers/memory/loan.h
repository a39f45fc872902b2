/* SPDX-License-Identifier: Apache-2.0
 *
 * Loans: a slot need not carry its payload. It may say where the payload lies in the producer's memory, and the consumer
 * takes it from there: one copy instead of two, or none where the consumer only reads.
 *
 *    producer                     the slot's header                consumer
 *    says where the payload is ─▶ address
 *    publishes the slot ────────▶ (tail) ────────────────────────▶ has data
 *                                 to ◀──────────────────────────── says where the payload is to go
 *    claims a part, copies it ──▶ claimed, done ◀───────────────── claims a part, copies it
 *           …                                                             …
 *    the loan is over ◀────────── (head) ◀──────────────────────── all parts are done: consumes the slot
 *
 * Whoever is free copies: a producer that has nothing else to do helps. A part belongs to the end that claimed it. Where the kernel
 * copies, each part is a system call. So a producer that also receives in this call, and has a copy of its own to do, says so
 * (LOAN_ALONE), and there is one part.
 *
 *    field     written by   order
 *    address   producer     covered by tail
 *    to        consumer     release; the producer's acquire keeps its stores behind what the consumer did there before
 *    claimed   both         atomic; nothing else is read because of it
 *    done      both         release after the part was copied; the consumer's acquire before it uses the payload
 *
 * A producer's call is over only when its loans are: its memory is the program's again. A call that fails takes its loans
 * back: nobody claims another part, and it waits for the parts that are being copied (loan_stop()).
 *
 * Over a wire nobody copies from end to end, but slots are spared all the same (LOAN_WIRE). The producer's transport sends the
 * payload from where it is, and the loan is over when that is done. The consumer says where the payloads of its next slots are to
 * go (landings), and its transport receives them there, if it hears of it in time. Then it says so in the slot's header: `address`
 * is where the payload is now, in the consumer's memory.
 *
 * In memory a consumer offers such places, too. A producer that computes a payload puts it there right away, instead of lending it
 * (loan_land_there()): nobody copies it. Where only the kernel reaches the place, it copies the payload there as soon as it is made,
 * out of the producer's cache (loan_carry()).
 *
 *    producer                     the slot's offer                 consumer
 *                                 open ◀────────────────────────── before the slot comes: says where its payload is to go
 *    takes it up ───────────────▶ (open)                           takes it back, if its call fails
 *    puts the payload there
 *    publishes the slot ────────▶ (tail) ────────────────────────▶ has it
 *
 * Between GPUs a loan is simpler: the consumer's block reads the payload where it is (kernels/cuda/block_loans.cuh). There the producer
 * writes `to` and `to_offset`, for a switch that may sum what all ranks lend (kernels/cuda/block_team.cuh).
 *
 * How the other end's memory is reached, each end knows of itself: in one process by address, between processes of a host through
 * the commons (commons.h) where it lies there, else by the kernel. A producer lends only to a consumer that has said that it
 * can take loans. If taking one fails all the same, the consumer refuses it, and the producer copies the payload into
 * the slot, as if it had never lent it.
 */
#ifndef COLLET_LAYERS_MEMORY_LOAN_H
#define COLLET_LAYERS_MEMORY_LOAN_H

#include "fifo/fifo.h"

#define LOAN_REFUSED 1u          /* in `to`: the consumer cannot take it; put the payload into the slot */
#define LOAN_IN_SLOT 0x80000000u /* in `done`: the payload is in the slot after all */

/* Consumer: notes where the payload of its slot at a position is to go. */
static inline void loan_land(struct loan_end *end, struct loan_landing landing) {
    end->landings[landing.position % LOAN_LANDINGS] = landing;
    end->landings_end = landing.position + 1;
}

/* Is the payload of the consumer's slot lent, and not taken yet? The slot has been published. */
int loan_is_open(const struct fifo_end *end);

/* Can payloads of so many bytes be put there by the other end? */
int loan_can_land(const struct loan_end *end, uint64_t to, uint32_t bytes);
/* Consumer, not over a wire: lets the producer do so. */
void loan_offer(struct fifo_end *end, struct loan_landing landing);
/* Producer, not over a wire: where to put the payload of its next slot; NULL: there was no offer in time. */
char *loan_land_there(struct fifo_end *end, uint32_t bytes);
/* The same if only the kernel reaches the place: loan_carry() must follow, when the payload is made. 0: it does not, or there was
 * no offer. */
int loan_will_carry(struct fifo_end *end, uint32_t bytes);
/* LOAN_LANDED, or where the payload is: to be lent, for the kernel did not copy it. */
uint64_t loan_carry(const struct fifo_end *end, const void *payload, uint32_t bytes);

/* Consumer: copies the payload of its slot to `to` (NULL: into the slot). 0: the producer still copies a part. */
int loan_fetch(struct fifo_end *end, uint32_t bytes, char *to);

/* Consumer: can it read its slot's payload where it is? */
int loan_is_near(const struct fifo_end *end, uint32_t bytes);

/* Consumer of a near one: from now on it reads the payload where it is, until it consumes the slot. Before that it may
 * not wait for anything. 0: the loan has been stopped. */
int loan_hold(struct fifo_end *end, uint32_t bytes);

/* Consumer: it does not read the payload any more that it holds, and will not consume the slot. */
void loan_drop(struct fifo_end *end, uint32_t bytes);

/* Producer: does what it can for the consumer of its oldest loan. Into memory that it reaches by address, copy() copies; memcpy()
 * is one. 0: there is nothing to do. */
typedef void *loan_copy(void *to, const void *from, size_t bytes);
int loan_help(struct fifo_end *end, loan_copy *copy);

/* Either end, whose call has failed: neither end reads or writes the other's memory when this returns. It waits for parts that
 * the other end is copying just now, at most LOAN_STOP_NS: longer, if that thread has been stopped in the middle. */
void loan_stop(struct fifo_end *end, int producing);

#endif
