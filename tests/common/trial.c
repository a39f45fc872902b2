/* SPDX-License-Identifier: Apache-2.0 */
#include "common/trial.h"

#include "common/whole.h"

#include <stdio.h>

/* What collet.h says of each collective. */
static const struct shape {
    bool reduces, rooted, in_place, same_everywhere;
} shapes[] = {
    [PROG_ALLREDUCE] = {.reduces = true, .in_place = true, .same_everywhere = true},
    [PROG_REDUCE] = {.reduces = true, .in_place = true, .rooted = true},
    [PROG_BROADCAST] = {.in_place = true, .rooted = true, .same_everywhere = true},
    [PROG_ALLGATHER] = {.in_place = true, .same_everywhere = true},
    [PROG_REDUCESCATTER] = {.reduces = true, .in_place = true},
    [PROG_ALLTOALL] = {.in_place = false},
    [PROG_GATHER] = {.in_place = true, .rooted = true},
    [PROG_SCATTER] = {.in_place = true, .rooted = true},
    [PROG_BARRIER] = {.in_place = false},
    [PROG_ALLGATHERV] = {.in_place = true, .same_everywhere = true},
    [PROG_REDUCESCATTERV] = {.reduces = true, .in_place = true},
    [PROG_ALLTOALLV] = {.in_place = false},
};

enum collet_op trial_op(enum collet_type type, uint64_t dice) {
    enum collet_op op = (enum collet_op)(dice % COLLET_OP_COUNT);
    bool is_there = library_is_whole || op != COLLET_PREMULSUM;
    return is_there && op_takes(op, type) ? op : (enum collet_op)(dice % COLLET_BAND);
}

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

/* ---- what is where ---- */

static void add_block(struct trial_buffer *buffer, size_t at, size_t count, int rank, size_t first) {
    buffer->blocks[buffer->nblocks++] = (struct trial_block){at, count, rank, first};
    buffer->elems = at + count > buffer->elems ? at + count : buffer->elems;
}

/* Elements of the block that goes from one rank to another, where blocks have counts of their own: often none. */
static size_t count_of(const struct trial_call *c, int from, int to) {
    from = c->collective == PROG_REDUCESCATTERV ? 0 : from;
    to = c->collective == PROG_ALLGATHERV ? 0 : to;
    uint64_t dice = numbers_hash(c->seed, 4000 + (uint64_t)from, (uint64_t)to);
    return dice % 4 == 0 ? 0 : (dice >> 8) % (c->count + 1);
}

/* Blocks of IN to all ranks, or of OUT from all, with gaps or without, as arguments and as blocks. */
static void describe_blocks(struct trial *trial, bool in, bool gaps) {
    const struct trial_call *c = &trial->call;
    struct trial_buffer *buffer = in ? &trial->in : &trial->out;
    size_t at = 0;
    for (int r = 0; r < c->nranks; r++) {
        size_t first = 0, gap = gaps ? numbers_hash(c->seed, 5000 + (uint64_t)trial->rank, (uint64_t)r + in) % 5 : 0;
        for (int to = 0; to < (in ? r : trial->rank) && c->collective != PROG_ALLGATHERV; to++)
            first += count_of(c, in ? trial->rank : r, to);
        buffer->counts[r] = in ? count_of(c, trial->rank, r) : count_of(c, r, trial->rank);
        buffer->displs[r] = at + gap;
        add_block(buffer, at + gap, buffer->counts[r], in ? trial->rank : r, first);
        at += gap + buffer->counts[r];
    }
    buffer->packed = !gaps;
}

static bool is_root(const struct trial *trial) {
    return !trial_has_root(trial->call.collective) || trial->rank == trial->call.root;
}

/* Element i of IN is element i of the rank's numbers. */
static void describe_in(struct trial *trial) {
    const struct trial_call *c = &trial->call;
    if (c->collective == PROG_REDUCESCATTERV || c->collective == PROG_ALLTOALLV)
        return describe_blocks(trial, true, c->collective == PROG_ALLTOALLV && c->seed % 3 > 0);
    if (c->collective == PROG_ALLGATHERV)
        return add_block(&trial->in, 0, count_of(c, trial->rank, 0), trial->rank, 0);
    bool all = c->collective == PROG_REDUCESCATTER || c->collective == PROG_ALLTOALL || c->collective == PROG_SCATTER;
    bool reads = c->collective != PROG_BROADCAST && c->collective != PROG_SCATTER;
    if (c->collective != PROG_BARRIER && (reads || is_root(trial)))
        add_block(&trial->in, 0, c->count * (all ? (size_t)c->nranks : 1), trial->rank, 0);
}

