/* SPDX-License-Identifier: Apache-2.0
 *
 * One try of a call by the host executor: every worker of it, then its wires. To watch any rank at any step:
 *    (gdb) break interp_try_step if w->pc == 3
 */
#include "exec/visit.h"

#include "base/err.h"
#include "transport/transport.h"

/* ---- a step's reduction ---- */

/* Returns a bit for each place that is written past the caches. Bit 0 is the local place, if there is one. Slots follow. */
static uint32_t stream_mask(const struct interp_op *op, const struct prog_step *step) {
    int first_slot = step->store_region != STEP_NONE;
    uint32_t mask = first_slot && op->stream_stores;
    if (proto_has_lines(op->args.protocol)) /* lines are filled later, by interp_finish() */
        return mask;
    for (int k = 0; k < step->send_count && first_slot + k < 32; k++)
        mask |= (uint32_t)exec_end_streams(op->send_ends[step->send_first + k]) << (first_slot + k);
    return mask;
}

static void exec_reduce(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc, uint64_t count) {
    const bool is_short = count * w->op->args.elem_bytes < STREAM_MIN_BYTES;
    reduce_host_step(w, step, ndst, nsrc, count, is_short ? 0 : stream_mask(w->op, step));
}

/* ---- one call ---- */

/* Sets the geometry of a call whose blocks have their own lengths. The longest block decides the number of rounds. */
static void fill_extents(struct interp_op *op, const struct prog *prog, const struct exec_extents *extents,
                         uint32_t channel) {
    uint64_t longest = 0;
    for (int region = STEP_IN; region <= STEP_OUT; region++) {
        op->extents[region] = extents->of[region];
        for (int block = 0; block < prog_region_blocks(prog, (enum step_region)region); block++)
            if (extents->of[region][block].count > longest)
                longest = extents->of[region][block].count;
    }
    op->geometry = geometry_of_extents(longest, op->args.chunk_elems, channel, op->args.nchannels);
}

/* Of small calls, only one in COLLET_TRACE_EVERY is traced (exec_leaves_out_trace()). The call's number decides which, so all ranks trace
 * the same calls. */
#define TRACE_SMALL_BYTES 4096u

/* A call is traced if its number has none of these bits. A mask can only choose one call in a power of two. But a division at each visit
 * would take longer than a step of 8 bytes. */
static uint32_t trace_mask_of(const struct exec_call *call, uint64_t bytes) {
    const uint32_t every = (uint32_t)call->chan->owner.config->trace_every;
    uint32_t mask = 0;
    if (bytes >= TRACE_SMALL_BYTES || call->request.extents != NULL || prog_is_p2p(call->request.collective))
        return mask;
    while (mask + 1 < every)
        mask = 2 * mask + 1;
    return mask;
}

/* Computes what successive calls of one kind have in common, once for all of them. Local results are written past the caches if the
 * two buffers of a call are larger than this rank's share of the last-level cache. */
static void fill_ops(struct exec_program *program, const struct exec_call *call) {
    const struct work_args *args = &call->args;
    uint64_t bytes = work_elems(args, (uint32_t)call->chan->owner.nranks) * args->elem_bytes;
    bool leaves_cache = 2 * bytes >= call->chan->cache_bytes;
    for (uint32_t channel = 0; channel < args->nchannels; channel++) {
        struct interp_op *op = &program->ops[channel];
        op->geometry = work_geometry(args, channel);
        op->args = *args;
        if (call->request.extents != NULL)
            fill_extents(op, program->progs[channel], call->request.extents, channel);
        op->stream_stores = leaves_cache;
        op->reduce = (const void *)call->reduce;
        op->multiply = (const void *)reduce_host_multiply(call->request.type);
    }
    program->ops_id = call->args_id;
    program->trace_mask = trace_mask_of(call, bytes);
    exec_visit *direct = exec_direct_visit(call);
    program->visit = direct != NULL ? direct : (*program->visits)[args->protocol];
}

