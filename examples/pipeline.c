/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipeline parallelism: every rank has some of the layers, which are a stage. Activations go up from stage to stage, gradients come
 * down. A batch is cut into micro-batches, so that the stages work at the same time.
 *
 *   stage 3   layers 6, 7     ▲ │
 *   stage 2   layers 4, 5     │ │       ▲ send: activations of a micro-batch
 *   stage 1   layers 2, 3     │ ▼       ▼ send: their gradient
 *   stage 0   layers 0, 1     samples
 *
 * The order is 1F1B: one forward, one backward. A stage first runs as many forward passes as there are stages above it, then
 * forward and backward passes in turn, then the backward passes that are left. Time goes to the right. The numbers count
 * 6 micro-batches:
 *
 *   stage 3                  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5
 *   stage 2            F0 F1    B0 F2 B1 F3 B2 F4 B3 F5 B4    B5
 *   stage 1      F0 F1 F2       B0 F3 B1 F4 B2 F5 B3    B4    B5
 *   stage 0   F0 F1 F2 F3       B0 F4 B1 F5 B2    B3    B4    B5
 *
 * Why not all forward passes first? Then a stage would have to keep the activations of every micro-batch. With 1F1B it keeps one
 * micro-batch more than there are stages above it: in the picture, stage 3 keeps one and stage 0 keeps four.
 *
 * If two stages first sent to each other, they would wait for each other forever: a send outside a group ends when its receiver
 * has come. So a stage's send to the stage above and its next receive from there are in one group, in which both progress.
 *
 *   pipeline --procs 4
 */
#include "common/job.h"
#include "common/mlp.h"

enum { MICRO_BATCHES = 6, ROWS = BATCH / MICRO_BATCHES };

struct stage {
    struct job *job;
    int begin, end;                    /* Layers of the stage: begin … end − 1 */
    float *parameters, *gradients;     /* Arrays for the whole model. Only the stage's layers are used */
    struct pass kept[LAYERS];          /* Micro-batches between forward and backward: at[begin] … at[end] are used */
    char order[6 * MICRO_BATCHES + 1]; /* The order in which passes were done: "F0 F1 B0 …" */
    int passes_done;
};

static int stages_above(const struct stage *stage) { return stage->job->nranks - 1 - stage->job->rank; }
static bool is_first(const struct stage *stage) { return stage->job->rank == 0; }
static bool is_last(const struct stage *stage) { return stages_above(stage) == 0; }

/* Where micro-batch m is kept. At most stages_above() + 1 micro-batches are between forward and backward at once. */
static struct pass *pass_of(struct stage *stage, int m) { return &stage->kept[m % (stages_above(stage) + 1)]; }

/* ------------------------------------------------------------------------------------------------------- communication
 *
 * These functions do nothing if there is no other stage, or no other micro-batch: the first stage has none below it, and the last stage
 * none above. */

static size_t floats_between(int layer) { return (size_t)ROWS * (size_t)mlp_layer(layer).in; }

static void send_to(struct stage *stage, const float *buffer, size_t count, int peer) {
    CHECK(collet_send(buffer, count, COLLET_FLOAT32, peer, stage->job->comm, NULL));
    job_count(stage->job, SEND, count * sizeof(float));
}

static void send_up(struct stage *stage, int m) {
    if (!is_last(stage) && m < MICRO_BATCHES)
        send_to(stage, pass_of(stage, m)->at[stage->end], floats_between(stage->end), stage->job->rank + 1);
}

static void send_down(struct stage *stage, int m) {
    if (!is_first(stage))
        send_to(stage, pass_of(stage, m)->gradient[stage->begin % 2], floats_between(stage->begin),
                stage->job->rank - 1);
}

static void receive_from_below(struct stage *stage, int m) {
    if (!is_first(stage) && m < MICRO_BATCHES)
        CHECK(collet_recv(pass_of(stage, m)->at[stage->begin], floats_between(stage->begin), COLLET_FLOAT32,
                          stage->job->rank - 1, stage->job->comm, NULL));
}

static void receive_from_above(struct stage *stage, int m) {
    if (!is_last(stage) && m < MICRO_BATCHES)
        CHECK(collet_recv(pass_of(stage, m)->gradient[stage->end % 2], floats_between(stage->end), COLLET_FLOAT32,
                          stage->job->rank + 1, stage->job->comm, NULL));
}

/* ------------------------------------------------------------------------------------------------------------- computing */

static void note(struct stage *stage, char what, int m) {
    stage->passes_done += snprintf(stage->order + stage->passes_done, 4, "%c%d ", what, m);
}

