/* SPDX-License-Identifier: Apache-2.0
 *
 * Binds programs, one per channel, to connections: each entry of the peer table gets its connection ends, each worker its state and its
 * scratch.
 */
#include "exec/exec.h"

#include "base/err.h"
#include "base/memory.h"
#include "seams/observe.h"
#include "seams/proxy.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

struct step_extent {
    int32_t recvs, sends, locals; /* Maxima over all steps */
};

static struct step_extent extent_of(const struct prog *prog) {
    struct step_extent extent = {0, 0, 0};
    for (int k = 0; k < prog->nsteps; k++) {
        const struct prog_step *step = &prog->steps[k];
        extent.recvs = step->recv_count > extent.recvs ? step->recv_count : extent.recvs;
        extent.sends = step->send_count > extent.sends ? step->send_count : extent.sends;
        extent.locals = step->locals_count > extent.locals ? step->locals_count : extent.locals;
    }
    return extent;
}

static enum collet_result bind_peer(struct exec_program *program, struct chan *chan, int channel, int peer,
                                    enum conn_side side, struct fifo_end **end_p) {
    const struct prog_peer *entry = &program->progs[channel]->peers[peer];
    struct conn *conn;
    if (*end_p != NULL)
        return COLLET_SUCCESS;
    int lane = conn_lane(&chan->owner, program->source->connects, entry->lane);
    COLLET_TRY(conn_get(chan, entry->rank, channel, lane, side, &conn));
    *end_p = conn_end(conn);
    for (int k = 0; k < program->nconns; k++)
        if (program->conns[k] == conn)
            return COLLET_SUCCESS;
    program->conns[program->nconns++] = conn;
    program->nremote += conn->transport->progress != NULL;
    return COLLET_SUCCESS;
}

/* Each block of TMP has room for one piece of the largest slot. The room is a multiple of this. */
#define TMP_ALIGN_BYTES 64u

/* Computes struct interp_memory for a program, without allocating TMP. */
static struct interp_memory exec_memory_of(const struct prog *prog, const struct fifo_layout *layout) {
    uint32_t most =
        layout->sizes.long_bytes > layout->sizes.short_bytes ? layout->sizes.long_bytes : layout->sizes.short_bytes;
    struct interp_memory memory = {.tmp_stride = most / (uint32_t)prog->longest_run};
    memory.tmp_stride = (memory.tmp_stride + TMP_ALIGN_BYTES - 1) / TMP_ALIGN_BYTES * TMP_ALIGN_BYTES;
    for (int region = STEP_IN; region < STEP_REGIONS; region++)
        memory.nblocks[region] = (uint32_t)prog_region_blocks(prog, (enum step_region)region);
    return memory;
}

/* The layout of the program's connections. */
static const struct fifo_layout *layout_for(const struct exec_program *program, const struct chan *chan) {
    return &chan->owner.layouts[program->source->connects];
}

/* If a step sends to all ranks by a fan, it sends once: so the executor's copy of the step has one receiver. */
static enum collet_result send_once(struct interp_op *op, const struct prog *prog, int step) {
    struct prog_step *steps = (struct prog_step *)op->steps;
    if (op->steps == prog->steps) {
        COLLET_TRY(memory_get(&steps, (size_t)prog->nsteps, sizeof *steps, "no memory for %d steps", prog->nsteps));
        memcpy(steps, prog->steps, (size_t)prog->nsteps * sizeof *steps);
        op->steps = steps;
    }
    steps[step].send_count = 1;
    return COLLET_SUCCESS;
}

