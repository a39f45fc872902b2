/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallelism: every rank has the whole model and a part of each batch. The ranks add up their gradients, so all of
 * them change their parameters equally.
 *
 *                       a batch of 48 samples
 *           ╭──────────────┬──────┴───────┬──────────────╮
 *        rank 0         rank 1         rank 2         rank 3          12 samples each, the same parameters
 *           │ forward      │              │              │
 *           │ backward     │              │              │            layer 7 first, layer 0 last
 *
 *   gradients:   │ layer 0 │ layer 1 │ layer 2 │ layer 3 │ layer 4 │ layer 5 │ layer 6 │ layer 7 │
 *                 ◀─────── the backward pass fills them from the right ─────────────────────────
 *                │ bucket 3          │ bucket 2          │ bucket 1          │ bucket 0          │
 *                                                                  allreduce ◀┴─ as soon as it is full
 *
 *           │ parameters −= rate × sum of the gradients  │            the same bits on every rank
 *
 * Why buckets? With one allreduce per layer, the latencies of many small calls add up. One allreduce of all gradients can only begin
 * when the backward pass has ended. With buckets, the gradients of upper layers are reduced while those of lower layers are still
 * computed: a call on a stream returns at once, and only the update waits for the stream.
 *
 *   train_mlp --procs 4
 */
#include "common/job.h"
#include "common/mlp.h"

enum { BUCKET_FLOATS = 2000 }; /* Real programs have buckets of about 25 MB */

/* The gradients that were computed since the last allreduce: floats begin … end − 1 of all gradients. */
struct bucket {
    size_t begin, end;
};

/* Reduces the bucket if it is full, or if it is the last one. */
static void bucket_add_layer(struct job *job, struct bucket *bucket, float *gradients, int layer,
                             struct collet_stream *stream) {
    bucket->begin = mlp_offset(layer);
    size_t count = bucket->end - bucket->begin;
    if (count < BUCKET_FLOATS && layer > 0)
        return;
    float *floats = gradients + bucket->begin;
    /* The call is in place. */
    CHECK(collet_allreduce(floats, floats, count, COLLET_FLOAT32, COLLET_SUM, job->comm, stream));
    job_count(job, ALLREDUCE, count * sizeof(float));
    bucket->end = bucket->begin;
}

/* Does one step with this rank's rows of the batch. Returns the share of these rows in the loss. */
static float train_step(struct job *job, float *parameters, int step, struct collet_stream *stream) {
    static struct pass pass;
    static float gradients[MLP_COUNT];
    int begin = part_begin(job->rank, job->nranks);
    int rows = part_begin(job->rank + 1, job->nranks) - begin;

    samples_make(batch_first(step) + begin, rows, pass.at[0], pass.target);
    for (int l = 0; l < LAYERS; l++)
        layer_forward(mlp_layer(l), parameters + mlp_offset(l), rows, pass.at[l], pass.at[l + 1]);
    float loss = loss_of(rows, pass.at[LAYERS], pass.target, pass.gradient[LAYERS % 2]);

    memset(gradients, 0, sizeof gradients);
    struct bucket bucket = {MLP_COUNT, MLP_COUNT};
    for (int l = LAYERS - 1; l >= 0; l--) {
        layer_backward(mlp_layer(l), parameters + mlp_offset(l), gradients + mlp_offset(l), rows, pass.at[l],
                       pass.at[l + 1], pass.gradient[(l + 1) % 2], l > 0 ? pass.gradient[l % 2] : NULL);
        bucket_add_layer(job, &bucket, gradients, l, stream);
    }
    CHECK(collet_stream_synchronize(stream));
    sgd_update(MLP_COUNT, parameters, gradients);
    return loss;
}

int main(int argc, char **argv) {
    static float parameters[MLP_COUNT], alone[MLP_COUNT];
    struct job job = job_start(argc, argv);
    if (job.rank == 0)
        printf("data parallel: %d ranks, each with all %d parameters and about %d of %d samples per step\n", job.nranks,
               MLP_COUNT, BATCH / job.nranks, BATCH);

    /* All ranks could call mlp_init(). But a program that reads a checkpoint on rank 0 broadcasts it, as here: */
    if (job.rank == 0)
        mlp_init(parameters);
    CHECK(collet_broadcast(parameters, parameters, MLP_COUNT, COLLET_FLOAT32, 0, job.comm, NULL));
    job_count(&job, BROADCAST, job.rank == 0 ? sizeof parameters : 0);

    struct collet_stream *stream;
    CHECK(collet_stream_create(&stream));
    for (int step = 0; step < STEPS; step++) {
        float share = train_step(&job, parameters, step, stream);
        if (step % STEPS_PER_LINE == 0)
            job_print_loss(&job, step, share);
    }
    CHECK(collet_stream_destroy(stream));

    /* Of two ranks a + b is b + a: the same bits. Of three or more, collet may add (a + b) + c in one slice of the buffer
     * and (b + c) + a in another. All ranks get the same bits even so, but not those of a sum from left to right. Each
     * step passes its rounding on to the next one, so a last bit becomes a few millionths in 101 steps. A gradient that
     * got lost would make a difference of some tenths. */
    mlp_train_alone(alone, job.nranks);
    int status = job_report(&job, largest_difference(MLP_COUNT, parameters, alone), job.nranks <= 2 ? 0 : 1e-3);
    CHECK(collet_comm_destroy(job.comm));
    return status;
}
