/* SPDX-License-Identifier: Apache-2.0
 *
 * The host executor's loop: try every worker of every call, let wires make progress, wait when nothing moved. To watch any
 * rank at any step:  (gdb) break interp_try_step if w->pc == 3
 */
#include "kernels/exec.h"

#include "base/err.h"
#include "base/wait.h"
#include "transport/transport.h"

#include <string.h>

/* ---- cached or past the caches ----
 *
 * Where the two CPUs are far apart, storing into lines that the other CPU's cache holds is many times slower than
 * streaming past the caches; where they are near, it is the other way round, and which of both holds can change while a
 * program runs. So each connection watches the speed of its plain sends, streams after a few slow ones in a row, and tries
 * a cached one now and then. It only matters to this end: no other rank need know. */

#define STREAM_MIN_BYTES 2048u
#define JUDGE_MIN_BYTES 8192u
#define SLOW_BYTES_PER_NS 4u
#define SLOW_IN_A_ROW 3u
#define STREAM_SLOTS 128u

static bool end_streams(struct fifo_end *end, uint64_t bytes) {
    if (bytes < STREAM_MIN_BYTES || end->slow_stores < SLOW_IN_A_ROW)
        return false;
    if (++end->streamed < STREAM_SLOTS)
        return true;
    end->streamed = 0;
    end->slow_stores = SLOW_IN_A_ROW - 1; /* try one cached; a slow one brings streaming back */
    return false;
}

static void end_judge(struct fifo_end *end, uint64_t bytes, uint64_t ns) {
    end->slow_stores = bytes < ns * SLOW_BYTES_PER_NS ? end->slow_stores + 1 : 0;
}

static void send_judged(struct interp_worker *w, const struct prog_step *step, int ndst, uint64_t count) {
    uint64_t start_ns = os_now_ns();
    ((reduce_fn)w->op->reduce)(w->dst, ndst, w->src, 1, count, 1, 0);
    uint64_t ns = os_now_ns() - start_ns;
    for (int k = 0; k < step->send_count; k++)
        end_judge(w->op->send_ends[step->send_first + k], count * w->op->elem_bytes * (uint64_t)ndst, ns);
}

static uint32_t stream_mask(struct interp_worker *w, const struct prog_step *step, uint64_t bytes) {
    const struct interp_op *op = w->op;
    uint32_t first_send = step->store_region != STEP_NONE;
    uint32_t mask = first_send && op->stream_stores;
    if (op->protocol != INTERP_SIMPLE)
        return mask;
    for (uint32_t k = 0; k < (uint32_t)step->send_count && first_send + k < 32; k++)
        if (end_streams(op->send_ends[(uint32_t)step->send_first + k], bytes))
            mask |= 1u << (first_send + k);
    return mask;
}

PORT_FN void interp_reduce(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc, uint64_t count) {
    const struct interp_op *op = w->op;
    uint64_t bytes = count * op->elem_bytes;
    uint32_t mask = bytes < STREAM_MIN_BYTES ? 0 : stream_mask(w, step, bytes);
    bool plain_send = step->recv_count == 0 && step->store_region == STEP_NONE && op->protocol == INTERP_SIMPLE;
    if (plain_send && mask == 0 && bytes >= JUDGE_MIN_BYTES)
        send_judged(w, step, ndst, count);
    else
        ((reduce_fn)op->reduce)(w->dst, ndst, w->src, nsrc, count, step->finish ? op->divisor : 1, mask);
}

#include "kernels/interp.h"

/* ---- one call ---- */

#define STEPS_PER_VISIT 64
/* Local results are streamed when a call's buffers cannot stay in the last cache anyway. */
#define STREAM_STORES_BYTES (32u << 20)

static void call_start(struct exec_call *call) {
    struct exec_program *program = call->program;
    const struct exec_args *args = &call->args;
    for (uint32_t channel = 0; channel < args->nchannels; channel++) {
        struct interp_op *op = &program->ops[channel];
        op->geometry =
            geometry_of(args->total_elems, args->block_elems, args->chunk_elems, channel, args->nchannels);
        op->in = args->in;
        op->out = args->out;
        op->elem_bytes = args->elem_bytes;
        op->divisor = args->divisor;
        op->protocol = args->protocol;
        op->signature = args->signature;
        op->sequence = args->sequence;
        op->keep_empty = args->keep_empty;
        op->stream_stores = args->total_elems * args->elem_bytes >= STREAM_STORES_BYTES;
        op->reduce = (const void *)args->reduce;
    }
    call->running = (int)args->nchannels * program->prog->nworkers;
    for (int k = 0; k < call->running; k++) {
        struct interp_worker *w = &program->workers[k];
        w->pc = w->round = w->unpacked = 0;
        w->done = 0;
    }
    call->state = EXEC_RUNNING;
}

