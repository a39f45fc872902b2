/* SPDX-License-Identifier: Apache-2.0
 *
 * The rehearsal: runs the programs of a whole cast on expressions instead of data.
 *
 *      member 0: worker 0, worker 1 …        connections: FIFOs of nslots slots, each slot a list of expressions
 *      member 1: worker 0 …                  OUT: an expression per block and round; TMP: one per block; IN: leaves
 *
 * A worker does a step when all operands and credits of the step are there. When no worker can move, the run is over. Each
 * connection has one producing and one consuming worker (join.c insists on it). So the end of a run and its values do not depend on
 * the order in which workers move: one run stands for all. Only the use of memory that workers of a rank share could depend on the order.
 * order.h watches this memory.
 *
 * A message that its step lends is read in the sender's memory when the receiver does its step, whatever the sender has done
 * since. So a program that is right here is also right if messages are copied. A payload that may land early is stored when the receiver
 * does its step. order.h watches that its place is free from the time when it is sent.
 *
 * Rounds: nslots + 1 full rounds, so that slots are reused. If blocks differ in length, two short rounds follow: in the first, only half
 * of the lengths still have elements; in the second, only the first length has. Both ends skip steps without elements.
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
    int member, index; /* Number of its member; number among the member's workers. */
    int first_step, nsteps;
    int pc, round;
    int turned; /* The step that the worker does in this turn. −1: none. */
    bool awake;
};

/* One end of a connection. */
struct rehearsal_end {
    int worker;                /* Number of the worker that uses this end. −1: none does. */
    int first_use, newest_use; /* First and newest step that uses this end. */
};

struct rehearsal_conn {
    struct cast_conn at;
    struct rehearsal_end producer, consumer;
    uint32_t head, tail;
};

struct rehearsal_slot {
    int round, step; /* Round and step that sent the message. */
    int loan;        /* Number of the loan in the order, if the message is lent. −1: it is not lent. */
};

struct rehearsal_cell {
    int32_t value;    /* Expression that the block holds. EXPR_NONE: not written yet. */
    int worker, step; /* Worker and step that wrote it. */
    int round;        /* Round in which it was written. */
    int length;       /* Number of the length of its piece. */
    uint32_t touched; /* Number of the last step that read or wrote it. */
    int piece;        /* The piece of that step which read or wrote it. SEVERAL_PIECES: more than one piece read it. */
};

/* The place in the programs at which the check failed. */
struct rehearsal_failure {
    int member; /* −1: no single rank is the cause. */
    int step;   /* Index of the step in the member's program. −1: a step is missing. */
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
    /* Each block has a length of its own (PROG_COUNTS). False: slices with the same number are equally long in all blocks. */
    bool counted;
    int nlengths; /* Number of different lengths. */
    int *lengths; /* [round]: a block has elements in this round if the number of its length is below this number. */
    int nin, nout, ntmp; /* Number of blocks of IN, OUT and TMP. ntmp: the maximum over all members. */
    struct arena arena;  /* The arena that owns the arrays. */
    struct expr_store exprs;

    int nworkers;
    struct rehearsal_worker *workers;
    int *first_worker;  /* [member]: number of its first worker. */
    int *awake, nawake; /* Workers that may be able to move. */

    struct cast_conns pairs;
    struct rehearsal_conn *conns; /* [index in pairs.list]: state of the connection. */
    struct rehearsal_slot *slots; /* [connection][slot]: the message in the slot. */
    int32_t *values;              /* [connection][slot][piece]: expression that the message carries. */
    int longest;                  /* Number of pieces of the longest message. */

    /* [round][member][block of OUT, then of TMP]: content of the block. TMP has cells in round 0 only. */
    struct rehearsal_cell *cells;
    int32_t *results; /* [piece]: results of the step that is being done. */
    int32_t *leaves;  /* The contributions of a sum that is being checked. */
    bool *seen;       /* [member]: whether its contribution is in that sum. */
    uint32_t nsteps_done;

