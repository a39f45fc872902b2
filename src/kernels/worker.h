/* SPDX-License-Identifier: Apache-2.0
 *
 * What the workers of a channel share in a call, and a worker: the state that interp.h moves.
 */
#ifndef COLLET_KERNELS_WORKER_H
#define COLLET_KERNELS_WORKER_H

#include "fifo/call.h"
#include "fifo/fifo.h"
#include "fifo/geometry.h"
#include "fifo/lanes.h"
#include "program/step.h"

/* Memory of a program on one channel, beside the buffers of a call. */
struct interp_memory {
    char *tmp;                      /* the blocks of TMP */
    uint64_t tmp_stride;            /* from a block of TMP to the next */
    uint32_t nblocks[STEP_REGIONS]; /* how many blocks each region has */
};

struct trace_worker;

/* What the workers of one call on one channel share. */
struct interp_op {
    const struct prog_step *steps;
    const struct prog_local *locals;   /* operands in memory, which steps point into: interp_local_at() */
    struct fifo_end *const *recv_ends; /* the program's peer table, as connections; NULL where a peer is not used so */
    struct fifo_end *const *send_ends;
    struct interp_memory memory;
    struct geometry geometry;
    const struct span
        *extents[STEP_REGIONS]; /* host: [region][block], where each block has its own; NULL: as geometry says */
    struct work_args args;
    uint32_t lends_from;         /* least payload that any of the ends lends (layers/memory/loan.h); 0: none does */
    uint8_t lends[STEP_REGIONS]; /* 0: nothing of the region; else 1 + the window that it lies in, or 1: in none */
    uint32_t root_reduces;       /* host: one rank does (interp_lends_to()) */
    uint32_t borrows_from;       /* host: least payload that any of the ends is lent; 0: none is */
    uint32_t lands_from;         /* host: least payload that any of the ends receives where it belongs; 0: none does */
    uint32_t receives;           /* host: this rank does, so it has no time for those that it lends to */
    uint32_t apart;              /* host: IN and OUT are, and payloads may be lent, or land */
    uint32_t stream_stores;      /* host: local results do not stay in the caches */
    const void *reduce;          /* host: reduce_fn */
    const void *multiply;        /* host: multiply_fn */
};

struct interp_worker {
    const struct interp_op *op;
    uint32_t first_step, nsteps;
    uint32_t pc;
    uint64_t round;
    uint32_t arrived;         /* operands of this step that have arrived from peers */
    uint32_t lent;            /* slots of this call that were lent their payload */
    uint32_t done;            /* all steps of all rounds are */
    uint32_t blocked_on;      /* BUSY, MISMATCH: index into the peer table */
    uint32_t blocked_sending; /* BUSY: a credit is missing, not an operand */
    uint32_t said_pc;         /* host: from this step on, nothing was said of landings (exec_loans.c) */
    uint64_t said_round;
    const void **src;           /* room for the operands of the largest step */
    void **dst;                 /* room for its places */
    const void *result;         /* where the result of a step is, for protocols that copy it into their slots */
    char *scratch;              /* room for an operand per peer, and for the result (interp_scratch()) */
    uint32_t scratch_stride;    /* from one to the next */
    struct trace_worker *trace; /* host: what is noted of a traced worker; NULL: it is not traced */
};

PORT_FN const struct prog_local *interp_local_at(const struct interp_op *op, int local) {
    return (const struct prog_local *)port_global(&op->locals[local]);
}

#endif
