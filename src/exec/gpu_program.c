/* SPDX-License-Identifier: Apache-2.0
 *
 * A bound program, copied to a GPU: steps, workers, and for each entry of the peer table the connection ends. An end is
 * copied when the first program that uses it is; all programs share that copy, and its position lives there alone.
 */
#include "base/err.h"
#include "exec/exec_gpu.h"

#include <stdlib.h>

static enum collet_result put_on_gpu(struct chan *chan, const void *from, size_t bytes, void **to_p) {
    COLLET_TRY(gpu_rank_take(chan->owner.gpu, bytes > 0 ? bytes : 1, to_p));
    return bytes > 0 ? chan->owner.gpu->driver->memory->write(*to_p, from, bytes) : COLLET_SUCCESS;
}

/* host_end is the `end` of a connection, its first field. */
static enum collet_result put_end(struct chan *chan, struct fifo_end *host_end, struct fifo_end **to_p) {
    struct conn *conn = (struct conn *)host_end;
    *to_p = NULL;
    if (conn == NULL)
        return COLLET_SUCCESS;
    if (conn->end_on_gpu == NULL) {
        void *copy;
        COLLET_TRY(put_on_gpu(chan, &conn->end, sizeof(conn->end), &copy));
        conn->end_on_gpu = copy;
    }
    *to_p = conn->end_on_gpu;
    return COLLET_SUCCESS;
}

static enum collet_result put_ends(struct chan *chan, int npeers, struct fifo_end *const *ends, void **to_p) {
    struct fifo_end **table = calloc((size_t)npeers + 1, sizeof(*table));
    enum collet_result result = COLLET_SUCCESS;
    if (table == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %d peers", npeers);
    for (int k = 0; k < npeers && result == COLLET_SUCCESS; k++)
        result = put_end(chan, ends[k], &table[k]);
    if (result == COLLET_SUCCESS)
        result = put_on_gpu(chan, table, (size_t)npeers * sizeof(*table), to_p);
    free(table);
    return result;
}

static enum collet_result put_workers(struct chan *chan, const struct prog *prog, void **to_p) {
    struct work_span *spans = calloc((size_t)prog->nworkers, sizeof(*spans));
    if (spans == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %d workers", prog->nworkers);
    for (int k = 0; k < prog->nworkers; k++)
        spans[k] = (struct work_span){(uint32_t)prog->workers[k].first_step, (uint32_t)prog->workers[k].nsteps};
    enum collet_result result = put_on_gpu(chan, spans, (size_t)prog->nworkers * sizeof(*spans), to_p);
    free(spans);
    return result;
}

static enum collet_result check_steps(const struct prog *prog) {
    for (int k = 0; k < prog->nsteps; k++) {
        const struct prog_step *step = &prog->steps[k];
        if (!interp_block_takes(step))
            return err_set(
                COLLET_ERR_UNSUPPORTED,
                "a step has operands from %d peers and %d in memory, and places at %d peers: a block of a GPU takes "
                "%u peers each way, and %u operands; name another algorithm in COLLET_ALGO",
                step->recv_count, step->locals_count, step->send_count, INTERP_BLOCK_PEERS, INTERP_BLOCK_OPERANDS);
    }
    return COLLET_SUCCESS;
}

static enum collet_result put_channel(struct chan *chan, const struct prog *prog, const struct interp_op *op,
                                      uint32_t lends_from, struct work_channel *image) {
    COLLET_TRY(check_steps(prog));
    *image = (struct work_channel){.nworkers = (uint32_t)prog->nworkers, .npeers = (uint32_t)prog->npeers};
    image->memory = op->memory;
    image->lends_from = lends_from;
    COLLET_TRY(put_on_gpu(chan, prog->steps, (size_t)prog->nsteps * sizeof(*prog->steps), (void **)&image->steps));
    COLLET_TRY(put_on_gpu(chan, prog->locals, (size_t)prog->nlocals * sizeof(*prog->locals), (void **)&image->locals));
    COLLET_TRY(put_on_gpu(chan, prog->peers, (size_t)prog->npeers * sizeof(*prog->peers), (void **)&image->peers));
    COLLET_TRY(put_workers(chan, prog, (void **)&image->workers));
    COLLET_TRY(put_ends(chan, prog->npeers, op->recv_ends, (void **)&image->recv_ends));
    COLLET_TRY(put_ends(chan, prog->npeers, op->send_ends, (void **)&image->send_ends));
    if (prog->ntmp > 0)
        COLLET_TRY(
            gpu_rank_take(chan->owner.gpu, (size_t)prog->ntmp * op->memory.tmp_stride, (void **)&image->memory.tmp));
    return COLLET_SUCCESS;
}

static enum collet_result program_to_gpu(struct chan *chan, struct exec_program *program) {
    struct work_program image = {NULL, chan->owner.teams};
    size_t nchannels = (size_t)program->nchannels;
    struct work_channel *channels = calloc(nchannels, sizeof(*channels));
    uint32_t lends_from = exec_loans_of(program).lends_from;
    enum collet_result result = COLLET_SUCCESS;
    if (channels == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %zu channels", nchannels);
    for (size_t c = 0; c < nchannels && result == COLLET_SUCCESS; c++)
        result = put_channel(chan, program->progs[c], &program->ops[c], lends_from, &channels[c]);
    if (result == COLLET_SUCCESS)
        result = put_on_gpu(chan, channels, nchannels * sizeof(*channels), (void **)&image.channels);
    free(channels);
    COLLET_TRY(result);
    program->lends_on_gpu = lends_from != 0;
    return put_on_gpu(chan, &image, sizeof(image), (void **)&program->on_gpu);
}

enum collet_result exec_gpu_load(struct exec_call *call) {
    struct gpu_rank *gpu = call->chan->owner.gpu;
    if (call->program->on_gpu != NULL)
        return COLLET_SUCCESS;
    struct gpu_scope scope = gpu->driver->enter(gpu->ordinal);
    enum collet_result result = program_to_gpu(call->chan, call->program);
    if (result != COLLET_SUCCESS)
        call->program->on_gpu = NULL;
    gpu->driver->leave(scope);
    return result;
}
