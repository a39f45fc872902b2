/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds step programs: four growing arrays (workers, steps, peers, locals) and one sticky error.
 *
 *   workers   │ 0 … 2 │ 3 … 3 │                  each worker has a run of steps
 *   steps     │ s0 │ s1 │ s2 │ s3 │              each step has a run of peers to receive from, and a run of peers to send to
 *   peers     │ (1,0) │ (2,0) │ (3,0) │          (rank, lane); steps with equal runs of peers share the entries
 *   locals    │ IN 3 │ IN 2 │ IN 1 │             operands in memory, in the order of the steps
 *
 * Read next: cast.c, then check.c.
 */
#include "base/err.h"
#include "base/grow.h"
#include "base/memory.h"
#include "program/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct prog_facts prog_facts[] = {
#define X(upper, lower, in, out, reduces, root, in_place)                                                              \
    {#lower, PROG_##in, PROG_##out, PROG_##reduces, PROG_##root, PROG_##in_place},
    PROG_COLLECTIVES(X)
#undef X
};

const char *prog_collective_name(enum prog_collective collective) {
    return (unsigned)collective < PROG_COLLECTIVE_COUNT ? prog_facts[collective].name : "?";
}

bool prog_collective_find(const char *text, size_t length, enum prog_collective *collective_p) {
    for (enum prog_collective c = 0; c < PROG_SEND; c++)
        if (strlen(prog_facts[c].name) == length && strncasecmp(prog_facts[c].name, text, length) == 0) {
            *collective_p = c;
            return true;
        }
    return false;
}

static int blocks_of_layout(const struct prog *prog, enum prog_layout layout) {
    switch (layout) {
    case PROG_PER_RANK: return prog->nranks * prog->nslices;
    case PROG_COUNTS: return prog->nranks;
    case PROG_NONE: return 1;
    default: return prog->nslices;
    }
}

int prog_region_blocks(const struct prog *prog, enum step_region region) {
    switch (region) {
    case STEP_IN: return blocks_of_layout(prog, prog_facts[prog->collective].in);
    case STEP_OUT: return blocks_of_layout(prog, prog_facts[prog->collective].out);
    case STEP_TMP: return prog->ntmp;
    default: return 0;
    }
}

bool prog_reads_in(const struct prog *prog) {
    for (int l = 0; l < prog->nlocals; l++)
        if (prog->locals[l].region == STEP_IN)
            return true;
    return false;
}

/* ---- errors ---- */

/* Records an error, with the number of the step that comes next. Only the first error of a program is recorded. Returns false. */
static bool __attribute__((format(printf, 2, 3))) refuse(struct prog *prog, const char *format, ...) {
    if (prog->error != COLLET_SUCCESS)
        return false;
    int worker = prog->nworkers > 0 ? prog->nworkers - 1 : 0;
    int step = prog->nworkers > 0 ? prog->workers[worker].nsteps : 0;
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    prog->error = err_set(COLLET_ERR_INTERNAL, "program of %s, rank %d of %d, worker %d step %d: %s",
                          prog_collective_name(prog->collective), prog->rank, prog->nranks, worker, step, what);
    return false;
}

/* Makes room for `more` entries after `used` ones in an array of the program. If there is no memory, it sets the sticky error. */
static bool make_room(struct prog *prog, void *array_p, int used, int more, int *room, size_t entry_bytes) {
    if (prog->error == COLLET_SUCCESS && !grow(array_p, (size_t)used, (size_t)more, room, entry_bytes))
        prog->error = err_set(COLLET_ERR_NO_MEMORY, "no memory for a program of %s among %d ranks",
                              prog_collective_name(prog->collective), prog->nranks);
    return prog->error == COLLET_SUCCESS;
}

/* ---- programs and workers ---- */

