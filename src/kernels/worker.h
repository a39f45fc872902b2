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

/* ---- in a block of a GPU ---- */

#define INTERP_BLOCK_PEERS LOAN_GPU_PEERS
#define INTERP_BLOCK_OPERANDS (INTERP_BLOCK_PEERS + 8)
#define INTERP_BLOCK_PLACES (INTERP_BLOCK_PEERS + 2)
#define INTERP_END_WORDS (offsetof(struct fifo_end, loans.busy) / sizeof(uint64_t))
#define INTERP_NO_END 65535

/* A connection end, but for what hosts alone use of it. */
struct interp_end {
    uint64_t words[INTERP_END_WORDS];
};

/* Is there room for the step? */
PORT_FN int interp_block_takes(const struct prog_step *step) {
    return step->recv_count <= (int)INTERP_BLOCK_PEERS && step->send_count <= (int)INTERP_BLOCK_PEERS &&
           step->recv_count + step->locals_count <= (int)INTERP_BLOCK_OPERANDS;
}

/* The operands and places of a step, and what is done to them. */
struct block_lists {
    const void *src[INTERP_BLOCK_OPERANDS];
    void *dst[INTERP_BLOCK_PLACES];
    uint32_t nsrc, ndst, divisor;
    int32_t scaled;  /* which source is multiplied by the factor; −1: none */
    uint64_t factor; /* bits of an element */
    uint64_t mirror; /* see type_mirror() */
};

/* What a block has in shared memory for the functions below and for those of operands.h and interp.h. One thing is found from the
 * other, for each has its place in here: no address need be loaded, and the compiler knows that it is shared memory.
 *
 *    an entry of the peer table ─▶ at[entry − base] ─▶ ends[]      those that receive, and behind them those that send
 */
struct interp_block {
    struct interp_op op;         /* of which the block does not use recv_ends and send_ends */
    struct interp_worker worker; /* nor src and dst of this */
    struct block_lists lists;
    uint32_t recv_base, send_base;       /* the first entry whose end is here */
    uint16_t at[2 * INTERP_BLOCK_PEERS]; /* in bytes */
    struct interp_end ends[2 * INTERP_BLOCK_PEERS];
};

PORT_FN struct interp_block *interp_block_of(const struct interp_worker *w) {
    return (struct interp_block *)(void *)((char *)w - offsetof(struct interp_block, worker));
}

PORT_FN const struct interp_op *interp_op_of(const struct interp_worker *w) {
    return PORT_IN_BLOCK ? &interp_block_of(w)->op : w->op;
}

PORT_FN const void **interp_src(const struct interp_worker *w) {
    return PORT_IN_BLOCK ? interp_block_of(w)->lists.src : w->src;
}

PORT_FN void **interp_dst(const struct interp_worker *w) {
    return PORT_IN_BLOCK ? interp_block_of(w)->lists.dst : w->dst;
}

PORT_FN struct fifo_end *interp_block_end(const struct interp_block *block, uint32_t at) {
    return (struct fifo_end *)(void *)((char *)block->ends + at);
}

PORT_FN const struct prog_local *interp_local_at(const struct interp_op *op, int local) {
    return (const struct prog_local *)port_global(&op->locals[local]);
}

/* The ends of an entry of the peer table. */
PORT_FN struct fifo_end *interp_recv_end(const struct interp_op *op, int entry) {
    const struct interp_block *block = (const struct interp_block *)(const void *)op;
    return PORT_IN_BLOCK ? interp_block_end(block, block->at[(uint32_t)entry - block->recv_base])
                         : op->recv_ends[entry];
}

PORT_FN struct fifo_end *interp_send_end(const struct interp_op *op, int entry) {
    const struct interp_block *block = (const struct interp_block *)(const void *)op;
    return PORT_IN_BLOCK ? interp_block_end(block, block->at[INTERP_BLOCK_PEERS + (uint32_t)entry - block->send_base])
                         : op->send_ends[entry];
}

#endif
