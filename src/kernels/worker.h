/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker that runs a program, and the call it runs it for: the state that interp.h moves and the protocols read.
 */
#ifndef COLLET_KERNELS_WORKER_H
#define COLLET_KERNELS_WORKER_H

#include "fifo/fifo.h"
#include "fifo/geometry.h"
#include "program/step.h"

enum interp_result { INTERP_BUSY, INTERP_STEPPED, INTERP_DONE, INTERP_MISMATCH };

/* Memory of a program on one channel, beside the buffers of a call. */
struct interp_memory {
    char *tmp;                      /* the blocks of TMP … */
    uint64_t tmp_stride;            /* … and how far apart they are */
    uint32_t nblocks[STEP_REGIONS]; /* how many blocks each region has */
};

/* What the workers of one call on one channel share. */
struct interp_op {
    const struct prog_step *steps;
    const struct prog_local *locals;   /* operands in memory, which steps point into */
    struct fifo_end *const *recv_ends; /* the program's peer table, as connections; NULL where a peer is not used so */
    struct fifo_end *const *send_ends;
    struct interp_memory memory;
    struct geometry geometry;
    const char *in;
    char *out;
    uint32_t elem_bytes;
    uint32_t divisor;   /* what `finish` divides by; 1: nothing */
    uint32_t protocol;  /* enum protocol */
    uint32_t signature; /* equal on all ranks of the call, or the call is mismatched */
    uint64_t sequence;
    uint32_t keep_empty;    /* empty pieces are messages too (send, recv) */
    uint32_t stream_stores; /* host: local results do not stay in the caches */
    const void *reduce;     /* the executor's own */
};

struct interp_worker {
    const struct interp_op *op;
    uint32_t first_step, nsteps;
    uint32_t pc;
    uint64_t round;
    uint32_t unpacked; /* LL, LL128: operands of this step that are already in scratch */
    uint32_t done;
    uint32_t blocked_on;      /* BUSY, MISMATCH: index into the peer table … */
    uint32_t blocked_sending; /* … and whether it is a credit that is missing */
    const void **src;         /* room for the operands of the largest step */
    void **dst;               /* and for its places */
    const void *result;       /* LL, LL128: what is sent … */
    char *scratch;            /* … and room: one slot's payload per operand, and one for the result */
    uint32_t scratch_stride;  /* from one to the next */
};

/* May every place at a peer be written? Either protocol asks this last. */
PORT_FN int worker_has_credit(struct interp_worker *w, const struct prog_step *step) {
    w->blocked_sending = 1;
    for (int k = 0; k < step->send_count; k++) {
        w->blocked_on = (uint32_t)(step->send_first + k);
        if (!fifo_has_credit(w->op->send_ends[step->send_first + k]))
            return 0;
    }
    return 1;
}

#endif
