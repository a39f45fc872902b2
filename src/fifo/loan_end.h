/* SPDX-License-Identifier: Apache-2.0
 *
 * What a connection has of loans: a slot's header and its end say where a payload lies that is not in its slot, and an end says
 * where payloads are to go. What loans are, and who does what with them, is in layers/memory/loan.h.
 */
#ifndef COLLET_FIFO_LOAN_END_H
#define COLLET_FIFO_LOAN_END_H

#include "base/port.h"
#include "collet.h"

#include <stddef.h>
#include <stdint.h>

/* What another process must know to map this process's commons (layers/memory/commons.h). */
struct commons_ticket {
    uint64_t nonce, bytes;
    int32_t pid, fd; /* fd −1: this process has no commons */
};

/* The commons of this process, as it is mapped in this process. */
struct commons {
    char *base;   /* NULL: there is none */
    size_t bytes; /* 0: there is none */
    struct commons_ticket ticket;
};

/* The offset of an address in the commons; 0: the address is not in it. Offset 0 itself holds the nonce. */
PORT_FN uint64_t commons_offset(const struct commons *commons, uint64_t address) {
    uint64_t offset = address - (uint64_t)(uintptr_t)commons->base;
    return offset < commons->bytes ? offset : 0;
}

/* The commons of this process. The first call makes it. The pointer stays valid. */
const struct commons *commons_own(void);

struct commons_view;

/* Opens the one view of another process's commons; may be called again. *view_p: NULL if that process has no commons. */
enum collet_result commons_view_open(const struct commons_ticket *ticket, struct commons_view **view_p);
void commons_view_close(struct commons_view *view); /* NULL is fine */

/* How an end reaches the other end's memory. */
enum loan_way {
    LOAN_NONE,
    LOAN_PROCESS, /* same process: by address, also from one GPU to another */
    LOAN_HOST,    /* other process, host: by address in its commons, else by process_vm_readv and _writev */
    LOAN_WINDOW,  /* GPU of another process: by address in a window (kernels/cuda/block_loans.cuh) */
    LOAN_WIRE,    /* network: the transport sends from this rank's buffers, and receives into them */
};

/* Minimum payload of a loan, for each way: a shorter payload is faster through a slot. */
#define LOAN_PROCESS_BYTES 8192u
#define LOAN_COMMONS_BYTES 1024u
#define LOAN_CMA_BYTES 16384u
#define LOAN_WIRE_BYTES 8192u

/* Numbers of a rank's windows are 1 … LOAN_WINDOWS − 1; 0 means no window (layers/gpu/windows.h). */
#define LOAN_WINDOWS 64u

/* The team address of a window (layers/gpu/window_team.h): a group of GPUs reaches the window by one address. All zero: no team. */
struct loan_team {
    uint64_t add;   /* difference: team address minus this rank's address of the same bytes */
    uint64_t place; /* likewise, to the number (2^48 or more) that all ranks give to this place of their windows */
};

#define LOAN_EVERYWHERE 1u       /* in `to`, GPUs: the consumer already has the payload, in its final place */
#define LOAN_STOPPED 0x80000000u /* in `claimed`: nobody may claim another part */
#define LOAN_STOP_NS 2000000000ull

/* The part of a slot's header that describes a loan. */
struct fifo_loan {
    uint64_t address; /* payload's address in the producer's memory; 0: the payload is in the slot */
    uint64_t to;      /* where the consumer wants the payload; 0: not known yet; or LOAN_REFUSED. GPUs: the place
                         * (struct loan_team), 0 for none; or LOAN_EVERYWHERE */
    uint64_t offset;  /* offset of `address` in its process's commons; 0: not in it. LOAN_WINDOW: the window's number */
    uint64_t to_offset; /* offset of `to` in the consumer's commons. GPUs: the place for the result of this payload */
    uint32_t claimed;   /* number of parts that an end copies or has copied; or LOAN_STOPPED */
    uint32_t done;      /* number of copied parts; plus LOAN_IN_SLOT, LOAN_ALONE */
};

