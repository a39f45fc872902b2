/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates communicators from another communicator, the parent: collet_comm_split(), _shrink() and _grow().
 */
#ifndef COLLET_LAYERS_ELASTIC_WAY_H
#define COLLET_LAYERS_ELASTIC_WAY_H

#include "api/comm.h"
#include "layers/elastic/oob_allgather.h"
#include "layers/elastic/agreement.h"
#include "seams/elastic.h"
#include "seams/layer.h"

enum split_call { CALL_SPLIT, CALL_SHRINK, CALL_GROW };
enum split_stage { SPLIT_BEGIN, SPLIT_AGREE, SPLIT_AWAIT_ID, SPLIT_KEEP_WATCH, SPLIT_SETTLE };

/* A rank's request. */
struct wish {
    int32_t call, color, key;
    int32_t nranks; /* grow: number of ranks of the new communicator; else 0 */
    int32_t has_id; /* grow: this rank passed the id */
};

/* The state while a communicator is made from its parent. */
struct split {
    const struct split_way *way;
    struct collet_comm *parent;
    enum split_stage stage;
    struct wish wish;
    int *ranks; /* ranks of the parent that take part, ascending; from AWAIT_ID on: the child's ranks, in its order */
    int nranks, self; /* number of ranks; index of this rank in `ranks` */
    int leader;       /* rank of the parent that has the id */
    uint64_t key;     /* key of the letters; the letter with the id also has the last bit set */
    struct collet_unique_id id;
    bool made_id;                   /* this rank made the id, and so serves its meeting point */
    struct oob_allgather allgather; /* for split and grow */
    struct agreement agreement;     /* for shrink */
    uint64_t deadline_ns, look_ns;  /* time to give up; time of the next check whether ranks do something else */
    struct late late;               /* warns of a long wait for the id, or for the others' shrink */
};

/* The functions in which split, grow and shrink differ. */
struct split_way {
    const char *call;
    /* [stage] does one stage. SUCCESS: s->stage is the next stage, or KEEP_WATCH while the rank goes on joining. */
    enum collet_result (*stages[SPLIT_SETTLE])(struct collet_comm *comm);
    /* This rank has joined, or has failed to join, with `result`. Returns the result of all ranks. IN_PROGRESS: that result is
     * not known yet, or the ranks start again. NULL: each rank has its own result. */
    enum collet_result (*settle)(struct collet_comm *comm, enum collet_result result);
    /* Tells the other ranks, which wait in the parent, that this rank stops. */
    void (*give_up)(struct collet_comm *comm, enum collet_result code, const char *text);
    /* Like give_up, before the start, if there is no memory. The reason is the thread's last error. */
    void (*refuse)(struct collet_comm *parent, const int *exclude_ranks, int count, enum collet_result code);
};
extern const struct split_way shrink_way;

/* ---- for the ways ---- */

/* Keeps the parent valid from now on. */
enum collet_result split_enter(struct split *s);
/* Makes an id for the living ranks of s->ranks; lives NULL: all are alive. */
enum collet_result split_make_id(const struct split *s, const uint8_t *lives, struct collet_unique_id *id);
/* Called from time to time: does any rank wait in a collective that this rank has not called? Then MISMATCH. */
enum collet_result split_look_for_callers(struct split *s);
/* REMOTE: a rank that takes part is dead, and will never come to the meeting point. at_once: even if its last messages may still be on
 * their way. */
enum collet_result split_look_for_deaths(const struct split *s, bool at_once);

#endif
