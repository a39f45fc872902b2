/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbolic machine: runs the programs of a whole cast on expressions instead of data.
 *
 *      member 0: worker 0, worker 1 …        connections: FIFOs of nslots slots, each slot an expression
 *      member 1: worker 0 …                  OUT: an expression per chunk and round; IN: leaves
 *
 * Every worker runs until a step lacks an operand or a credit, and again when that has come; when nobody can move, the
 * run is over. Each connection has one producing and one consuming worker (wiring insists), so whether and with which
 * values a run ends does not depend on whose turn it is: one run speaks for all. What could depend on it is memory
 * that workers of a rank share; order.h watches that.
 *
 * Rounds: nslots + 1 full ones, so that slots are reused; if buffers are cut into slices, then two short ones in which
 * only the first half of the slices, and only the first slice, still have elements. Both ends skip the others.
 */
#ifndef COLLET_PROGRAM_MACHINE_H
#define COLLET_PROGRAM_MACHINE_H

#include "program/cast.h"
#include "program/expr.h"
#include "program/order.h"

struct machine_worker {
    int member, index; /* index: number among the member's workers */
    int first_step, nsteps;
    int pc, round;
    int blocked_on; /* connection, −1: not blocked */
    bool blocked_sending;
};

struct machine_conn {
    int src, dst, lane;               /* members */
    int producer, consumer;           /* workers; −1 while unknown */
    int first_sent, first_received;   /* steps that use it first … */
    int newest_sent, newest_received; /* … and, while wiring, last */
    uint32_t head, tail;
};

struct machine_slot {
    int32_t value;
    int round, block; /* block: whose length the message has; −1: that of any rank's block */
    int step;         /* that sent it */
};

struct machine_cell {
    int32_t value;    /* EXPR_NONE: not written yet */
    int worker, step; /* that wrote it */
};

struct machine {
    const struct cast *cast;
    int nslots, nrounds;
    bool in_place;
    int *blocks;   /* [round]: slices with elements in this round */
    int nin, nout; /* chunks of each region */
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

    struct machine_cell *out; /* [round][member][chunk] */
    int *runnable, nrunnable; /* stack of workers that may be able to move */

    bool ordered; /* workers of some rank share memory that one of them writes: */
    struct order order;

    char *why;
    size_t why_bytes;
};

/* Connects the cast. On failure *why says what is wrong; destroy the machine all the same. */
bool machine_create(struct machine *m, const struct cast *cast, int nslots, bool in_place, char *why, size_t why_bytes);
void machine_destroy(struct machine *m);

/* Runs all rounds to the end. */
bool machine_run(struct machine *m);

struct machine_cell *machine_out(const struct machine *m, int round, int member, int chunk);

/* Whether chunk `chunk` of a region with this layout has elements in the round. */
bool machine_is_alive(const struct machine *m, enum prog_layout layout, int chunk, int round);

/* Write `why` and return false; the second names rank, worker and step first. */
bool machine_fail(struct machine *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool machine_fail_at(struct machine *m, int worker, int step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Which place of memory a chunk is: in place, IN chunks share those of OUT. */
size_t machine_place(const struct machine *m, int round, int member, enum step_region region, int chunk);

#endif