/* Creates an empty program, which uses `shape` until prog_finish(). */
static struct prog *prog_create(enum prog_collective collective, const struct prog_shape *shape, int rank, int root) {
    struct prog *prog = calloc(1, sizeof(*prog));
    if (prog == NULL)
        return NULL;
    prog->collective = collective;
    prog->shape = shape;
    prog->nranks = shape->nranks;
    prog->rank = rank;
    prog->root = root;
    prog->nslices = 1;
    prog->longest_run = 1;
    memset(prog->peer_heads, 0xff, sizeof(prog->peer_heads)); /* All are −1: the chains are empty */
    return prog;
}

void prog_destroy(struct prog *prog) {
    if (prog == NULL)
        return;
    free(prog->workers);
    free(prog->steps);
    free(prog->peers);
    free(prog->locals);
    free(prog->origins);
    free(prog->peer_next);
    free(prog);
}

/* The numbers of blocks may not change after the first step: steps are checked against them. */
static void check_no_step(struct prog *prog) {
    if (prog->nsteps > 0)
        refuse(prog, "a number of blocks after the first step");
}

void prog_slices(struct prog *prog, int nslices) {
    check_no_step(prog);
    if (nslices < 1)
        refuse(prog, "buffers cut into fewer than one slice");
    if (nslices > 1 && prog_is_counted(prog->collective))
        refuse(prog, "slices of blocks that have counts of their own");
    if (nslices > UINT16_MAX && !prog_is_sliced(prog->collective)) /* work_args.row_blocks */
        refuse(prog, "more than %d slices of each block", UINT16_MAX);
    prog->nslices = nslices;
}

void prog_tmp(struct prog *prog, int nblocks) {
    check_no_step(prog);
    prog->ntmp = nblocks;
}

void prog_longest_run(struct prog *prog, int blocks) { prog->longest_run = blocks; }

static void end_worker(struct prog *prog) {
    if (prog->nworkers > 0 && prog->workers[prog->nworkers - 1].nsteps == 0)
        refuse(prog, "a worker without a step");
}

void prog_worker(struct prog *prog) {
    end_worker(prog);
    if (make_room(prog, &prog->workers, prog->nworkers, 1, &prog->workers_room, sizeof(*prog->workers)))
        prog->workers[prog->nworkers++] = (struct prog_worker){.first_step = prog->nsteps, .nsteps = 0};
}

/* Adds 1 to touches[block] for each block of a run. touches[block] counts how often steps read or write that block of OUT. */
static void count_run(const struct block_run *run, int count, int nblocks, int *touches) {
    for (int i = 0; i < count; i++)
        touches[count == 1 ? (uint32_t)run->first : geometry_block(run, (uint32_t)i, (uint32_t)nblocks)]++;
}

static void find_early_landings(struct prog *prog) {
    int nblocks = prog_region_blocks(prog, STEP_OUT), *touches;
    if (prog->error != COLLET_SUCCESS)
        return;
    prog->error = memory_get(&touches, (size_t)nblocks, sizeof *touches, "no memory for %d blocks", nblocks);
    for (int k = 0; k < prog->nsteps && prog->error == COLLET_SUCCESS; k++) {
        const struct prog_step *step = &prog->steps[k];
        if (step->store_region == STEP_OUT)
            count_run(&step->store, step->count, nblocks, touches);
        for (int l = step->locals_first; l < step->locals_first + step->locals_count; l++)
            if (prog->locals[l].region == STEP_OUT)
                count_run(&prog->locals[l].run, step->count, nblocks, touches);
    }
    for (int k = 0; k < prog->nsteps && prog->error == COLLET_SUCCESS; k++) {
        struct prog_step *step = &prog->steps[k];
        bool copies = step->recv_count == 1 && step->locals_count == 0 && step->count == 1;
        bool alone = copies && step->store_region == STEP_OUT && touches[step->store.first] == 1;
        step->lands = alone ? STEP_LANDS_EARLY : STEP_LANDS_IN_TIME;
    }
    free(touches);
}

/* Completes the program. Returns the program's first error: no memory, a block or peer out of range, a step without effect … */
static enum collet_result prog_finish(struct prog *prog) {
    if (prog->nworkers == 0)
        refuse(prog, "no worker");
    end_worker(prog);
    find_early_landings(prog);
    prog->shape = NULL; /* The shape may end before the program */
    return prog->error;
}

