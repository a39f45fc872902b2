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

/* Memory of a program on one channel, besides the buffers of a call. */
struct interp_memory {
    char *tmp;                      /* the blocks of TMP */
    uint64_t tmp_stride;            /* bytes from one block of TMP to the next */
    uint32_t nblocks[STEP_REGIONS]; /* number of blocks per region */
};

struct trace_worker;

/* What the workers of one call on one channel share. */
struct interp_op {
    const struct prog_step *steps;
    const struct prog_local *locals;   /* table of operands in memory: interp_local_at() */
    struct fifo_end *const *recv_ends; /* [peer table entry] its connection; NULL: nothing is received from this peer */
    struct fifo_end *const *send_ends;
    struct interp_memory memory;
    struct geometry geometry;
    const struct span
        *extents[STEP_REGIONS]; /* host: [region][block], where each block has its own; NULL: as geometry says */
    struct work_args args;
    uint32_t lends_from;         /* minimum payload that any end lends (layers/memory/loan.h); 0: none does */
    uint8_t lends[STEP_REGIONS]; /* 0: the region is not lent; else 1 + its window's number, or 1 outside windows */
    uint32_t root_reduces;       /* host: only the root reduces (interp_lends_to()) */
    uint32_t borrows_from;       /* host: minimum payload that any end borrows; 0: none does */
    uint32_t lands_from;         /* host: minimum payload that any end receives in its final place; 0: none does */
    uint32_t receives;           /* host: this rank receives, so it has no time to help borrowers */
    uint32_t apart;              /* host: IN and OUT do not overlap, and payloads may be lent, or land */
    uint32_t stream_stores;      /* host: local results would not stay in the caches */
    const void *reduce;          /* host: reduce_fn */
    const void *multiply;        /* host: multiply_fn */
};

struct interp_worker {
    const struct interp_op *op;
    uint32_t first_step, nsteps;
    uint32_t pc;
    uint64_t round;
    uint32_t arrived;         /* number of the step's operands that have arrived from peers */
    uint32_t lent;            /* number of slots of this call whose payload was lent */
    uint32_t done;            /* 1: all steps of all rounds are done */
    uint32_t blocked_on;      /* BUSY, MISMATCH: index into the peer table */
    uint32_t blocked_sending; /* BUSY: 1: a credit is missing; 0: an operand is missing */
    uint32_t said_pc;         /* host: the first step whose landings are not announced yet (exec_loans.c) */
    uint64_t said_round;
    const void **src;           /* list of operands, with room for the largest step */
    void **dst;                 /* list of places, with room for the largest step */
    const void *result;         /* result of a step, for protocols that copy it into their slots */
    char *scratch;              /* room for one operand per peer, and for the result (interp_scratch()) */
    uint32_t scratch_stride;    /* bytes from one operand to the next */
    struct trace_worker *trace; /* host: trace records of this worker; NULL: not traced */
};

PORT_FN const struct prog_local *interp_local_at(const struct interp_op *op, int local) {
    return (const struct prog_local *)port_global(&op->locals[local]);
}

#endif
