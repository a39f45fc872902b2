/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a call stands, as text.
 */
#include "kernels/exec.h"

#include <stdio.h>

static void dump_worker(const struct exec_call *call, int k, int fd) {
    const struct exec_program *program = call->program;
    const struct interp_worker *w = &program->workers[k];
    const struct prog *prog = program->prog;
    int channel = k / prog->nworkers;
    if (w->done) {
        dprintf(fd, "  channel %d worker %d: done\n", channel, k % prog->nworkers);
        return;
    }
    const struct fifo_end *end =
        w->blocked_sending ? w->op->send_ends[w->blocked_on] : w->op->recv_ends[w->blocked_on];
    dprintf(fd, "  channel %d worker %d: round %u of %u, step %u of %u, waiting for rank %d's %s", channel,
            k % prog->nworkers, w->round, w->op->geometry.nrounds, w->pc, w->nsteps, prog->peers[w->blocked_on].rank,
            w->blocked_sending ? "credit" : "data");
    if (end != NULL)
        dprintf(fd, " (slot %u: step %llu, tail %llu, head %llu)", fifo_slot(end), (unsigned long long)end->step,
                (unsigned long long)port_load_acquire(end->tail), (unsigned long long)port_load_acquire(end->head));
    dprintf(fd, "\n");
}

void exec_dump(const struct exec_call *call, int fd) {
    static const char *const states[] = {"waiting for an earlier call", "connecting", "running", "done"};
    const struct exec_program *program = call->program;
    dprintf(fd, " %s, call %llu, %s, %s: %s\n", prog_collective_name(call->request.collective), (unsigned long long)call->args.sequence,
            call->args.protocol == INTERP_LL ? "LL" : "Simple", program->source->name, states[call->state]);
    if (call->state == EXEC_CONNECTING)
        for (int k = program->nready; k < program->nconns; k++)
            if (program->conns[k]->state != CONN_READY)
                dprintf(fd, "  channel %d: connection with rank %d is not ready\n", program->conns[k]->channel,
                        program->conns[k]->peer);
    if (call->state == EXEC_RUNNING)
        for (int k = 0; k < (int)call->args.nchannels * program->prog->nworkers; k++)
            dump_worker(call, k, fd);
}
