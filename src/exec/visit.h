/* SPDX-License-Identifier: Apache-2.0
 *
 * A visit of a worker: up to 64 steps, until the worker is blocked, is done, or has had its turn. Each way to try a step has a compiled
 * copy of this loop: those of the core are in exec_host.c, that of calls with direct ends is in layers/memory/exec_direct.c.
 */
#ifndef COLLET_EXEC_VISIT_H
#define COLLET_EXEC_VISIT_H

#include "exec/exec.h"
#include "kernels/interp.h"
#include "seams/observe.h"

#define STREAM_MIN_BYTES 2048u /* Shorter results are never written past the caches */
#define GAUGE_SLOTS 32u        /* The producer gauges one slot in this many (fifo_place.h) */

/* Does the producer write its next slot past the caches? */
static inline bool exec_end_streams(struct fifo_end *end) {
    if (end->place.nt_stores < 0 && end->position % GAUGE_SLOTS == 0)
        fifo_place_gauge(&end->place, &fifo_header(end)->place);
    return fifo_place_streams(&end->place);
}

#define TRACE_FIRST_CALLS 256u

/* Tracing adds a few per cent to the time of a call of 8 bytes. So after the first calls, only some small calls are traced. */
static inline bool exec_leaves_out_trace(const struct exec_call *call) {
    const uint64_t sequence = call->args.sequence;
    return sequence > TRACE_FIRST_CALLS && ((uint32_t)sequence & call->program->trace_mask) != 0;
}

/* Tries a step, as interp_try_step() does. */
typedef enum interp_result exec_try(struct interp_worker *w, const struct interp_try *next, interp_reduce *reduce,
                                    uint32_t everywhere);

#define STEPS_PER_VISIT 64

/* everywhere: see proto_at(). traced: the visit records steps in the flight recorder. */
static inline enum collet_result exec_worker_visit(struct exec_call *call, struct interp_worker *w, bool *moved,
                                                   exec_try *try_step, interp_reduce *reduce, uint32_t everywhere,
                                                   bool traced) {
    uint64_t now = traced ? os_ticks() : 0;
    for (int k = 0; k < STEPS_PER_VISIT; k++) {
        const struct interp_try next = interp_try_of(w);
        enum interp_result result = try_step(w, &next, reduce, everywhere);
        if (traced && result != INTERP_BUSY)
            now = recorder_step(call, w, &next, result, now);
        else if (traced && w->waits_since == 0)
            w->waits_since = now;
        if (result == INTERP_BUSY)
            return COLLET_SUCCESS;
        if (result == INTERP_MISMATCH)
            return exec_err_mismatch(call, w);
        *moved = true;
        if (result == INTERP_DONE) {
            w->done = 1;
            call->running--;
            return COLLET_SUCCESS;
        }
    }
    return COLLET_SUCCESS;
}

#endif
