/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a connection that belongs to loans: in slot headers and in ends. They say where a payload lies that is not in its slot,
 * and where a consumer wants payloads to be stored. layers/memory/loan.h explains what loans are, and what each end does with them.
 */
#ifndef COLLET_FIFO_LOAN_END_H
#define COLLET_FIFO_LOAN_END_H

#include "base/port.h"
#include "collet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What another process must know to map this process's shared heap (layers/memory/heap.h). */
struct heap_ticket {
    uint64_t nonce, bytes;
    int32_t pid, fd; /* File descriptor of the shared heap, in process pid; −1: the process has no shared heap */
};

/* The shared heap of this process, at the address where this process itself has mapped it. */
struct heap {
    char *base;   /* NULL: there is none */
    size_t bytes; /* 0: there is none */
    struct heap_ticket ticket;
};

/* The offset of an address in the shared heap; 0: the address is outside the shared heap. (No buffer has offset 0: the nonce lies there.) */
PORT_FN uint64_t heap_offset(const struct heap *heap, uint64_t address) {
    uint64_t offset = address - (uint64_t)(uintptr_t)heap->base;
    return offset < heap->bytes ? offset : 0;
}

/* The shared heap of this process. The first call creates it. The pointer stays valid. */
const struct heap *heap_own(void);

struct heap_view;

/* Opens this process's view of another process's shared heap. Each process has one view of each other process's: a second call returns
 * the same view. *view_p: NULL if that process has no shared heap. */
enum collet_result heap_view_open(const struct heap_ticket *ticket, struct heap_view **view_p);
void heap_view_close(struct heap_view *view); /* NULL is fine */
/* Maps the other process's shared heap now. False: view is NULL, or the shared heap cannot be mapped; then the log says why. */
bool heap_view_map(struct heap_view *view);

/* How an end reaches the other end's memory. Those of GPUs come first: each asks more of the memory than the one before (struct interp_lends). */
enum loan_way {
    LOAN_NONE,
    LOAN_GPU, /* The other end is in the same process and on the same GPU: by address, whatever memory that is */
    /* The other end is in the same process: by address; from one GPU to another if the memory is of collet_mem_alloc(). */
    LOAN_PROCESS,
    LOAN_WINDOW, /* GPU memory of another process: by address in a window (kernels/cuda/block_loans.cuh) */
    /* Host memory of another process: by address in its shared heap, else by process_vm_readv and process_vm_writev. */
    LOAN_HOST,
    LOAN_WIRE, /* Another host: the transport sends from this rank's buffers, and receives into them */
};

/* Minimum payload of a loan, for each way to reach memory: a shorter payload is faster through a slot. */
#define LOAN_PROCESS_BYTES 8192u
#define LOAN_HEAP_BYTES 1024u
#define LOAN_CMA_BYTES 16384u
#define LOAN_WIRE_BYTES 8192u

/* Numbers of a rank's windows are 1 … LOAN_WINDOWS − 1; 0 means no window (layers/gpu/windows.h). */
#define LOAN_WINDOWS 64u

/* The team address of a window (layers/gpu/window_team.h): one address, by which the GPUs of all ranks reach the window. All zero: the
 * window has no team. */
struct loan_team {
    uint64_t add; /* Team address of a byte minus this rank's address of that byte */
    /* Place of a byte minus this rank's address of it. All ranks give a byte of their windows one place: a number of 2^48 or more. */
    uint64_t place;
};

/* A value of `to`, on GPUs: the consumer already has the payload, in its final place. */
#define LOAN_EVERYWHERE 1u
/* A value of `to`, on GPUs: the result of this payload belongs at the address `to_offset`. */
#define LOAN_RETURNS 2u
#define LOAN_STOPPED 0x80000000u /* A bit of `claimed`: nobody may claim another part */
#define LOAN_STOP_NS 2000000000ull

/* The part of a slot's header that describes a loan. It counts if the slot's word is of Direct. */
struct fifo_loan {
    uint64_t address; /* The payload's address in the producer's memory; or LOAN_LANDED */
    /* The address where the consumer wants the payload; 0: the consumer has not said yet; or LOAN_REFUSED. GPUs: the payload's place
     * (struct loan_team), 0 if it has none; or LOAN_EVERYWHERE, LOAN_RETURNS. */
    uint64_t to;
    /* The offset of `address` in the producer's shared heap; 0: it is outside the shared heap. LOAN_WINDOW: the window's number. */
    uint64_t offset;
    /* The offset of `to` in the consumer's shared heap. GPUs: the place for the result of this payload. */
    uint64_t to_offset;
    uint32_t claimed; /* Number of parts that an end copies or has copied; or LOAN_STOPPED */
    uint32_t done;    /* Number of copied parts; plus LOAN_IN_SLOT, LOAN_ALONE */
};

