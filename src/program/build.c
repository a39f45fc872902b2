/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds step programs: three growing arrays (workers, steps, peers) and one sticky error.
 *
 *   workers   │ 0 … 2 │ 3 … 3 │                  each a run of steps
 *   steps     │ s0 │ s1 │ s2 │ s3 │              each with a run of peers to receive from, and one to send to
 *   peers     │ (1,0) │ (2,0) │ (3,0) │          (rank, lane); steps with the same run share it
 *
 * Read next: cast.c, then check.c.
 */
#include "base/err.h"
#include "program/program.h"

#include <stdlib.h>
#include <string.h>

static const char *const collective_names[] = {
#define X(upper, lower) #lower,
    PROG_COLLECTIVES(X)
#undef X
};

static const struct {
    enum prog_layout in, out;
} layouts[] = {
    [PROG_ALLREDUCE] = {PROG_WHOLE, PROG_WHOLE},
    [PROG_ALLGATHER] = {PROG_SINGLE, PROG_PER_RANK},
    [PROG_REDUCESCATTER] = {PROG_PER_RANK, PROG_SINGLE},
    [PROG_ALLTOALL] = {PROG_PER_RANK, PROG_PER_RANK},
    [PROG_BROADCAST] = {PROG_WHOLE, PROG_WHOLE},
    [PROG_REDUCE] = {PROG_WHOLE, PROG_WHOLE},
    [PROG_SEND] = {PROG_WHOLE, PROG_WHOLE},
    [PROG_RECV] = {PROG_WHOLE, PROG_WHOLE},
};
_Static_assert(sizeof(layouts) / sizeof(layouts[0]) == PROG_COLLECTIVE_COUNT, "a layout for every collective");

const char *prog_collective_name(enum prog_collective collective) {
    return (unsigned)collective < PROG_COLLECTIVE_COUNT ? collective_names[collective] : "?";
}

enum prog_layout prog_in_layout(enum prog_collective collective) { return layouts[collective].in; }
enum prog_layout prog_out_layout(enum prog_collective collective) { return layouts[collective].out; }

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
    drop_chains(prog);
    free(prog);
}

void prog_slices(struct prog *prog, int nblocks) { prog->nblocks = nblocks; }

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

void prog_emit(struct prog *prog, struct step_text text) {
    if (prog->error != COLLET_SUCCESS)
        return;
    if (prog->nworkers == 0)
        return set_error(prog, 0, "a step before the first prog_worker()");
    if ((text.recv.count != 0 && text.recv_list.count != 0) || (text.send.count != 0 && text.send_list.count != 0))
        return set_error(prog, prog->nsteps, "peers given both as a run and as a list: use one");
    struct peer_run recv = run_of(prog, &text.recv, &text.recv_list);
    struct peer_run send = run_of(prog, &text.send, &text.send_list);
    if (recv.count < 0 || send.count < 0)
        return set_error(prog, prog->nsteps, "a negative number of peers");
    if (recv.count > prog->nranks || send.count > prog->nranks)
        return set_error(prog, prog->nsteps, "more peers than ranks");
    struct prog_step *steps = with_room(prog, prog->steps, &prog->steps_room, prog->nsteps, 1, sizeof(*steps));
    if (steps == NULL)
        return;
    prog->steps = steps;
    struct local local = text.local.region != STEP_NONE       ? text.local
                         : text.length_of.region != STEP_NONE ? text.length_of
                                                              : (struct local){STEP_NONE, -1};
    struct prog_step step = {
        .recv_first = recv.count > 0 ? find_or_add_peers(prog, &recv) : 0,
        .recv_count = recv.count,
        .send_first = send.count > 0 ? find_or_add_peers(prog, &send) : 0,
        .send_count = send.count,
        .local_at = text.local_at,
        .local_region = (uint8_t)text.local.region,
        .local_chunk = local.chunk,
        .store_region = (uint8_t)text.store.region,
        .store_chunk = text.store.chunk,
        .finish = text.finish,
    };
    steps[prog->nsteps++] = step;
    prog->workers[prog->nworkers - 1].nsteps++;
}

/* ---- finishing ---- */

static bool chunk_in_range(const struct prog *prog, enum step_region region, int chunk) {
    enum prog_layout layout = region == STEP_IN ? prog_in_layout(prog->collective) : prog_out_layout(prog->collective);
    return chunk >= 0 && chunk < prog_chunks(prog, layout);
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

/* What is wrong with one step; NULL if nothing is. */
static const char *fault_of_step(const struct prog *prog, const struct prog_step *step) {
    bool local = step->local_region != STEP_NONE, store = step->store_region != STEP_NONE;
    if (step->recv_count == 0 && !local)
        return "no operand: neither received nor local";
    if (step->send_count == 0 && !store)
        return "no place for the result: neither sent nor stored";
    if (!local && !store && step->local_chunk < 0)
        return "no local chunk, no store chunk, no length_of: nothing says how long the step is";
    if (!local && !store && !chunk_in_range(prog, STEP_IN, step->local_chunk))
        return "the chunk that it is as long as is out of range";
    if (store && step->store_region != STEP_OUT)
        return "a store to a region other than OUT";
    if (store && !chunk_in_range(prog, STEP_OUT, step->store_chunk))
        return "the store chunk is out of range";
    if (local && step->local_region != STEP_IN && step->local_region != STEP_OUT)
        return "a local operand from an unknown region";
    if (local && !chunk_in_range(prog, step->local_region, step->local_chunk))
        return "the local chunk is out of range";
    if (local && (step->local_at < 0 || step->local_at > step->recv_count))
        return "the local operand's place is behind more operands than are received";
    const char *fault = fault_of_peers(prog, step->recv_first, step->recv_count);
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
