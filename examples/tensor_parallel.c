/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor parallelism: two ranks share every layer, and each has a part of the layer's matrix. So a layer may be larger than the memory of
 * one rank. Two such pairs of ranks train together, data parallel. Read train_mlp.c first.
 *
 * Layers go in pairs. The first layer is cut by outputs ("column parallel"), the second by inputs ("row parallel"). So the
 * activations between the two stay on their rank, and one allreduce after the second layer is enough for both:
 *
 *                  layer 0: half of the outputs        layer 1: half of the inputs
 *      rank 0   x ─▶ upper rows of W ─▶ relu ─▶ h ─▶ left columns of W ──▶ part of y ─╮
 *               │                                                                     ├ allreduce ─▶ relu(y + b)
 *      rank 1   x ─▶ lower rows of W ─▶ relu ─▶ h ─▶ right columns of W ─▶ part of y ─╯
 *
 *   Backward it is the other way round: layer 1 needs no communication, and the gradient of x is a sum of two parts: allreduce.
 *
 * The ranks form a grid. collet_comm_split() makes a communicator of each row and each column:
 *
 *                  ╭ tensor ╮
 *      samples  0 … 23:    rank 0 ── rank 1        partial sums of activations: several times per step
 *                            │         │  ┐
 *      samples 24 … 47:    rank 2 ── rank 3 │ data      gradients: once per step
 *
 *   tensor_parallel --procs 4
 */
#include "common/job.h"
#include "common/mlp.h"

struct grid {
    struct job *job;
    struct collet_comm *tensor, *data; /* Communicators of this rank's row and column */
    int tensor_rank, tensor_size;      /* This rank's part of each layer, and the number of parts */
    int data_rank, data_size;          /* This rank's part of each batch, and the number of parts */
};

/* If the number of ranks is even, two ranks share each layer. Otherwise all ranks share each layer, and there is one copy of the model. */
static struct grid grid_make(struct job *job) {
    int width = job->nranks % 2 == 0 ? 2 : job->nranks;
    struct grid grid = {.job = job};
    CHECK(collet_comm_split(job->comm, job->rank / width, job->rank, &grid.tensor, NULL));
    CHECK(collet_comm_split(job->comm, job->rank % width, job->rank, &grid.data, NULL));
    CHECK(collet_comm_rank(grid.tensor, &grid.tensor_rank));
    CHECK(collet_comm_count(grid.tensor, &grid.tensor_size));
    CHECK(collet_comm_rank(grid.data, &grid.data_rank));
    CHECK(collet_comm_count(grid.data, &grid.data_size));
    return grid;
}