/* ---- peers ---- */

static int count_peers(const struct prog *prog, const struct peers *peers) {
    return peers->count == OTHERS ? prog->nranks - 1 : peers->count;
}

static struct prog_peer peer_of(const struct prog *prog, const struct peers *peers, int i) {
    bool behind_self = peers->count == OTHERS && i >= prog_wrap(prog, prog->rank - peers->first);
    int rank = peers->ranks != NULL ? peers->ranks[i] : prog_wrap(prog, peers->first + i + (behind_self ? 1 : 0));
    return (struct prog_peer){rank, peers->lane};
}

/* The chain of entries whose peers have the same hash, newest first. With it a step's peers are found quickly in a long table. */
static int *chain_of(struct prog *prog, struct prog_peer peer) {
    uint32_t hash = (uint32_t)peer.rank * 0x9e3779b1u + (uint32_t)peer.lane * 0x85ebca6bu;
    return &prog->peer_heads[(hash ^ hash >> 15) % PROG_BUCKETS];
}

static bool stands_at(const struct prog *prog, const struct peers *peers, int first) {
    int same = 0, count = count_peers(prog, peers);
    for (; same < count && first + same < prog->npeers; same++) {
        struct prog_peer a = peer_of(prog, peers, same), b = prog->peers[first + same];
        if (a.rank != b.rank || a.lane != b.lane)
            return false;
    }
    return same == count;
}

/* Returns the index of the first of these peers in the table. If they do not stand there in this order, it appends them. */
static int find_or_add_peers(struct prog *prog, const struct peers *peers) {
    int count = count_peers(prog, peers), first = count > 0 ? *chain_of(prog, peer_of(prog, peers, 0)) : 0;
    while (first >= 0 && !stands_at(prog, peers, first))
        first = prog->peer_next[first];
    if (first >= 0 || !make_room(prog, &prog->peers, prog->npeers, count, &prog->peers_room, sizeof(*prog->peers)) ||
        !make_room(prog, &prog->peer_next, prog->npeers, count, &prog->next_room, sizeof(*prog->peer_next)))
        return first;
    first = prog->npeers;
    for (int i = 0; i < count; i++) {
        struct prog_peer peer = peer_of(prog, peers, i);
        int *chain = chain_of(prog, peer);
        prog->peer_next[prog->npeers] = *chain;
        *chain = prog->npeers;
        prog->peers[prog->npeers++] = peer;
    }
    return first;
}

/* ---- what is wrong with a step ---- */

static bool check_peers(struct prog *prog, const struct peers *peers) {
    int count = count_peers(prog, peers);
    if (count < 0 || count > prog->nranks)
        return refuse(prog, count < 0 ? "a negative number of peers" : "more peers than ranks");
    for (int i = 0; i < count; i++) {
        struct prog_peer peer = peer_of(prog, peers, i);
        if (peer.rank < 0 || peer.rank >= prog->nranks)
            return refuse(prog, "a peer out of range");
        if (peer.rank == prog->rank && !prog_is_p2p(prog->collective))
            return refuse(prog, "a rank is its own peer: use a local operand instead");
        if (peer.lane < 0 || peer.lane > PROG_LANE_P2P)
            return refuse(prog, "a lane out of range");
    }
    return true;
}

/* On PROG_LANE_ALL, the peers must be all other ranks, from the next rank on: this is the order of the consumers of a fan (fifo/fan.h). */
static bool check_receivers(struct prog *prog, const struct peers *peers) {
    int count = count_peers(prog, peers);
    bool all = count == prog->nranks - 1;
    for (int i = 0; i < count && all && peers->lane == PROG_LANE_ALL; i++)
        all = peer_of(prog, peers, i).rank == prog_wrap(prog, prog->rank + 1 + i);
    if (peers->lane == PROG_LANE_ALL && count > 0 && !all)
        return refuse(prog,
                      "a message on the lane for all other ranks that does not go to each, from the next rank on");
    return check_peers(prog, peers);
}

