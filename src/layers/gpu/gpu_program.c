/* SPDX-License-Identifier: Apache-2.0
 *
 * A bound program, copied to a GPU: steps, workers, and for each entry of the peer table the connection ends. An end is
 * copied when the first program that uses it is; all programs share that copy, and its position lives there alone.
 *
 * The host makes an image of all of this, twice. The first time only measures it. Then it gets its place on the GPU, and the second time
 * fills it with addresses of that place. So one copy brings the whole image to the GPU.
 */
#include "base/err.h"
#include "kernels/work.h"
#include "layers/gpu/gpu.h"
#include "layers/gpu/gpu_program.h"
#include "layers/gpu/returns.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN_BYTES 64u

struct image {
    struct chan *chan;
    char *host; /* NULL: the image is only measured */
    char *gpu;
    size_t used;
};

#define MEASURED ((char *)ALIGN_BYTES) /* any address that is not NULL, for an image that is only measured */

/* Adds bytes to the image. Returns their address on the GPU, which never changes. */
static void *image_put(struct image *image, const void *from, size_t bytes) {
    char *at = image->gpu + image->used;
    if (image->host != NULL && bytes > 0)
        memcpy(image->host + image->used, from, bytes);
    image->used += (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    return at;
}

/* host_end is the `end` of a connection: the connection's first field. */
static struct fifo_end *put_end(struct image *image, struct fifo_end *host_end) {
    struct conn *conn = (struct conn *)host_end;
    if (conn == NULL || conn->end_on_gpu != NULL)
        return conn == NULL ? NULL : conn->end_on_gpu;
    struct fifo_end *copy = image_put(image, &conn->end, sizeof(conn->end));
    if (image->host != NULL)
        conn->end_on_gpu = copy;
    return copy;
}

/* Copies the receiving ends, and behind them the sending ends. */
static enum collet_result put_ends(struct image *image, int npeers, const struct interp_op *op, void *to_p) {
    struct fifo_end **table = calloc((size_t)npeers * 2 + 1, sizeof(*table));
    if (table == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %d peers", npeers);
    for (int k = 0; k < npeers; k++) {
        table[k] = put_end(image, op->recv_ends[k]);
        table[npeers + k] = put_end(image, op->send_ends[k]);
    }
    *(void **)to_p = image_put(image, table, (size_t)npeers * 2 * sizeof(*table));
    free(table);
    return COLLET_SUCCESS;
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

/* Minimum bytes of a payload that any end lends; 0: no end lends. */
static uint32_t lends_from(const struct exec_program *program) {
    uint32_t least = 0;
    for (int k = 0; k < program->nconns; k++) {
        const struct conn *conn = program->conns[k];
        const uint32_t from = conn->side == CONN_PRODUCER ? direct_least(&conn->end.loans) : 0;
        least = from - 1 < least - 1 ? from : least;
    }
    return least;
}

/* Puts the workers of a channel into blocks[0], blocks[1] and so on. */
static enum collet_result put_channel(struct image *image, const struct exec_program *program, int c, char *tmp,
                                      struct work_block *blocks) {
    const struct prog *prog = program->progs[c];
    struct work_block block = {.npeers = (uint32_t)prog->npeers, .channel = (uint32_t)c};
    COLLET_TRY(check_steps(prog));
    block.memory = program->ops[c].memory;
    block.memory.tmp = tmp;
    block.teams = image->chan->owner.teams;
    block.lends_from = lends_from(program);
    block.returns = gpu_returns(prog);
    block.locals = image_put(image, prog->locals, (size_t)prog->nlocals * sizeof(*prog->locals));
    block.peers = image_put(image, prog->peers, (size_t)prog->npeers * sizeof(*prog->peers));
    COLLET_TRY(put_ends(image, prog->npeers, &program->ops[c], &block.ends));
    const struct prog_step *steps = image_put(image, prog->steps, (size_t)prog->nsteps * sizeof(*prog->steps));
    for (int k = 0; k < prog->nworkers; k++) {
        blocks[k] = block;
        blocks[k].steps = steps + prog->workers[k].first_step;
        blocks[k].nsteps = (uint32_t)prog->workers[k].nsteps;
    }
    return COLLET_SUCCESS;
}

/* tmp: the TMP of all channels, one behind another. */
static enum collet_result put_channels(struct image *image, const struct exec_program *program, char *tmp,
                                       struct work_block *blocks) {
    for (int c = 0; c < program->nchannels; c++) {
        COLLET_TRY(put_channel(image, program, c, tmp, blocks + program->first_worker[c]));
        if (tmp != NULL) /* some channel needs TMP */
            tmp += (size_t)program->progs[c]->ntmp * program->ops[c].memory.tmp_stride;
    }
    return COLLET_SUCCESS;
}

/* Stores the address of the blocks on the GPU. */
static enum collet_result put_program(struct image *image, const struct exec_program *program, char *tmp, void **to_p) {
    const size_t nblocks = (size_t)program->first_worker[program->nchannels];
    struct work_block *blocks = calloc(nblocks + 1, sizeof(*blocks));
    if (blocks == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %zu blocks", nblocks);
    enum collet_result result = put_channels(image, program, tmp, blocks);
    *to_p = image_put(image, blocks, nblocks * sizeof(*blocks));
    free(blocks);
    return result;
}

static enum collet_result take_tmp(struct gpu_rank *gpu, const struct exec_program *program, char **tmp_p) {
    size_t bytes = 0;
    *tmp_p = NULL;
    for (int c = 0; c < program->nchannels; c++)
        bytes += (size_t)program->progs[c]->ntmp * program->ops[c].memory.tmp_stride;
    return bytes > 0 ? gpu_rank_take(gpu, bytes, (void **)tmp_p) : COLLET_SUCCESS;
}

/* The image did not come to the GPU, so its ends are not there either. */
static void forget_ends(const struct image *image, const struct exec_program *program) {
    for (int k = 0; k < program->nconns; k++) {
        const char *end = (const char *)program->conns[k]->end_on_gpu;
        if (end >= image->gpu && end < image->gpu + image->used)
            program->conns[k]->end_on_gpu = NULL;
    }
}

static enum collet_result program_to_gpu(struct chan *chan, struct exec_program *program) {
    struct gpu_rank *gpu = chan->owner.gpu;
    struct image image = {.chan = chan, .gpu = MEASURED};
    char *tmp;
    void *on_gpu;
    COLLET_TRY(take_tmp(gpu, program, &tmp));
    COLLET_TRY(put_program(&image, program, tmp, &on_gpu));
    COLLET_TRY(gpu_rank_take(gpu, image.used, (void **)&image.gpu));
    image.host = calloc(1, image.used);
    if (image.host == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a program's image of %zu bytes", image.used);
    image.used = 0;
    enum collet_result result = put_program(&image, program, tmp, &on_gpu);
    if (result == COLLET_SUCCESS)
        result = gpu->driver->memory->write(image.gpu, image.host, image.used);
    if (result != COLLET_SUCCESS)
        forget_ends(&image, program);
    free(image.host);
    program->on_gpu = on_gpu;
    program->lends_on_gpu = lends_from(program) != 0;
    return result;
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
