/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host hands to a GPU: programs bound to connections, the calls of a launch, and the words through which host and GPU
 * talk while a kernel runs.
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

/* A block of a GPU keeps the ends of at most this many peers (kernels/cuda/block_own.cuh). A channel with more peers lends nothing. */
#define LOAN_GPU_PEERS PORT_BLOCK_PEERS

#define INTERP_BLOCK_PEERS LOAN_GPU_PEERS
#define INTERP_BLOCK_OPERANDS (INTERP_BLOCK_PEERS + 8)
#define INTERP_BLOCK_PLACES (INTERP_BLOCK_PEERS + 2)

/* Does a block have room for the step's operands and places? */
PORT_FN int interp_block_takes(const struct prog_step *step) {
    return step->recv_count <= (int)INTERP_BLOCK_PEERS && step->send_count <= (int)INTERP_BLOCK_PEERS &&
           step->recv_count + step->locals_count <= (int)INTERP_BLOCK_OPERANDS;
}

/* A region that lies in a window is lent by all ways up to LOAN_WINDOW (struct interp_lends). Numbers of windows begin at 1; 0: it lies in
 * none. */
PORT_FN uint8_t work_lent_in(uint32_t window) { return (uint8_t)(LOAN_WINDOW - 1 + window); }
PORT_FN uint32_t work_lent_window(uint32_t lent) { return lent >= LOAN_WINDOW ? lent - (LOAN_WINDOW - 1) : 0; }

/* What a block of a GPU runs: one worker of a channel's program. The block copies this struct, which points to all the rest. */
struct work_block {
    const struct prog_step *steps;   /* Steps of the worker */
    const struct prog_local *locals; /* The program's table of operands in memory */
    /* For each peer of the program's table the end that receives from it, then for each peer the end that sends to it; NULL: no step
     * receives from the peer, or sends to it. */
    struct fifo_end *const *ends;
    const struct prog_peer *peers; /* Peer table of the program */
    const struct loan_team *teams; /* [LOAN_WINDOWS]: teams of the rank's windows */
    struct interp_memory memory;
    uint32_t nsteps, npeers, channel;
    uint32_t lends_from; /* As `from` in struct interp_lends */
    uint32_t returns;    /* 1: results may be stored where their operands were lent (kernels/cuda/block_push.cuh) */
};

/* How one rank's kernel has failed, or is told to abort. The struct lies in host memory that the device can access. */
struct work_status {
    int32_t abort; /* The host sets this to end the kernel */
    /* enum work_failure of the first block that failed. That block sets it after all other fields. */
    int32_t failure;
    /* The first block that fails sets this before all other fields: it alone reports its failure. */
    int32_t claimed;
    uint64_t timeout_ns;     /* Maximum wait of a block. The host sets it */
    int32_t peer;            /* Rank that the block waited for, or that sent a slot of another call */
    uint32_t collective;     /* Collective of the block's call */
    uint64_t sequence;       /* Number of the block's call */
    uint32_t bytes;          /* MISMATCH: payload bytes that the peer sent */
    uint64_t their_sequence; /* MISMATCH: number of the peer's call */
};

enum work_failure {
    WORK_FINE,
    WORK_ABORTED,
    WORK_MISMATCH, /* A slot's header belongs to another call, which it names */
    WORK_FOREIGN,  /* A slot's lines belong to another call. Lines do not say which */
    WORK_TIMEOUT,
};

struct work {
    /* [nblocks]: the blocks of this work, of neighbouring channels. The call has args.nchannels channels in all. */
    const struct work_block *blocks;
    struct work_status *status;
    struct work_args args;
    uint32_t nblocks;
    uint32_t collective;         /* enum prog_collective, for error texts */
    uint8_t lends[STEP_REGIONS]; /* As `regions` in struct interp_lends */
};

/* Maximum number of works in a launch: this many fit into 4 KiB, which every driver allows for kernel arguments. */
#define WORK_MAX 34
struct work_launch {
    uint32_t nworks;
    struct work works[WORK_MAX];
};

#endif