#define LOAN_LANDED 1u  /* in `address`: the payload is already at the address that the consumer offered */
#define LOAN_CARRIED 2u /* in `lending`: the kernel will copy the payload to the offered address (loan_carry()) */
#define LOAN_ALONE 0x40000000u /* in `done`, set by the producer: one part only, and the producer does not help */

/* The consumer's offer for one slot: an address where the producer may put the payload. */
struct loan_offer {
    uint64_t open;      /* 1 + 2 · position of the slot: the offer stands. Even: taken, withdrawn or never made */
    uint64_t to;        /* address in the consumer's memory */
    uint64_t to_offset; /* offset of `to` in the consumer's commons; 0: not in it */
    uint32_t bytes;
} __attribute__((aligned(64)));

/* The place for the payload of one slot, if the payload has this many bytes. */
struct loan_landing {
    char *to; /* NULL: the payload goes into the slot */
    uint64_t position;
    uint32_t bytes;
};
#define LOAN_LANDINGS 16 /* FIFO_MAX_SLOTS is the same number */

/* The loans of one end of a connection. */
struct loan_end {
    uint32_t way;                /* enum loan_way */
    int32_t pid;                 /* LOAN_HOST: pid of the other end; 0: the kernel refuses to copy between the two */
    uint32_t least_bytes;        /* minimum bytes of a payload that is lent; 0: none is lent */
    uint32_t least_common_bytes; /* likewise, for a payload in the commons */
    int (*only)(uint64_t address, uint32_t bytes); /* LOAN_WIRE: may these bytes be lent? NULL: yes */
    const struct commons *commons;                 /* commons of this process; NULL: it has none, or none is lent */
    struct commons_view *view;                     /* commons of the other process; NULL: it has none */
    const uint64_t *
        windows; /* LOAN_WINDOW, consumer: [window of the producer] the difference to add to an address in that window */
    uint64_t lending;        /* producer: address of its next slot's payload; 0: not lent; LOAN_LANDED */
    uint32_t lending_window; /* number of the window that contains `lending` */
    uint64_t lending_to;     /* GPU: `to` and `to_offset` for the next slot's header */
    uint64_t lending_result;
    uint64_t until;            /* producer: the position behind its newest loan */
    const char *taken;         /* consumer: where its slot's payload is; NULL: in the slot, or not taken yet */
    struct loan_offer *offers; /* [slot] offers of the consumer */
    /* Host only. These are last: a block of a GPU copies only the fields above (kernels/cuda/block.cuh). */
    uint32_t busy; /* producer: it will not help to copy its next payload, if only the kernel can reach that payload */
    struct loan_landing
        landings[LOAN_LANDINGS]; /* consumer: [slot] places of payloads, for unread positions below landings_end */
    uint64_t landings_end;
};

/* The offset of this end's address in the commons; 0: not in it. */
PORT_FN uint64_t loan_offset(const struct loan_end *end, uint64_t address) {
    return !PORT_IS_GPU && end->commons != NULL ? commons_offset(end->commons, address) : 0;
}

/* Does a producer lend this payload? (If `least` is 0, least - 1 is the largest number: never.) */
PORT_FN int loan_is_worth(const struct loan_end *end, uint64_t address, uint32_t bytes) {
    uint32_t least = loan_offset(end, address) != 0 ? end->least_common_bytes : end->least_bytes;
    return least - 1 < bytes && (PORT_IS_GPU || end->only == NULL || end->only(address, bytes));
}

/* Can the other end reach this address only by a copy that the kernel makes? */
PORT_FN int loan_is_by_kernel(const struct loan_end *end, uint64_t address) {
    return end->way == LOAN_HOST && loan_offset(end, address) == 0;
}

/* The place for the payload of that position; NULL: into the slot. */
static inline char *loan_landing_at(const struct loan_end *end, uint64_t position, uint32_t bytes) {
    const struct loan_landing *landing = &end->landings[position % LOAN_LANDINGS];
    return landing->position == position && landing->bytes == bytes ? landing->to : NULL;
}

/* Writes the loan of the producer's next slot into its header. next: the position behind that slot. */
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
    if (end->way != LOAN_WIRE) /* over a wire the transport knows when the loan ends */
        end->until = next;
}

#endif
