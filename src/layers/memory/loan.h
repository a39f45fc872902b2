/* SPDX-License-Identifier: Apache-2.0
 *
 * Loans: a slot need not carry its payload. It may say where the payload lies in the producer's memory. Then the consumer copies the
 * payload from there: one copy instead of two. If the consumer only reads the payload, there is no copy.
 *
 *    producer                     the slot's header                consumer
 *    says where the payload is ─▶ address
 *    publishes the slot ────────▶ (tail) ────────────────────────▶ has data
 *                                 to ◀──────────────────────────── says where it wants the payload
 *    claims a part, copies it ──▶ claimed, done ◀───────────────── claims a part, copies it
 *           …                                                             …
 *    the loan is over ◀────────── (head) ◀──────────────────────── all parts are done: consumes the slot
 *
 * Both ends may copy: a producer that has nothing else to do helps. The end that claims a part copies it. If the operating system must
 * copy, each part is a system call. So a producer that also receives in this call, and has a copy of its own to do, does not help: it
 * sets LOAN_ALONE, and the payload is one part.
 *
 *    field     written by   order
 *    address   producer     covered by tail
 *    to        consumer     release after the consumer's earlier accesses to that memory; acquire before the producer stores there
 *    claimed   both         atomic, without any order of other accesses
 *    done      both         release after the part was copied; the consumer's acquire before it uses the payload
 *
 * A producer's call ends only when its loans have ended, because then the program may write to its memory again. A call that fails
 * takes its loans back: neither end may claim another part, and the call waits for the parts that are being copied (loan_stop()).
 *
 * Over a wire no end can read the other end's memory, but loans still save the copies into and out of slots (LOAN_WIRE). The producer's
 * transport sends the payload from where it lies, and the loan ends when the payload is sent. The consumer says where it wants the
 * payloads of its next slots (landings). If its transport learns of a landing in time, it receives the payload there. Then the
 * transport writes into the slot's header where the payload is: `address` is now an address in the consumer's memory.
 *
 * In shared memory a consumer offers landings, too. A producer that computes a payload writes it directly to the offered place, instead
 * of lending it (loan_land_there()), and no copy is needed. If only the operating system can reach the place, it copies the payload
 * there as soon as the payload is computed, while it is still in the producer's cache (loan_carry()).
 *
 *    producer                     the slot's offer                 consumer
 *                                 open ◀────────────────────────── before the slot comes: says where it wants the payload
 *    takes the offer ───────────▶ (open)                           takes the offer back, if its call fails
 *    puts the payload there
 *    publishes the slot ────────▶ (tail) ────────────────────────▶ has the payload
 *
 * Between GPUs a loan is simpler: the consumer's block reads the payload where it is (kernels/cuda/block_loans.cuh). There the producer
 * writes `to` and `to_offset`, for a switch or a block that sums what all ranks lend (kernels/cuda/block_team.cuh, block_push.cuh).
 *
 * Each end knows how it can reach the other end's memory. In one process it uses the address. Between processes of a host it uses the
 * shared heap (heap.h) if the memory lies there, and asks the operating system to copy otherwise. A producer lends only to a consumer
 * that has said that it can take loans. If a consumer still cannot read a payload, it refuses the loan, and the producer copies the
 * payload into the slot, as if it had never lent it.
 */
#ifndef COLLET_LAYERS_MEMORY_LOAN_H
#define COLLET_LAYERS_MEMORY_LOAN_H

#include "fifo/proto_direct.h"

/* A value of `to`: the consumer cannot read the payload, which must go into the slot. */
#define LOAN_REFUSED 1u
#define LOAN_IN_SLOT 0x80000000u /* A bit of `done`: the producer has copied the payload into the slot */

/* Called by a consumer: notes where it wants the payload of one position. */
static inline void loan_land(struct loan_end *end, struct loan_landing landing) {
    end->landings[landing.position % LOAN_LANDINGS] = landing;
    end->landings_end = landing.position + 1;
}

/* Called by a consumer whose next slot is published: is the slot's payload lent, and not fetched yet? */
int loan_is_open(const struct fifo_end *end);

/* Called by a consumer: can the producer put a payload of this size at this address, and is that worth it? */
int loan_can_land(const struct loan_end *end, uint64_t to, uint32_t bytes);
/* Called by a consumer, not over a wire: offers landing.to. From now on the producer may write the payload there. */
void loan_offer(struct fifo_end *end, struct loan_landing landing);
/* Called by a producer, not over a wire: takes the consumer's offer for the next slot's payload, and returns the address where the producer
 * must write it. NULL: there is no offer, or the producer cannot reach the address. */
char *loan_land_there(struct fifo_end *end, uint32_t bytes);
/* Called by a producer: takes the consumer's offer of a place that only the operating system can reach. If it returns 1, call loan_carry()
 * when the payload is computed. 0: there is no such offer. */
int loan_will_carry(struct fifo_end *end, uint32_t bytes);
/* Lets the operating system copy the payload to the offered place. Returns LOAN_LANDED; or, if the copy failed, the payload's address: then
 * the payload is lent. */
uint64_t loan_carry(const struct fifo_end *end, const void *payload, uint32_t bytes);

/* Called by a consumer: copies the payload of its slot to `to` (NULL: into the slot). 0: the payload is not complete yet, because the
 * producer still copies. */
int loan_fetch(struct fifo_end *end, uint32_t bytes, char *to);

/* Called by a consumer: can it read its slot's payload directly, where the payload lies? */
int loan_is_near(const struct fifo_end *end, uint32_t bytes);

/* Called by a consumer whose payload is near: from now on it may read the payload directly, until it consumes the slot. In that time it
 * must not wait for anything. 0: the loan was stopped. */
int loan_hold(struct fifo_end *end, uint32_t bytes);

/* Called by a consumer: ends what loan_hold() has begun, without consuming the slot. */
void loan_drop(struct fifo_end *end, uint32_t bytes);

/* Called by a producer: copies a part of its oldest loan for the consumer. The function copy(), for example memcpy(), copies if the
 * producer can reach the consumer's memory by address. 0: there was nothing to do. */
typedef void *loan_copy(void *to, const void *from, size_t bytes);
int loan_help(struct fifo_end *end, loan_copy *copy);

/* Called by either end, after its call has failed. When this returns, neither end accesses the other's memory any more. The function waits
 * for parts that the other end is copying, but at most LOAN_STOP_NS per slot. If that thread is stopped in a copy for longer, the function
 * logs a warning and returns before the copy ends. */
void loan_stop(struct fifo_end *end, int producing);

#endif
