/* SPDX-License-Identifier: Apache-2.0
 *
 * The rehearsal: runs the programs of a whole cast on expressions instead of data.
 *
 *      member 0: worker 0, worker 1 …        connections: FIFOs of nslots slots, each slot a list of expressions
 *      member 1: worker 0 …                  OUT: an expression per block and round; TMP: one per block; IN: leaves
 *
 * A worker does a step when all operands and credits of the step are there. When nobody can move, the run is over. Each
 * connection has one producing and one consuming worker (wiring insists), so whether and with which values a run ends
 * does not depend on whose turn it is: one run speaks for all. What could depend on it is memory that workers of a rank
 * share; order.h watches that.
 *
 * A message that its step lends is read in the sender's memory when the receiver does its step, whatever the sender has done
 * since. So a program that is right here is right as well where messages are copied. A payload that may land early is stored when
 * the receiver does its step; that its place is free from the moment on in which it is sent, order.h watches, too.
 *
 * Rounds: nslots + 1 full ones, so that slots are reused; if blocks differ in length, then two short ones in which only
 * half of the lengths, and only the first, still have elements. Both ends skip the others.
 *
 * Pieces of different lengths must not meet. A piece's length has a number: blocks of equal numbers are equally long on
 * all ranks, whatever the count of the call.
 */
#ifndef COLLET_LAYERS_VERIFIER_REHEARSAL_H
#define COLLET_LAYERS_VERIFIER_REHEARSAL_H

#include "base/memory.h"
#include "layers/verifier/cast.h"
#include "layers/schedules/expr.h"
#include "layers/verifier/order.h"

struct rehearsal_worker {
    int member, index; /* index: number among the member's workers */
    int first_step, nsteps;
    int pc, round;
    int turned; /* the step that it does in this turn; −1: none */
    bool awake;
};

/* One end of a connection. */
struct rehearsal_end {
    int worker;                /* −1: nobody uses it so */
    int first_use, newest_use; /* steps */
};

struct rehearsal_conn {
    struct cast_conn at;
    struct rehearsal_end producer, consumer;
    uint32_t head, tail;
};

struct rehearsal_slot {
    int round, step; /* that sent it */
    int loan;        /* its number in the order, of a slot that is lent its message; −1: none */
};

struct rehearsal_cell {
    int32_t value;    /* EXPR_NONE: not written yet */
    int worker, step; /* that wrote it */
    int round;        /* in which they did */
    int length;       /* number of its piece's length */
    uint32_t touched; /* number of the last step that looked at it or wrote it … */
    int piece;        /* … and the piece that it was for */
};

/* Where it went wrong. */
struct rehearsal_failure {
    int member; /* −1: it is no rank's fault */
    int step;   /* index of the step in the member's program; −1: a step is missing */
    int round;
};

/* A place in memory: a block of a region of a member. */
struct rehearsal_place {
    int member;
    enum step_region region;
    int block;
};

struct rehearsal {
    const struct cast *cast;
    int nslots, nrounds;
    bool in_place;
    bool counted; /* blocks have counts of their own. Else those with the same number of slice are equally long */
    int nlengths; /* how many numbers of lengths there are */
    int *lengths; /* [round]: blocks have elements in this round if their length has a number below it */
    int nin, nout, ntmp; /* blocks of each region; TMP: of the member that has most */
    struct arena arena;  /* has the arrays */
    struct expr_store exprs;

    int nworkers;
    struct rehearsal_worker *workers;
    int *first_worker;  /* [member] */
    int *awake, nawake; /* workers that may be able to move */

    struct cast_conns pairs;
    struct rehearsal_conn *conns; /* those of pairs.list */
    struct rehearsal_slot *slots; /* [connection][slot] */
    int32_t *values;              /* [connection][slot][piece] */
    int longest;                  /* pieces of the longest message */

    struct rehearsal_cell *cells; /* [round][member][block of OUT, then of TMP]; those of TMP in round 0 only */
    int32_t *results;             /* [piece] of the step that is done */
    int32_t *leaves;              /* the contributions that are counted … */
    bool *seen;                   /* … and [member]: whether its own is there */
    uint32_t nsteps_done;

