/* SPDX-License-Identifier: Apache-2.0
 *
 * What each collective means, in chunks: who has buffers, what belongs where, and what "in place" lays over what.
 */
#include "program/cast.h"

#include "base/err.h"

#include <stdlib.h>

static bool is_point_to_point(const struct cast *cast) { return prog_is_p2p(cast->algorithm->collective); }

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
    enum prog_collective collective = algorithm->collective;
    bool is_root = member->rank == cast->root;
    member->has_in = collective != PROG_RECV && (collective != PROG_BROADCAST || is_root);
    member->has_out = collective != PROG_SEND && (collective != PROG_REDUCE || is_root);
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

bool cast_reduces(const struct cast *cast) {
    enum prog_collective collective = cast->algorithm->collective;
    return collective == PROG_ALLREDUCE || collective == PROG_REDUCE || collective == PROG_REDUCESCATTER;
}

struct cast_source cast_source_of(const struct cast *cast, int member, int chunk) {
    switch (cast->algorithm->collective) {
    case PROG_REDUCESCATTER: return (struct cast_source){-1, member};
    case PROG_ALLGATHER: return (struct cast_source){chunk, 0};
    case PROG_ALLTOALL: return (struct cast_source){chunk, member};
    case PROG_BROADCAST: return (struct cast_source){cast->root, chunk};
    case PROG_SEND: return (struct cast_source){0, chunk};
    case PROG_RECV: return (struct cast_source){1, chunk};
    default: /* allreduce, reduce */ return (struct cast_source){-1, chunk};
    }
}

int cast_alias_of(const struct cast *cast, int member, int chunk) {
    switch (cast->algorithm->collective) {
    case PROG_ALLREDUCE:
    case PROG_BROADCAST:
    case PROG_REDUCE: return chunk;
    case PROG_ALLGATHER: return member;
    case PROG_REDUCESCATTER: return chunk == member ? 0 : -1;
    default: /* never in place */ return -1;
    }
}