static void exec_call_start(struct exec_call *call) {
    struct exec_program *program = call->program;
    if (program->ops_id != call->args_id || call->request.extents != NULL)
        fill_ops(program, call);
    for (uint32_t channel = 0; channel < call->args.nchannels; channel++) {
        struct work_args *args = &program->ops[channel].args; /* Calls with equal args_id differ only in these */
        args->in = call->args.in;
        args->out = call->args.out;
        args->sequence = call->args.sequence;
        args->scaling = call->args.scaling;
        args->factor = interp_factor(&call->args);
    }
    call->running = program->first_worker[call->args.nchannels];
    for (int k = 0; k < call->running; k++) {
        struct interp_worker *w = &program->workers[k];
        w->pc = w->arrived = w->done = 0;
        w->round = 0;
    }
    if (program->pair_ops != NULL)
        exec_pairs_start(call);
    call->visit = program->visit;
    call->state = EXEC_RUNNING;
}

/* There is one function per combination. So ranks without tracing lose no time by tracing, and programs without wires none by wires. A
 * traced rank leaves some calls out. */
#define VISIT(name, everywhere, traced)                                                                                \
    __attribute__((flatten, noinline)) static enum collet_result exec_visit_##name(                                    \
        struct exec_call *call, struct interp_worker *w, bool *moved) {                                                \
        return exec_worker_visit(call, w, moved, interp_try_step, exec_reduce, everywhere, traced);                    \
    }
#define VISITS(name, everywhere)                                                                                       \
    VISIT(name, everywhere, false)                                                                                     \
    VISIT(traced_##name, everywhere, true)                                                                             \
    static enum collet_result exec_visit_some_##name(struct exec_call *call, struct interp_worker *w, bool *moved) {   \
        return exec_leaves_out_trace(call) ? exec_visit_##name(call, w, moved)                                         \
                                           : exec_visit_traced_##name(call, w, moved);                                 \
    }
#define VISITS_OF(NAME, name, ...) VISITS(name, PROTOCOL_##NAME)
PROTOCOLS(VISITS_OF)
VISITS(each_end, PROTO_EACH_END)

#define PLAIN(NAME, name, ...) [PROTOCOL_##NAME] = exec_visit_##name,
#define TRACED(NAME, name, ...) [PROTOCOL_##NAME] = exec_visit_some_##name,
#define WIRES(NAME, name, ...) [PROTOCOL_##NAME] = exec_visit_each_end,
#define TRACED_WIRES(NAME, name, ...) [PROTOCOL_##NAME] = exec_visit_some_each_end,

const exec_visits *exec_visits_of(bool has_wires, bool traced) {
    static exec_visits visits[2][2] = {{{PROTOCOLS(PLAIN)}, {PROTOCOLS(TRACED)}},
                                       {{PROTOCOLS(WIRES)}, {PROTOCOLS(TRACED_WIRES)}}};
    return &visits[has_wires][traced];
}

static enum collet_result wires_progress(const struct exec_call *call, bool *moved) {
    const struct exec_program *program = call->program;
    for (int k = 0; k < program->nconns; k++) {
        struct conn *conn = program->conns[k];
        if (conn->transport->progress == NULL)
            continue;
        enum collet_result result = recorder_carry(call->chan->recorder, RECORDER_DRIVER, conn);
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

enum collet_result exec_call_try(struct exec_call *call, bool *moved) {
    struct exec_program *program = call->program;
    if (call->state == EXEC_CONNECTING) {
        if (program->nready < program->nconns)
            COLLET_TRY(exec_connect_call(call, moved));
        exec_call_start(call);
        *moved = true;
    }
    if (call->observed != NULL)
        recorder_tell(call->chan->recorder, CALL_GOES_ON, NULL, call);
    int nworkers = program->first_worker[call->args.nchannels];
    for (int k = 0; k < nworkers; k++)
        if (!program->workers[k].done)
            COLLET_TRY(call->visit(call, &program->workers[k], moved));
    bool carries = program->nremote > 0 && call->chan->proxy == NULL;
    if (call->running == 0 && (!carries || wires_idle(program))) {
        call->state = EXEC_IDLE;
        *moved = true;
        return COLLET_SUCCESS;
    }
    if (carries)
        COLLET_TRY(wires_progress(call, moved));
    return COLLET_IN_PROGRESS;
}
