/* SPDX-License-Identifier: Apache-2.0
 *
 * What each collective means, in blocks: which ranks have buffers, which block belongs where, and which memory
 * "in place" makes one. All of it follows from the collective's line in registry.h.
 */
#include "program/cast.h"

#include "base/err.h"

#include <stdlib.h>

static const struct prog_facts *facts_of(const struct cast *cast) { return &prog_facts[cast->algorithm->collective]; }

static bool is_point_to_point(const struct cast *cast) { return prog_is_p2p(cast->algorithm->collective); }

/* Without buffers, what goes in and out is that a rank was there. */
static void give_buffers(struct cast_member *member, enum prog_collective collective, bool is_root) {
    const struct prog_facts *facts = &prog_facts[collective];
    bool bare = prog_is_bare(collective);
    member->has_in = (bare || facts->in != PROG_NONE) && (facts->root != PROG_FROM_ROOT || is_root);
    member->has_out = (bare || facts->out != PROG_NONE) && (facts->root != PROG_TO_ROOT || is_root);
}

/* Of a send or recv, member 0 runs the given algorithm toward the root, and member 1, the root, its counterpart. */
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
    *cast = (struct cast){.algorithm = algorithm, .nranks = nranks, .root = root};
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

bool cast_reduces(const struct cast *cast) { return facts_of(cast)->reduces; }

static bool is_per_rank(enum prog_layout layout) { return layout == PROG_PER_RANK || layout == PROG_COUNTS; }

/* Whose contribution block `block` of an OUT is; −1: everybody's. */
static int contributor_of(const struct cast *cast, int block) {
    const struct prog_facts *facts = facts_of(cast);
    if (facts->reduces)
        return -1;
    if (facts->root == PROG_PEER)
        return facts->in == PROG_NONE ? 1 : 0;
    return facts->root == PROG_FROM_ROOT ? cast->root : block;
}

struct cast_source cast_source_of(const struct cast *cast, int member, int block) {
    const struct prog_facts *facts = facts_of(cast);
    int in_block = is_per_rank(facts->in) ? member : facts->in == PROG_SINGLE ? 0 : block;
    return (struct cast_source){contributor_of(cast, block), in_block};
}

int cast_alias_of(const struct cast *cast, int member, int block) {
    switch (facts_of(cast)->in_place) {
    case PROG_SAME_PLACE: return block;
    case PROG_IN_IS_OWN_BLOCK: return member;
    case PROG_OUT_IS_OWN_BLOCK: return block == member ? 0 : -1;
    default: return -1;
    }
}