static void add_up(struct grid *grid, struct collet_comm *comm, float *floats, size_t count) {
    CHECK(collet_allreduce(floats, floats, count, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    job_count(grid->job, ALLREDUCE, count * sizeof(float));
}

/* --------------------------------------------------------------------------------------------- this rank's part of a layer */

static bool cut_by_outputs(int l) { return l % 2 == 0; }

/* The first row or column that rank tensor_rank of the row has, of `whole` in all. It has all up to the next rank's first one. */
static int cut(const struct grid *grid, int whole, int tensor_rank) { return whole * tensor_rank / grid->tensor_size; }

static struct layer my_layer(const struct grid *grid, int l) {
    struct layer layer = mlp_layer(l);
    int *side = cut_by_outputs(l) ? &layer.out : &layer.in;
    *side = cut(grid, *side, grid->tensor_rank + 1) - cut(grid, *side, grid->tensor_rank);
    return layer;
}

static size_t my_offset(const struct grid *grid, int l) {
    size_t offset = 0;
    for (int below = 0; below < l; below++)
        offset += layer_count(my_layer(grid, below));
    return offset;
}

/* Copies this rank's part of a whole layer: some rows of W with their biases, or some columns and all biases. */
static void layer_cut(const struct grid *grid, int l, const float *whole, float *mine) {
    struct layer all = mlp_layer(l), part = my_layer(grid, l);
    int first_row = cut_by_outputs(l) ? cut(grid, all.out, grid->tensor_rank) : 0;
    int first_column = cut_by_outputs(l) ? 0 : cut(grid, all.in, grid->tensor_rank);
    for (int row = 0; row < part.out; row++) {
        memcpy(mine + row * part.in, whole + (first_row + row) * all.in + first_column,
               (size_t)part.in * sizeof(float));
        mine[part.out * part.in + row] = whole[all.out * all.in + first_row + row];
    }
}

static void model_cut(const struct grid *grid, const float *model, float *mine) {
    for (int l = 0; l < LAYERS; l++)
        layer_cut(grid, l, model + mlp_offset(l), mine + my_offset(grid, l));
}

/* ------------------------------------------------------------------------------------------------------------- training */

static void forward(struct grid *grid, const float *parameters, int rows, struct pass *pass) {
    for (int l = 0; l < LAYERS; l++) {
        struct layer layer = my_layer(grid, l);
        const float *mine = parameters + my_offset(grid, l);
        layer_multiply(layer, mine, rows, pass->at[l], pass->at[l + 1]);
        if (!cut_by_outputs(l)) /* Each rank has a part of the sum over the inputs */
            add_up(grid, grid->tensor, pass->at[l + 1], (size_t)rows * (size_t)layer.out);
        layer_finish(layer, mine, rows, pass->at[l + 1]); /* Bias and relu come once, after the sum */
    }
}

static void backward(struct grid *grid, const float *parameters, float *gradients, int rows, struct pass *pass) {
    for (int l = LAYERS - 1; l >= 0; l--) {
        struct layer layer = my_layer(grid, l);
        size_t at = my_offset(grid, l);
        float *dx = l > 0 ? pass->gradient[l % 2] : NULL;
        layer_backward(layer, parameters + at, gradients + at, rows, pass->at[l], pass->at[l + 1],
                       pass->gradient[(l + 1) % 2], dx);
        if (cut_by_outputs(l) && dx) /* Each rank has the gradient of x for its own outputs */
            add_up(grid, grid->tensor, dx, (size_t)rows * (size_t)layer.in);
    }
}

/* Does one step of this rank's row of the grid. Returns the row's share of the loss, which all ranks of the row know. */
static float train_step(struct grid *grid, float *parameters, int step) {
    static struct pass pass;
    static float gradients[MLP_COUNT];
    size_t count = my_offset(grid, LAYERS);
    int begin = part_begin(grid->data_rank, grid->data_size);
    int rows = part_begin(grid->data_rank + 1, grid->data_size) - begin;

    samples_make(batch_first(step) + begin, rows, pass.at[0], pass.target);
    forward(grid, parameters, rows, &pass);
    float loss = loss_of(rows, pass.at[LAYERS], pass.target, pass.gradient[LAYERS % 2]);
    memset(gradients, 0, sizeof gradients);
    backward(grid, parameters, gradients, rows, &pass);

    add_up(grid, grid->data, gradients, count); /* The ranks of `data` have the same part of the layers */
    sgd_update(count, parameters, gradients);
    return loss;
}

int main(int argc, char **argv) {
    static float model[MLP_COUNT], parameters[MLP_COUNT], expected[MLP_COUNT];
    struct job job = job_start(argc, argv);
    if (job.nranks % 2 == 1 && job.nranks > WIDTH) {
        fprintf(stderr, "tensor_parallel: an even number of ranks, or at most %d\n", WIDTH);
        return 2;
    }
    struct grid grid = grid_make(&job);
    size_t count = my_offset(&grid, LAYERS);
    if (job.rank == 0)
        printf("tensor parallel: %d x %d ranks, each with %zu of %d parameters and %d of %d samples per step\n",
               grid.data_size, grid.tensor_size, count, MLP_COUNT, part_begin(1, grid.data_size), BATCH);

    mlp_init(model);
    model_cut(&grid, model, parameters);
    for (int step = 0; step < STEPS; step++) {
        float loss = train_step(&grid, parameters, step);
        if (step % STEPS_PER_LINE != 0)
            continue;
        add_up(&grid, grid.data, &loss, 1); /* A column of the grid has one rank of every row */
        if (job.rank == 0)
            printf("step %3d  loss %.6f\n", step, (double)loss);
    }

    /* One rank sums over 32 inputs from first to last. Here two ranks sum over 16 each, and then the two sums are added:
     * another order, other last bits, and 101 steps pass them on (see train_mlp.c). */
    mlp_train_alone(model, grid.data_size);
    model_cut(&grid, model, expected);
    int status = job_report(&job, largest_difference(count, parameters, expected), job.nranks == 1 ? 0 : 1e-3);
    CHECK(collet_comm_destroy(grid.tensor));
    CHECK(collet_comm_destroy(grid.data));
    CHECK(collet_comm_destroy(job.comm));
    return status;
}
