/* SPDX-License-Identifier: Apache-2.0
 *
 * One try of a call by the host executor: every worker of it, then its wires. To watch any rank at any step:
 *    (gdb) break interp_try_step if w->pc == 3
 */
#include "exec/exec.h"

#include "base/err.h"
#include "seams/observe.h"
#include "kernels/interp.h"
#include "transport/transport.h"

/* ---- a step's reduction ---- */

#define STREAM_MIN_BYTES 2048u
#define GAUGE_SLOTS 32u /* The producer gauges one slot in this many (fifo_place.h) */

static bool end_streams(struct fifo_end *end) {
    if (end->place.nt_stores < 0 && end->position % GAUGE_SLOTS == 0)
        fifo_place_gauge(&end->place, &fifo_header(end)->place);
    return fifo_place_streams(&end->place);
}

/* Returns a bit for each place that is written past the caches. Bit 0 is the local place, if there is one. A lent payload lies there, too.
 * Slots follow. A result that the operating system copies on at once stays in the caches. */
static uint32_t stream_mask(struct interp_worker *w, const struct prog_step *step) {
    const struct interp_op *op = w->op;
    int first_slot = step->store_region != STEP_NONE;
    uint32_t mask = first_slot && op->stream_stores, carried = 0;
    if (proto_has_lines(op->args.protocol)) /* lines are filled later, by proto_put() */
        return mask;
    for (int k = 0, place = first_slot; k < step->send_count && place < 32; k++) {
        struct fifo_end *end = op->send_ends[step->send_first + k];
        if (end->loans.lending == 0)
            mask |= (uint32_t)end_streams(end) << place++;
        else if (end->loans.lending == LOAN_CARRIED)
            carried = 1; /* The operating system reads the local place */
        else if (step->lends == STEP_LENDS_RESULT && end->loans.lending != LOAN_LANDED)
            mask |= (uint32_t)end_streams(end);
    }
    return mask & ~carried;
}

static void exec_reduce(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc, uint64_t count) {
    const uint64_t bytes = count * w->op->args.elem_bytes;
    uint32_t mask = 0;
    bool lands = w->op->lends_from - 1 < bytes && step->lends == STEP_LENDS_RESULT && nsrc > 1;
    if (lands)
        ndst = exec_land(w, step, ndst, (uint32_t)bytes, &mask);
    mask |= bytes < STREAM_MIN_BYTES ? 0 : stream_mask(w, step);
    reduce_host_step(w, step, ndst, nsrc, count, mask);
    if (lands)
        exec_carry(w, step, (uint32_t)bytes);
}

/* ---- one call ---- */

#define STEPS_PER_VISIT 64

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

/* Tracing adds a few per cent to the time of a call of 8 bytes. So after the first calls, only one small call in COLLET_TRACE_EVERY is
 * traced. The call's number decides which, so all ranks trace the same calls. */
#define TRACE_SMALL_BYTES 4096u
#define TRACE_FIRST_CALLS 256u

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

static bool trace_leaves_out(const struct exec_call *call) {
    const uint64_t sequence = call->args.sequence;
    return sequence > TRACE_FIRST_CALLS && ((uint32_t)sequence & call->program->trace_mask) != 0;
}

/* Computes what successive calls of one kind have in common, once for all of them. Local results are written past the caches if the
 * two buffers of a call are larger than this rank's share of the last-level cache. */
