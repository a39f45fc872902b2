/* SPDX-License-Identifier: Apache-2.0
 *
 * What each collective means, in blocks: which ranks have buffers, which block belongs where, and which memory
 * "in place" makes one. All of it follows from the collective's line in registry.h.
 */
#include "layers/verifier/cast.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static const struct prog_facts *facts_of(const struct cast *cast) { return &prog_facts[cast->algorithm->collective]; }

static bool is_point_to_point(const struct cast *cast) { return prog_is_p2p(cast->algorithm->collective); }

/* Sets which buffers a member has. In a collective without buffers (barrier), the news that a rank has come counts as input and output. */
static void give_buffers(struct cast_member *member, enum prog_collective collective, bool is_root) {
    const struct prog_facts *facts = &prog_facts[collective];
    bool bare = prog_is_bare(collective);
    member->has_in = (bare || facts->in != PROG_NONE) && (facts->root != PROG_FROM_ROOT || is_root);
    member->has_out = (bare || facts->out != PROG_NONE) && (facts->root != PROG_TO_ROOT || is_root);
}

/* Builds the program of member m. In a send or receive, member 0 runs the given algorithm towards the root, and member 1 is
 * the root and runs the counterpart. */
static enum collet_result build_member(struct cast *cast, const struct prog_shape *shape, int m) {
    const struct algorithm *algorithm = cast->algorithm;
    struct cast_member *member = &cast->members[m];
    int other = (cast->root + 1) % cast->nranks, root = cast->root;
    member->rank = m;
    if (is_point_to_point(cast)) {
        member->rank = m == 0 ? other : cast->root;
        root = m == 0 ? cast->root : other;
    }
    if (is_point_to_point(cast) && m == 1) {
        enum prog_collective counterpart = algorithm->collective == PROG_SEND ? PROG_RECV : PROG_SEND;
        algorithm = algorithm_find(counterpart, algorithm->name);
        if (algorithm == NULL)
            return err_set(COLLET_ERR_INTERNAL, "%s %s has no counterpart: register a %s of the same name",
                           prog_collective_name(cast->algorithm->collective), cast->algorithm->name,
                           prog_collective_name(counterpart));
    }
    give_buffers(member, algorithm->collective, member->rank == cast->root);
    return algorithm_build(algorithm, shape, member->rank, root, &member->prog);
}

enum collet_result cast_create(const struct algorithm *algorithm, const struct prog_shape *shape, int root,
                               struct cast *cast) {
    int nranks = shape->nranks;
    *cast = (struct cast){.algorithm = algorithm, .nranks = nranks, .root = root, .nslices = 1};
    if (nranks < 1 || root < 0 || root >= nranks)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "root %d of %d ranks: it must be within 0 … nranks−1", root,
                       nranks);
    int nmembers = is_point_to_point(cast) ? 2 : nranks;
    cast->members = calloc((size_t)nmembers, sizeof(*cast->members));
    if (cast->members == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the programs of %d ranks", nranks);
    for (int m = 0; m < nmembers; m++) {
        cast->nmembers = m + 1;
        enum collet_result result = build_member(cast, shape, m);
        if (result != COLLET_SUCCESS) {
            cast_destroy(cast);
            return result;
        }
    }
    cast->nslices = cast->members[0].prog->nslices;
    return COLLET_SUCCESS;
}

void cast_destroy(struct cast *cast) {
    for (int m = 0; m < cast->nmembers; m++)
        prog_destroy(cast->members[m].prog);
    free(cast->members);
    *cast = (struct cast){.nmembers = 0};
}

int cast_peer_of(const struct cast *cast, int member, int rank) {
    if (!is_point_to_point(cast))
        return rank;
    return cast->members[1 - member].rank == rank ? 1 - member : -1;
}

/* ---- connections ---- */

/* One end of a connection. *number_p is the entry of a peer table that gets the connection's number. */
struct end {
    struct cast_conn conn;
    int *number_p;
};

static int compare_ends(const void *x, const void *y) {
    const struct cast_conn *a = &((const struct end *)x)->conn, *b = &((const struct end *)y)->conn;
    return a->lane != b->lane ? a->lane - b->lane : a->src != b->src ? a->src - b->src : a->dst - b->dst;
}

