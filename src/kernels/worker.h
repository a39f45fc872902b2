/* SPDX-License-Identifier: Apache-2.0
 *
 * struct interp_op: the data that all workers of a channel share in a call. struct interp_worker: the state of one worker, which the
 * functions of interp.h change.
 */
#ifndef COLLET_KERNELS_WORKER_H
#define COLLET_KERNELS_WORKER_H

#include "fifo/call.h"
#include "fifo/fifo.h"
#include "fifo/geometry.h"
#include "fifo/lanes.h"
#include "program/step.h"

/* The region TMP of a program on one channel, and the sizes of its regions. */
struct interp_memory {
    char *tmp;                      /* Address of block 0 of TMP */
    uint64_t tmp_stride;            /* Bytes from one block of TMP to the next */
    uint32_t nblocks[STEP_REGIONS]; /* [region]: number of blocks */
};

/* What the workers of one call on one channel share. */
struct interp_op {
    const struct prog_step *steps;
    const struct prog_local *locals; /* Table of operands in memory: interp_local_at() */
    /* [peer table entry]: end that receives from this peer; NULL: no step receives from it. */
    struct fifo_end *const *recv_ends;
    struct fifo_end *const *send_ends; /* [peer table entry]: end that sends to this peer; NULL: no step sends to it */
    struct interp_memory memory;
    struct geometry geometry;
    /* Host: [region][block]: first element and count of each block; NULL: `geometry` says where blocks lie. */
    const struct span *extents[STEP_REGIONS];
    struct work_args args;
    uint32_t stream_stores; /* Host: 1: steps store local results past the caches, where they would not stay */
    const void *reduce;     /* Host: reduce_fn */
    const void *multiply;   /* Host: multiply_fn */
};

struct interp_worker {
    const struct interp_op *op;
    uint32_t first_step, nsteps; /* The worker's steps: op->steps[first_step … +nsteps−1] */
    uint32_t pc;                 /* Number of the current step among the worker's steps */
    uint64_t round;
    uint32_t arrived;             /* Number of the current step's operands that have arrived from peers */
    uint32_t done;                /* 1: all steps of all rounds are done */
    uint32_t blocked_on;          /* After BUSY or MISMATCH: peer table entry of the peer that the worker waits for */
    uint32_t blocked_sending;     /* After BUSY: 1: a credit is missing; 0: an operand is missing */
    const void **src;             /* Addresses of the step's operands. The list has room for the largest step */
    void **dst;                   /* Addresses of the step's places. The list has room for the largest step */
    const void *result;           /* Address of the step's result, for protocols that copy it into their slots */
    char *scratch;                /* Room for one operand per peer, and for the result (interp_scratch()) */
    uint32_t scratch_stride;      /* Bytes from one operand's room in scratch to the next */
    struct direct_worker *direct; /* Host: what the worker lends and borrows (exec_direct.c); NULL: it never has */
    /* Host, with COLLET_TRACE: os_ticks() when the worker began to wait; 0: it does not wait. */
    uint64_t waits_since;
};

PORT_FN const struct prog_local *interp_local_at(const struct interp_op *op, int local) {
    return (const struct prog_local *)port_global(&op->locals[local]);
}

#endif
