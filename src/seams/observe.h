/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "observe": journal, record and dump of calls, traces, metrics, collet-status, the self-test. Beside
 * the moments of its list, calls, steps and connections tell it what happens. Without the layer nothing is written down.
 */
#ifndef COLLET_SEAMS_OBSERVE_H
#define COLLET_SEAMS_OBSERVE_H

#include "boot/hub.h"
#include "exec/exec.h"
#include "kernels/interp.h"
#include "transport/transport.h"

struct tracer;

/* ---- calls ---- */

struct journal;

/* Equal calls that follow each other on a lane share an entry: so only a call that differs costs time for the journal. */
struct journal_entry {
    uint64_t args_id;     /* args_id of the calls; 0: the journal records times; UINT64_MAX: of no call */
    uint64_t first, last; /* numbers of the first and the last of these calls */
    uint64_t ended; /* equal to `last`: that call has ended. On a GPU: it is in a stream, and its end is not seen */
    uint64_t count;
    const struct algorithm *algorithm;
    int32_t root;
    int16_t result;               /* failure of the last call */
    uint8_t collective, type, op; /* enums */
    uint8_t protocol, nchannels;
    bool on_gpu;
};
_Static_assert(sizeof(struct journal_entry) == 64, "is one cache line");

/* Adds an entry for a call that differs from the one before it on its lane. last: the entry of that one. */
struct journal_entry *journal_add(struct journal *journal, struct journal_entry *last, struct exec_call *call);
/* If the journal records times: the call of this entry has ended. */
void journal_note_end(struct journal *journal, const struct journal_entry *entry, const struct exec_call *call);

static inline struct journal_entry *journal_begin(struct journal *journal, struct journal_entry *last,
                                                  struct exec_call *call) {
    if (last->args_id != call->args_id)
        return journal_add(journal, last, call);
    last->last = call->args.sequence;
    return last;
}

static inline void journal_end(struct journal *journal, struct journal_entry *entry, const struct exec_call *call) {
    entry->ended = call->args.sequence;
    if (entry->args_id == 0)
        journal_note_end(journal, entry, call);
}

/* Gives the observer of a call some time. */
void observing_look(struct observed *observed);

/* ---- steps and wires of a rank with COLLET_TRACE ---- */

enum tracer_thread {
    TRACER_EXECUTOR,
    TRACER_PROXY /* the first one */,
    TRACER_THREADS = TRACER_PROXY + CONFIG_PROXIES
};

/* Describes a program's workers to the tracer of its rank. */
enum collet_result exec_trace_bind(struct exec_program *program, struct tracer *tracer);
/* The executor's own record of a worker. The layer's struct trace_worker begins with it. */
struct trace_wait {
    uint64_t since; /* os_ticks() since which it waits; 0: it does not wait */
};
/* Records the result of a try that began at `now`, if that is not BUSY. Returns the present time, as far as known. */
uint64_t exec_trace(const struct exec_call *call, const struct interp_worker *w, const struct interp_try *tried,
                    enum interp_result result, uint64_t now);

/* Lets a connection over a wire make progress. With a tracer, it records when something was carried. */
enum collet_result tracer_progress(struct tracer *tracer, enum tracer_thread thread, struct conn *conn);
static inline enum collet_result tracer_carry(struct tracer *tracer, enum tracer_thread thread, struct conn *conn) {
    return tracer == NULL ? conn->transport->progress(conn) : tracer_progress(tracer, thread, conn);
}

/* ---- connections ---- */

/* Tests a connection whose transport is ready. SUCCESS: the test passed, or there is none. IN_PROGRESS: call again. REMOTE, at the
 * consumer: data changed on the way. */
enum collet_result selftest_conn_try(struct conn *conn);

#endif