static void fill_ops(struct exec_program *program, const struct exec_call *call) {
    const struct work_args *args = &call->args;
    struct exec_loans *loans = &program->loans;
    uint64_t bytes = work_elems(args, (uint32_t)call->chan->owner.nranks) * args->elem_bytes;
    bool leaves_cache = 2 * bytes >= call->chan->cache_bytes;
    /* No slot of the call carries more than `whole` bytes. */
    uint64_t whole = call->request.extents != NULL ? UINT64_MAX : bytes;
    *loans = exec_loans_of(program);
    if (whole < loans->lends_from)
        loans->lends_from = 0;
    /* LL and LL128 write no headers, and so lend nothing. */
    if (whole < loans->borrows_from || args->protocol != PROTOCOL_SIMPLE)
        loans->borrows_from = loans->lands_from = 0;
    for (uint32_t channel = 0; channel < args->nchannels; channel++) {
        struct interp_op *op = &program->ops[channel];
        op->geometry = work_geometry(args, channel);
        op->args = *args;
        if (call->request.extents != NULL)
            fill_extents(op, program->progs[channel], call->request.extents, channel);
        op->lends[STEP_IN] = op->lends[STEP_OUT] = 1;
        op->root_reduces = prog_root_reduces(program->progs[0]->collective);
        op->borrows_from = loans->borrows_from;
        op->receives = loans->receives;
        op->stream_stores = leaves_cache;
        op->reduce = (const void *)call->reduce;
        op->multiply = (const void *)reduce_host_multiply(call->request.type);
    }
    program->ops_id = call->args_id;
    program->trace_mask = trace_mask_of(call, bytes);
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
        struct interp_op *op = &program->ops[channel];
        op->lends_from = op->lands_from = op->apart = 0;
    }
    if (program->loans.lends_from != 0 || program->loans.lands_from != 0)
        exec_lend(call);
    call->running = program->first_worker[call->args.nchannels];
    for (int k = 0; k < call->running; k++) {
        struct interp_worker *w = &program->workers[k];
        w->pc = w->said_pc = w->arrived = w->lent = 0;
        w->round = w->said_round = 0;
        w->done = 0;
    }
    if (program->pair_ops != NULL)
        exec_pairs_start(call);
    for (int k = 0; program->loans.lands_from > 0 && k < call->running; k++)
        if (program->workers[k].op->apart && program->workers[k].op->lands_from > 0)
            exec_announce(&program->workers[k]);
    call->state = EXEC_RUNNING;
}

/* everywhere: see proto_at(). traced: the visit records steps in the flight recorder. */
static inline enum collet_result exec_worker_visit(struct exec_call *call, struct interp_worker *w, bool *moved,
                                                   uint32_t everywhere, bool traced) {
    uint64_t now = traced ? os_ticks() : 0;
    for (int k = 0; k < STEPS_PER_VISIT; k++) {
        const struct interp_try next = interp_try_of(w);
        enum interp_result result = interp_try_step(w, &next, exec_reduce, exec_borrow, everywhere);
        if (traced && result != INTERP_BUSY)
            now = recorder_step(call, w, &next, result, now);
        else if (traced && w->waits_since == 0)
            w->waits_since = now;
        if (result == INTERP_BUSY) {
            if (!proto_has_lines(everywhere) && w->op->lands_from > 0)
                exec_announce(w);
            return COLLET_SUCCESS;
        }
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

/* There is one function per combination. So ranks without tracing lose no time by tracing, and programs without wires none by wires. A
 * traced rank leaves some calls out. */
#define VISIT(name, everywhere, traced)                                                                                \
    __attribute__((flatten, noinline)) static enum collet_result exec_visit_##name(                                    \
        struct exec_call *call, struct interp_worker *w, bool *moved) {                                                \
        return exec_worker_visit(call, w, moved, everywhere, traced);                                                  \
    }
#define VISITS(name, everywhere)                                                                                       \
    VISIT(name, everywhere, false)                                                                                     \
    VISIT(traced_##name, everywhere, true)                                                                             \
    static enum collet_result exec_visit_some_##name(struct exec_call *call, struct interp_worker *w, bool *moved) {   \
        return trace_leaves_out(call) ? exec_visit_##name(call, w, moved) : exec_visit_traced_##name(call, w, moved);  \
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
    exec_visit *visit = (*program->visits)[call->args.protocol];
    for (int k = 0; k < nworkers; k++)
        if (!program->workers[k].done)
            COLLET_TRY(visit(call, &program->workers[k], moved));
    bool carries = program->nremote > 0 && call->chan->proxy == NULL;
    bool lends = program->ops[0].lends_from != 0 && (call->running == 0 || !*moved) && exec_has_lent(program, nworkers);
    if (call->running == 0 && (!(carries || lends) || wires_idle(program))) {
        call->state = EXEC_IDLE;
        *moved = true;
        return COLLET_SUCCESS;
    }
    if (lends && !*moved)
        exec_help(program, moved);
    if (carries)
        COLLET_TRY(wires_progress(call, moved));
    return COLLET_IN_PROGRESS;
}
