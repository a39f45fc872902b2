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

/* A block of a GPU keeps the ends of this many peers (kernels/cuda/block_own.cuh). A channel with more peers lends nothing. */
#define LOAN_GPU_PEERS PORT_BLOCK_PEERS

#define INTERP_BLOCK_PEERS LOAN_GPU_PEERS
#define INTERP_BLOCK_OPERANDS (INTERP_BLOCK_PEERS + 8)
#define INTERP_BLOCK_PLACES (INTERP_BLOCK_PEERS + 2)

/* Does a block have room for the step's operands and places? */
PORT_FN int interp_block_takes(const struct prog_step *step) {
    return step->recv_count <= (int)INTERP_BLOCK_PEERS && step->send_count <= (int)INTERP_BLOCK_PEERS &&
           step->recv_count + step->locals_count <= (int)INTERP_BLOCK_OPERANDS;
}

/* What a block of a GPU runs: one worker of a channel's program. The block copies this struct, which points to all the rest. */
struct work_block {
    const struct prog_step *steps;   /* steps of the worker */
    const struct prog_local *locals; /* table of the program */
    struct fifo_end *const
        *ends; /* of the program's peer table: [npeers] that receive, and [npeers] that send; NULL where a
                                       * peer is not used so */
    const struct prog_peer *peers; /* peer table of the program */
    const struct loan_team *teams; /* [LOAN_WINDOWS]: teams of the rank's windows */
    struct interp_memory memory;
    uint32_t nsteps, npeers, channel;
    uint32_t lends_from; /* as in struct interp_op */
};

/* How one rank's kernel fails or is aborted: host memory that the device can access. */
struct work_status {
    int32_t abort;           /* set by the host: end the kernel */
    int32_t failure;         /* set by the device, last: enum work_failure of the first block that failed */
    int32_t claimed;         /* set by that block, first: it reports the failure */
    uint64_t timeout_ns;     /* set by the host: maximum wait of a block */
    int32_t peer;            /* rank that the block waited for, or that sent a slot of another call */
    uint32_t collective;     /* collective of the block's call */
    uint64_t sequence;       /* number of the block's call */
    uint32_t bytes;          /* MISMATCH: payload that the peer sent */
    uint64_t their_sequence; /* MISMATCH: number of the peer's call */
};

enum work_failure {
    WORK_FINE,
    WORK_ABORTED,
    WORK_MISMATCH, /* the header of a slot is of another call */
    WORK_FOREIGN,  /* lines are of another call, of which no more is known */
    WORK_TIMEOUT,
};

struct work {
    const struct work_block *blocks; /* [nblocks], of neighbouring channels (the call has args.nchannels in all) */
    struct work_status *status;
    struct work_args args;
    uint32_t nblocks;
    uint32_t collective;         /* for error texts */
    uint8_t lends[STEP_REGIONS]; /* as in struct interp_op */
};

/* Kernel arguments may have 4 KiB with every driver. This many fit. */
#define WORK_MAX 34
struct work_launch {
    uint32_t nworks;
    struct work works[WORK_MAX];
};

#endif
