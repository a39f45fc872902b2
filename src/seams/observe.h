/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "observe". Beside the moments of seams/layer.h, the core writes events into the flight recorder of the
 * rank: calls, steps, and work of wires. Without the layer there is no recorder.
 *
 *      lane      run │ calls 7-902, equal │ ── a call that differs comes ──┐
 *      worker    a step is done                            (COLLET_TRACE) ──┼─▶ ring │ … │ calls 1-6 │ step │ wire │ step │
 *      wire      something was carried                     (COLLET_TRACE) ──┘                    ▲
 *                                                              its readers: dump, record, trace file, profiler (layers/observe)
 *
 * Recording a call must cost almost nothing. So successive equal calls of a lane are one run, which is one event, and the clock is not
 * read.
 */
#ifndef COLLET_SEAMS_OBSERVE_H
#define COLLET_SEAMS_OBSERVE_H

#include "base/os.h"
#include "boot/hub.h"
#include "exec/exec.h"
#include "kernels/interp.h"
#include "transport/transport.h"

/* ---- events ---- */

enum event_kind { EVENT_NONE, EVENT_CALLS, EVENT_STEP, EVENT_WIRE };

/* Successive equal calls on a lane. */
struct event_calls {
    uint8_t kind;                 /* EVENT_CALLS; EVENT_NONE: there are no calls */
    uint8_t collective, type, op; /* enum prog_collective, enum collet_type, enum collet_op */
    uint8_t protocol, nchannels;
    bool on_gpu;
    int8_t result;   /* enum collet_result of the last call, if it has failed */
    int32_t root;    /* Root, or peer */
    uint32_t number; /* Number of this run: the recorder counts runs when they begin */
    uint64_t count;
    uint64_t first, last;         /* Sequence numbers of the first and the last call */
    uint64_t began_ns, ended_ns;  /* os_now_ns(), if each call is recorded alone; 0: the time is not known */
    struct exec_program *program; /* Valid as long as the communicator */
};

/* event_step: a step that a worker has done. event_wire: a time in which a wire has carried data. Both are recorded only with COLLET_TRACE.
 * Times are os_ticks(). */
struct event_step {
    uint8_t kind;
    bool sending;        /* True: the worker waited for credit. False: it waited for data */
    uint16_t worker;     /* Index of the worker in its program */
    uint32_t bytes;      /* Payload bytes of each of the step's slots */
    uint32_t round, pc;  /* Round and step at which the worker goes on next */
    uint32_t blocked_on; /* Peer table entry of the peer that the worker waited for */
    uint64_t since;      /* Time at which the worker began to wait; 0: it did not wait */
    uint64_t begin, end; /* Times at which the step began and ended */
    uint64_t sequence;   /* Number of the call */
    const struct exec_program *program;
};
struct event_wire {
    uint8_t kind;
    bool sending; /* True: this rank is the producer */
    uint8_t channel;
    uint16_t lane;
    int32_t peer;
    uint64_t begin, end;
};

union event {
    uint8_t kind;
    struct event_calls calls;
    struct event_step step;
    struct event_wire wire;
};
_Static_assert(sizeof(union event) == 64 && sizeof(struct event_calls) == 64, "is one cache line");

/* The newest events of one thread. Only this thread writes them. */
struct ring {
    union event *events, *end; /* Place of the first event, and end of the last event's place */
    union event *next;         /* The oldest event: the next event overwrites it */
};

static inline union event *ring_next(struct ring *ring) {
    union event *event = ring->next;
    ring->next = event + 1 < ring->end ? event + 1 : ring->events;
    return event;
}

/* ---- the recorder of a rank ---- */

enum recorder_thread {
    RECORDER_DRIVER, /* The thread that drives calls */
    RECORDER_PROXY,  /* The first proxy; the others follow */
    RECORDER_THREADS = RECORDER_PROXY + CONFIG_PROXIES
};

struct recorder {
    bool traces; /* True: steps and work of wires are recorded */
    struct ring rings[RECORDER_THREADS];
    struct readers *readers; /* What reads the events: layers/observe/recorder.h */
};

/* ---- calls ---- */

/* The current run of a lane: its newest calls, which are equal. */
struct call_run {
    uint64_t args_id; /* args_id of the calls; 0: each call is recorded alone, so that it has times */
    struct event_calls calls;
};

enum told {
    CALL_BEGINS,  /* The call begins, and differs from the calls of its lane's run */
    CALL_GOES_ON, /* The call is tried again, and a reader observes it */
    /* The call has made no progress since idle_since_ns: it waits for rank waits_for. MISMATCH: end the call. */
    CALL_WAITS,
    /* Rank waits_for makes another call. A result other than SUCCESS is the failure, with a better text. */
    CALL_DIFFERS,
    CALL_ENDS /* The call has ended. Told only if the call is recorded alone */
};
/* Tells the recorder of a moment of a call. run: the lane's run, for CALL_BEGINS and CALL_ENDS. */
enum collet_result recorder_tell(struct recorder *recorder, enum told told, struct call_run *run,
                                 struct exec_call *call);

/* ---- steps and wires ---- */

/* Records a step if a try has done it. now: the time at which the try began. Returns the time at which the step ended, or `now`. */
static inline uint64_t recorder_step(const struct exec_call *call, struct interp_worker *w,
                                     const struct interp_try *tried, enum interp_result result, uint64_t now) {
    if ((result != INTERP_STEPPED && result != INTERP_DONE) || interp_skips(w->op, tried->bytes))
        return now;
    const uint64_t end = os_ticks();
    ring_next(&call->chan->recorder->rings[RECORDER_DRIVER])->step =
        (struct event_step){.kind = EVENT_STEP,
                            .sending = w->blocked_sending != 0,
                            .worker = (uint16_t)(w - call->program->workers),
                            .bytes = tried->bytes,
                            .round = (uint32_t)w->round,
                            .pc = w->pc,
                            .blocked_on = w->blocked_on,
                            .since = w->waits_since,
                            .begin = now,
                            .end = end,
                            .sequence = call->args.sequence,
                            .program = call->program};
    w->waits_since = 0;
    return end;
}

/* Lets a connection over a wire make progress, and records that if it has carried data. */
static inline enum collet_result recorder_carry(struct recorder *recorder, enum recorder_thread thread,
                                                struct conn *conn) {
    const bool traces = recorder != NULL && recorder->traces;
    const uint64_t begin = traces ? os_ticks() : 0;
    const enum collet_result result = conn->transport->progress(conn);
    if (traces && result == COLLET_SUCCESS)
        ring_next(&recorder->rings[thread])->wire = (struct event_wire){.kind = EVENT_WIRE,
                                                                        .sending = conn->side == CONN_PRODUCER,
                                                                        .channel = (uint8_t)conn->channel,
                                                                        .lane = (uint16_t)conn->lane,
                                                                        .peer = conn->peer,
                                                                        .begin = begin,
                                                                        .end = os_ticks()};
    return result;
}

/* ---- connections ---- */

/* Tests a connection whose transport is ready. SUCCESS: the test has passed, or no test is wanted. IN_PROGRESS: call again. REMOTE, at the
 * consumer: data changed on the way. */
enum collet_result selftest_conn_try(struct conn *conn);

#endif