void prog_peers(struct prog *prog, struct peers peers) {
    if (check_peers(prog, &peers))
        find_or_add_peers(prog, &peers);
}

/* Checks a run: its first block must exist, and it may not be longer than its region. (It may wrap around.) */
static bool check_run(struct prog *prog, const char *what, const struct local *local, int count) {
    int nblocks = prog_region_blocks(prog, local->region);
    if (local->run.count != count)
        return refuse(prog, "%s differs in its number of blocks", what);
    if (local->run.group < 1)
        return refuse(prog, "%s goes in groups of fewer than one block", what);
    return (local->run.first >= 0 && local->run.first < nblocks && count <= nblocks) ||
           refuse(prog, "%s is out of range", what);
}

static bool check_locals(struct prog *prog, const struct local_list *locals, int nreceived, int count) {
    for (int i = 0; i < locals->count; i++) {
        if (locals->list[i].at < (i > 0 ? locals->list[i - 1].at : 0))
            return refuse(prog, "local operands are not listed in the order of their places");
        if (locals->list[i].at > nreceived)
            return refuse(prog, "the local operand's place is behind more operands than are received");
        if (!check_run(prog, "the local operand", &locals->list[i].local, count))
            return false;
    }
    return true;
}

static bool check_step(struct prog *prog, const struct step_text *text, const struct local_list *locals,
                       const struct local *about) {
    int count = about->run.count, nreceived = count_peers(prog, &text->recv);
    if (prog->nworkers == 0)
        return refuse(prog, "a step before the first prog_worker()");
    if (text->local.region != STEP_NONE && text->local_list.count != 0)
        return refuse(prog, "local operands given both alone and as a list: use one");
    if (nreceived == 0 && locals->count == 0)
        return refuse(prog, "no operand: neither received nor local");
    if (count_peers(prog, &text->send) == 0 && text->store.region == STEP_NONE)
        return refuse(prog, "no place for the result: neither sent nor stored");
    if (text->store.region == STEP_IN)
        return refuse(prog, "a store to a region other than OUT and TMP");
    if (about->region != STEP_IN && about->region != STEP_OUT)
        return refuse(prog, "no block of IN or OUT, no length_of: nothing says how long the step is");
    if (count < 1)
        return refuse(prog, "a run of fewer than one block");
    return check_locals(prog, locals, nreceived, count) &&
           (text->store.region == STEP_NONE || check_run(prog, "the block that is stored", &text->store, count)) &&
           check_run(prog, "the block that it is as long as", about, count) && check_peers(prog, &text->recv) &&
           check_receivers(prog, &text->send);
}

/* ---- emitting ---- */

/* The blocks that decide the lengths of the step's pieces. */
static const struct local *about_of(const struct step_text *text, const struct local_list *locals) {
    if (text->length_of.region != STEP_NONE)
        return &text->length_of;
    if (text->store.region == STEP_OUT)
        return &text->store;
    for (int i = 0; i < locals->count; i++)
        if (locals->list[i].local.region != STEP_TMP)
            return &locals->list[i].local;
    return &text->length_of; /* an error: see check_step() */
}

static struct block_run block_run_of(const struct local *local) {
    const struct run *run = &local->run;
    return run->count == 1 ? (struct block_run){run->first, 1, 1}
                           : (struct block_run){run->first, run->stride, run->group};
}

/* Appends the step's local operands to the table. Returns the index of the first one. */
static int add_locals(struct prog *prog, const struct local_list *locals) {
    int first = prog->nlocals;
    if (make_room(prog, &prog->locals, first, locals->count, &prog->locals_room, sizeof(*prog->locals)))
        for (int i = 0; i < locals->count; i++)
            prog->locals[prog->nlocals++] = (struct prog_local){
                locals->list[i].at, block_run_of(&locals->list[i].local), (int)locals->list[i].local.region};
    return first;
}

/* Is this a single block of IN or OUT? Only such a block may be lent, because only such a block stays unchanged after the step. */
static bool may_be_lent(const struct local *local) {
    return (local->region == STEP_IN || local->region == STEP_OUT) && local->run.count == 1;
}