static enum collet_result call_connect(struct exec_call *call) {
    struct exec_program *program = call->program;
    for (int k = program->nready; k < program->nconns; k++)
        if (program->conns[k]->state != CONN_READY) {
            enum collet_result result = conn_try(program->conns[k]);
            if (result < 0)
                return result;
        }
    while (program->nready < program->nconns && program->conns[program->nready]->state == CONN_READY)
        program->nready++;
    return program->nready == program->nconns ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

static enum collet_result err_mismatch(const struct exec_call *call, const struct interp_worker *w) {
    const struct prog *prog = call->program->prog;
    const struct fifo_end *end = w->op->recv_ends[w->blocked_on];
    const struct fifo_slot_header *header = &end->headers[fifo_slot(end)];
    const struct prog_step *step = &w->op->steps[w->first_step + w->pc];
    return err_set(COLLET_ERR_MISMATCH,
                   "rank %d called %s (call %llu, %llu bytes in this piece) but rank %d sent %u bytes of another call (its "
                   "call %llu): all ranks must call the same collectives with the same count, type, op and root, and sends "
                   "and receives must have equal byte counts",
                   prog->rank, call->what, (unsigned long long)w->op->sequence,
                   (unsigned long long)interp_count(w->op, step, w->round) * w->op->elem_bytes,
                   prog->peers[w->blocked_on].rank, header->bytes, (unsigned long long)header->sequence);
}

/* Runs a worker until it is blocked, done, or had its turn. */
static enum collet_result worker_visit(struct exec_call *call, struct interp_worker *w, bool *moved) {
    for (int k = 0; k < STEPS_PER_VISIT; k++) {
        enum interp_result result = interp_try_step(w);
        if (result == INTERP_BUSY)
            return COLLET_SUCCESS;
        if (result == INTERP_MISMATCH)
            return err_mismatch(call, w);
        *moved = true;
        if (result == INTERP_DONE) {
            w->done = 1;
            call->running--;
            return COLLET_SUCCESS;
        }
    }
    return COLLET_SUCCESS;
}

static enum collet_result wires_progress(struct exec_program *program, bool *moved) {
    for (int k = 0; k < program->nconns; k++) {
        struct conn *conn = program->conns[k];
        if (conn->transport->progress == NULL)
            continue;
        enum collet_result result = conn->transport->progress(conn);
        if (result < 0)
            return result;
        *moved |= result == COLLET_SUCCESS;
    }
    return COLLET_SUCCESS;
}

static bool wires_idle(const struct exec_program *program) {
    for (int k = 0; k < program->nconns; k++) {
        const struct conn *conn = program->conns[k];
        if (conn->transport->idle != NULL && !conn->transport->idle(conn))
            return false;
    }
    return true;
}

static enum collet_result call_run(struct exec_call *call, bool *moved) {
    struct exec_program *program = call->program;
    int nworkers = (int)call->args.nchannels * program->prog->nworkers;
    for (int k = 0; k < nworkers; k++)
        if (!program->workers[k].done)
            COLLET_TRY(worker_visit(call, &program->workers[k], moved));
    if (program->nremote > 0) {
        COLLET_TRY(wires_progress(program, moved));
        if (call->running == 0 && !wires_idle(program))
            return COLLET_IN_PROGRESS;
    }
    return call->running == 0 ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

static enum collet_result call_try(struct exec_call *call, bool *moved) {
    if (call->state == EXEC_WAITING)
        call->state = EXEC_CONNECTING;
    if (call->state == EXEC_CONNECTING) {
        COLLET_TRY(call_connect(call));
        call_start(call);
        *moved = true;
    }
    COLLET_TRY(call_run(call, moved));
    call->state = EXEC_DONE;
    *moved = true;
    return COLLET_SUCCESS;
}

/* ---- waiting, and what ends it ---- */

/* Data that was sent before a death was noticed may still be on its way through a wire. */
#define DEATH_GRACE_NS 100000000u

/* The ranks a call is blocked on, one after the other: call again with the next index until it returns −1. */
static int blocked_peer(const struct exec_call *call, int *index) {
    const struct exec_program *program = call->program;
    if (call->state == EXEC_CONNECTING) {
        for (; *index < program->nconns; ++*index)
            if (program->conns[*index]->state != CONN_READY)
                return program->conns[(*index)++]->peer;
        return -1;
    }
    int nworkers = (int)call->args.nchannels * program->prog->nworkers;
    for (; *index < nworkers; ++*index)
        if (!program->workers[*index].done)
            return program->prog->peers[program->workers[(*index)++].blocked_on].rank;
    return -1;
}

static enum collet_result check_missing(const struct exec_call *call) {
    struct boot *boot = call->chan->boot;
    int index = 0;
    for (int peer; (peer = blocked_peer(call, &index)) >= 0;) {
        uint64_t since_ns;
        enum peer_state state = boot_peer_state(boot, peer, &since_ns);
        if (state == PEER_ALIVE || os_now_ns() - since_ns < DEATH_GRACE_NS)
            continue;
        const struct peer_info *info = &call->chan->peers[peer];
        return err_set(COLLET_ERR_REMOTE, "rank %d (host %s, pid %d) %s while rank %d waited for it in %s (call %llu)",
                       peer, info->host, info->pid,
                       state == PEER_DEAD ? "died" : "left the communicator (it was destroyed there)",
                       call->chan->rank, call->what, (unsigned long long)call->args.sequence);
    }
    return COLLET_SUCCESS;
}

static enum collet_result err_timeout(const struct exec_call *call, uint64_t idle_ns) {
    char peers[96] = "";
    int index = 0, last = -1;
    for (int peer; (peer = blocked_peer(call, &index)) >= 0;) {
        size_t at = strlen(peers);
        if (peer != last && at + 12 < sizeof(peers))
            snprintf(peers + at, sizeof(peers) - at, "%s%d", at ? ", " : "", last = peer);
    }
    return err_set(COLLET_ERR_TIMEOUT,
                   "rank %d made no progress for %llu s in %s (call %llu), waiting for rank %s: did it make this call? "
                   "(COLLET_TIMEOUT or config.timeout_ms sets the limit)",
                   call->chan->rank, (unsigned long long)(idle_ns / 1000000000u), call->what,
                   (unsigned long long)call->args.sequence, peers);
}

/* Nothing moved in a whole pass: may the call still be waited for? */
static enum collet_result call_check(const struct exec_call *call, const struct waiter *waiter, bool thoroughly) {
    struct boot *boot = call->chan->boot;
    enum collet_result failed = (enum collet_result)__atomic_load_n(boot_failed_word(boot), __ATOMIC_ACQUIRE);
    if (failed != COLLET_SUCCESS)
        return err_adopt(failed, boot_failed_text(boot));
    if (!thoroughly)
        return COLLET_SUCCESS;
    if (boot_missing_count(boot) > 0)
        COLLET_TRY(check_missing(call));
    uint64_t idle_ns = wait_idle_ns(waiter);
    return idle_ns / 1000000u < (uint64_t)call->chan->timeout_ms ? COLLET_SUCCESS : err_timeout(call, idle_ns);
}

static enum collet_result idle(const struct exec_call *calls, int ncalls, struct waiter *waiter) {
    bool thoroughly = wait_pause(waiter);
    for (int k = 0; k < ncalls; k++)
        if (calls[k].state == EXEC_CONNECTING || calls[k].state == EXEC_RUNNING)
            COLLET_TRY(call_check(&calls[k], waiter, thoroughly));
    return COLLET_SUCCESS;
}

/* A call that stops half-way leaves its connections in the middle of a message, so its communicator is over. */
static enum collet_result fail_unfinished(const struct exec_call *calls, int ncalls, enum collet_result result) {
    char text[ERR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", err_last());
    for (int k = 0; k < ncalls; k++)
        if (calls[k].state != EXEC_DONE)
            boot_fail(calls[k].chan->boot, result, text);
    return result;
}

enum collet_result exec_run(struct exec_call *calls, int ncalls) {
    struct waiter waiter = {.spin = calls[0].chan->spin};
    for (int left = ncalls; left > 0;) {
        bool moved = false;
        for (int k = 0; k < ncalls; k++) {
            struct exec_call *call = &calls[k];
            if (call->state == EXEC_DONE || (call->after >= 0 && calls[call->after].state != EXEC_DONE))
                continue;
            enum collet_result result = call_try(call, &moved);
            if (result < 0)
                return fail_unfinished(calls, ncalls, result);
            left -= result == COLLET_SUCCESS;
        }
        if (moved) {
            wait_progressed(&waiter);
            continue;
        }
        enum collet_result result = idle(calls, ncalls, &waiter);
        if (result != COLLET_SUCCESS)
            return fail_unfinished(calls, ncalls, result);
    }
    return COLLET_SUCCESS;
}

/* ---- dump ---- */

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
    dprintf(fd, " %s, call %llu, %s, %s: %s\n", call->what, (unsigned long long)call->args.sequence,
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
