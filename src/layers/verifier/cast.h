/* SPDX-License-Identifier: Apache-2.0
 *
 * The cast of a collective: the programs of all ranks that take part, and the buffers that each of them has. Verifier and
 * printer look at the whole cast. An executor sees only its own program.
 */
#ifndef COLLET_LAYERS_VERIFIER_CAST_H
#define COLLET_LAYERS_VERIFIER_CAST_H

#include "base/memory.h"
#include "program/program.h"

struct cast_member {
    int rank;
    struct prog *prog;
    /* In a call, this rank passes sendbuff (has_in), recvbuff (has_out). If not, that buffer may be NULL. */
    bool has_in, has_out;
};

/* All members of a collective. Member m is rank m. A send or a receive has only two members: member 0 is the rank that runs the
 * algorithm, member 1 is its peer, which runs the counterpart. */
struct cast {
    const struct algorithm *algorithm;
    int nranks, root;
    int nslices; /* Number of slices into which member 0 cuts buffers. */
    int nmembers;
    struct cast_member *members;
};

/* Builds the programs of all members. Errors: those of algorithm_build(); after an error the cast is empty. */
enum collet_result cast_create(const struct algorithm *algorithm, const struct prog_shape *shape, int root,
                               struct cast *cast);
void cast_destroy(struct cast *cast);

/* Returns the member with which `member` exchanges messages if its program names rank `rank` as a peer. −1: that rank takes no part. */
int cast_peer_of(const struct cast *cast, int member, int rank);

/* A connection between two members, of which at least one uses it. src produces messages, dst consumes them. */
struct cast_conn {
    int lane, src, dst;
};

struct cast_conns {
    struct arena arena;     /* The arena that owns the arrays. */
    struct cast_conn *list; /* All connections, sorted by lane, then by source, then by destination. */
    int count;
    int *first_peer; /* [member]: index in recv and send at which its peer table begins. */
    /* [peer table entry]: number of the connection by which the member receives or sends. −1: the member does not, or the
     * rank takes no part. */
    int *recv, *send;
};

/* Lists the connections. False: there is no memory, but cast_disconnect() is still necessary. */
bool cast_connect(const struct cast *cast, struct cast_conns *conns);
void cast_disconnect(struct cast_conns *conns);

/* Is each result a reduction of all contributions? If not, each result is a copy of one contribution. */
bool cast_reduces(const struct cast *cast);

/* The block of IN that belongs into a block of a member's OUT. member −1: the result is a reduction of this block of all
 * members. */
struct cast_source {
    int member, block;
};
struct cast_source cast_source_of(const struct cast *cast, int member, int block);

/* The block of OUT that an in-place call keeps in the same memory as block `block` of IN. −1: there is none. */
int cast_alias_of(const struct cast *cast, int member, int block);

#endif
