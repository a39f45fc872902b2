/* SPDX-License-Identifier: Apache-2.0 */
#include "common/trial.h"

#include <stdio.h>

/* Sizes of the buffers in blocks of count elements: 1, or nranks. */
static const struct shape {
    bool reduces, rooted, in_place, same_everywhere, sends_all, receives_all;
} shapes[] = {
    [PROG_ALLREDUCE] = {.reduces = true, .in_place = true, .same_everywhere = true},
    [PROG_REDUCE] = {.reduces = true, .in_place = true, .rooted = true},
    [PROG_BROADCAST] = {.in_place = true, .rooted = true, .same_everywhere = true},
    [PROG_ALLGATHER] = {.in_place = true, .same_everywhere = true, .receives_all = true},
    [PROG_REDUCESCATTER] = {.reduces = true, .in_place = true, .sends_all = true},
    [PROG_ALLTOALL] = {.sends_all = true, .receives_all = true},
};

bool trial_reduces(enum prog_collective collective) { return shapes[collective].reduces; }
bool trial_may_be_in_place(enum prog_collective collective) { return shapes[collective].in_place; }
bool trial_has_root(enum prog_collective collective) { return shapes[collective].rooted; }
bool trial_same_everywhere(enum prog_collective collective) { return shapes[collective].same_everywhere; }

void trial_name(const struct trial_call *call, char name[TRIAL_NAME_BYTES]) {
    char root[16] = "";
    if (trial_has_root(call->collective))
        snprintf(root, sizeof(root), " root=%d", call->root);
    snprintf(name, TRIAL_NAME_BYTES, "%s %s %s %s count=%zu n=%d%s", prog_collective_name(call->collective),
             type_name(call->type), trial_reduces(call->collective) ? op_name(call->op) : "-",
             call->in_place ? "in-place" : "out-of-place", call->count, call->nranks, root);
}

static bool is_root(const struct trial *trial) {
    return !trial_has_root(trial->call.collective) || trial->rank == trial->call.root;
}

static size_t block_bytes(const struct trial_call *call) { return call->count * collet_type_size(call->type); }

static void fill_input(const struct trial *trial, void *to) {
    const struct trial_call *c = &trial->call;
    size_t count = c->count * (shapes[c->collective].sends_all ? (size_t)c->nranks : 1);
    if (trial_reduces(c->collective))
        numbers_fill_operands(to, c->type, c->op, c->seed, trial->rank, 0, count);
    else if (c->collective != PROG_BROADCAST || is_root(trial))
        numbers_fill(to, c->type, c->seed, trial->rank, 0, count);
}

/* One buffer of the larger size; where the other one is only a block, it is the rank's own block. */
static void place_together(struct trial *trial, size_t shift) {
    const struct trial_call *c = &trial->call;
    const struct shape *shape = &shapes[c->collective];
    size_t block = block_bytes(c), own = block * (size_t)trial->rank;
    bool all = shape->sends_all || shape->receives_all;
    guard_create(&trial->out, block * (all ? (size_t)c->nranks : 1), shift);
    trial->sendbuff = trial->out.data + (shape->receives_all ? own : 0);
    trial->recvbuff = trial->out.data + (shape->sends_all ? own : 0);
    fill_input(trial, (void *)trial->sendbuff);
}

static void place_apart(struct trial *trial, size_t shift) {
    const struct trial_call *c = &trial->call;
    const struct shape *shape = &shapes[c->collective];
    size_t block = block_bytes(c), all = (size_t)c->nranks;
    guard_create(&trial->in, block * (shape->sends_all ? all : 1), shift);
    guard_create(&trial->out, block * (shape->receives_all ? all : 1), 0);
    trial->sendbuff = trial->in.data;
    trial->recvbuff = trial->out.data;
    fill_input(trial, trial->in.data);
    bool nonsense = !is_root(trial) && numbers_hash(c->seed, 2000, (uint64_t)trial->rank) % 2;
    if (nonsense && c->collective == PROG_BROADCAST)
        trial->sendbuff = (const void *)8; /* not the root's: never looked at */
    if (nonsense && c->collective == PROG_REDUCE)
        trial->recvbuff = NULL;
}

