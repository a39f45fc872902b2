/* SPDX-License-Identifier: Apache-2.0
 *
 * A mixture of experts. An expert is a small network. A router chooses one expert for each sample. The experts are on
 * different ranks, so samples travel to their experts, and results travel back. How many samples go where is different in each step.
 *
 *      rank 0: samples       rank 1: samples        rank 2: samples
 *        a b c d e             f g h i j              k l m n o
 *          │ router: a c ▶ 0, d ▶ 2, b e ▶ 5 …          │
 *          │ allgather: how many each rank has for each expert        so all ranks know all counts
 *        ╭─┴──────────────── alltoallv ─────────────────┴─╮           samples, sorted by expert
 *      experts 0, 1          experts 2, 3           experts 4, 5
 *        a c f k               d g h                  b e i …         forward
 *        ╰─┬──────────────── alltoallv ─────────────────┬─╯           outputs go home
 *          │ loss against the targets, which stayed at home
 *        ╭─┴──────────────── alltoallv ─────────────────┴─╮           gradients of the outputs
 *      backward and update: an expert is on one rank only, so there is no gradient to add up
 *
 * In alltoallv each pair of ranks has its own count. A plain alltoall would pad every block to the length of the largest one.
 *
 * The router is not trained. Each expert has a random direction, and a sample goes to the expert whose direction is nearest to the
 * sample.
 *
 *   moe_alltoallv --procs 4
 */
#include "common/job.h"
#include "common/mlp.h"

enum { EXPERTS = 6, MOST_RANKS = EXPERTS };

/* An expert has two layers: the first and the last layer of the model in common/mlp.h. */
static const struct layer first_layer = {FEATURES, WIDTH, true}, last_layer = {WIDTH, OUTPUTS, false};
enum { FIRST_COUNT = WIDTH * (FEATURES + 1), EXPERT_COUNT = FIRST_COUNT + OUTPUTS * (WIDTH + 1) };

struct expert {
    float parameters[EXPERT_COUNT], gradients[EXPERT_COUNT];
};

static void expert_init(struct expert *expert, int number) {
    for (int i = 0; i < EXPERT_COUNT; i++)
        expert->parameters[i] = 0.4f * hash_to_float(((uint64_t)2 << 40) + (uint64_t)(number * EXPERT_COUNT + i));
    memset(expert->gradients, 0, sizeof expert->gradients);
}

static void expert_forward(const struct expert *expert, int rows, const float *x, float *hidden, float *y) {
    layer_forward(first_layer, expert->parameters, rows, x, hidden);
    layer_forward(last_layer, expert->parameters + FIRST_COUNT, rows, hidden, y);
}

static void expert_backward(struct expert *expert, int rows, const float *x, const float *hidden, const float *y,
                            float *dy) {
    static float dhidden[BATCH * WIDTH];
    layer_backward(last_layer, expert->parameters + FIRST_COUNT, expert->gradients + FIRST_COUNT, rows, hidden, y, dy,
                   dhidden);
    layer_backward(first_layer, expert->parameters, expert->gradients, rows, x, hidden, dhidden, NULL);
}

static void expert_update(struct expert *expert) {
    sgd_update(EXPERT_COUNT, expert->parameters, expert->gradients);
    memset(expert->gradients, 0, sizeof expert->gradients);
}

static int route(const float *x) {
    int best = 0;
    float nearest = -1e9f;
    for (int e = 0; e < EXPERTS; e++) {
        float along = 0;
        for (int i = 0; i < FEATURES; i++)
            along += x[i] * hash_to_float(((uint64_t)3 << 40) + (uint64_t)(e * FEATURES + i));
        if (along > nearest) {
            nearest = along;
            best = e;
        }
    }
    return best;
}

/* ------------------------------------------------------------------------------------------------------- communication */

/* Rank r has the experts expert_begin(r) … expert_begin(r + 1) − 1. */
static int expert_begin(const struct job *job, int rank) { return EXPERTS * rank / job->nranks; }

