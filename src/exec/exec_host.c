/* SPDX-License-Identifier: Apache-2.0
 *
 * The host executor's loop: try every worker of every call, let wires make progress, wait when nothing moved. To watch any
 * rank at any step:  (gdb) break interp_try_step if w->pc == 3
 */
#include "exec/exec.h"
#include "exec/exec_gpu.h"

#include "base/err.h"
#include "base/line_probe.h"
#include "base/wait.h"
#include "proxy/proxy.h"
#include "transport/transport.h"

/* ---- cached or past the caches ----
 *
 * Where the two CPUs are far apart, storing into lines that the other CPU's cache holds is many times slower than
 * streaming past the caches; where they are near, it is the other way round, and which of both holds can change while a
 * program runs. So a producing end gauges now and then how long such a line takes to come:
 *
 *      consumer's CPU     has read the slot's header ──┐ the line
 *      this CPU           fence, clock, atomic add ◀───┘ clock          near: under 80 ns, far: 120 and more
 *
 * and streams while most of its last gauges were far. It only matters to this end: no other rank need know. */

#define STREAM_MIN_BYTES 2048u
#define GAUGE_SLOTS 32u /* one slot in so many is gauged */

/* The fence: what was stored before must not count. One way and the clock's own time, beside a round trip's two ways. */
static void gauge(struct fifo_end *end) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint64_t start_ns = os_now_ns();
    __atomic_fetch_add(&end->headers[fifo_slot(end)].gauged, 1, __ATOMIC_RELAXED);
    bool far = os_now_ns() - start_ns >= LINE_TRIP_FAR_NS / 2;
    if (far && end->far_lines < FIFO_FAR_LINES)
        end->far_lines++;
    if (!far && end->far_lines > 0)
        end->far_lines--;
}

static bool end_streams(struct fifo_end *end, uint64_t bytes) {
    if (bytes < STREAM_MIN_BYTES)
        return false;
    if (end->nt_stores < 0 && end->step % GAUGE_SLOTS == 0)
        gauge(end);
    return fifo_streams(end);
}

static uint32_t stream_mask(struct interp_worker *w, const struct prog_step *step, uint64_t bytes) {
    const struct interp_op *op = w->op;
    uint32_t first_send = step->store_region != STEP_NONE;
    uint32_t mask = first_send && op->stream_stores;
    if (op->protocol != PROTOCOL_SIMPLE)
        return mask;
    for (uint32_t k = 0; k < (uint32_t)step->send_count && first_send + k < 32; k++)
        if (end_streams(op->send_ends[(uint32_t)step->send_first + k], bytes))
            mask |= 1u << (first_send + k);
    return mask;
}

PORT_FN void interp_reduce(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc, uint64_t count) {
    const struct interp_op *op = w->op;
    uint64_t bytes = count * op->elem_bytes;
    uint32_t divisor = step->finish ? op->divisor : 1;
    uint32_t mask = bytes < STREAM_MIN_BYTES ? 0 : stream_mask(w, step, bytes);
    ((reduce_fn)op->reduce)(w->dst, ndst, w->src, nsrc, count, divisor, mask);
}

#include "kernels/interp.h"

/* ---- one call ---- */

#define STEPS_PER_VISIT 64

/* Local results are streamed when a call's two buffers cannot stay in this rank's part of the last cache anyway.
 * Calls of one kind tend to follow each other: what they have in common is filled in once. */
static void fill_ops(struct exec_program *program, const struct exec_args *args, const struct chan *chan) {
    bool leaves_cache = 2 * args->total_elems * args->elem_bytes >= chan->cache_bytes;
    for (uint32_t channel = 0; channel < args->nchannels; channel++) {
        struct interp_op *op = &program->ops[channel];
        op->geometry = geometry_of(args->total_elems, args->block_elems, args->chunk_elems, channel, args->nchannels);
        op->elem_bytes = args->elem_bytes;
        op->divisor = args->divisor;
        op->protocol = args->protocol;
        op->signature = args->signature;
        op->keep_empty = args->keep_empty;
        op->stream_stores = leaves_cache;
        op->reduce = (const void *)args->reduce;
    }
    program->ops_id = args->id;
}

