/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLET_TRACE: when a rank ran which step, what it waited for, and when its wires carried something.
 *
 *      executor ──▶ │ step 5, waited for rank 3 │ step 6 │ …      a ring of events per thread, which no other thread touches;
 *      proxy    ──▶ │ wire to rank 2 │ wire from rank 1 │ …       written to the file when the rank's communicator ends
 *
 * An event holds only what cannot be found out later: three readings of a counter, the call, the round. Everything else is looked
 * up when the file is written. For that a worker leaves a description of its steps.
 *
 * A message becomes an arrow if its two ends are found. Both call it by the same number: how many messages of its round
 * go through its connection before it.
 */
#ifndef COLLET_LAYERS_OBSERVE_TRACER_H
#define COLLET_LAYERS_OBSERVE_TRACER_H

#include "seams/observe.h"
#include "transport/conn.h"
#include "transport/transport.h"

struct trace_message {
    int32_t rank, lane; /* the other end of its connection */
    uint32_t number;
};

struct trace_step {
    uint32_t first_message; /* index of its first message: first those that it receives, then those that it sends */
    uint32_t receives, sends;
    uint32_t recv_first, send_first; /* index of their peers in the program's table */
};

#define TRACER_MESSAGES 1000 /* tracks from here on are of sends and receives, which run beside collectives */

struct trace_worker;
struct trace_event {
    const struct trace_worker *worker; /* whose step it was; NULL: a wire carried something */
    uint64_t since;                    /* os_ticks() when it began to wait; 0: it did not wait */
    uint64_t begin, end;               /* os_ticks(); end 0: there is no event yet */
    uint64_t sequence;                 /* of the step's call */
    uint32_t bytes;
    uint32_t next_round, next_step; /* round and step to which the worker went next */
    uint32_t sending;               /* it waited for credit; the wire goes to the rank */
    union {
        uint32_t blocked_on; /* what a step waited for: index into the program's table of peers */
        int32_t rank;        /* of a wire */
    };
    uint8_t channel; /* of a wire */
    uint16_t lane;
};
_Static_assert(sizeof(struct trace_event) <= 64, "is one cache line");

struct trace_ring {
    struct trace_event *events, *end; /* the first, and behind the last */
    struct trace_event *next;         /* the oldest, which goes next */
};

/* Room for the next event of a thread. */
static inline struct trace_event *trace_ring_next(struct trace_ring *ring) {
    struct trace_event *event = ring->next;
    ring->next = event + 1 < ring->end ? event + 1 : ring->events;
    return event;
}

/* A worker of a program. */
struct trace_worker {
    struct trace_wait wait;
    struct trace_ring *ring; /* the ring of the thread that runs it */
    const char *call;        /* name of its collective; constant */
    struct trace_step *steps;
    struct trace_message *messages;
    uint32_t nsteps;
    uint16_t track;
    uint8_t channel;
    struct trace_worker *next; /* the tracer's */
};

struct tracer {
    const struct conn_owner *owner;
    struct trace_ring ring[TRACER_THREADS];
    struct trace_worker *workers;
    struct trace_clock {
        uint64_t ticks, ns; /* the same moment */
    } created;
};

/* Of a rank with COLLET_TRACE. */
enum collet_result tracer_create(const struct conn_owner *owner, struct tracer **tracer_p);
void tracer_end(struct tracer *tracer); /* writes the file; NULL is fine */

/* Makes a worker with room to describe so many steps and messages. The tracer owns it. NULL: no memory. */
struct trace_worker *tracer_add_worker(struct tracer *tracer, size_t nsteps, size_t nmessages);

#endif
