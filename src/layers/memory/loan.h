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

#include "layers/memory/commons.h"

#include <stddef.h>
#include <stdint.h>

/* How an end reaches the other end's memory. */
enum loan_way {
    LOAN_NONE,
    LOAN_PROCESS, /* it is in the same process: by address, also from one GPU to another */
    LOAN_HOST, /* it is in another process: what lies in its commons by address, the rest by process_vm_readv and _writev */
    LOAN_WINDOW, /* it is on another GPU, of another process: what lies in a window, by address (kernels/cuda/block_loans.cuh) */
    LOAN_WIRE, /* by a transport that sends from, and receives into, the memory of its own end */
};

/* Windows of a rank have numbers from 1 to below this; 0 is none (layers/gpu/windows.h). */
#define LOAN_WINDOWS 64u

/* A window that a team of GPUs has under one address (layers/gpu/window_team.h), as its rank's GPU sees it. All zero: there is no team. */
struct loan_team {
    uint64_t add;   /* to an address in this rank's window: the team's address of the same bytes */
    uint64_t place; /* likewise: a number that all ranks have for this place of their windows; not below 2^48 */
};

/* The block of a GPU keeps the ends of so many peers (kernels/worker.h). If its channel's table has more, it lends nothing. */
#define LOAN_GPU_PEERS PORT_BLOCK_PEERS

/* Shorter payloads are faster in slots. */
#define LOAN_PROCESS_BYTES 8192u
#define LOAN_COMMONS_BYTES 1024u
#define LOAN_CMA_BYTES 16384u
#define LOAN_WIRE_BYTES 8192u

/* Of a slot's header. */
struct fifo_loan {
    uint64_t address;   /* of the payload, in the producer's memory; 0: the slot has it */
    uint64_t to;        /* where the consumer wants it, in its memory; 0: it has not said; LOAN_REFUSED. GPUs: its place
                         * (struct loan_team); 0: it has none; LOAN_EVERYWHERE */
    uint64_t offset;    /* of `address` in the commons of its process; 0: not there. LOAN_WINDOW: its window's number */
    uint64_t to_offset; /* of `to`, likewise. GPUs: the place where the result of such payloads belongs */
    uint32_t claimed;   /* parts that somebody copies or has copied; and LOAN_STOPPED */
    uint32_t done;      /* parts that are copied; and LOAN_IN_SLOT, LOAN_ALONE */
};

#define LOAN_LANDED 1u           /* in `address`: the payload is where the consumer has offered */
#define LOAN_CARRIED 2u          /* in `lending`: the kernel is to take it there (loan_carry()) */
#define LOAN_REFUSED 1u          /* in `to`: the consumer cannot take it; put the payload into the slot */
#define LOAN_EVERYWHERE 1u       /* in `to`, of GPUs: the consumer has it already, where its step stores it */
#define LOAN_IN_SLOT 0x80000000u /* in `done`: the payload is in the slot after all */
#define LOAN_ALONE 0x40000000u   /* in `done`, from the beginning: the producer does not help, and there is one part */
#define LOAN_STOPPED 0x80000000u /* in `claimed`: no part may be claimed any more */

/* Beside a slot's header: where the consumer lets its producer put the payload. */
struct loan_offer {
    uint64_t open;      /* 1 + twice the slot's position; even: it was taken up, or back, or never made */
    uint64_t to;        /* in the consumer's memory */
    uint64_t to_offset; /* in its commons; 0: not there */
    uint32_t bytes;
} __attribute__((aligned(64)));

/* Where the payload of a slot is to go, if it has so many bytes. */
struct loan_landing {
    char *to; /* NULL: into the slot */
    uint64_t position;
    uint32_t bytes;
};
#define LOAN_LANDINGS 16 /* as many as slots, at most */

