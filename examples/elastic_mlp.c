/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallelism that survives: ranks are killed, and the others train on. Read train_mlp.c first.
 *
 *        step 30                    │ rank 1 dies                        step 31 …
 *   rank 0 ── allreduce ────────────┼─ error ─ revoke ┐
 *   rank 1 ── allre✗                │                 ├─ shrink ─ catch up ── allreduce, with a third of the batch each
 *   rank 2 ── allreduce ─ update ───┼─ error ─ revoke ┤
 *   rank 3 ── allreduce ────────────┼─ error ─ revoke ┘
 *
 *   revoke     A rank that waits for a living rank would wait on. So a rank that sees an error stops the calls of all ranks.
 *   shrink     The survivors agree on who lives, and get a new communicator.
 *   catch up   The last allreduce may have succeeded on some ranks, which have done that step, and failed on others. The latter take
 *              the parameters of a rank that is ahead. From then on all ranks have the same bits again.
 *
 * Each survivor takes a larger part of the batch, so the sum of the gradients remains that of the whole batch. Another
 * rank may die at any time, also while the others shrink.
 *
 *   elastic_mlp 4 1@30 0@60      four processes; rank 1 is killed in step 30 and rank 0 in step 60
 */
#include "common/mlp.h"

#include "collet.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* For calls without which the program cannot go on. */
#define CHECK(call) check((call), #call)

static void check(enum collet_result result, const char *call) {
    if (result == COLLET_SUCCESS)
        return;
    fprintf(stderr, "%s: %s: %s\n", call, collet_error_string(result), collet_last_error(NULL));
    exit(1);
}

struct trainer {
    struct collet_comm *comm;
    int rank, nranks; /* This rank's number in comm, and the size of comm */
    int step;         /* Number of the next step */
    int dies_in;      /* This rank is killed in this step; −1: it is not killed */
    float parameters[MLP_COUNT];
    float sums[MLP_COUNT + 1]; /* Gradients, and behind them the loss */
};

static void set_comm(struct trainer *t, struct collet_comm *comm) {
    t->comm = comm;
    CHECK(collet_comm_rank(comm, &t->rank));
    CHECK(collet_comm_count(comm, &t->nranks));
}

/* Does one step. If it fails, parameters and step are unchanged. */
static enum collet_result train_step(struct trainer *t) {
    static struct pass pass;
    const int begin = part_begin(t->rank, t->nranks), end = part_begin(t->rank + 1, t->nranks);
    memset(t->sums, 0, sizeof t->sums);
    t->sums[MLP_COUNT] = mlp_gradient(t->parameters, t->sums, batch_first(t->step) + begin, end - begin, &pass);
    if (t->step == t->dies_in)
        kill(getpid(), SIGKILL);
    enum collet_result result =
        collet_allreduce(t->sums, t->sums, MLP_COUNT + 1, COLLET_FLOAT32, COLLET_SUM, t->comm, NULL);
    if (result != COLLET_SUCCESS)
        return result;
    sgd_update(MLP_COUNT, t->parameters, t->sums);
    if (t->rank == 0 && t->step % STEPS_PER_LINE == 0)
        printf("step %3d  loss %.6f  on %d ranks\n", t->step, (double)t->sums[MLP_COUNT], t->nranks);
    t->step++;
    return COLLET_SUCCESS;
}

/* All ranks take the parameters of the rank that has done the most steps; of several, the lowest. */
static enum collet_result catch_up(struct trainer *t) {
    int64_t best = (int64_t)t->step * t->nranks + (t->nranks - 1 - t->rank);
    enum collet_result result = collet_allreduce(&best, &best, 1, COLLET_INT64, COLLET_MAX, t->comm, NULL);
    if (result != COLLET_SUCCESS)
        return result;
    const int ahead = t->nranks - 1 - (int)(best % t->nranks);
    result = collet_broadcast(t->parameters, t->parameters, MLP_COUNT, COLLET_FLOAT32, ahead, t->comm, NULL);
    if (result == COLLET_SUCCESS)
        t->step = (int)(best / t->nranks);
    return result;
}

static void go_on_without_the_dead(struct trainer *t) {
    do {
        struct collet_comm *smaller;
        if (t->rank == 0)
            printf("in step %d: %s\n", t->step, collet_last_error(NULL));
        CHECK(collet_comm_revoke(t->comm));
        CHECK(collet_comm_shrink(t->comm, NULL, 0, &smaller, NULL));
        CHECK(collet_comm_destroy(t->comm));
        set_comm(t, smaller);
    } while (catch_up(t) != COLLET_SUCCESS);
}

/* Do all ranks have the same bits? */
static int report(struct trainer *t) {
    uint64_t hash = 0xcbf29ce484222325u, least = 0, most = 0;
    for (size_t i = 0; i < MLP_COUNT; i++) {
        uint32_t bits;
        memcpy(&bits, &t->parameters[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    CHECK(collet_allreduce(&hash, &least, 1, COLLET_UINT64, COLLET_MIN, t->comm, NULL));
    CHECK(collet_allreduce(&hash, &most, 1, COLLET_UINT64, COLLET_MAX, t->comm, NULL));
    if (t->rank == 0)
        printf("check: the %d ranks that are left %s, bit for bit\n", t->nranks,
               least == most ? "agree" : "do NOT agree");
    return least != most;
}

static int train(struct collet_comm *comm, int dies_in) {
    static struct trainer t;
    t.dies_in = dies_in;
    set_comm(&t, comm);
    mlp_init(t.parameters);
    while (t.step < STEPS)
        if (train_step(&t) != COLLET_SUCCESS)
            go_on_without_the_dead(&t);
    int status = report(&t);
    CHECK(collet_comm_destroy(t.comm));
    return status;
}

/* In which step is this rank killed? An argument such as "1@30" says that rank 1 is killed in step 30. */
static int step_of_death(int rank, int argc, char **argv) {
    int victim, step;
    for (int i = 2; i < argc; i++)
        if (sscanf(argv[i], "%d@%d", &victim, &step) == 2 && victim == rank)
            return step;
    return -1;
}

int main(int argc, char **argv) {
    const int nprocs = argc > 1 ? atoi(argv[1]) : 0;
    if (nprocs < 1) {
        fprintf(stderr, "usage: %s PROCESSES [RANK@STEP …]\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* Lines that a rank has printed are not lost when it is killed */
    struct collet_unique_id id;
    CHECK(collet_get_unique_id(&id)); /* The ranks meet in the parent, which lives longer than they do */
    for (int rank = 0; rank < nprocs; rank++) {
        if (fork() != 0)
            continue;
        struct collet_comm *comm;
        CHECK(collet_comm_init_rank(&comm, nprocs, id, rank));
        return train(comm, step_of_death(rank, argc, argv));
    }
    int failed = 0; /* A killed rank is no failure */
    for (int status; wait(&status) > 0;)
        failed |= WIFEXITED(status) && WEXITSTATUS(status) != 0;
    return failed;
}
