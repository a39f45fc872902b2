/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of one rank, as the planner makes it and every executor reads it, and how far a step of it may come.
 */
#ifndef COLLET_FIFO_CALL_H
#define COLLET_FIFO_CALL_H

#include "fifo/geometry.h"

enum interp_result { INTERP_BUSY, INTERP_STEPPED, INTERP_DONE, INTERP_MISMATCH };

/* A pre-multiplied sum, and an average of some types, multiply each element of IN by a factor when the element is read. BY_VALUE: the
 * call has the factor. BY_ADDRESS: the call has its address. */
enum work_scaling { WORK_UNSCALED, WORK_BY_VALUE, WORK_BY_ADDRESS };

struct work_args {
    const char *in;
    char *out;
    uint64_t factor;   /* the factor of `scaling`: its bits, or its address */
    uint64_t mirror;   /* GPU only: bits of an element that the kernel inverts (type_mirror) */
    uint64_t sequence; /* number of this call on its communicator */
    uint64_t row_elems, block_elems, chunk_elems; /* see geometry.h */
    uint32_t nchannels;                           /* number of channels, at most that of the program */
    uint32_t elem_bytes;
    uint32_t divisor;    /* `finish` divides by reduce_rest_<type>(divisor); 1: no division */
    uint32_t protocol;   /* enum protocol */
    uint32_t signature;  /* hash of what all ranks must agree on in this call */
    uint16_t row_blocks; /* see geometry.h */
    uint8_t keep_empty;  /* 1: a message without elements is sent too (send, recv) */
    uint8_t scaling;     /* enum work_scaling */
};

/* Elements of the larger of the call's two buffers. */
PORT_FN uint64_t work_elems(const struct work_args *args, uint32_t nranks) {
    return args->row_elems * (args->row_blocks > 0 ? nranks : 1);
}

PORT_FN struct geometry work_geometry(const struct work_args *args, uint32_t channel) {
    struct geometry g = geometry_of(args->row_elems, args->block_elems, args->chunk_elems, channel, args->nchannels);
    g.row_blocks = args->row_blocks;
    return g;
}

#endif
