/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallelism without copies (ZeRO stage 3, "fully sharded"): every rank computes with the whole model, one layer at a
 * time, but keeps only a slice of each layer. Read train_mlp.c first.
 *
 *   kept all the time        layer 0   │ slice 0 │ slice 1 │ slice 2 │ slice 3 │       slice r on rank r, and nothing else
 *                            layer 1   │ slice 0 │ slice 1 │ slice 2 │ slice 3 │
 *
 *   forward, layer 0, 1 …    my slice ──allgather──▶ whole layer ─▶ y                   then the whole layer is overwritten
 *   backward, layer 7, 6 …   my slice ──allgather──▶ whole layer ─▶ dx, gradient of my samples
 *                            whole gradient ──reducescatter──▶ my slice of the sum      and the rest is overwritten
 *   update                   my slice −= rate × my slice of the gradient                without communication
 *
 * An allreduce is a reducescatter and then an allgather. Here the update comes between the two. So sharding moves as many bytes
 * as train_mlp.c, and the bytes of one more allgather, because the backward pass needs layers again that were overwritten. In return
 * it saves memory: parameters, gradients and the state of the optimizer take 1/n per rank.
 *
 *   train_sharded --procs 4
 */
#include "common/job.h"
#include "common/mlp.h"

enum { MOST_RANKS = 64 };

/* The floats of a slice. A layer's length need not be a multiple of the number of ranks: the last slices are padded, and the padding is not
 * used. */
enum { LARGEST_LAYER = WIDTH * (WIDTH + 1), SLICES_OF_LARGEST = LARGEST_LAYER + MOST_RANKS };

static size_t slice_count(const struct job *job, int layer) {
    size_t nranks = (size_t)job->nranks;
    return (layer_count(mlp_layer(layer)) + nranks - 1) / nranks;
}

/* The number of floats of this rank's slice without padding. On the last ranks it may be small, or 0. */
static size_t slice_real(const struct job *job, int layer) {
    size_t count = layer_count(mlp_layer(layer)), slice = slice_count(job, layer);
    size_t begin = slice * (size_t)job->rank;
    return begin >= count ? 0 : count - begin < slice ? count - begin : slice;
}

/* This rank's slices of all layers, one after the other. */
struct shard {
    float parameters[MLP_COUNT + LAYERS];
    float gradients[MLP_COUNT + LAYERS];
};

static size_t shard_offset(const struct job *job, int layer) {
    size_t offset = 0;
    for (int below = 0; below < layer; below++)
        offset += slice_count(job, below);
    return offset;
}

/* --------------------------------------------------------------------------------------------------- the communication */

/* Makes a whole layer of the slices of all ranks. */
static void layer_gather(struct job *job, const struct shard *shard, int layer, float *whole) {
    size_t count = slice_count(job, layer);
    const float *mine = shard->parameters + shard_offset(job, layer);
    CHECK(collet_allgather(mine, whole, count, COLLET_FLOAT32, job->comm, NULL));
    job_count(job, ALLGATHER, count * sizeof(float));
}

/* Makes this rank's slice of the sum of all ranks' gradients of a whole layer. */
static void gradient_scatter(struct job *job, struct shard *shard, int layer, const float *whole) {
    size_t count = slice_count(job, layer);
    float *mine = shard->gradients + shard_offset(job, layer);
    CHECK(collet_reducescatter(whole, mine, count, COLLET_FLOAT32, COLLET_SUM, job->comm, NULL));
    job_count(job, REDUCESCATTER, count * (size_t)job->nranks * sizeof(float));
}

/* ---------------------------------------------------------------------------------------------------------- the training */

/* Does one step with this rank's rows of the batch. Returns the share of these rows in the loss. Only one layer at a time exists as a
 * whole, in the arrays of this function. */
static float train_step(struct job *job, struct shard *shard, int step) {
    static struct pass pass;
    static float layer_whole[SLICES_OF_LARGEST], gradient_whole[SLICES_OF_LARGEST];
    int begin = part_begin(job->rank, job->nranks);
    int rows = part_begin(job->rank + 1, job->nranks) - begin;
    samples_make(batch_first(step) + begin, rows, pass.at[0], pass.target);

    for (int l = 0; l < LAYERS; l++) {
        layer_gather(job, shard, l, layer_whole);
        layer_forward(mlp_layer(l), layer_whole, rows, pass.at[l], pass.at[l + 1]);
    }
    float loss = loss_of(rows, pass.at[LAYERS], pass.target, pass.gradient[LAYERS % 2]);
    for (int l = LAYERS - 1; l >= 0; l--) {
        layer_gather(job, shard, l, layer_whole);
        memset(gradient_whole, 0, sizeof gradient_whole);
        layer_backward(mlp_layer(l), layer_whole, gradient_whole, rows, pass.at[l], pass.at[l + 1],
                       pass.gradient[(l + 1) % 2], l > 0 ? pass.gradient[l % 2] : NULL);
        gradient_scatter(job, shard, l, gradient_whole);
    }
    sgd_update(shard_offset(job, LAYERS), shard->parameters, shard->gradients);
    return loss;
}

/* Copies this rank's slices of a whole model. */
static void shard_cut(const struct job *job, const float *model, float *slices) {
    memset(slices, 0, (MLP_COUNT + LAYERS) * sizeof(float));
    for (int l = 0; l < LAYERS; l++)
        memcpy(slices + shard_offset(job, l), model + mlp_offset(l) + slice_count(job, l) * (size_t)job->rank,
               slice_real(job, l) * sizeof(float));
}

int main(int argc, char **argv) {
    static struct shard shard;
    static float model[MLP_COUNT], expected[MLP_COUNT + LAYERS];
    struct job job = job_start(argc, argv);
    if (job.nranks > MOST_RANKS) {
        fprintf(stderr, "train_sharded: at most %d ranks\n", MOST_RANKS);
        return 2;
    }
    if (job.rank == 0)
        printf("sharded: %d ranks, each keeps %zu of %d parameters, and one layer of at most %d while it computes\n",
               job.nranks, shard_offset(&job, LAYERS), MLP_COUNT, LARGEST_LAYER);

    mlp_init(model);
    shard_cut(&job, model, shard.parameters);
    for (int step = 0; step < STEPS; step++) {
        float share = train_step(&job, &shard, step);
        if (step % STEPS_PER_LINE == 0)
            job_print_loss(&job, step, share);
    }

    /* As in train_mlp.c: two gradients can be summed in one order only, three or more in several orders. */
    mlp_train_alone(model, job.nranks);
    shard_cut(&job, model, expected);
    double difference = 0;
    for (int l = 0; l < LAYERS; l++) {
        size_t at = shard_offset(&job, l);
        double of_layer = largest_difference(slice_real(&job, l), shard.parameters + at, expected + at);
        if (!(of_layer <= difference))
            difference = of_layer;
    }
    int status = job_report(&job, difference, job.nranks <= 2 ? 0 : 1e-3);
    CHECK(collet_comm_destroy(job.comm));
    return status;
}