/* How many samples of each rank go to each expert in this step. All ranks know all these counts. */
struct traffic {
    int32_t rows[MOST_RANKS][EXPERTS];
    /* out[r]: this rank's samples for the experts of rank r. in[r]: samples of rank r for this rank's experts. */
    size_t out[MOST_RANKS], in[MOST_RANKS];
};

static void traffic_learn(struct job *job, struct traffic *traffic, const int32_t *mine) {
    CHECK(collet_allgather(mine, traffic->rows, EXPERTS, COLLET_INT32, job->comm, NULL));
    job_count(job, ALLGATHER, EXPERTS * sizeof *mine);
    for (int rank = 0; rank < job->nranks; rank++) {
        traffic->out[rank] = traffic->in[rank] = 0;
        for (int e = expert_begin(job, rank); e < expert_begin(job, rank + 1); e++)
            traffic->out[rank] += (size_t)mine[e];
        for (int e = expert_begin(job, job->rank); e < expert_begin(job, job->rank + 1); e++)
            traffic->in[rank] += (size_t)traffic->rows[rank][e];
    }
}

/* Exchanges rows of `width` floats: out[r] rows go to rank r, and in[r] rows come from rank r. Rows stand in the order of ranks. */
static void exchange(struct job *job, int width, const size_t *out, const float *from, const size_t *in, float *to) {
    size_t send_counts[MOST_RANKS], send_at[MOST_RANKS + 1] = {0}, counts[MOST_RANKS], at[MOST_RANKS + 1] = {0};
    for (int rank = 0; rank < job->nranks; rank++) {
        send_counts[rank] = out[rank] * (size_t)width;
        counts[rank] = in[rank] * (size_t)width;
        send_at[rank + 1] = send_at[rank] + send_counts[rank];
        at[rank + 1] = at[rank] + counts[rank];
    }
    CHECK(collet_alltoallv(from, send_counts, send_at, to, counts, at, COLLET_FLOAT32, job->comm, NULL));
    job_count(job, ALLTOALLV, send_at[job->nranks] * sizeof(float));
}

/* ------------------------------------------------------------------------------------------------------------- training */

/* home: this rank's samples, in the order of their experts. guests: the samples that came to this rank's experts: first those of rank 0, in
 * the order of experts, then those of rank 1 … */
struct home {
    int rows;
    float x[BATCH * FEATURES], y[BATCH * OUTPUTS], target[BATCH * OUTPUTS], dy[BATCH * OUTPUTS];
};
struct guests {
    float x[BATCH * FEATURES], hidden[BATCH * WIDTH], y[BATCH * OUTPUTS], dy[BATCH * OUTPUTS];
};

/* Makes this rank's samples of a step, sorted by expert. rows[e] becomes the number of samples for expert e. */
static void home_make(const struct job *job, struct home *home, int step, int32_t *rows) {
    float x[BATCH * FEATURES], target[BATCH * OUTPUTS];
    int begin = part_begin(job->rank, job->nranks), sorted = 0;
    home->rows = part_begin(job->rank + 1, job->nranks) - begin;
    samples_make(batch_first(step) + begin, home->rows, x, target);
    for (int e = 0; e < EXPERTS; e++) {
        int before = sorted;
        for (int row = 0; row < home->rows; row++)
            if (route(x + row * FEATURES) == e) {
                memcpy(home->x + sorted * FEATURES, x + row * FEATURES, FEATURES * sizeof(float));
                memcpy(home->target + sorted * OUTPUTS, target + row * OUTPUTS, OUTPUTS * sizeof(float));
                sorted++;
            }
        rows[e] = sorted - before;
    }
}

/* Runs all guests through their experts, block by block. A block holds the samples of one rank for one expert. Blocks of an expert come in
 * the order of ranks, so its gradient is summed in the order of the samples, however many ranks there are. */