static void describe_out(struct trial *trial) {
    const struct trial_call *c = &trial->call;
    struct trial_buffer *out = &trial->out;
    size_t n = c->count, own = n * (size_t)trial->rank;
    const struct trial_block *own_in = &trial->in.blocks[trial->rank];
    switch (c->collective) {
    case PROG_ALLREDUCE: return add_block(out, 0, n, TRIAL_ALL, 0);
    case PROG_REDUCE: return is_root(trial) ? add_block(out, 0, n, TRIAL_ALL, 0) : (void)0;
    case PROG_REDUCESCATTER: return add_block(out, 0, n, TRIAL_ALL, own);
    case PROG_REDUCESCATTERV: return add_block(out, 0, own_in->count, TRIAL_ALL, own_in->first);
    case PROG_ALLGATHERV:
    case PROG_ALLTOALLV: return describe_blocks(trial, false, c->seed % 2 > 0);
    case PROG_BROADCAST: return add_block(out, 0, n, c->root, 0);
    case PROG_SCATTER: return add_block(out, 0, n, c->root, own);
    case PROG_ALLGATHER:
    case PROG_GATHER:
    case PROG_ALLTOALL:
        for (int from = 0; from < c->nranks && is_root(trial); from++)
            add_block(out, n * (size_t)from, n, from, c->collective == PROG_ALLTOALL ? own : 0);
        return;
    default: return;
    }
}

/* ---- buffers ---- */

static char *block_at(const struct trial *trial, const void *buffer, const struct trial_block *block) {
    return (char *)buffer + block->at * collet_type_size(trial->call.type);
}

static void fill(const struct trial *trial) {
    const struct trial_call *c = &trial->call;
    for (const struct trial_block *b = trial->in.blocks; b < trial->in.blocks + trial->in.nblocks; b++)
        if (trial_reduces(c->collective))
            numbers_fill_operands(block_at(trial, trial->sendbuff, b), c->type, c->op, c->seed, trial->rank, b->first,
                                  b->count);
        else
            numbers_fill(block_at(trial, trial->sendbuff, b), c->type, c->seed, trial->rank, b->first, b->count);
}

/* Where one of the two is only a block, it is the rank's own block. */
void trial_places(const struct trial *trial, size_t *in_at, size_t *out_at) {
    size_t in = trial->in.elems, out = trial->out.elems, own = trial->call.count * (size_t)trial->rank;
    *in_at = in > 0 && out > in ? own : 0;
    *out_at = out > 0 && in > out ? own : 0;
    if (trial->call.collective == PROG_ALLGATHERV)
        *in_at = trial->out.displs[trial->rank];
    if (trial->call.collective == PROG_REDUCESCATTERV)
        *out_at = trial->in.displs[trial->rank];
}

/* One buffer of the larger size. */
static void place_together(struct trial *trial, size_t shift) {
    size_t elem_bytes = collet_type_size(trial->call.type), in_at, out_at;
    size_t in = trial->in.elems, out = trial->out.elems;
    trial_places(trial, &in_at, &out_at);
    guard_create(&trial->out.guard, (in > out ? in : out) * elem_bytes, shift);
    trial->sendbuff = trial->out.guard.data + in_at * elem_bytes;
    trial->recvbuff = trial->out.guard.data + out_at * elem_bytes;
}

static void place_apart(struct trial *trial, size_t shift) {
    size_t elem_bytes = collet_type_size(trial->call.type);
    bool nonsense = !is_root(trial) && numbers_hash(trial->call.seed, 2000, (uint64_t)trial->rank) % 2;
    guard_create(&trial->in.guard, trial->in.elems * elem_bytes, shift);
    guard_create(&trial->out.guard, trial->out.elems * elem_bytes, trial->call.seed % 2 ? 0 : shift);
    trial->sendbuff = trial->in.guard.data;
    trial->recvbuff = trial->out.guard.data;
    if (nonsense && trial->in.nblocks == 0)
        trial->sendbuff = (const void *)8; /* not the root's: never looked at */
    if (nonsense && trial->out.nblocks == 0)
        trial->recvbuff = NULL;
}

void trial_describe(struct trial *trial, const struct trial_call *call, int rank) {
    *trial = (struct trial){.call = *call, .rank = rank};
    numbers_scalar(&trial->scalar, call->type, rank);
    describe_in(trial);
    describe_out(trial);
}

void trial_prepare(struct trial *trial, const struct trial_call *call, int rank) {
    size_t shift = numbers_hash(call->seed, 3000, (uint64_t)rank) % 8 * collet_type_size(call->type);
    trial_describe(trial, call, rank);
    if (call->in_place)
        place_together(trial, shift);
    else
        place_apart(trial, shift);
    fill(trial);
    if (trial->in.guard.memory != NULL)
        guard_seal(&trial->in.guard);
    guard_seal(&trial->out.guard);
}

