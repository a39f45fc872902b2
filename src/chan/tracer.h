/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLET_TRACE: when a rank ran which step, what it waited for, and when its wires carried something.
 *
 *      executor ──▶ │ wait for rank 3 │ step 5 │ message out │ step 6 │ …       a ring of events per thread, which no other thread
 *      proxy    ──▶ │ wire to rank 2 │ wire from rank 1 │ …                     touches; written to the file when the rank's
 *                                                                              communicator ends
 *
 * A message has a number: how many went before it through its connection. Both ends note it, so that it becomes an arrow.
 */
#ifndef COLLET_CHAN_TRACER_H
#define COLLET_CHAN_TRACER_H

#include "transport/conn.h"
#include "transport/transport.h"

enum trace_kind { TRACE_STEP, TRACE_WAIT, TRACE_SENT, TRACE_RECEIVED, TRACE_WIRE };

struct trace_event {
    uint64_t begin_ns, end_ns;
    uint64_t sequence; /* of the call … */
    const char *call;  /* … and its collective's name; constant */
    uint64_t message;  /* SENT, RECEIVED: its number */
    int32_t peer;      /* of WAIT, SENT, RECEIVED, WIRE */
    uint32_t bytes, round;
    uint16_t step, track;
    uint8_t kind, channel, lane;
    uint8_t sends, receives; /* STEP: to and from so many peers; WAIT: sends says that it is for credit */
};
_Static_assert(sizeof(struct trace_event) <= 64, "is one cache line");

enum tracer_thread { TRACER_EXECUTOR, TRACER_PROXY, TRACER_THREADS };

struct tracer {
    const struct conn_owner *owner;
    const char *name; /* of the communicator */
    struct {
        struct trace_event *events; /* [room] */
        uint64_t count;             /* of all that have been */
    } ring[TRACER_THREADS];
    uint64_t room;
};

/* Of a rank with COLLET_TRACE. */
enum collet_result tracer_create(const struct conn_owner *owner, const char *name, struct tracer **tracer_p);
void tracer_destroy(struct tracer *tracer); /* writes the file; NULL is fine */

/* Room for the next event of a thread; the oldest one makes room. */
static inline struct trace_event *tracer_next(struct tracer *tracer, enum tracer_thread thread) {
    return &tracer->ring[thread].events[tracer->ring[thread].count++ % tracer->room];
}

/* Lets a connection over a wire make progress; with a tracer, notes when it carried something. */
enum collet_result tracer_progress(struct tracer *tracer, enum tracer_thread thread, struct conn *conn);
static inline enum collet_result tracer_carry(struct tracer *tracer, enum tracer_thread thread, struct conn *conn) {
    return tracer == NULL ? conn->transport->progress(conn) : tracer_progress(tracer, thread, conn);
}

#endif