static enum collet_result bind_channel(struct exec_program *program, struct chan *chan, int channel) {
    const struct prog *prog = program->progs[channel];
    struct interp_op *op = &program->ops[channel];
    /* One allocation for both tables. free(recv_ends) frees both. */
    struct fifo_end **ends = calloc(2 * (size_t)prog->npeers + 1, sizeof(*ends));
    if (ends == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %d peers", prog->npeers);
    op->steps = prog->steps;
    op->locals = prog->locals;
    op->memory = exec_memory_of(prog, layout_for(program, chan));
    if (prog->ntmp > 0 && chan->owner.gpu == NULL)
        op->memory.tmp = malloc((size_t)prog->ntmp * op->memory.tmp_stride);
    if (prog->ntmp > 0 && chan->owner.gpu == NULL && op->memory.tmp == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %d blocks between steps", prog->ntmp);
    op->recv_ends = ends;
    op->send_ends = ends + prog->npeers;
    for (int k = 0; k < prog->nsteps; k++) {
        const struct prog_step *step = &prog->steps[k];
        for (int p = step->recv_first; p < step->recv_first + step->recv_count; p++)
            COLLET_TRY(bind_peer(program, chan, channel, p, CONN_CONSUMER, &ends[p]));
        for (int p = step->send_first; p < step->send_first + step->send_count; p++)
            COLLET_TRY(bind_peer(program, chan, channel, p, CONN_PRODUCER, &ends[prog->npeers + p]));
        if (step->send_count > 0 && conn_is_fan(&chan->owner, prog->peers[step->send_first].lane))
            COLLET_TRY(send_once(op, prog, k));
    }
    return COLLET_SUCCESS;
}

static enum collet_result worker_init(struct interp_worker *w, const struct interp_op *op,
                                      const struct prog_worker *text, struct step_extent extent,
                                      uint32_t scratch_bytes) {
    size_t operands = (size_t)extent.recvs + 1;
    w->op = op;
    w->first_step = (uint32_t)text->first_step;
    w->nsteps = (uint32_t)text->nsteps;
    w->src = calloc(operands + (size_t)extent.locals, sizeof(*w->src));
    w->dst = calloc((size_t)extent.sends + 2, sizeof(*w->dst));
    w->scratch = malloc(operands * scratch_bytes); /* Pages that are never touched use no memory */
    w->scratch_stride = scratch_bytes;
    if (w->src == NULL || w->dst == NULL || w->scratch == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a worker with %d peers in a step", extent.recvs);
    return COLLET_SUCCESS;
}

/* Allocates the arrays of workers and connections, still empty. */
static enum collet_result program_make_room(struct exec_program *program) {
    size_t nchannels = (size_t)program->nchannels, npeers = 0;
    program->first_worker = calloc(nchannels + 1, sizeof(*program->first_worker));
    program->ops = calloc(nchannels, sizeof(*program->ops));
    if (program->first_worker == NULL || program->ops == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %zu channels", nchannels);
    for (size_t c = 0; c < nchannels; c++) {
        program->first_worker[c + 1] = program->first_worker[c] + program->progs[c]->nworkers;
        npeers += (size_t)program->progs[c]->npeers;
    }
    size_t nworkers = (size_t)program->first_worker[nchannels];
    program->workers = calloc(nworkers + 1, sizeof(*program->workers));
    program->conns = calloc(2 * npeers + 1, sizeof(struct conn *));
    bool pairwise = prog_is_pairwise(program->progs[0]->collective);
    program->pair_ops = pairwise ? calloc(nworkers + 1, sizeof(*program->pair_ops)) : NULL;
    if (program->workers == NULL || program->conns == NULL || (pairwise && program->pair_ops == NULL))
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %zu workers", nworkers);
    return COLLET_SUCCESS;
}

static enum collet_result program_bind(struct exec_program *program, struct chan *chan) {
    COLLET_TRY(program_make_room(program));
    for (int channel = 0; channel < program->nchannels; channel++)
        COLLET_TRY(bind_channel(program, chan, channel));
    for (int channel = 0; channel < program->nchannels; channel++) {
        const struct prog *prog = program->progs[channel];
        struct step_extent extent = extent_of(prog);
        for (int k = 0; k < prog->nworkers; k++)
            COLLET_TRY(worker_init(&program->workers[program->first_worker[channel] + k], &program->ops[channel],
                                   &prog->workers[k], extent, fifo_scratch_bytes(layout_for(program, chan))));
    }
    program->visits = exec_visits_of(program->nremote > 0, chan->recorder != NULL && chan->recorder->traces);
    return COLLET_SUCCESS;
}

static void destroy_progs(struct prog **progs, int nchannels) {
    for (int channel = 0; channel < nchannels; channel++)
        prog_destroy(progs[channel]);
    free(progs);
}

enum collet_result exec_find_carrier(const struct exec_program *program) {
    const struct conn_owner *owner = &program->chan->owner;
    bool needed = program->nremote > 0 && (owner->gpu != NULL || owner->config->proxy);
    return needed ? proxy_serve(program->chan) : COLLET_SUCCESS;
}

enum collet_result exec_program_create(struct chan *chan, struct prog **progs, const struct algorithm *source,
                                       int nchannels, struct exec_program **program_p) {
    struct exec_program *program = calloc(1, sizeof(*program));
    if (program == NULL) {
        destroy_progs(progs, nchannels);
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a program");
    }
    program->progs = progs;
    program->source = source;
    program->chan = chan;
    program->nchannels = nchannels;
    proxy_pause(chan); /* conn_get() adds connections to the table that the proxy reads */
    enum collet_result result = program_bind(program, chan);
    proxy_resume(chan);
    if (result != COLLET_SUCCESS) {
        exec_program_destroy(program);
        return result;
    }
    *program_p = program;
    return COLLET_SUCCESS;
}

void exec_program_destroy(struct exec_program *program) {
    if (program == NULL)
        return;
    for (int k = 0; program->workers != NULL && k < program->first_worker[program->nchannels]; k++) {
        free(program->workers[k].src);
        free(program->workers[k].dst);
        free(program->workers[k].scratch);
    }
    for (int channel = 0; program->ops != NULL && channel < program->nchannels; channel++) {
        free((void *)program->ops[channel].recv_ends);
        if (program->ops[channel].steps != program->progs[channel]->steps)
            free((void *)program->ops[channel].steps);
        free(program->ops[channel].memory.tmp);
    }
    free(program->ops);
    free(program->pair_ops);
    free(program->workers);
    free(program->first_worker);
    free(program->copies);
    free(program->direct);
    free(program->conns);
    destroy_progs(program->progs, program->nchannels);
    free(program);
}