static void call_start(struct exec_call *call) {
    struct exec_program *program = call->program;
    const struct exec_args *args = &call->args;
    if (program->ops_id != args->id)
        fill_ops(program, args, call->chan);
    for (uint32_t channel = 0; channel < args->nchannels; channel++) {
        struct interp_op *op = &program->ops[channel];
        op->in = args->in;
        op->out = args->out;
        op->sequence = args->sequence;
    }
    call->running = program->first_worker[args->nchannels];
    for (int k = 0; k < call->running; k++) {
        struct interp_worker *w = &program->workers[k];
        w->pc = w->round = w->unpacked = 0;
        w->done = 0;
    }
    call->state = EXEC_RUNNING;
}

static enum collet_result program_connect(struct exec_program *program, bool *moved) {
    for (int k = program->nready; k < program->nconns; k++)
        if (program->conns[k]->state != CONN_READY) {
            enum collet_result result = conn_try(program->conns[k]);
            if (result < 0)
                return result;
            *moved |= result == COLLET_SUCCESS;
        }
    while (program->nready < program->nconns && program->conns[program->nready]->state == CONN_READY)
        program->nready++;
    return program->nready == program->nconns ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

static enum collet_result call_connect(struct exec_call *call, bool *moved) {
    if (call->program->nready == call->program->nconns)
        return COLLET_SUCCESS;
    proxy_pause(call->chan);
    enum collet_result result = program_connect(call->program, moved);
    proxy_resume(call->chan);
    return result;
}

/* Runs a worker until it is blocked, done, or had its turn. */
static enum collet_result worker_visit(struct exec_call *call, struct interp_worker *w, bool *moved) {
    for (int k = 0; k < STEPS_PER_VISIT; k++) {
        enum interp_result result = interp_try_step(w);
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
    for (int k = 0; k < program->nconns; k++)
        if (!conn_is_idle(program->conns[k]))
            return false;
    return true;
}

static enum collet_result call_run(struct exec_call *call, bool *moved) {
    struct exec_program *program = call->program;
    int nworkers = program->first_worker[call->args.nchannels];
    for (int k = 0; k < nworkers; k++)
        if (!program->workers[k].done)
            COLLET_TRY(worker_visit(call, &program->workers[k], moved));
    bool carries = program->nremote > 0 && call->chan->proxy == NULL;
    if (call->running == 0 && (!carries || wires_idle(program)))
        return COLLET_SUCCESS;
    if (carries)
        COLLET_TRY(wires_progress(program, moved));
    return COLLET_IN_PROGRESS;
}

static enum collet_result call_try(struct exec_call *call, bool *moved) {
    if (call->state == EXEC_WAITING)
        call->state = EXEC_CONNECTING;
    if (call->state == EXEC_CONNECTING) {
        COLLET_TRY(call_connect(call, moved));
        call_start(call);
        *moved = true;
    }
    COLLET_TRY(call_run(call, moved));
    call->state = EXEC_DONE;
    *moved = true;
    return COLLET_SUCCESS;
}

/* ---- all calls ---- */

/* A call that goes on and on must notice a failure elsewhere, or an abort, too. */
#define LOOK_EVERY_TURNS 64

static enum collet_result look(struct exec_call *calls, int ncalls, uint64_t idle_ns) {
    for (int k = 0; k < ncalls; k++)
        if (calls[k].state == EXEC_CONNECTING || calls[k].state == EXEC_RUNNING)
            COLLET_TRY(exec_check_wait(&calls[k], idle_ns));
    return COLLET_SUCCESS;
}

/* Another rank may be unable to finish a call because of a connection that the calls here do not use (chan/attend.c). */
#define ATTEND_AFTER_NS 1000000u

static enum collet_result idle(struct exec_call *calls, int ncalls, struct waiter *waiter) {
    if (!wait_pause(waiter))
        return COLLET_SUCCESS;
    uint64_t idle_ns = wait_idle_ns(waiter);
    if (idle_ns > ATTEND_AFTER_NS) {
        for (int k = 0; k < ncalls; k++)
            chan_attend(calls[k].chan);
        chan_attend_others();
    }
    return look(calls, ncalls, idle_ns);
}

/* A call that stops half-way leaves its connections in the middle of a message, so its communicator is over. */
static enum collet_result fail_unfinished(const struct exec_call *calls, int ncalls, enum collet_result result) {
    char text[ERR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", err_last());
    for (int k = 0; k < ncalls; k++)
        if (calls[k].state != EXEC_DONE)
            boot_fail(calls[k].chan->owner.boot, result, text);
    return result;
}

static enum collet_result connect_all(struct exec_call *calls, int ncalls, bool *moved, int *left) {
    *left = 0;
    for (int k = 0; k < ncalls; k++) {
        struct exec_call *call = &calls[k];
        if (call->chan->owner.gpu == NULL || call->state == EXEC_RUNNING)
            continue;
        call->state = EXEC_CONNECTING;
        enum collet_result result = call_connect(call, moved);
        if (result == COLLET_SUCCESS)
            result = exec_gpu_load(call);
        if (result == COLLET_SUCCESS)
            result = exec_gpu_meet(call, moved);
        if (result < 0)
            return fail_unfinished(calls, ncalls, exec_explain(call, result));
        if (result == COLLET_SUCCESS)
            call->state = EXEC_RUNNING;
        *left += result != COLLET_SUCCESS;
    }
    return COLLET_SUCCESS;
}

enum collet_result exec_connect(struct exec_call *calls, int ncalls) {
    struct waiter waiter = {.spin = calls[0].chan->spin};
    for (int left = 1; left > 0;) {
        bool moved = false;
        COLLET_TRY(connect_all(calls, ncalls, &moved, &left));
        if (moved)
            wait_progressed(&waiter);
        enum collet_result result = moved || left == 0 ? COLLET_SUCCESS : idle(calls, ncalls, &waiter);
        if (result != COLLET_SUCCESS)
            return fail_unfinished(calls, ncalls, result);
    }
    return COLLET_SUCCESS;
}

static enum collet_result run(struct exec_call *calls, int ncalls) {
    struct waiter waiter = {.spin = calls[0].chan->spin, .yield_ns = calls[0].chan->yield_ns};
    uint32_t turns = 0;
    int left = 0;
    for (int k = 0; k < ncalls; k++)
        left += calls[k].state != EXEC_DONE;
    while (left > 0) {
        bool moved = false;
        for (int k = 0; k < ncalls; k++) {
            struct exec_call *call = &calls[k];
            if (call->state == EXEC_DONE || (call->after >= 0 && calls[call->after].state != EXEC_DONE))
                continue;
            enum collet_result result = call_try(call, &moved);
            if (result < 0)
                return fail_unfinished(calls, ncalls, exec_explain(call, result));
            left -= result == COLLET_SUCCESS;
        }
        if (moved)
            wait_progressed(&waiter);
        if (moved && ++turns % LOOK_EVERY_TURNS != 0)
            continue;
        enum collet_result result = moved ? look(calls, ncalls, 0) : idle(calls, ncalls, &waiter);
        if (result != COLLET_SUCCESS)
            return fail_unfinished(calls, ncalls, result);
    }
    return COLLET_SUCCESS;
}

/* Calls of GPU communicators are in their streams already. */
static void for_host_calls(struct exec_call *calls, int ncalls, void (*tell)(struct chan *chan)) {
    for (int k = 0; k < ncalls; k++)
        if (calls[k].chan->owner.gpu == NULL)
            tell(calls[k].chan);
}

enum collet_result exec_run(struct exec_call *calls, int ncalls) {
    for_host_calls(calls, ncalls, proxy_hold);
    enum collet_result result = run(calls, ncalls);
    for_host_calls(calls, ncalls, proxy_release);
    return result;
}
