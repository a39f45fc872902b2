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

/* What another process needs to see the commons (layers/memory/commons.h) of this one, and what it sees. */
struct commons_ticket {
    uint64_t nonce, bytes;
    int32_t pid, fd; /* fd −1: there is no commons */
};

/* The commons, as it lies in this process. */
struct commons {
    char *base;   /* NULL: there is none */
    size_t bytes; /* 0: there is none */
    struct commons_ticket ticket;
};

/* The offset of an address; 0: it is not in the commons. The nonce is at 0. */
PORT_FN uint64_t commons_offset(const struct commons *commons, uint64_t address) {
    uint64_t offset = address - (uint64_t)(uintptr_t)commons->base;
    return offset < commons->bytes ? offset : 0;
}

/* This process's, made when it is first asked for. The pointer stays the same. */
const struct commons *commons_own(void);

struct commons_view;

/* One view per process, however often it is opened. *view_p: NULL, if there is no commons. */
enum collet_result commons_view_open(const struct commons_ticket *ticket, struct commons_view **view_p);
void commons_view_close(struct commons_view *view); /* NULL is fine */

/* How an end reaches the other end's memory. */
enum loan_way {
    LOAN_NONE,
    LOAN_PROCESS, /* it is in the same process: by address, also from one GPU to another */
    LOAN_HOST, /* it is in another process: what lies in its commons by address, the rest by process_vm_readv and _writev */
    LOAN_WINDOW, /* it is on another GPU, of another process: what lies in a window, by address (kernels/cuda/block_loans.cuh) */
    LOAN_WIRE, /* by a transport that sends from, and receives into, the memory of its own end */
};

/* Shorter payloads are faster in slots. */
#define LOAN_PROCESS_BYTES 8192u
#define LOAN_COMMONS_BYTES 1024u
#define LOAN_CMA_BYTES 16384u
#define LOAN_WIRE_BYTES 8192u

/* Windows of a rank have numbers from 1 to below this; 0 is none (layers/gpu/windows.h). */
#define LOAN_WINDOWS 64u

/* A window that a team of GPUs has under one address (layers/gpu/window_team.h), as its rank's GPU sees it. All zero: there is no team. */
struct loan_team {
    uint64_t add;   /* to an address in this rank's window: the team's address of the same bytes */
    uint64_t place; /* likewise: a number that all ranks have for this place of their windows; not below 2^48 */
};

#define LOAN_EVERYWHERE 1u       /* in `to`, of GPUs: the consumer has it already, where its step stores it */
#define LOAN_STOPPED 0x80000000u /* in `claimed`: no part may be claimed any more */
#define LOAN_STOP_NS 2000000000ull

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

#define LOAN_LANDED 1u         /* in `address`: the payload is where the consumer has offered */
#define LOAN_CARRIED 2u        /* in `lending`: the kernel is to take it there (loan_carry()) */
#define LOAN_ALONE 0x40000000u /* in `done`, from the beginning: the producer does not help, and there is one part */

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

#endif