#define LOAN_LANDED 1u /* A value of `address`: the payload is already at the address that the consumer offered */
/* A value of `lending`: the operating system will copy the payload to the offered address (loan_carry()). */
#define LOAN_CARRIED 2u
/* A bit of `done`, set by the producer: the payload is one part, which the consumer copies. */
#define LOAN_ALONE 0x40000000u

/* The consumer's offer for one slot: an address where the producer may put the payload. */
struct loan_offer {
    /* 1 + 2 · position of the slot: the offer stands. An even number: it is taken, withdrawn, or was never made */
    uint64_t open;
    uint64_t to;        /* Address in the consumer's memory */
    uint64_t to_offset; /* Offset of `to` in the consumer's shared heap; 0: it is outside the shared heap */
    uint32_t bytes;
} __attribute__((aligned(64)));

/* Where the consumer wants the payload of one slot (a landing), if the payload has this many bytes. */
struct loan_landing {
    char *to; /* NULL: the payload goes into the slot */
    uint64_t position;
    uint32_t bytes;
};
#define LOAN_LANDINGS 16 /* FIFO_MAX_SLOTS is the same number */

/* The loans of one end of a connection. */
struct loan_end {
    uint32_t way; /* enum loan_way */
    /* LOAN_HOST: pid of the other end's process; 0: the operating system refuses to copy between the two processes. */
    int32_t pid;
    uint32_t least_bytes; /* Minimum bytes of a payload that is lent; 0: no payload is lent */
    /* Minimum bytes of a lent payload that lies in the shared heap; 0: none of these is lent. */
    uint32_t least_common_bytes;
    int (*only)(uint64_t address, uint32_t bytes); /* LOAN_WIRE: may these bytes be lent? NULL: yes */
    const struct heap *heap; /* Shared heap of this process; NULL: it has none, or lends nothing */
    struct heap_view *view;  /* Shared heap of the other end's process; NULL: it has none */
    /* LOAN_WINDOW, consumer: [window of the producer]: the difference to add to the producer's address in that window. */
    const uint64_t *windows;
    /* Producer: address of its next slot's payload; 0: not lent; or LOAN_LANDED, LOAN_CARRIED. */
    uint64_t lending;
    uint32_t lending_window;   /* Number of the window that contains `lending` */
    uint64_t lending_to;       /* GPU: `to` for the next slot's header */
    uint64_t lending_result;   /* GPU: `to_offset` for the next slot's header */
    uint64_t until;            /* Producer: position behind its newest loan */
    const char *taken;         /* Consumer: address of its slot's payload; NULL: in the slot, or not fetched yet */
    struct loan_offer *offers; /* [slot]: offer of the consumer */
    /* Host only. These are last: a block of a GPU copies only the fields above (kernels/cuda/block.cuh). */
    uint64_t *reading; /* Consumer of a fan: `reading` of its line (fan.h); NULL: the connection is no fan */
    /* Producer: it has no time to help copy its next payload, if only the operating system can reach the payload. */
    uint32_t busy;
    /* Consumer: [slot]: where it wants the payload. Valid for unread positions before landings_end. */
    struct loan_landing landings[LOAN_LANDINGS];
    uint64_t landings_end; /* Consumer: position behind the newest landing */
};

/* The offset of an address in this process's shared heap; 0: the address is outside the shared heap. */
PORT_FN uint64_t loan_offset(const struct loan_end *end, uint64_t address) {
    return !PORT_IS_GPU && end->heap != NULL ? heap_offset(end->heap, address) : 0;
}

/* The address where the payload of a position is to be stored; NULL: in its slot. */
static inline char *loan_landing_at(const struct loan_end *end, uint64_t position, uint32_t bytes) {
    const struct loan_landing *landing = &end->landings[position % LOAN_LANDINGS];
    return landing->position == position && landing->bytes == bytes ? landing->to : NULL;
}

#endif