/* Runs micro-batch m through the layers of the stage. On the last stage it returns the micro-batch's share of the loss. */
static float forward(struct stage *stage, int step, int m) {
    struct pass *pass = pass_of(stage, m);
    float input[ROWS * FEATURES];
    note(stage, 'F', m);
    /* The first stage needs the samples, and the last one the targets. Each makes both. */
    samples_make(batch_first(step) + m * ROWS, ROWS, is_first(stage) ? pass->at[0] : input, pass->target);
    for (int l = stage->begin; l < stage->end; l++)
        layer_forward(mlp_layer(l), stage->parameters + mlp_offset(l), ROWS, pass->at[l], pass->at[l + 1]);
    return is_last(stage) ? loss_of(ROWS, pass->at[LAYERS], pass->target, pass->gradient[LAYERS % 2]) : 0;
}

static void backward(struct stage *stage, int m) {
    struct pass *pass = pass_of(stage, m);
    note(stage, 'B', m);
    for (int l = stage->end - 1; l >= stage->begin; l--)
        layer_backward(mlp_layer(l), stage->parameters + mlp_offset(l), stage->gradients + mlp_offset(l), ROWS,
                       pass->at[l], pass->at[l + 1], pass->gradient[(l + 1) % 2], l > 0 ? pass->gradient[l % 2] : NULL);
}

/* Runs one batch, in the order of the picture. */
static float train_step(struct stage *stage, int step) {
    int above = stages_above(stage),
        /* Number of forward passes before the first backward pass. */
        ahead = above < MICRO_BATCHES ? above : MICRO_BATCHES;
    float loss = 0;
    stage->passes_done = 0;

    for (int m = 0; m < ahead; m++) {
        receive_from_below(stage, m);
        loss += forward(stage, step, m);
        send_up(stage, m);
    }
    receive_from_below(stage, ahead);
    for (int m = 0; m < MICRO_BATCHES; m++) {
        int next = ahead + m; /* The forward pass before the backward pass of m */
        if (next < MICRO_BATCHES)
            loss += forward(stage, step, next);
        CHECK(collet_group_start()); /* Activations go up, gradients come down */
        send_up(stage, next);
        receive_from_above(stage, m);
        CHECK(collet_group_end());
        backward(stage, m);
        CHECK(collet_group_start()); /* Gradients go down, the next activations come up */
        send_down(stage, m);
        receive_from_below(stage, next + 1);
        CHECK(collet_group_end());
    }

    size_t begin = mlp_offset(stage->begin), count = mlp_offset(stage->end) - begin;
    sgd_update(count, stage->parameters + begin, stage->gradients + begin);
    memset(stage->gradients + begin, 0, count * sizeof(float));
    return loss;
}

/* ------------------------------------------------------------------------------------------------------------------ main */

/* Only the last stage knows the loss, and rank 0 prints it. */
static void print_loss(struct job *job, int step, float loss) {
    CHECK(collet_broadcast(&loss, &loss, 1, COLLET_FLOAT32, job->nranks - 1, job->comm, NULL));
    job_count(job, BROADCAST, job->rank == job->nranks - 1 ? sizeof loss : 0);
    if (job->rank == 0)
        printf("step %3d  loss %.6f\n", step, (double)loss);
}

static void print_orders(struct stage *stage) {
    static char orders[LAYERS][sizeof stage->order];
    CHECK(collet_allgather(stage->order, orders, sizeof stage->order, COLLET_UINT8, stage->job->comm, NULL));
    job_count(stage->job, ALLGATHER, sizeof stage->order);
    for (int rank = stage->job->nranks - 1; stage->job->rank == 0 && rank >= 0; rank--)
        printf("stage %d   %s\n", rank, orders[rank]);
}

int main(int argc, char **argv) {
    static float parameters[MLP_COUNT], gradients[MLP_COUNT], alone[MLP_COUNT];
    static struct stage stage;
    struct job job = job_start(argc, argv);
    if (job.nranks > LAYERS) {
        fprintf(stderr, "pipeline: at most %d ranks, one per layer\n", LAYERS);
        return 2;
    }
    stage.job = &job;
    stage.begin = LAYERS * job.rank / job.nranks;
    stage.end = LAYERS * (job.rank + 1) / job.nranks;
    stage.parameters = parameters;
    stage.gradients = gradients;
    mlp_init(parameters);

    if (job.rank == 0)
        printf("pipeline: %d stages, %d micro-batches of %d samples per step\n", job.nranks, MICRO_BATCHES, ROWS);
    for (int step = 0; step < STEPS; step++) {
        float loss = train_step(&stage, step);
        if (step % STEPS_PER_LINE == 0)
            print_loss(&job, step, loss);
    }
    print_orders(&stage);

    /* No sum has contributions of several ranks. A gradient is summed micro-batch after micro-batch, sample after sample, in the
     * order in which one rank does it: the same bits for every number of stages. */
    mlp_train_alone(alone, 1);
    size_t begin = mlp_offset(stage.begin), count = mlp_offset(stage.end) - begin;
    int status = job_report(&job, largest_difference(count, parameters + begin, alone + begin), 0);
    CHECK(collet_comm_destroy(job.comm));
    return status;
}
