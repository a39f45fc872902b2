/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of one rank: the planner fills struct work_args, and every executor reads it. enum interp_result says how far a step of
 * the call has come.
 */
#ifndef COLLET_FIFO_CALL_H
#define COLLET_FIFO_CALL_H

#include "fifo/geometry.h"

enum interp_result { INTERP_BUSY, INTERP_STEPPED, INTERP_DONE, INTERP_MISMATCH };

/* A pre-multiplied sum, and an average of some types, multiply each element of IN by a factor when the element is read. BY_VALUE: the
 * call holds the factor. BY_ADDRESS: the call holds the address of the factor. */
enum work_scaling { WORK_UNSCALED, WORK_BY_VALUE, WORK_BY_ADDRESS };

struct work_args {
    const char *in;
    char *out;
    uint64_t factor;   /* WORK_BY_VALUE: the bits of the factor. WORK_BY_ADDRESS: the address of the factor */
    uint64_t mirror;   /* GPU only: the bits of each element that the kernel inverts (type_mirror) */
    uint64_t sequence; /* Number of this call on its communicator */
    uint64_t row_elems, block_elems, chunk_elems; /* As in struct geometry */
    uint32_t nchannels; /* Number of channels that the call uses. The bound program may have more */
    uint32_t elem_bytes;
    uint32_t divisor;   /* A step with `finish` divides its result by reduce_rest_<type>(divisor). 1: no step divides */
    uint32_t protocol;  /* enum protocol */
    uint32_t signature; /* Hash of what all ranks must agree on in this call */
    uint16_t row_blocks; /* As in struct geometry */
    uint8_t keep_empty;  /* 1: a message without elements is sent too (prog_keeps_empty()). 0: it is left out */
    uint8_t scaling;     /* enum work_scaling */
};

/* The number of elements of the larger one of the call's two buffers. */
PORT_FN uint64_t work_elems(const struct work_args *args, uint32_t nranks) {
    return args->row_elems * (args->row_blocks > 0 ? nranks : 1);
}

PORT_FN struct geometry work_geometry(const struct work_args *args, uint32_t channel) {
    struct geometry g = geometry_of(args->row_elems, args->block_elems, args->chunk_elems, channel, args->nchannels);
    g.row_blocks = args->row_blocks;
    return g;
}

#endif