    int hasty, silent; /* see struct rehearsal_rules */
    int nmessages;     /* that have arrived */
    bool ordered;      /* a rank has memory of which only clocks can say that it is used in order (join.c): */
    struct order order;

    char *why;
    size_t why_bytes;
    struct rehearsal_failure failed;
};

/* Who watches a check: after every turn of the first round; and when it has failed. */
struct rehearsal_watcher {
    void (*turn)(const struct rehearsal *m, int turn, void *context);
    void (*failed)(const struct rehearsal *m, void *context);
    void *context;
};

/* How to check: watched; or without some of what puts accesses to memory in order. hasty: ranks return from the call without
 * waiting for their loans, so the program itself must order the reads of others before what this rank does last. silent: a message
 * arrives, but whoever takes it knows no more than before of what others have done. */
enum { REHEARSAL_HASTY = -1 };
struct rehearsal_rules {
    int nslots;
    bool in_place;
    int hasty;                               /* all loans: REHEARSAL_HASTY; number of the only one, from 1; 0: none */
    int silent;                              /* the message's number, from 1, as they arrive; 0: none */
    const struct rehearsal_watcher *watcher; /* NULL: none */
};

/* Connects the cast. On failure *why says what is wrong; destroy the rehearsal all the same. */
bool rehearsal_create(struct rehearsal *m, const struct cast *cast, const struct rehearsal_rules *rules, char *why,
                      size_t why_bytes);
void rehearsal_destroy(struct rehearsal *m);

/* Runs all rounds to the end. watcher may be NULL, as its functions may. */
bool rehearsal_run(struct rehearsal *m, const struct rehearsal_watcher *watcher);

/* prog_check() by rules. */
bool prog_check_by(const struct algorithm *algorithm, const struct prog_shape *shape, int root,
                   const struct rehearsal_rules *rules, char *why, size_t why_bytes);

/* Returns the content of a place; NULL for a block of IN that nothing overwrites. */
struct rehearsal_cell *rehearsal_cell(const struct rehearsal *m, int round, struct rehearsal_place place);

/* Whether a block has elements in the round. */
bool rehearsal_is_alive(const struct rehearsal *m, struct rehearsal_place place, int round);

/* Block i of a run of a member. */
struct rehearsal_place rehearsal_place(const struct rehearsal *m, int member, int region, const struct block_run *run,
                                       int i);

/* Does the step lend, if all that may be lent is? */
static inline bool rehearsal_lends(const struct rehearsal *m, const struct prog_step *step) {
    return step->lends != STEP_LENDS_NOTHING && !(step->lends_apart && m->in_place);
}
/* May a payload come to lie where the step of a member stores it before its time? Not if IN, which the program reads, is OUT. */
static inline bool rehearsal_lands(const struct rehearsal *m, int member, const struct prog_step *step) {
    return step->lands == STEP_LANDS_EARLY && !(m->in_place && prog_reads_in(m->cast->members[member].prog));
}
/* Finds what a step of a member lends. */
struct rehearsal_place rehearsal_lent(const struct rehearsal *m, int member, const struct prog_step *step);

/* Where the message that a counter of the connection (head or tail) points at is; what it carries begins at
 * values[slot · longest]. */
size_t rehearsal_slot(const struct rehearsal *m, const struct rehearsal_conn *conn, uint32_t counter);

/* Write `why` and return false; the second names rank, worker and step first. */
bool rehearsal_fail(struct rehearsal *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool rehearsal_fail_at(struct rehearsal *m, int worker, int step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The number of a place among those of its member: OUT, TMP, then IN; in place, blocks of IN share those of OUT. */
int rehearsal_index(const struct rehearsal *m, struct rehearsal_place place);

static inline int rehearsal_places_of_member(const struct rehearsal *m) { return m->nout + m->ntmp + m->nin; }

#endif
