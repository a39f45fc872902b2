/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbolic machine: runs the programs of a whole cast on expressions instead of data.
 *
 *      member 0: worker 0, worker 1 …        connections: FIFOs of nslots slots, each slot a list of expressions
 *      member 1: worker 0 …                  OUT: an expression per block and round; TMP: one per block; IN: leaves
 *
 * Every worker runs until a step lacks an operand or a credit, and again when that has come; when nobody can move, the
 * run is over. Each connection has one producing and one consuming worker (wiring insists), so whether and with which
 * values a run ends does not depend on whose turn it is: one run speaks for all. What could depend on it is memory
 * that workers of a rank share; order.h watches that.
 *
 * Rounds: nslots + 1 full ones, so that slots are reused; if buffers are cut into slices, then two short ones in which
 * only the first half of the slices, and only the first slice, still have elements. Both ends skip the others.
 *
 * Pieces of different lengths must not meet. A piece's length has a number: blocks of equal numbers are equally long on
 * all ranks, whatever the count of the call.
 */
#ifndef COLLET_PROGRAM_MACHINE_H
#define COLLET_PROGRAM_MACHINE_H

#include "base/memory.h"
#include "program/cast.h"
#include "program/expr.h"
#include "program/order.h"

struct machine_worker {
    int member, index; /* index: number among the member's workers */
    int first_step, nsteps;
    int pc, round;
    int blocked_on; /* connection, −1: not blocked */
    bool blocked_sending;
    int turned; /* the step that it did in the last turn; −1: none */
};

struct machine_conn {
    int src, dst, lane;               /* members */
    int producer, consumer;           /* workers; −1 while unknown */
    int first_sent, first_received;   /* the steps that use it first */
    int newest_sent, newest_received; /* while wiring: those that use it last */
    int longest;                      /* pieces of its longest message */
    size_t first_value;               /* where its slots begin in machine.values */
    uint32_t head, tail;
};

struct machine_slot {
    int round, step; /* that sent it */
};

struct machine_cell {
    int32_t value;    /* EXPR_NONE: not written yet */
    int worker, step; /* that wrote it */
    int round;        /* in which they did */
    int length;       /* number of its piece's length */
    uint32_t touched; /* number of the last step that looked at it or wrote it … */
    int piece;        /* … and the piece that it was for */
};

/* Where it went wrong. */
struct machine_failure {
    int member; /* −1: it is no rank's fault */
    int step;   /* of the member's program; −1: a step is missing */
    int round;
};

/* A place in memory: a block of a region of a member. */
struct machine_place {
    int owner;
    enum step_region region;
    int block;
};

struct machine {
    const struct cast *cast;
    int nslots, nrounds;
    bool in_place;
    bool sliced, counted; /* blocks are slices; blocks have counts of their own. Else all are equally long */
    int *blocks;          /* [round]: slices with elements in this round */
    int nin, nout, ntmp;  /* blocks of each region; TMP: of the member that has most */
    struct arena arena;   /* has the arrays */
    struct expr_store exprs;

    int nworkers;
    struct machine_worker *workers;
    int *first_worker; /* [member] */

    int nconns;
    struct machine_conn *conns;
    int *conn_index; /* hash table */
    uint32_t conn_index_size;
    int *first_peer;            /* [member]: where its peer table begins in the next two */
    int *recv_conn, *send_conn; /* [peer table entry]: connection, −1: not used so */
    struct machine_slot *slots; /* [connection][slot] */
    int32_t *values;            /* [connection][slot][piece] */

    struct machine_cell *out; /* [round][member][block] */
    struct machine_cell *tmp; /* [member][block] */
    int32_t *results;         /* [piece] of the step that is done */
    int longest;              /* pieces of the longest step */
    uint32_t nsteps_done;
    int *runnable, nrunnable; /* stack of workers that may be able to move */

    bool ordered; /* workers of some rank share memory that one of them writes: */
    struct order order;

    char *why;
    size_t why_bytes;
    struct machine_failure failed;
};

/* Connects the cast. On failure *why says what is wrong; destroy the machine all the same. */
bool machine_create(struct machine *m, const struct cast *cast, int nslots, bool in_place, char *why, size_t why_bytes);
void machine_destroy(struct machine *m);

/* Runs all rounds to the end. */
bool machine_run(struct machine *m);

/* Every worker that has something to do up to `round`, and is able to, does one step. Returns how many did; −1: one
 * failed. */
int machine_turn(struct machine *m, int round);

/* Of OUT. */
struct machine_cell *machine_out(const struct machine *m, int round, int member, int block);

/* Whether a block has elements in the round. */
bool machine_is_alive(const struct machine *m, int block, int round);

/* The number of a block's length; −1 where all blocks are equally long. region: IN or OUT. */
int machine_length_of(const struct machine *m, struct machine_place place);

/* The i-th block that a member's step is about, reads as its l-th local operand, stores. */
struct machine_place machine_about(const struct machine *m, int member, const struct prog_step *step, int i);
struct machine_place machine_local(const struct machine *m, int member, const struct prog_step *step, int l, int i);
struct machine_place machine_store(const struct machine *m, int member, const struct prog_step *step, int i);

/* Write `why` and return false; the second names rank, worker and step first. */
bool machine_fail(struct machine *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool machine_fail_at(struct machine *m, int worker, int step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The number of a place among those of its owner: in place, blocks of IN share those of OUT. */
int machine_index(const struct machine *m, struct machine_place place);

static inline int machine_places_of_member(const struct machine *m) { return m->nin + m->nout + m->ntmp; }

#endif
