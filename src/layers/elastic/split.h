/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators that are made of another one, the parent: by collet_comm_split(), _shrink() and _grow().
 */
#ifndef COLLET_LAYERS_ELASTIC_SPLIT_H
#define COLLET_LAYERS_ELASTIC_SPLIT_H

#include "api/comm.h"
#include "layers/elastic/agree.h"
#include "layers/elastic/consent.h"
#include "seams/elastic.h"
#include "seams/layer.h"

enum split_call { CALL_SPLIT, CALL_SHRINK, CALL_GROW };
enum split_stage { SPLIT_BEGIN, SPLIT_AGREE, SPLIT_AWAIT_ID, SPLIT_KEEP_WATCH, SPLIT_SETTLE };

/* What a rank wants. */
struct wish {
    int32_t call, color, key;
    int32_t nranks; /* of grow: of the new communicator; else 0 */
    int32_t has_id; /* of grow: this rank passed the id */
};

/* While a communicator is made of another one. */
struct split {
    const struct split_way *way;
    struct collet_comm *parent;
    enum split_stage stage;
    struct wish wish;
    int *ranks; /* of the parent: those that take part, ascending; from AWAIT_ID on those of the child, in its order */
    int nranks, self; /* how many, and which of them this rank is */
    int leader;       /* of the parent: has the id */
    uint64_t key;     /* of letters; its last bit is free */
    struct collet_unique_id id;
    bool made_id;                  /* by this rank, which has its meeting point */
    struct agreement agreement;    /* of split and grow */
    struct consent consent;        /* of shrink */
    uint64_t deadline_ns, look_ns; /* when to give up; when to look next for ranks that do something else */
    int asked;                     /* the rank that was asked what it does; −1: none */
    uint64_t question;
    struct late late; /* for the id, or for the others to shrink */
};

/* How the calls differ. */
struct split_way {
    const char *call;
    /* By stage. SUCCESS: the next stage is set; of KEEP_WATCH: go on joining. */
    enum collet_result (*stages[SPLIT_SETTLE])(struct collet_comm *comm);
    /* The rank has joined the others with this result, or could not. What is the result of all? IN_PROGRESS: not known yet, or
     * they begin again. NULL: each rank has its own. */
    enum collet_result (*settle)(struct collet_comm *comm, enum collet_result result);
    /* The rank goes no further: tells the others, which wait in the parent. */
    void (*give_up)(struct collet_comm *comm, enum collet_result code, const char *text);
    /* The same, for the thread's last error, if there is no memory to begin. */
    void (*refuse)(struct collet_comm *parent, const int *exclude_ranks, int count, enum collet_result code);
};
extern const struct split_way shrink_way;

/* ---- for the ways ---- */

/* Keeps the parent, for all that follows. */
enum collet_result split_enter(struct split *s);
/* Makes an id for those of s->ranks that live; lives NULL: all do. */
enum collet_result split_make_id(const struct split *s, const uint8_t *lives, struct collet_unique_id *id);
/* Now and then: does a rank wait in a collective that this rank has not called? MISMATCH. */
enum collet_result split_look_for_callers(struct split *s);
/* REMOTE if a rank that takes part has died: it will never come to where the others meet. at_once: though what it sent before may
 * still be under way. */
enum collet_result split_look_for_deaths(const struct split *s, bool at_once);

#endif
