/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host hands to a GPU: programs bound to connections, the calls of a launch, and the words through which both
 * talk while it runs.
 *
 *    struct work_launch (kernel argument, by value: a captured graph holds its own copy)
 *      └─ works[]  one call of one rank ─▶ struct work_block[]  one a worker of a channel (device memory, made once)
 *                                             ├─ steps                   as in struct prog
 *                                             └─ ends ─▶ struct fifo_end  one per end of a connection: its position stays here
 *                                                                         from launch to launch, so graphs can be replayed
 *
 *    blocks of a launch:   │ work 0: channel 0 worker 0, worker 1, … channel 1 … │ work 1: … │
 */
#ifndef COLLET_KERNELS_WORK_H
#define COLLET_KERNELS_WORK_H

#include "kernels/cuda/port.h"
#include "kernels/worker.h"
#include "fifo/loan_end.h"

/* The block of a GPU keeps the ends of so many peers (kernels/cuda/block_own.cuh). If its channel's table has more, it lends nothing. */
#define LOAN_GPU_PEERS PORT_BLOCK_PEERS

#define INTERP_BLOCK_PEERS LOAN_GPU_PEERS
#define INTERP_BLOCK_OPERANDS (INTERP_BLOCK_PEERS + 8)
#define INTERP_BLOCK_PLACES (INTERP_BLOCK_PEERS + 2)

/* Is there room for the step? */
PORT_FN int interp_block_takes(const struct prog_step *step) {
    return step->recv_count <= (int)INTERP_BLOCK_PEERS && step->send_count <= (int)INTERP_BLOCK_PEERS &&
           step->recv_count + step->locals_count <= (int)INTERP_BLOCK_OPERANDS;
}

/* What a block runs: a worker of the program of a channel. A block copies it, and then knows where all the rest is. */
struct work_block {
    const struct prog_step *steps;   /* the worker's */
    const struct prog_local *locals; /* the program's */
    struct fifo_end *const
        *ends; /* of the program's peer table: [npeers] that receive, and [npeers] that send; NULL where a
                                       * peer is not used so */
    const struct prog_peer *peers; /* the table */
    const struct loan_team *teams; /* [LOAN_WINDOWS]: of the rank's windows */
    struct interp_memory memory;
    uint32_t nsteps, npeers, channel;
    uint32_t lends_from; /* as in struct interp_op */
};

/* One rank's part in a failure or an abort, in host memory that the device reaches. */
struct work_status {
    int32_t abort;           /* the host's: end whatever runs */
    int32_t failure;         /* the device's: enum work_failure of the first block that failed; written last */
    int32_t claimed;         /* by that block */
    uint64_t timeout_ns;     /* the host's: longest wait of a block */
    int32_t peer;            /* the rank that the block waited for, or that sent something else */
    uint32_t collective;     /* of the block's call */
    uint64_t sequence;       /* of the block's call */
    uint32_t bytes;          /* MISMATCH: how much the peer sent */
    uint64_t their_sequence; /* MISMATCH: of the peer's call */
};

enum work_failure {
    WORK_FINE,
    WORK_ABORTED,
    WORK_MISMATCH, /* a slot's header is of another call */
    WORK_FOREIGN,  /* lines are, of which no more is known */
    WORK_TIMEOUT,
};

struct work {
    const struct work_block *blocks; /* nblocks: of some neighbouring channels, of args.nchannels in all */
    struct work_status *status;
    struct work_args args;
    uint32_t nblocks;
    uint32_t collective;         /* for messages */
    uint8_t lends[STEP_REGIONS]; /* as in struct interp_op */
};

/* What fits into the 4 KiB that every driver takes as kernel arguments. */
#define WORK_MAX 34
struct work_launch {
    uint32_t nworks;
    struct work works[WORK_MAX];
};

#endif
