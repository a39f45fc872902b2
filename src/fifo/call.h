/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of one rank, as the planner makes it and every executor reads it, and how far a step of it may come.
 */
#ifndef COLLET_FIFO_CALL_H
#define COLLET_FIFO_CALL_H

#include "fifo/geometry.h"

enum interp_result { INTERP_BUSY, INTERP_STEPPED, INTERP_DONE, INTERP_MISMATCH };

/* A pre-multiplied sum, and an average of some types, multiply each element of IN by a factor when it is read, before it is
 * an operand. */
enum work_scaling { WORK_UNSCALED, WORK_BY_VALUE, WORK_BY_ADDRESS };

struct work_args {
    const char *in;
    char *out;
    uint64_t factor;                              /* an element's bits, or where they are when the call runs */
    uint64_t mirror;                              /* on a GPU: bits that its kernel turns (type_mirror) */
    uint64_t sequence;                            /* its number on the communicator */
    uint64_t row_elems, block_elems, chunk_elems; /* see geometry.h */
    uint32_t nchannels;                           /* ≤ the program's */
    uint32_t elem_bytes;
    uint32_t divisor;    /* `finish` divides by reduce_rest_<type>() of it; 1: by nothing */
    uint32_t protocol;   /* enum protocol */
    uint32_t signature;  /* equal on all ranks of the call, or the call is mismatched */
    uint16_t row_blocks; /* see geometry.h */
    uint8_t keep_empty;  /* empty pieces are messages too (send, recv) */
    uint8_t scaling;     /* enum work_scaling; if any, `factor` */
};

/* Of the larger buffer. */
PORT_FN uint64_t work_elems(const struct work_args *args, uint32_t nranks) {
    return args->row_elems * (args->row_blocks > 0 ? nranks : 1);
}

PORT_FN struct geometry work_geometry(const struct work_args *args, uint32_t channel) {
    struct geometry g = geometry_of(args->row_elems, args->block_elems, args->chunk_elems, channel, args->nchannels);
    g.row_blocks = args->row_blocks;
    return g;
}

#endif