/* Of one end. */
struct loan_end {
    uint32_t way;                /* enum loan_way */
    int32_t pid;                 /* LOAN_HOST: the other end's process; 0: the kernel does not copy between the two */
    uint32_t least_bytes;        /* payloads of so many bytes are lent, if they can be; 0: none is */
    uint32_t least_common_bytes; /* the same for those that lie in the commons */
    int (*only)(uint64_t address, uint32_t bytes); /* LOAN_WIRE: may memory of this rank be lent? NULL: any may */
    const struct commons *commons;                 /* of this process; NULL: nothing in it is lent */
    struct commons_view *view;                     /* of the other process's; NULL: it has none */
    const uint64_t *windows; /* LOAN_WINDOW, consumer: by window of the producer's, what to add to an address in it */
    uint64_t lending;        /* producer: address of the payload of its next slot; 0: not lent; LOAN_LANDED */
    uint32_t lending_window; /* the window that it lies in */
    uint64_t lending_to;     /* GPU: `to` and `to_offset` of that slot */
    uint64_t lending_result;
    uint64_t until;            /* producer: position behind its newest loan */
    const char *taken;         /* consumer: where the payload of its slot is; NULL: not lent, or not taken yet */
    struct loan_offer *offers; /* by slot */
    /* On the host; last, for blocks keep no more than what is above (kernels/cuda/block.cuh). */
    uint32_t busy; /* producer: it will not help with its next slot's payload, where only the kernel reaches that */
    struct loan_landing
        landings[LOAN_LANDINGS]; /* consumer: by slot, of positions below landings_end that are not consumed */
    uint64_t landings_end;
};

/* Where an address of this end is in the commons. */
PORT_FN uint64_t loan_offset(const struct loan_end *end, uint64_t address) {
    return !PORT_IS_GPU && end->commons != NULL ? commons_offset(end->commons, address) : 0;
}

/* Does a producer lend a payload of so many bytes that lies there? */
PORT_FN int loan_is_worth(const struct loan_end *end, uint64_t address, uint32_t bytes) {
    uint32_t least = loan_offset(end, address) != 0 ? end->least_common_bytes : end->least_bytes;
    return least - 1 < bytes && (PORT_IS_GPU || end->only == NULL || end->only(address, bytes));
}

/* Is it out of the other end's reach, but for the kernel? */
PORT_FN int loan_is_by_kernel(const struct loan_end *end, uint64_t address) {
    return end->way == LOAN_HOST && loan_offset(end, address) == 0;
}

/* Consumer: notes where the payload of its slot at a position is to go. */
static inline void loan_land(struct loan_end *end, struct loan_landing landing) {
    end->landings[landing.position % LOAN_LANDINGS] = landing;
    end->landings_end = landing.position + 1;
}

/* Where the payload of that slot is to go; NULL: into the slot. */
static inline char *loan_landing_at(const struct loan_end *end, uint64_t position, uint32_t bytes) {
    const struct loan_landing *landing = &end->landings[position % LOAN_LANDINGS];
    return landing->position == position && landing->bytes == bytes ? landing->to : NULL;
}

/* A producer fills its slot's header; next: the position behind it. */
PORT_FN void loan_note(struct loan_end *end, struct fifo_loan *loan, uint64_t next) {
    loan->address = end->lending;
    if (end->lending <= LOAN_LANDED) {
        end->lending = 0;
        return;
    }
    loan->offset = end->way == LOAN_WINDOW ? end->lending_window : loan_offset(end, end->lending);
    loan->to = end->lending_to;
    loan->to_offset = end->lending_result;
    loan->claimed = 0;
    loan->done = !PORT_IN_BLOCK && end->busy && loan_is_by_kernel(end, loan->address) ? LOAN_ALONE : 0;
    end->lending = end->lending_to = end->lending_result = 0;
    if (end->way != LOAN_WIRE) /* there, the transport knows when it is over */
        end->until = next;
}

struct fifo_end;

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
#define LOAN_STOP_NS 2000000000ull
void loan_stop(struct fifo_end *end, int producing);

#endif
