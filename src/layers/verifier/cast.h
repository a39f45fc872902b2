/* SPDX-License-Identifier: Apache-2.0
 *
 * The cast of a collective: the programs of all ranks that take part, and which of them has which buffer. Verifier and
 * printer look at the whole cast; an executor only ever sees its own program.
 */
#ifndef COLLET_LAYERS_VERIFIER_CAST_H
#define COLLET_LAYERS_VERIFIER_CAST_H

#include "base/memory.h"
#include "program/program.h"

struct cast_member {
    int rank;
    struct prog *prog;
    bool has_in, has_out; /* the call gives this rank such a buffer, which may be NULL otherwise */
};

/* Member m is rank m; but a send or recv has two: who runs the algorithm, then the peer with the counterpart. */
struct cast {
    const struct algorithm *algorithm;
    int nranks, root;
    int nslices; /* number of slices into which member 0 cuts buffers */
    int nmembers;
    struct cast_member *members;
};

/* Builds everybody's program. Errors as algorithm_build(); the cast is then empty. */
enum collet_result cast_create(const struct algorithm *algorithm, const struct prog_shape *shape, int root,
                               struct cast *cast);
void cast_destroy(struct cast *cast);

/* The member that `member` means when it names rank `rank` as its peer; −1 if that rank takes no part. */
int cast_peer_of(const struct cast *cast, int member, int rank);

/* A connection between two members, which one of them or both use. */
struct cast_conn {
    int lane, src, dst;
};

struct cast_conns {
    struct arena arena;     /* has the arrays */
    struct cast_conn *list; /* by lane, then by source, then by destination */
    int count;
    int *first_peer;  /* [member]: where its peer table begins in the next two */
    int *recv, *send; /* [peer table entry]: the connection; −1: not used so, or with a rank that takes no part */
};

/* Lists the connections. false: no memory (destroy them all the same). */
bool cast_connect(const struct cast *cast, struct cast_conns *conns);
void cast_disconnect(struct cast_conns *conns);

/* Whether results are reductions of everybody's contributions (else copies of one). */
bool cast_reduces(const struct cast *cast);

/* Which block of IN belongs into block `block` of a member's OUT: whose it is (reductions: −1, everybody's), and which. */
struct cast_source {
    int member, block;
};
struct cast_source cast_source_of(const struct cast *cast, int member, int block);

/* The block of OUT that an in-place call keeps in the same memory as block `block` of IN; −1 if none. */
int cast_alias_of(const struct cast *cast, int member, int block);

#endif
