/* SPDX-License-Identifier: Apache-2.0
 *
 * What a traced worker notes around each try of a step (layers/observe/tracer.h). Only the traced copies of exec_worker_visit() do.
 *
 *      visit        try: BUSY │ … │ visit        try: STEPPED        try: STEPPED      a reading of the counter at each mark: when
 *      ▲                            ▲                        ▲                   ▲     the visit begins, and behind a step that was done
 *                   └─ since        └─ begin                 └─ end, begin       └─ end
 *
 * A try that is BUSY reads nothing: the wait begins where the last reading was.
 *
 * To trace a call of 8 bytes takes a few per cent of its time. So of small calls only one in COLLET_TRACE_EVERY is traced,
 * once there were many. The number of a call says which one it is, so all ranks trace the same calls.
 */
#ifndef COLLET_LAYERS_OBSERVE_EXEC_TRACE_H
#define COLLET_LAYERS_OBSERVE_EXEC_TRACE_H

#include "layers/observe/tracer.h"
#include "exec/exec.h"
#include "kernels/interp.h"

/* Describes the program's workers to the tracer of its rank. */
enum collet_result exec_trace_bind(struct exec_program *program, struct tracer *tracer);

#define TRACE_SMALL_BYTES 4096u
#define TRACE_FIRST_CALLS 256u

/* Of calls of this kind, those are traced whose number has none of these bits. A division would take longer at each visit than a
 * step of 8 bytes may: so it is one in a power of two. */
static inline uint32_t exec_trace_mask(const struct exec_call *call, uint64_t bytes) {
    const uint32_t every = (uint32_t)call->chan->owner.config->trace_every;
    uint32_t mask = 0;
    if (bytes >= TRACE_SMALL_BYTES || call->request.extents != NULL || prog_is_p2p(call->request.collective))
        return mask;
    while (mask + 1 < every)
        mask = 2 * mask + 1;
    return mask;
}

static inline bool exec_trace_leaves_out(const struct exec_call *call) {
    const uint64_t sequence = call->args.sequence;
    return sequence > TRACE_FIRST_CALLS && ((uint32_t)sequence & call->program->trace_mask) != 0;
}

/* Notes what a try came to that began at `now`. Returns what time it is, as far as is known. */
static inline uint64_t exec_trace(const struct exec_call *call, const struct interp_worker *w,
                                  const struct interp_try *tried, enum interp_result result, uint64_t now) {
    struct trace_worker *worker = w->trace;
    if (result == INTERP_BUSY && worker->since == 0)
        worker->since = now;
    if ((result != INTERP_STEPPED && result != INTERP_DONE) || interp_skips(w->op, tried->bytes))
        return now;
    const uint64_t since = worker->since;
    struct trace_event *event = trace_ring_next(worker->ring);
    event->worker = worker;
    event->sequence = call->args.sequence;
    event->next_round = (uint32_t)w->round;
    event->next_step = w->pc;
    event->bytes = tried->bytes;
    event->since = since;
    event->begin = now;
    if (since != 0) {
        event->blocked_on = w->blocked_on;
        event->sending = w->blocked_sending;
        worker->since = 0;
    }
    return event->end = os_ticks();
}

#endif