static void guests_pass(const struct job *job, const struct traffic *traffic, struct expert *experts,
                        struct guests *guests, bool backward) {
    int at = 0;
    for (int rank = 0; rank < job->nranks; rank++)
        for (int e = expert_begin(job, job->rank); e < expert_begin(job, job->rank + 1); e++) {
            int rows = traffic->rows[rank][e];
            float *x = guests->x + at * FEATURES, *hidden = guests->hidden + at * WIDTH;
            float *y = guests->y + at * OUTPUTS, *dy = guests->dy + at * OUTPUTS;
            if (backward)
                expert_backward(&experts[e], rows, x, hidden, y, dy);
            else
                expert_forward(&experts[e], rows, x, hidden, y);
            at += rows;
        }
}

/* Does one step. Returns the share of this rank's samples in the loss of the batch. */
static float train_step(struct job *job, struct expert *experts, struct traffic *traffic, int step) {
    static struct home home;
    static struct guests guests;
    int32_t rows[EXPERTS];
    home_make(job, &home, step, rows);
    traffic_learn(job, traffic, rows);

    exchange(job, FEATURES, traffic->out, home.x, traffic->in, guests.x);
    guests_pass(job, traffic, experts, &guests, false);
    exchange(job, OUTPUTS, traffic->in, guests.y, traffic->out, home.y);
    float loss = loss_of(home.rows, home.y, home.target, home.dy);
    exchange(job, OUTPUTS, traffic->out, home.dy, traffic->in, guests.dy);
    guests_pass(job, traffic, experts, &guests, true);
    for (int e = expert_begin(job, job->rank); e < expert_begin(job, job->rank + 1); e++)
        expert_update(&experts[e]);
    return loss;
}

/* Does the same training without collet, sample by sample. */
static void train_alone(struct expert *experts) {
    float x[FEATURES], target[OUTPUTS], hidden[WIDTH], y[OUTPUTS], dy[OUTPUTS];
    for (int step = 0; step < STEPS; step++) {
        for (int row = 0; row < BATCH; row++) {
            samples_make(batch_first(step) + row, 1, x, target);
            struct expert *expert = &experts[route(x)];
            expert_forward(expert, 1, x, hidden, y);
            loss_of(1, y, target, dy);
            expert_backward(expert, 1, x, hidden, y, dy);
        }
        for (int e = 0; e < EXPERTS; e++)
            expert_update(&experts[e]);
    }
}

static void print_traffic(const struct job *job, const struct traffic *traffic) {
    for (int rank = 0; rank < job->nranks; rank++) {
        printf("samples of rank %d for experts 0 … %d:", rank, EXPERTS - 1);
        for (int e = 0; e < EXPERTS; e++)
            printf(" %2d", (int)traffic->rows[rank][e]);
        printf("\n");
    }
}

int main(int argc, char **argv) {
    static struct expert experts[EXPERTS], alone[EXPERTS]; /* experts: only those of this rank are used */
    struct traffic traffic;
    struct job job = job_start(argc, argv);
    if (job.nranks > MOST_RANKS) {
        fprintf(stderr, "moe_alltoallv: at most %d ranks, one per expert\n", MOST_RANKS);
        return 2;
    }
    if (job.rank == 0)
        printf("mixture of experts: %d experts on %d ranks, %d samples per step\n", EXPERTS, job.nranks, BATCH);
    for (int e = 0; e < EXPERTS; e++) {
        expert_init(&experts[e], e);
        expert_init(&alone[e], e);
    }
    for (int step = 0; step < STEPS; step++) {
        float share = train_step(&job, experts, &traffic, step);
        if (step % STEPS_PER_LINE == 0)
            job_print_loss(&job, step, share);
    }
    if (job.rank == 0)
        print_traffic(&job, &traffic);

    /* No sum has contributions of several ranks. So every number of ranks gives the same bits. */
    train_alone(alone);
    double difference = 0;
    for (int e = expert_begin(&job, job.rank); e < expert_begin(&job, job.rank + 1); e++) {
        double of_expert = largest_difference(EXPERT_COUNT, experts[e].parameters, alone[e].parameters);
        if (!(of_expert <= difference))
            difference = of_expert;
    }
    int status = job_report(&job, difference, 0);
    CHECK(collet_comm_destroy(job.comm));
    return status;
}