void trial_prepare(struct trial *trial, const struct trial_call *call, int rank) {
    *trial = (struct trial){.call = *call, .rank = rank};
    size_t shift = numbers_hash(call->seed, 3000, (uint64_t)rank) % 8 * collet_type_size(call->type);
    if (call->in_place)
        place_together(trial, shift);
    else
        place_apart(trial, shift);
    if (trial->in.memory != NULL)
        guard_seal(&trial->in);
    guard_seal(&trial->out);
    trial->result = trial->recvbuff;
    trial->result_bytes = block_bytes(call) * (shapes[call->collective].receives_all ? (size_t)call->nranks : 1);
    if (call->collective == PROG_REDUCE && !is_root(trial))
        trial->result_bytes = 0;
}

enum collet_result trial_run_in(const struct trial *trial, struct collet_comm *comm, void *stream) {
    const struct trial_call *c = &trial->call;
    const void *in = trial->sendbuff;
    void *out = trial->recvbuff;
    switch (c->collective) {
    case PROG_ALLREDUCE: return collet_allreduce(in, out, c->count, c->type, c->op, comm, stream);
    case PROG_ALLGATHER: return collet_allgather(in, out, c->count, c->type, comm, stream);
    case PROG_REDUCESCATTER: return collet_reducescatter(in, out, c->count, c->type, c->op, comm, stream);
    case PROG_ALLTOALL: return collet_alltoall(in, out, c->count, c->type, comm, stream);
    case PROG_BROADCAST: return collet_broadcast(in, out, c->count, c->type, c->root, comm, stream);
    case PROG_REDUCE: return collet_reduce(in, out, c->count, c->type, c->op, c->root, comm, stream);
    default: return COLLET_ERR_UNSUPPORTED;
    }
}

enum collet_result trial_run(struct trial *trial, struct collet_comm *comm) { return trial_run_in(trial, comm, NULL); }

static bool check_blocks(const struct trial *trial, char why[NUMBERS_WHY_BYTES]) {
    const struct trial_call *c = &trial->call;
    bool alltoall = c->collective == PROG_ALLTOALL;
    for (int from = 0; from < c->nranks; from++)
        if (!numbers_moved((const char *)trial->result + block_bytes(c) * (size_t)from, c->type, c->seed, from,
                           alltoall ? c->count * (size_t)trial->rank : 0, c->count, why))
            return false;
    return true;
}

static bool check_result(const struct trial *trial, char why[NUMBERS_WHY_BYTES]) {
    const struct trial_call *c = &trial->call;
    size_t first = c->collective == PROG_REDUCESCATTER ? c->count * (size_t)trial->rank : 0;
    if (trial->result_bytes == 0)
        return true;
    if (trial_reduces(c->collective))
        return numbers_reduced(trial->result, c->type, c->op, c->nranks, c->seed, first, c->count, why);
    if (c->collective == PROG_BROADCAST)
        return numbers_moved(trial->result, c->type, c->seed, c->root, 0, c->count, why);
    return check_blocks(trial, why);
}

bool trial_is_right(const struct trial *trial, char why[TRIAL_WHY_BYTES]) {
    char wrong[NUMBERS_WHY_BYTES];
    if (check_result(trial, wrong))
        return true;
    snprintf(why, TRIAL_WHY_BYTES, "rank %d: %s", trial->rank, wrong);
    return false;
}

bool trial_is_clean(const struct trial *trial, char why[TRIAL_WHY_BYTES]) {
    long offset;
    if (!guard_kept(&trial->out, trial->result, trial->result_bytes, &offset)) {
        snprintf(why, TRIAL_WHY_BYTES, "rank %d: byte %ld of recvbuff, no part of the result, was written", trial->rank,
                 offset);
        return false;
    }
    if (trial->in.memory != NULL && !guard_kept(&trial->in, NULL, 0, &offset)) {
        snprintf(why, TRIAL_WHY_BYTES, "rank %d: byte %ld of sendbuff was written", trial->rank, offset);
        return false;
    }
    return true;
}

bool trial_check(const struct trial *trial, char why[TRIAL_WHY_BYTES]) {
    return trial_is_right(trial, why) && trial_is_clean(trial, why);
}

uint64_t trial_digest(const struct trial *trial) { return numbers_digest(trial->result, trial->result_bytes); }

void trial_destroy(struct trial *trial) {
    guard_destroy(&trial->in);
    guard_destroy(&trial->out);
}