/* Adds an end for each of `count` entries of a member's peer table that has none yet. Returns the number of ends so far. */
static size_t add_ends(const struct cast *cast, const struct cast_conns *conns, int member, int first, int count,
                       bool sends, struct end *ends, size_t nends) {
    int *numbers = (sends ? conns->send : conns->recv) + conns->first_peer[member];
    for (int i = first; i < first + count; i++) {
        const struct prog_peer *peer = &cast->members[member].prog->peers[i];
        int other = cast_peer_of(cast, member, peer->rank);
        if (numbers[i] >= 0 || other < 0)
            continue;
        /* Not −1: the entry has an end now. number_conns() replaces the 0 by the connection's number. */
        numbers[i] = 0;
        ends[nends++] = (struct end){{peer->lane, sends ? member : other, sends ? other : member}, &numbers[i]};
    }
    return nends;
}

static void number_conns(const struct cast *cast, struct cast_conns *conns, struct end *ends) {
    size_t nends = 0;
    for (int m = 0; m < cast->nmembers; m++)
        for (int s = 0; s < cast->members[m].prog->nsteps; s++) {
            const struct prog_step *step = &cast->members[m].prog->steps[s];
            nends = add_ends(cast, conns, m, step->recv_first, step->recv_count, false, ends, nends);
            nends = add_ends(cast, conns, m, step->send_first, step->send_count, true, ends, nends);
        }
    qsort(ends, nends, sizeof(*ends), compare_ends);
    for (size_t i = 0; i < nends; i++) {
        if (i == 0 || compare_ends(&ends[i - 1], &ends[i]) != 0)
            conns->list[conns->count++] = ends[i].conn;
        *ends[i].number_p = conns->count - 1;
    }
}

bool cast_connect(const struct cast *cast, struct cast_conns *conns) {
    size_t npeers = 0, nmembers = (size_t)cast->nmembers;
    *conns = (struct cast_conns){.first_peer = NULL};
    conns->first_peer = arena_get(&conns->arena, nmembers, sizeof(int));
    for (size_t m = 0; m < nmembers && !conns->arena.failed; m++) {
        conns->first_peer[m] = (int)npeers;
        npeers += (size_t)cast->members[m].prog->npeers;
    }
    struct end *ends = arena_get(&conns->arena, 2 * npeers, sizeof(*ends));
    conns->list = arena_get(&conns->arena, 2 * npeers, sizeof(*conns->list));
    conns->recv = arena_get(&conns->arena, npeers, sizeof(int));
    conns->send = arena_get(&conns->arena, npeers, sizeof(int));
    if (conns->arena.failed)
        return false;
    memset(conns->recv, 0xff, npeers * sizeof(int)); /* All bytes 0xff make every entry −1. */
    memset(conns->send, 0xff, npeers * sizeof(int));
    number_conns(cast, conns, ends);
    return true;
}

void cast_disconnect(struct cast_conns *conns) { arena_free(&conns->arena); }

/* ---- what belongs where ---- */

bool cast_reduces(const struct cast *cast) { return facts_of(cast)->reduces; }

static bool is_per_rank(enum prog_layout layout) { return layout == PROG_PER_RANK || layout == PROG_COUNTS; }

/* The member whose contribution belongs into a row of OUT. −1: the contributions of all members. */
static int contributor_of(const struct cast *cast, int row) {
    const struct prog_facts *facts = facts_of(cast);
    if (facts->reduces)
        return -1;
    if (facts->root == PROG_PEER)
        return facts->in == PROG_NONE ? 1 : 0;
    return facts->root == PROG_FROM_ROOT ? cast->root : row;
}

struct cast_source cast_source_of(const struct cast *cast, int member, int block) {
    const struct prog_facts *facts = facts_of(cast);
    int row = block / cast->nslices, slice = block % cast->nslices;
    int in_block = is_per_rank(facts->in) ? member * cast->nslices + slice : slice;
    return (struct cast_source){contributor_of(cast, row), in_block};
}

int cast_alias_of(const struct cast *cast, int member, int block) {
    switch (facts_of(cast)->in_place) {
    case PROG_SAME_PLACE: return block;
    case PROG_IN_IS_OWN_BLOCK: return member * cast->nslices + block;
    case PROG_OUT_IS_OWN_BLOCK: return block / cast->nslices == member ? block % cast->nslices : -1;
    default: return -1;
    }
}