    int hasty, silent; /* See struct rehearsal_rules. */
    int nmessages;     /* Number of messages that have arrived. */
    /* `order` is in use, because only clocks can show that some memory is used in order (join.c), or because the rules need clocks. */
    bool ordered;
    struct order order;

    char *why;
    size_t why_bytes;
    struct rehearsal_failure failed;
};

/* Watches a check. turn() is called after every turn of the first round, failed() when the check has failed. */
struct rehearsal_watcher {
    void (*turn)(const struct rehearsal *m, int turn, void *context);
    void (*failed)(const struct rehearsal *m, void *context);
    void *context;
};

/* Rules of a check. A check may be watched. It may also leave out a part of what orders accesses to memory. hasty: ranks
 * return from the call without waiting for their loans, so the program itself must order the reads of others before the last
 * steps of this rank. silent: when this message arrives, its receiver learns nothing about the steps of others. */
enum { REHEARSAL_HASTY = -1 };
struct rehearsal_rules {
    int nslots;
    bool in_place;
    /* REHEARSAL_HASTY: all loans are hasty. Above 0: only the loan of this number, from 1. 0: none. */
    int hasty;
    /* Above 0: number of the silent message, from 1, in the order of arrival. 0: none. */
    int silent;
    const struct rehearsal_watcher *watcher; /* NULL: nobody watches. */
};

/* Connects the cast. False: *why says what is wrong, and rehearsal_destroy() is still necessary. */
bool rehearsal_create(struct rehearsal *m, const struct cast *cast, const struct rehearsal_rules *rules, char *why,
                      size_t why_bytes);
void rehearsal_destroy(struct rehearsal *m);

/* Runs all rounds to the end. `watcher` and its functions may be NULL. */
bool rehearsal_run(struct rehearsal *m, const struct rehearsal_watcher *watcher);

/* Works as prog_check(), but by rules. */
bool prog_check_by(const struct algorithm *algorithm, const struct prog_shape *shape, int root,
                   const struct rehearsal_rules *rules, char *why, size_t why_bytes);

/* Returns the content of a place. NULL: the place is a block of IN that nothing overwrites. */
struct rehearsal_cell *rehearsal_cell(const struct rehearsal *m, int round, struct rehearsal_place place);

/* Has the block elements in this round? */
bool rehearsal_is_alive(const struct rehearsal *m, struct rehearsal_place place, int round);

/* The place of block i of a run in a region of a member. */
struct rehearsal_place rehearsal_place(const struct rehearsal *m, int member, int region, const struct block_run *run,
                                       int i);

/* Does the step lend its payload, if everything is lent that may be? */
static inline bool rehearsal_lends(const struct rehearsal *m, const struct prog_step *step) {
    return step->lends != STEP_LENDS_NOTHING && !(step->lends_apart && m->in_place);
}
/* May the payload that a step of a member stores be written to its place before the step begins? Not if IN and OUT are one buffer and
 * the program reads IN. */
static inline bool rehearsal_lands(const struct rehearsal *m, int member, const struct prog_step *step) {
    return step->lands == STEP_LANDS_EARLY && !(m->in_place && prog_reads_in(m->cast->members[member].prog));
}
/* The place that a step of a member lends. */
struct rehearsal_place rehearsal_lent(const struct rehearsal *m, int member, const struct prog_step *step);

/* The slot to which a counter of the connection (head or tail) points. The message in it begins at values[slot · longest]. */
size_t rehearsal_slot(const struct rehearsal *m, const struct rehearsal_conn *conn, uint32_t counter);

/* These functions write `why` and return false. rehearsal_fail_at() names rank, worker and step first. */
bool rehearsal_fail(struct rehearsal *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool rehearsal_fail_at(struct rehearsal *m, int worker, int step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The number of a place among those of its member: OUT, then TMP, then IN. If the call is in place, blocks of IN have the
 * numbers of those blocks of OUT whose memory they share. */
int rehearsal_index(const struct rehearsal *m, struct rehearsal_place place);

static inline int rehearsal_places_of_member(const struct rehearsal *m) { return m->nout + m->ntmp + m->nin; }

#endif
