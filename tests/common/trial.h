/* SPDX-License-Identifier: Apache-2.0
 *
 * One collective call with all that is needed to judge it: buffers with known contents before it, and a look at every
 * byte of them after it.
 *
 *      trial_prepare ─▶ trial_call ─▶ (the call is complete) ─▶ trial_check ─▶ trial_destroy
 */
#ifndef COLLET_TESTS_TRIAL_H
#define COLLET_TESTS_TRIAL_H

#include "common/guard.h"
#include "common/numbers.h"
#include "program/program.h"

/* What all ranks call. */
struct trial_call {
    enum prog_collective collective;
    enum collet_type type;
    enum collet_op op;
    size_t count;
    int root, nranks;
    bool in_place;
    uint64_t seed; /* of the inputs, and of what is left to chance: alignment, and NULL for buffers that nobody reads */
};

/* Elements of a buffer: elements first … of what a rank gives, or of the reduction of what all give. */
enum { TRIAL_ALL = -1 };
struct trial_block {
    size_t at, count; /* in the buffer */
    int rank;         /* or TRIAL_ALL */
    size_t first;
};

#define TRIAL_RANKS_MAX 36
struct trial_buffer {
    struct guard guard;
    size_t elems;
    int nblocks; /* what is read of IN; what becomes a result of OUT, and nothing else of it may change */
    struct trial_block blocks[TRIAL_RANKS_MAX];
    size_t counts[TRIAL_RANKS_MAX], displs[TRIAL_RANKS_MAX]; /* of blocks with counts of their own … */
    bool packed;                                             /* … one behind another: displacements are NULL */
};

/* One rank's part. */
struct trial {
    struct trial_call call;
    int rank;
    struct trial_buffer in, out; /* in place, out.guard is that of both */
    const void *sendbuff;
    void *recvbuff;
    uint64_t scalar; /* of a pre-multiplied sum: an element */
};

/* An operator that takes the type, for a number that chance has given. */
enum collet_op trial_op(enum collet_type type, uint64_t dice);

bool trial_reduces(enum prog_collective collective);
bool trial_may_be_in_place(enum prog_collective collective);
bool trial_has_root(enum prog_collective collective);
bool trial_same_everywhere(enum prog_collective collective); /* do all ranks get the same result? */

void trial_prepare(struct trial *trial, const struct trial_call *call, int rank);
/* The first half of it, for whoever has buffers of his own: what is read and what becomes a result. Where are IN and OUT, in elements,
 * in the one buffer of a call in place? */
void trial_describe(struct trial *trial, const struct trial_call *call, int rank);
void trial_places(const struct trial *trial, size_t *in_at, size_t *out_at);
enum collet_result trial_run(struct trial *trial, struct collet_comm *comm);
enum collet_result trial_run_in(const struct trial *trial, struct collet_comm *comm, void *stream);

#define TRIAL_WHY_BYTES 320
bool trial_is_right(const struct trial *trial, char why[TRIAL_WHY_BYTES]); /* the result */
bool trial_is_clean(const struct trial *trial, char why[TRIAL_WHY_BYTES]); /* everything else is as it was */
bool trial_check(const struct trial *trial, char why[TRIAL_WHY_BYTES]);    /* both */
uint64_t trial_digest(const struct trial *trial);
void trial_destroy(struct trial *trial);

#define TRIAL_NAME_BYTES 160
void trial_name(const struct trial_call *call, char name[TRIAL_NAME_BYTES]); /* "allreduce float32 sum count=17 …" */

#endif