static enum step_loan loan_of(const struct prog *prog, const struct step_text *text, const struct local_list *locals) {
    if (text->send.count == 0 || text->copied || prog->schedule != NULL)
        return STEP_LENDS_NOTHING;
    if (text->recv.count == 0 && locals->count == 1 && may_be_lent(&locals->list[0].local))
        return STEP_LENDS_OPERAND;
    return may_be_lent(&text->store) ? STEP_LENDS_RESULT : STEP_LENDS_NOTHING;
}

void prog_emit(struct prog *prog, struct step_text text) {
    struct local_operand alone = {text.local_at, text.local};
    struct local_list locals = text.local.region != STEP_NONE ? (struct local_list){&alone, 1} : text.local_list;
    const struct local *about = about_of(&text, &locals);
    if (prog->error != COLLET_SUCCESS || !check_step(prog, &text, &locals, about))
        return;
    struct prog_step step = {
        .recv_first = find_or_add_peers(prog, &text.recv),
        .recv_count = count_peers(prog, &text.recv),
        .send_first = find_or_add_peers(prog, &text.send),
        .send_count = count_peers(prog, &text.send),
        .locals_first = add_locals(prog, &locals),
        .locals_count = locals.count,
        .count = about->run.count,
        .store = block_run_of(&text.store),
        .about = block_run_of(about),
        .store_region = (uint8_t)text.store.region,
        .about_region = (uint8_t)about->region,
        .finish = text.finish,
        .lends = (uint8_t)loan_of(prog, &text, &locals),
        .lends_apart = text.copied_in_place,
    };
    if (!make_room(prog, &prog->steps, prog->nsteps, 1, &prog->steps_room, sizeof(*prog->steps)) ||
        !make_room(prog, &prog->origins, prog->nsteps, 1, &prog->origins_room, sizeof(*prog->origins)))
        return;
    prog->origins[prog->nsteps] = text.origin;
    prog->steps[prog->nsteps++] = step;
    prog->workers[prog->nworkers - 1].nsteps++;
    if (step.recv_count + step.send_count > 0 && step.count > prog->longest_run)
        prog->longest_run = step.count;
}

/* ---- algorithms ---- */

bool algorithm_applies(const struct algorithm *algorithm, const struct prog_shape *shape) {
    return (algorithm->nranks == 0 || algorithm->nranks == shape->nranks) &&
           (algorithm->applies == NULL || algorithm->applies(shape));
}

static enum collet_result refuse_shape(const struct algorithm *algorithm, const struct prog_shape *shape) {
    char node_ranks[48] = "not all of the same size";
    if (shape->node_ranks > 0)
        snprintf(node_ranks, sizeof(node_ranks), "each of %d rank(s)", shape->node_ranks);
    return err_set(COLLET_ERR_INVALID_ARGUMENT,
                   "%s %s takes %s, not %d ranks on %d node(s), %s: choose another algorithm",
                   prog_collective_name(algorithm->collective), algorithm->name, algorithm->where, shape->nranks,
                   shape->nnodes, node_ranks);
}

enum collet_result algorithm_build(const struct algorithm *algorithm, const struct prog_shape *shape, int rank,
                                   int root, struct prog **prog_p) {
    const char *collective = prog_collective_name(algorithm->collective);
    int nranks = shape->nranks;
    if (nranks < 1 || rank < 0 || rank >= nranks || root < 0 || root >= nranks)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "rank %d, root %d of %d ranks (%s): both must be within 0 … nranks−1", rank, root, nranks,
                       collective);
    if (!algorithm_applies(algorithm, shape))
        return refuse_shape(algorithm, shape);
    struct prog *prog = prog_create(algorithm->collective, shape, rank, root);
    if (prog == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a program of %s among %d ranks", collective, nranks);
    prog->schedule = algorithm->schedule;
    algorithm->build(prog);
    enum collet_result result = prog_finish(prog);
    if (result != COLLET_SUCCESS) {
        prog_destroy(prog);
        return result;
    }
    *prog_p = prog;
    return COLLET_SUCCESS;
}
