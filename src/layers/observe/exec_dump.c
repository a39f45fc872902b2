/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a call stands, as text. It may be running in another thread: plain fields are read as they are, without any
 * synchronisation, because a call must not pay for being looked at; each is a small integer, and the picture may be a
 * moment old. Thread sanitizers are told so.
 */
#include "layers/observe/journal.h"

#include <stdio.h>

#define READS_RACILY __attribute__((no_sanitize("thread")))

READS_RACILY static void dump_worker(const struct exec_program *program, int channel, int worker, FILE *out) {
    const struct interp_worker *w = &program->workers[program->first_worker[channel] + worker];
    const struct prog *prog = program->progs[channel];
    if (w->done) {
        fprintf(out, "  channel %d worker %d: done\n", channel, worker);
        return;
    }
    if (prog->npeers == 0) {
        fprintf(out, "  channel %d worker %d: copying\n", channel, worker);
        return;
    }
    const struct fifo_end *end = w->blocked_sending ? w->op->send_ends[w->blocked_on] : w->op->recv_ends[w->blocked_on];
    fprintf(out, "  channel %d worker %d: round %llu of %llu, step %u of %u, waiting for rank %d's %s", channel, worker,
            (unsigned long long)w->round, (unsigned long long)w->op->geometry.nrounds, w->pc, w->nsteps,
            prog->peers[w->blocked_on].rank, w->blocked_sending ? "credit" : "data");
    if (end != NULL)
        fprintf(out, " (slot %u: position %llu, tail %llu, head %llu)", (uint32_t)end->position & (end->nslots - 1),
                (unsigned long long)end->position, (unsigned long long)*end->tail, (unsigned long long)*end->head);
    fprintf(out, "\n");
}

/* Channels that both the call and its program have: the one may be newer than the other. */
READS_RACILY static int channels_of(const struct exec_call *call) {
    const int most = call->program->nchannels;
    return (int)call->args.nchannels < most ? (int)call->args.nchannels : most;
}

READS_RACILY int exec_waits_for(const struct exec_call *call, bool *sending) {
    const struct exec_program *program = call->program;
    if (program == NULL || call->state == EXEC_IDLE || call->chan->owner.gpu != NULL)
        return -1;
    for (int k = program->nready; call->state == EXEC_CONNECTING && k < program->nconns; k++)
        if (program->conns[k]->state != CONN_READY)
            return program->conns[k]->peer;
    const int nworkers = program->first_worker[channels_of(call)];
    for (int k = 0; call->state == EXEC_RUNNING && k < nworkers; k++) {
        const struct interp_worker *w = &program->workers[k];
        const struct prog *prog = program->progs[exec_channel_of(program, k)];
        *sending = w->blocked_sending != 0;
        if (!w->done && (int)w->blocked_on < prog->npeers)
            return prog->peers[w->blocked_on].rank;
    }
    return -1;
}

READS_RACILY void exec_dump(const struct exec_call *call, FILE *out) {
    static const char *const states[] = {"done", "connecting", "running"};
    const struct exec_program *program = call->program;
    const int nchannels = channels_of(call);
    fprintf(out, " %s, call %llu, %s, %s: %s\n", prog_collective_name(call->request.collective),
            (unsigned long long)call->args.sequence, protocol_names[call->args.protocol], program->source->name,
            states[call->state]);
    if (call->chan->owner.gpu != NULL && call->state != EXEC_CONNECTING) /* what it does is known to the GPU alone */
        return;
    if (call->state == EXEC_CONNECTING && !call->request.by_copies)
        for (int k = program->nready; k < program->nconns; k++)
            if (program->conns[k]->state != CONN_READY)
                fprintf(out, "  channel %d: connection with rank %d is not ready\n", program->conns[k]->channel,
                        program->conns[k]->peer);
    for (int channel = 0; call->state == EXEC_RUNNING && channel < nchannels; channel++)
        for (int worker = 0; worker < program->progs[channel]->nworkers; worker++)
            dump_worker(program, channel, worker, out);
}
