/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds step programs: four growing arrays (workers, steps, peers, locals) and one sticky error.
 *
 *   workers   │ 0 … 2 │ 3 … 3 │                  each a run of steps
 *   steps     │ s0 │ s1 │ s2 │ s3 │              each with a run of peers to receive from, and one to send to
 *   peers     │ (1,0) │ (2,0) │ (3,0) │          (rank, lane); steps with the same run share it
 *   locals    │ IN 3 │ IN 2 │ IN 1 │             operands in memory, in the order of the steps
 *
 * Read next: cast.c, then check.c.
 */
#include "base/err.h"
#include "program/program.h"

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

static int blocks_of_layout(const struct prog *prog, enum prog_layout layout) {
    switch (layout) {
    case PROG_WHOLE: return prog->nblocks;
    case PROG_PER_RANK:
    case PROG_COUNTS: return prog->nranks;
    default: return 1;
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

/* ---- emitting ---- */

struct prog *prog_create(enum prog_collective collective, const struct prog_shape *shape, int rank, int root) {
    struct prog *prog = calloc(1, sizeof(*prog));
    if (prog == NULL)
        return NULL;
    prog->collective = collective;
    prog->shape = shape;
    prog->nranks = shape->nranks;
    prog->rank = rank;
    prog->root = root;
    prog->nblocks = 1;
    prog->longest_run = 1;
    return prog;
}

static void drop_chains(struct prog *prog) {
    free(prog->peer_heads);
    free(prog->peer_next);
    prog->peer_heads = prog->peer_next = NULL;
    prog->nbuckets = 0;
}

void prog_destroy(struct prog *prog) {
    if (prog == NULL)
        return;
    free(prog->workers);
    free(prog->steps);
    free(prog->peers);
    free(prog->locals);
    drop_chains(prog);
    free(prog);
}

void prog_slices(struct prog *prog, int nblocks) { prog->nblocks = nblocks; }
void prog_tmp(struct prog *prog, int nblocks) { prog->ntmp = nblocks; }
void prog_longest_run(struct prog *prog, int blocks) { prog->longest_run = blocks; }

/* The array, moved if need be, with room for `more` elements behind the `used`; NULL and a sticky error if there is no
 * memory. */
static void *with_room(struct prog *prog, void *array, int *room, int used, int more, size_t elem_bytes) {
    if (used + more <= *room)
        return array;
    int want = 2 * (used + more);
    void *bigger = realloc(array, (size_t)want * elem_bytes);
    if (bigger == NULL) {
        prog->error = err_set(COLLET_ERR_NO_MEMORY, "no memory for a program of %s among %d ranks",
                              prog_collective_name(prog->collective), prog->nranks);
        return NULL;
    }
    *room = want;
    return bigger;
}

void prog_worker(struct prog *prog) {
    if (prog->error != COLLET_SUCCESS)
        return;
    struct prog_worker *workers =
        with_room(prog, prog->workers, &prog->workers_room, prog->nworkers, 1, sizeof(*workers));
    if (workers == NULL)
        return;
    prog->workers = workers;
    workers[prog->nworkers++] = (struct prog_worker){.first_step = prog->nsteps, .nsteps = 0};
}

/* Peers as a step's text gives them, either way, ready to be counted and numbered. */
struct peer_run {
    int first, count, lane;
    const int *ranks; /* of a list; else NULL */
    int self_at;      /* OTHERS: where the rank itself is left out; else behind the end */
};

static struct peer_run run_of(const struct prog *prog, const struct peers *peers, const struct peer_list *list) {
    if (peers->count == 0)
        return (struct peer_run){.count = list->count, .lane = list->lane, .ranks = list->ranks};
    if (peers->count != OTHERS)
        return (struct peer_run){peers->first, peers->count, peers->lane, NULL, peers->count};
    int self_at = prog_wrap(prog, prog->rank - peers->first);
    return (struct peer_run){peers->first, prog->nranks - 1, peers->lane, NULL, self_at};
}

static struct prog_peer peer_of(const struct prog *prog, const struct peer_run *run, int i) {
    int rank = run->ranks != NULL ? run->ranks[i] : prog_wrap(prog, run->first + i + (i >= run->self_at ? 1 : 0));
    return (struct prog_peer){rank, run->lane};
}

static bool is_same_peer(struct prog_peer a, struct prog_peer b) { return a.rank == b.rank && a.lane == b.lane; }

/* The table's peers by their hash, in chains, the newest first: a step's peers are found at once in a table of any length. */
static int *chain_of(const struct prog *prog, struct prog_peer peer) {
    uint32_t hash = (uint32_t)peer.rank * 0x9e3779b1u + (uint32_t)peer.lane * 0x85ebca6bu;
    return &prog->peer_heads[(hash ^ hash >> 15) & (uint32_t)(prog->nbuckets - 1)];
}

/* Room in chains for all peers of the table. False and a sticky error if there is no memory. */
static bool grow_chains(struct prog *prog) {
    int want = 16;
    while (want < 2 * prog->npeers)
        want *= 2;
    drop_chains(prog);
    int room = 0;
    prog->peer_heads = with_room(prog, NULL, &room, 0, want, sizeof(*prog->peer_heads));
    room = 0;
    prog->peer_next = with_room(prog, NULL, &room, 0, want, sizeof(*prog->peer_next));
    if (prog->error != COLLET_SUCCESS)
        return false;
    prog->nbuckets = want;
    memset(prog->peer_heads, 0xff, (size_t)want * sizeof(*prog->peer_heads)); /* all −1: ends */
    return true;
}

/* Chains the table's peers from `first` on. */
static void chain_peers(struct prog *prog, int first) {
    if (prog->npeers > prog->nbuckets) {
        if (!grow_chains(prog))
            return;
        first = 0;
    }
    for (int i = first; i < prog->npeers; i++) {
        int *chain = chain_of(prog, prog->peers[i]);
        prog->peer_next[i] = *chain;
        *chain = i;
    }
}

static bool stands_at(const struct prog *prog, const struct peer_run *run, int first) {
    int same = 0;
    while (same < run->count && first + same < prog->npeers &&
           is_same_peer(peer_of(prog, run, same), prog->peers[first + same]))
        same++;
    return same == run->count;
}

/* Where this run of peers stands in the table: there already, or at its end from now on. */
static int find_or_add_peers(struct prog *prog, const struct peer_run *run) {
    int first = prog->nbuckets > 0 ? *chain_of(prog, peer_of(prog, run, 0)) : -1;
    while (first >= 0 && !stands_at(prog, run, first))
        first = prog->peer_next[first];
    if (first >= 0)
        return first;
    struct prog_peer *peers = with_room(prog, prog->peers, &prog->peers_room, prog->npeers, run->count, sizeof(*peers));
    if (peers == NULL)
        return 0;
    prog->peers = peers;
    first = prog->npeers;
    for (int i = 0; i < run->count; i++)
        peers[prog->npeers++] = peer_of(prog, run, i);
    chain_peers(prog, first);
    return first;
}

static void set_error(struct prog *prog, int step, const char *what) {
    if (prog->error != COLLET_SUCCESS)
        return;
    int worker = 0;
    while (worker + 1 < prog->nworkers && prog->workers[worker + 1].first_step <= step)
        worker++;
    int step_of_worker = prog->nworkers > 0 ? step - prog->workers[worker].first_step : step;
    prog->error =
        err_set(COLLET_ERR_INTERNAL, "program of %s, rank %d of %d, worker %d step %d: %s",
                prog_collective_name(prog->collective), prog->rank, prog->nranks, worker, step_of_worker, what);
}

/* ---- operands and places in memory ---- */

static struct block_run block_run_of(const struct run *run) {
    if (run->count == 1)
        return (struct block_run){run->first, 1, 1};
    return (struct block_run){run->first, run->stride, run->group};
}

static int owner_of(const struct prog *prog, const struct local *local) {
    return local->owner == OWN ? prog->rank : local->owner;
}

/* Where the step's operands in memory begin in the table. */
static int add_locals(struct prog *prog, const struct local_operand *list, int count) {
    struct prog_local *locals =
        with_room(prog, prog->locals, &prog->locals_room, prog->nlocals, count, sizeof(*locals));
    if (locals == NULL)
        return 0;
    prog->locals = locals;
    int first = prog->nlocals;
    for (int i = 0; i < count; i++)
        locals[prog->nlocals++] = (struct prog_local){list[i].at, owner_of(prog, &list[i].local),
                                                      block_run_of(&list[i].local.run), (int)list[i].local.region};
    return first;
}

/* The blocks that a step is about. */
static const struct local *about_of(const struct step_text *text, const struct local_list *operands) {
    if (text->length_of.region != STEP_NONE)
        return &text->length_of;
    if (text->store.region == STEP_IN || text->store.region == STEP_OUT)
        return &text->store;
    for (int i = 0; i < operands->count; i++)
        if (operands->list[i].local.region != STEP_TMP)
            return &operands->list[i].local;
    return &text->length_of; /* nothing says */
}

/* What is wrong with runs of a step; NULL if nothing is. */
static const char *fault_of_runs(const struct local *about, const struct local *store,
                                 const struct local_list *operands) {
    int count = about->run.count;
    if (about->region == STEP_NONE)
        return "no block of IN or OUT, no length_of: nothing says how long the step is";
    if (count < 1)
        return "a run of fewer than one block";
    if (about->run.group < 1)
        return "a run in groups of fewer than one block";
    if (store->region != STEP_NONE && (store->run.count != count || store->run.group < 1))
        return "the run that is stored differs in its number of blocks";
    for (int i = 0; i < operands->count; i++)
        if (operands->list[i].local.run.count != count || operands->list[i].local.run.group < 1)
            return "the run of a local operand differs in its number of blocks";
    return NULL;
}

/* What is wrong with a step's text, before it is a step; NULL if nothing is. */
static const char *fault_of_text(const struct prog *prog, const struct step_text *text) {
    if (prog->nworkers == 0)
        return "a step before the first prog_worker()";
    if ((text->recv.count != 0 && text->recv_list.count != 0) || (text->send.count != 0 && text->send_list.count != 0))
        return "peers given both as a run and as a list: use one";
    if (text->local.region != STEP_NONE && text->local_list.count != 0)
        return "local operands given both alone and as a list: use one";
    return NULL;
}

static const char *fault_of_peer_counts(const struct prog *prog, const struct peer_run *recv,
                                        const struct peer_run *send) {
    if (recv->count < 0 || send->count < 0)
        return "a negative number of peers";
    return recv->count > prog->nranks || send->count > prog->nranks ? "more peers than ranks" : NULL;
}

static void add_step(struct prog *prog, const struct prog_step *step) {
    struct prog_step *steps = with_room(prog, prog->steps, &prog->steps_room, prog->nsteps, 1, sizeof(*steps));
    if (steps == NULL)
        return;
    prog->steps = steps;
    steps[prog->nsteps++] = *step;
    prog->workers[prog->nworkers - 1].nsteps++;
    if (step->recv_count + step->send_count > 0 && step->count > prog->longest_run)
        prog->longest_run = step->count;
}

void prog_emit(struct prog *prog, struct step_text text) {
    if (prog->error != COLLET_SUCCESS)
        return;
    struct peer_run recv = run_of(prog, &text.recv, &text.recv_list);
    struct peer_run send = run_of(prog, &text.send, &text.send_list);
    struct local_operand alone = {text.local_at, text.local};
    struct local_list operands = text.local_list;
    if (text.local.region != STEP_NONE)
        operands = (struct local_list){&alone, 1};
    const struct local *about = about_of(&text, &operands);
    const char *fault = fault_of_text(prog, &text);
    if (fault == NULL)
        fault = fault_of_peer_counts(prog, &recv, &send);
    if (fault == NULL)
        fault = fault_of_runs(about, &text.store, &operands);
    if (fault != NULL)
        return set_error(prog, prog->nsteps, fault);
    struct prog_step step = {
        .recv_first = recv.count > 0 ? find_or_add_peers(prog, &recv) : 0,
        .recv_count = recv.count,
        .send_first = send.count > 0 ? find_or_add_peers(prog, &send) : 0,
        .send_count = send.count,
        .locals_first = add_locals(prog, operands.list, operands.count),
        .locals_count = operands.count,
        .count = about->run.count,
        .store_owner = owner_of(prog, &text.store),
        .store = block_run_of(&text.store.run),
        .about = block_run_of(&about->run),
        .store_region = (uint8_t)text.store.region,
        .about_region = (uint8_t)about->region,
        .finish = text.finish,
    };
    add_step(prog, &step);
}

/* ---- finishing ---- */

/* Runs wrap around, but begin where there is a block, and have no block twice: neither are they longer than the region. */
static bool run_in_range(const struct prog *prog, enum step_region region, const struct block_run *run, int count) {
    int nblocks = prog_region_blocks(prog, region);
    return run->first >= 0 && run->first < nblocks && count <= nblocks;
}

static const char *fault_of_peers(const struct prog *prog, int first, int count) {
    bool self_allowed = prog_is_p2p(prog->collective);
    for (int i = first; i < first + count; i++) {
        struct prog_peer peer = prog->peers[i];
        if (peer.rank < 0 || peer.rank >= prog->nranks)
            return "a peer out of range";
        if (peer.rank == prog->rank && !self_allowed)
            return "a rank is its own peer: use a local operand instead";
        if (peer.lane < 0 || peer.lane > PROG_LANE_P2P)
            return "a lane out of range";
    }
    return NULL;
}

#define NOT_OWN "memory of another rank: that takes direct access, which executors do not have"

static const char *fault_of_local(const struct prog *prog, const struct prog_step *step,
                                  const struct prog_local *local) {
    if (local->region <= STEP_NONE || local->region >= STEP_REGIONS)
        return "a local operand from an unknown region";
    if (local->owner != prog->rank)
        return "a local operand in the " NOT_OWN;
    if (!run_in_range(prog, (enum step_region)local->region, &local->run, step->count))
        return "the local block is out of range";
    if (local->at < 0 || local->at > step->recv_count)
        return "the local operand's place is behind more operands than are received";
    return NULL;
}

static const char *fault_of_locals(const struct prog *prog, const struct prog_step *step) {
    const struct prog_local *locals = prog->locals + step->locals_first;
    const char *fault = NULL;
    for (int i = 0; i < step->locals_count && fault == NULL; i++) {
        fault = fault_of_local(prog, step, &locals[i]);
        if (i > 0 && locals[i].at < locals[i - 1].at)
            fault = "local operands are not listed in the order of their places";
    }
    return fault;
}

static const char *fault_of_store(const struct prog *prog, const struct prog_step *step) {
    if (step->store_region == STEP_NONE)
        return NULL;
    if (step->store_region != STEP_OUT && step->store_region != STEP_TMP)
        return "a store to a region other than OUT and TMP";
    if (step->store_owner != prog->rank)
        return "a store to the " NOT_OWN;
    if (!run_in_range(prog, (enum step_region)step->store_region, &step->store, step->count))
        return "the block that is stored is out of range";
    return NULL;
}

/* What is wrong with one step; NULL if nothing is. */
static const char *fault_of_step(const struct prog *prog, const struct prog_step *step) {
    if (step->recv_count == 0 && step->locals_count == 0)
        return "no operand: neither received nor local";
    if (step->send_count == 0 && step->store_region == STEP_NONE)
        return "no place for the result: neither sent nor stored";
    const char *fault = fault_of_store(prog, step);
    if (fault == NULL)
        fault = fault_of_locals(prog, step);
    if (fault == NULL && (step->about_region == STEP_TMP ||
                          !run_in_range(prog, (enum step_region)step->about_region, &step->about, step->count)))
        fault = "the block that it is as long as is out of range";
    if (fault == NULL)
        fault = fault_of_peers(prog, step->recv_first, step->recv_count);
    return fault != NULL ? fault : fault_of_peers(prog, step->send_first, step->send_count);
}

enum collet_result prog_finish(struct prog *prog) {
    if (prog->error == COLLET_SUCCESS && prog->nblocks < 1)
        set_error(prog, 0, "buffers cut into fewer than one slice");
    if (prog->error == COLLET_SUCCESS && prog->nworkers == 0)
        set_error(prog, 0, "no worker");
    for (int w = 0; w < prog->nworkers; w++)
        if (prog->workers[w].nsteps == 0)
            set_error(prog, prog->workers[w].first_step, "a worker without a step");
    for (int s = 0; s < prog->nsteps && prog->error == COLLET_SUCCESS; s++) {
        const char *fault = fault_of_step(prog, &prog->steps[s]);
        if (fault != NULL)
            set_error(prog, s, fault);
    }
    prog->shape = NULL; /* the program outlives it */
    drop_chains(prog);
    return prog->error;
}

/* ---- algorithms ---- */

bool algorithm_applies(const struct algorithm *algorithm, const struct prog_shape *shape) {
    return algorithm->applies == NULL || algorithm->applies(shape);
}

static enum collet_result refuse(const struct algorithm *algorithm, const struct prog_shape *shape) {
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
        return refuse(algorithm, shape);
    struct prog *prog = prog_create(algorithm->collective, shape, rank, root);
    if (prog == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a program of %s among %d ranks", collective, nranks);
    algorithm->build(prog);
    enum collet_result result = prog_finish(prog);
    if (result != COLLET_SUCCESS) {
        prog_destroy(prog);
        return result;
    }
    *prog_p = prog;
    return COLLET_SUCCESS;
}
