/* SPDX-License-Identifier: Apache-2.0
 *
 * What a traced worker notes around each try of a step (layers/observe/tracer.h). Only the traced copies of exec_worker_visit() do.
 *
 *      visit        try: BUSY │ … │ visit        try: STEPPED        try: STEPPED      a reading of the counter at each mark: when
 *      ▲                            ▲                        ▲                   ▲     the visit begins, and behind a step that was done
 *                   └─ since        └─ begin                 └─ end, begin       └─ end
 *
 * A try that is BUSY reads nothing: the wait begins where the last reading was.
 */
#include "layers/observe/tracer.h"

#include "base/err.h"

static uint16_t track_of(const struct exec_program *program, int worker) {
    const struct prog *prog = program->progs[0];
    if (!prog_is_p2p(prog->collective))
        return (uint16_t)worker;
    return (uint16_t)(TRACER_MESSAGES + 2 * (prog->peers[0].rank % 20000) + (prog->collective == PROG_RECV));
}

/* How many messages of a round go through a step's connection before it: others of its worker do. */
static uint32_t messages_before(const struct trace_worker *worker, uint32_t step, int receiving,
                                const struct prog_peer *peer) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < step; k++) {
        const struct trace_step *s = &worker->steps[k];
        const struct trace_message *message = &worker->messages[s->first_message + (receiving ? 0 : s->receives)];
        for (uint32_t m = 0; m < (receiving ? s->receives : s->sends); m++)
            count += message[m].rank == peer->rank && message[m].lane == peer->lane;
    }
    return count;
}

static void describe_step(struct trace_worker *worker, uint32_t step, const struct prog *prog,
                          const struct prog_step *text, uint32_t *nmessages) {
    worker->steps[step] = (struct trace_step){*nmessages, (uint32_t)text->recv_count, (uint32_t)text->send_count,
                                              (uint32_t)text->recv_first, (uint32_t)text->send_first};
    for (int k = 0; k < text->recv_count + text->send_count; k++) {
        const bool receiving = k < text->recv_count;
        const int index = receiving ? text->recv_first + k : text->send_first + k - text->recv_count;
        const struct prog_peer *peer = &prog->peers[index];
        worker->messages[(*nmessages)++] =
            (struct trace_message){peer->rank, peer->lane, messages_before(worker, step, receiving, peer)};
    }
}

static enum collet_result describe_worker(struct exec_program *program, int index, struct tracer *tracer) {
    const int channel = exec_channel_of(program, index);
    const struct prog *prog = program->progs[channel];
    struct interp_worker *w = &program->workers[index];
    const struct prog_step *steps = &prog->steps[w->first_step];
    size_t total = 0;
    uint32_t nmessages = 0;
    for (uint32_t k = 0; k < w->nsteps; k++)
        total += (size_t)(steps[k].recv_count + steps[k].send_count);
    struct trace_worker *worker = tracer_add_worker(tracer, w->nsteps, total);
    if (worker == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to trace %u steps", w->nsteps);
    worker->call = prog_collective_name(prog->collective);
    worker->track = track_of(program, index);
    worker->channel = (uint8_t)channel;
    for (uint32_t k = 0; k < w->nsteps; k++)
        describe_step(worker, k, prog, &steps[k], &nmessages);
    w->trace = worker;
    return COLLET_SUCCESS;
}

enum collet_result exec_trace_bind(struct exec_program *program, struct tracer *tracer) {
    const int nworkers = program->first_worker[program->nchannels];
    for (int k = 0; k < nworkers; k++)
        COLLET_TRY(describe_worker(program, k, tracer));
    return COLLET_SUCCESS;
}

uint64_t exec_trace(const struct exec_call *call, const struct interp_worker *w, const struct interp_try *tried,
                    enum interp_result result, uint64_t now) {
    struct trace_worker *worker = w->trace;
    if ((result != INTERP_STEPPED && result != INTERP_DONE) || interp_skips(w->op, tried->bytes))
        return now;
    const uint64_t since = worker->wait.since;
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
        worker->wait.since = 0;
    }
    return event->end = os_ticks();
}
