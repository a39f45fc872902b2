/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/exec_trace.h"

#include "base/os.h"
#include "chan/tracer.h"
#include "kernels/interp.h"

#define TRACKS_OF_MESSAGES 1000 /* behind those of workers: sends and receives run beside collectives */

struct trace_try trace_before(const struct interp_worker *w) {
    const struct interp_op *op = w->op;
    const struct prog_step *step = &op->steps[w->first_step + w->pc];
    const struct interp_piece piece = interp_piece_of(op, step, 0, w->round);
    struct trace_try before = {.begin_ns = os_now_ns(), .round = w->round, .pc = w->pc};
    before.bytes = interp_payload(op, step, w->round, &piece);
    before.skipped = interp_skips(op, before.bytes);
    return before;
}

static uint16_t track_of(const struct exec_call *call, int worker) {
    const struct exec_request *r = &call->request;
    if (!prog_is_p2p(r->collective))
        return (uint16_t)worker;
    return (uint16_t)(TRACKS_OF_MESSAGES + 2 * (r->root % 20000) + (r->collective == PROG_RECV));
}

/* Notes that the ends of a step carried a message each. */
static void note_messages(struct tracer *tracer, const struct prog *prog, struct fifo_end *const *ends, int first,
                          int count, const struct trace_event *step, enum trace_kind kind) {
    for (int k = first; k < first + count; k++) {
        struct trace_event *e = tracer_next(tracer, TRACER_EXECUTOR);
        *e = *step;
        e->kind = (uint8_t)kind;
        e->peer = prog->peers[k].rank;
        e->lane = (uint8_t)prog->peers[k].lane;
        e->message = ends[k]->position - 1;
    }
}

static void note_step(const struct exec_call *call, const struct interp_worker *w, const struct trace_try *before,
                      const struct prog *prog, struct trace_event *e) {
    struct tracer *tracer = call->chan->tracer;
    const struct prog_step *step = &w->op->steps[w->first_step + before->pc];
    const struct trace_event of_step = *e;
    e->receives = (uint8_t)step->recv_count;
    e->sends = (uint8_t)step->send_count;
    note_messages(tracer, prog, w->op->send_ends, step->send_first, step->send_count, &of_step, TRACE_SENT);
    note_messages(tracer, prog, w->op->recv_ends, step->recv_first, step->recv_count, &of_step, TRACE_RECEIVED);
}

void trace_after(const struct exec_call *call, const struct interp_worker *w, const struct trace_try *before,
                 enum interp_result result) {
    const struct exec_program *program = call->program;
    const int worker = (int)(w - program->workers), channel = exec_channel_of(program, worker);
    const struct prog *prog = program->progs[channel];
    struct exec_wait *wait = &program->waits[worker];
    struct trace_event event = {.begin_ns = before->begin_ns,
                                .end_ns = os_now_ns(),
                                .sequence = call->args.sequence,
                                .call = prog_collective_name(call->request.collective),
                                .bytes = before->bytes,
                                .round = (uint32_t)before->round,
                                .step = (uint16_t)before->pc,
                                .track = track_of(call, worker),
                                .channel = (uint8_t)channel};
    if (result == INTERP_BUSY && wait->since_ns == 0)
        *wait = (struct exec_wait){before->begin_ns, prog->peers[w->blocked_on].rank, w->blocked_sending != 0};
    if (before->skipped || (result != INTERP_STEPPED && result != INTERP_DONE))
        return;
    if (wait->since_ns != 0) {
        struct trace_event *e = tracer_next(call->chan->tracer, TRACER_EXECUTOR);
        *e = event;
        e->kind = TRACE_WAIT;
        e->begin_ns = wait->since_ns;
        e->end_ns = before->begin_ns;
        e->peer = wait->rank;
        e->sends = wait->sending;
        wait->since_ns = 0;
    }
    struct trace_event *e = tracer_next(call->chan->tracer, TRACER_EXECUTOR);
    *e = event;
    e->kind = TRACE_STEP;
    note_step(call, w, before, prog, e);
}