static enum collet_result call_with(const struct trial *trial, enum collet_op op, struct collet_comm *comm,
                                    void *stream) {
    const struct trial_call *c = &trial->call;
    const void *in = trial->sendbuff;
    void *out = trial->recvbuff;
    const size_t *in_displs = trial->in.packed ? NULL : trial->in.displs;
    const size_t *out_displs = trial->out.packed ? NULL : trial->out.displs;
    switch (c->collective) {
    case PROG_ALLREDUCE: return collet_allreduce(in, out, c->count, c->type, op, comm, stream);
    case PROG_ALLGATHER: return collet_allgather(in, out, c->count, c->type, comm, stream);
    case PROG_REDUCESCATTER: return collet_reducescatter(in, out, c->count, c->type, op, comm, stream);
    case PROG_ALLTOALL: return collet_alltoall(in, out, c->count, c->type, comm, stream);
    case PROG_BROADCAST: return collet_broadcast(in, out, c->count, c->type, c->root, comm, stream);
    case PROG_REDUCE: return collet_reduce(in, out, c->count, c->type, op, c->root, comm, stream);
    case PROG_GATHER: return collet_gather(in, out, c->count, c->type, c->root, comm, stream);
    case PROG_SCATTER: return collet_scatter(in, out, c->count, c->type, c->root, comm, stream);
    case PROG_BARRIER: return collet_barrier(comm, stream);
    case PROG_ALLGATHERV:
        return collet_allgatherv(in, trial->in.elems, out, trial->out.counts, out_displs, c->type, comm, stream);
    case PROG_REDUCESCATTERV: return collet_reducescatterv(in, out, trial->in.counts, c->type, op, comm, stream);
    case PROG_ALLTOALLV:
        return collet_alltoallv(in, trial->in.counts, in_displs, out, trial->out.counts, out_displs, c->type, comm,
                                stream);
    default: return COLLET_ERR_UNSUPPORTED;
    }
}

/* On the host the scalar may be read by the call, too. The operator is gone before a group runs the call. */
enum collet_result trial_run_in(const struct trial *trial, struct collet_comm *comm, void *stream) {
    const struct trial_call *c = &trial->call;
    enum collet_op op;
    int device;
    if (c->op != COLLET_PREMULSUM || !trial_reduces(c->collective))
        return call_with(trial, c->op, comm, stream);
    enum collet_result result = collet_comm_device(comm, &device);
    bool late = result == COLLET_SUCCESS && device == COLLET_DEVICE_HOST && c->seed % 2;
    if (result == COLLET_SUCCESS)
        result = collet_op_create_premul_sum(&op, &trial->scalar, c->type,
                                             late ? COLLET_SCALAR_DEVICE : COLLET_SCALAR_HOST, comm);
    if (result != COLLET_SUCCESS)
        return result;
    result = call_with(trial, op, comm, stream);
    enum collet_result destroyed = collet_op_destroy(op, comm);
    return result != COLLET_SUCCESS ? result : destroyed;
}

enum collet_result trial_run(struct trial *trial, struct collet_comm *comm) { return trial_run_in(trial, comm, NULL); }

static bool check_block(const struct trial *trial, const struct trial_block *b, char why[NUMBERS_WHY_BYTES]) {
    const struct trial_call *c = &trial->call;
    const char *at = block_at(trial, trial->recvbuff, b);
    if (b->rank == TRIAL_ALL)
        return numbers_reduced(at, c->type, c->op, c->nranks, c->seed, b->first, b->count, why);
    return numbers_moved(at, c->type, c->seed, b->rank, b->first, b->count, why);
}

bool trial_is_right(const struct trial *trial, char why[TRIAL_WHY_BYTES]) {
    char wrong[NUMBERS_WHY_BYTES];
    for (int k = 0; k < trial->out.nblocks; k++)
        if (trial->out.blocks[k].count > 0 && !check_block(trial, &trial->out.blocks[k], wrong)) {
            snprintf(why, TRIAL_WHY_BYTES, "rank %d: block %d: %s", trial->rank, k, wrong);
            return false;
        }
    return true;
}

bool trial_is_clean(const struct trial *trial, char why[TRIAL_WHY_BYTES]) {
    long offset;
    for (const struct trial_block *b = trial->out.blocks; b < trial->out.blocks + trial->out.nblocks; b++)
        guard_release(&trial->out.guard, block_at(trial, trial->recvbuff, b),
                      b->count * collet_type_size(trial->call.type));
    if (!guard_kept(&trial->out.guard, &offset)) {
        snprintf(why, TRIAL_WHY_BYTES, "rank %d: byte %ld of recvbuff, no part of the result, was written", trial->rank,
                 offset);
        return false;
    }
    if (trial->in.guard.memory != NULL && !guard_kept(&trial->in.guard, &offset)) {
        snprintf(why, TRIAL_WHY_BYTES, "rank %d: byte %ld of sendbuff was written", trial->rank, offset);
        return false;
    }
    return true;
}

bool trial_check(const struct trial *trial, char why[TRIAL_WHY_BYTES]) {
    return trial_is_right(trial, why) && trial_is_clean(trial, why);
}

uint64_t trial_digest(const struct trial *trial) {
    uint64_t digest = 0;
    for (const struct trial_block *b = trial->out.blocks; b < trial->out.blocks + trial->out.nblocks; b++)
        digest = numbers_hash(
            digest, 0,
            numbers_digest(block_at(trial, trial->recvbuff, b), b->count * collet_type_size(trial->call.type)));
    return digest;
}

void trial_destroy(struct trial *trial) {
    guard_destroy(&trial->in.guard);
    guard_destroy(&trial->out.guard);
}
