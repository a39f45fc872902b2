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

#define LOAN_REFUSED 1u          /* in `to`: the consumer cannot borrow it; the payload must go into the slot */
#define LOAN_IN_SLOT 0x80000000u /* in `done`: the payload is in the slot after all */

/* Consumer: notes the destination of the payload at a position. */
static inline void loan_land(struct loan_end *end, struct loan_landing landing) {
    end->landings[landing.position % LOAN_LANDINGS] = landing;
    end->landings_end = landing.position + 1;
}

/* Is the payload of the consumer's slot, which is published, lent and not borrowed yet? */
int loan_is_open(const struct fifo_end *end);

/* Can the other end put payloads of this size at this address? */
int loan_can_land(const struct loan_end *end, uint64_t to, uint32_t bytes);
/* Consumer, not over a wire: offers landing.to. From now on the producer may write the payload there. */
void loan_offer(struct fifo_end *end, struct loan_landing landing);
/* Producer, not over a wire: the place that the consumer offers for its next slot's payload; NULL: no offer has come. */
char *loan_land_there(struct fifo_end *end, uint32_t bytes);
/* Producer: did the consumer offer a place that only the kernel reaches? Then loan_carry() must follow when the payload is made.
 * 0: no. */
int loan_will_carry(struct fifo_end *end, uint32_t bytes);
/* Lets the kernel copy the payload to the offered place. Returns LOAN_LANDED; or the payload's address, to be lent, if the copy failed. */
uint64_t loan_carry(const struct fifo_end *end, const void *payload, uint32_t bytes);

/* Consumer: copies the payload of its slot to `to` (NULL: into the slot). 0: the producer is still copying a part. */
int loan_fetch(struct fifo_end *end, uint32_t bytes, char *to);

/* Consumer: can it read its slot's payload directly, where it is? */
int loan_is_near(const struct fifo_end *end, uint32_t bytes);

/* Consumer, if the payload is near: from now on it reads the payload directly, until it consumes the slot. In that time it may not wait
 * for anything. 0: the loan was stopped. */
int loan_hold(struct fifo_end *end, uint32_t bytes);

/* Consumer: stops reading a payload that it holds. It will not consume the slot. */
void loan_drop(struct fifo_end *end, uint32_t bytes);

/* Producer: helps the consumer of its oldest loan, by copying. copy(), for example memcpy(), is used for memory that it reaches by address.
 * 0: nothing to do. */
typedef void *loan_copy(void *to, const void *from, size_t bytes);
int loan_help(struct fifo_end *end, loan_copy *copy);

/* Either end, after its call failed. When this returns, neither end accesses the other's memory any more. It waits for parts that the other
 * end is copying, at most LOAN_STOP_NS, or longer if that thread is stopped in a copy. */
void loan_stop(struct fifo_end *end, int producing);

#endif
