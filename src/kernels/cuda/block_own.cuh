/* SPDX-License-Identifier: Apache-2.0
 *
 * What a block has of its own: the call, the worker, its lists and the ends of its connections. And where the parts of a step find
 * them, in place of kernels/port.h.
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_OWN_CUH
#define COLLET_KERNELS_CUDA_BLOCK_OWN_CUH

#include "kernels/work.h"

#define INTERP_END_WORDS (offsetof(struct fifo_end, loans.busy) / sizeof(uint64_t))
#define INTERP_NO_END 65535

/* A connection end, without the fields that only hosts use. */
struct interp_end {
    uint64_t words[INTERP_END_WORDS];
};

/* The operands and places of a step; and the factor and the divisor. */
struct block_lists {
    const void *src[INTERP_BLOCK_OPERANDS];
    void *dst[INTERP_BLOCK_PLACES];
    uint32_t nsrc, ndst, divisor;
    int32_t scaled;  /* index of the source that is multiplied by the factor; −1: none */
    uint64_t factor; /* bits of an element */
    uint64_t mirror; /* see type_mirror() */
};

/* What a block has in shared memory for the functions below, and for those of operands.h and interp.h. Each part is at a fixed distance
 * from the others. So no address has to be loaded, and the compiler knows that it is shared memory.
 *
 *    an entry of the peer table ─▶ at[entry − base] ─▶ ends[]      those that receive, and behind them those that send
 */
struct interp_block {
    struct interp_op op;         /* a block does not use its recv_ends and send_ends */
    struct interp_worker worker; /* a block does not use its src and dst */
    struct block_lists lists;
    uint32_t recv_base, send_base;       /* index of the first entry of the peer table whose end is here */
    uint16_t at[2 * INTERP_BLOCK_PEERS]; /* offset of the end in ends[], in bytes */
    struct interp_end ends[2 * INTERP_BLOCK_PEERS];
};

PORT_FN struct fifo_end *interp_block_end(const struct interp_block *block, uint32_t at) {
    return (struct fifo_end *)(void *)((char *)block->ends + at);
}

#if PORT_IN_BLOCK

PORT_FN struct interp_block *interp_block_of(const struct interp_worker *w) {
    return (struct interp_block *)(void *)((char *)w - offsetof(struct interp_block, worker));
}

PORT_FN const struct interp_op *interp_op_of(const struct interp_worker *w) { return &interp_block_of(w)->op; }
PORT_FN const void **interp_src(const struct interp_worker *w) { return interp_block_of(w)->lists.src; }
PORT_FN void **interp_dst(const struct interp_worker *w) { return interp_block_of(w)->lists.dst; }

/* The end of an entry of the peer table. */
PORT_FN struct fifo_end *interp_recv_end(const struct interp_op *op, int entry) {
    const struct interp_block *block = (const struct interp_block *)(const void *)op;
    return interp_block_end(block, block->at[(uint32_t)entry - block->recv_base]);
}

PORT_FN struct fifo_end *interp_send_end(const struct interp_op *op, int entry) {
    const struct interp_block *block = (const struct interp_block *)(const void *)op;
    return interp_block_end(block, block->at[INTERP_BLOCK_PEERS + (uint32_t)entry - block->send_base]);
}

#endif

#endif
