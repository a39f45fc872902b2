/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/recorder.h"

#include "base/memory.h"
#include "base/types.h"
#include "layers/observe/record.h"
#include "layers/observe/trace.h"

#include <stdlib.h>
#include <string.h>

/* ---- a call ---- */

static void keep(struct recorder *recorder, struct call_run *run) {
    if (run->calls.kind == EVENT_CALLS)
        ring_next(&recorder->rings[RECORDER_DRIVER])->calls = run->calls;
    run->calls.kind = EVENT_NONE;
}

/* Tells the observer that a call begins. On a GPU, the end of a call is not seen, so the call ends at once. */
static void observe(const struct observing *observing, struct exec_call *call) {
    struct observed *observed = observing_begin(observing, call);
    if (call->chan->owner.gpu != NULL)
        observing_end(observed);
    else
        call->observed = observed;
}

static void begin_run(struct recorder *recorder, struct call_run *run, struct exec_call *call) {
    struct readers *readers = recorder->readers;
    const struct exec_request *request = &call->request;
    keep(recorder, run);
    run->args_id = readers->times ? 0 : call->args_id;
    run->calls = (struct event_calls){.kind = EVENT_CALLS,
                                      .collective = (uint8_t)request->collective,
                                      .type = (uint8_t)request->type,
                                      .op = (uint8_t)request->op,
                                      .protocol = (uint8_t)call->args.protocol,
                                      .nchannels = (uint8_t)call->args.nchannels,
                                      .on_gpu = call->chan->owner.gpu != NULL,
                                      .root = request->root,
                                      .number = ++readers->begun,
                                      .count = request->count,
                                      .first = call->args.sequence,
                                      .began_ns = readers->times ? os_now_ns() : 0,
                                      .program = call->program};
    if (readers->observing.observer != NULL)
        observe(&readers->observing, call);
}

static void end_call(struct recorder *recorder, struct call_run *run, struct exec_call *call) {
    run->calls.ended_ns = os_now_ns();
    observing_end(call->observed);
    if (recorder->readers->record != NULL)
        record_add(recorder->readers->record, &run->calls);
    keep(recorder, run);
}

enum collet_result recorder_tell(struct recorder *recorder, enum told told, struct call_run *run,
                                 struct exec_call *call) {
    if (recorder == NULL)
        return COLLET_SUCCESS;
    switch (told) {
    case CALL_BEGINS: begin_run(recorder, run, call); break;
    case CALL_GOES_ON: observing_look(call->observed); break;
    case CALL_WAITS: return inquest_look(&recorder->readers->inquest, call);
    case CALL_DIFFERS: return inquest_differs(&recorder->readers->inquest, call);
    case CALL_ENDS: end_call(recorder, run, call); break;
    }
    return COLLET_SUCCESS;
}

/* ---- what is known ---- */

#define WORDS (sizeof(union event) / sizeof(uint64_t))

/* Copies an event that another thread may be writing. Each word is old or new, so for a moment the words may not belong
 * together. But no word names a thing that does not exist. False: the event is not a run of calls, or not yet. */
__attribute__((no_sanitize("thread"))) static bool take(const void *from, struct event_calls *calls) {
    uint64_t words[WORDS];
    for (size_t k = 0; k < WORDS; k++)
        /* No other read depends on this value. */
        words[k] = __atomic_load_n((const uint64_t *)from + k, __ATOMIC_RELAXED);
    memcpy(calls, words, sizeof *calls);
    return calls->kind == EVENT_CALLS && calls->program != NULL && calls->collective < PROG_COLLECTIVE_COUNT &&
           type_valid((enum collet_type)calls->type) && calls->protocol < PROTOCOL_COUNT;
}

/* Another thread may be driving the calls: see exec_dump(). */
__attribute__((no_sanitize("thread"))) void recorder_each(const struct collet_comm *comm, recorder_show *show,
                                                          void *context) {
    const struct ring *ring = &comm->chan->recorder->rings[RECORDER_DRIVER];
    const union event *const next = ring->next;
    const ptrdiff_t room = ring->end - ring->events;
    for (ptrdiff_t k = 0; k < room; k++) {
        struct event_calls calls;
        if (take(next + k < ring->end ? &next[k] : &next[k - room], &calls))
            show(&calls, false, context);
    }
    for (int k = 0; k < 2 + 2 * comm->nranks; k++) {
        const struct lane *lane = &comm->engine.lanes[k];
        struct event_calls calls;
        if (take(&lane->run.calls, &calls))
            show(&calls, lane->call.state != EXEC_IDLE, context);
    }
}

/* ---- life ---- */

/* With COLLET_TRACE, proxies write events, too. */
static enum collet_result make_rings(struct recorder *recorder, const struct config *config) {
    const int proxies = config->proxy > 1 ? (int)config->proxy : 1;
    const int n = recorder->traces ? RECORDER_PROXY + proxies : 1;
    const size_t room = recorder->traces ? (size_t)config->trace_events : RECORDER_CALLS;
    for (struct ring *ring = recorder->rings; ring < recorder->rings + n; ring++) {
        COLLET_TRY(memory_get(&ring->events, room, sizeof *ring->events,
                              "no memory for %zu events (COLLET_TRACE_EVENTS)", room));
        ring->end = ring->events + room;
        ring->next = ring->events;
    }
    return COLLET_SUCCESS;
}

static enum collet_result open_readers(struct readers *readers, const struct collet_comm *comm) {
    const struct config *config = &comm->config;
    readers->inquest = (struct inquest){.at = -1, .entry = &readers->entry};
    COLLET_TRY(observing_open(&readers->observing, comm->chan));
    readers->times = config->record[0] != '\0' || config->dump_file[0] != '\0' || readers->observing.observer != NULL;
    if (config->record[0] != '\0')
        COLLET_TRY(record_open(comm->chan, &readers->record));
    return config->trace[0] != '\0' ? trace_begin(comm, &readers->trace) : COLLET_SUCCESS;
}

/* If this fails, recorder_destroy() frees what was created. */
enum collet_result recorder_create(struct collet_comm *comm) {
    struct recorder *recorder;
    COLLET_TRY(memory_get(&recorder, 1, sizeof *recorder, "no memory for the flight recorder"));
    comm->chan->recorder = recorder;
    recorder->traces = comm->config.trace[0] != '\0';
    COLLET_TRY(memory_get(&recorder->readers, 1, sizeof *recorder->readers, "no memory for the flight recorder"));
    COLLET_TRY(make_rings(recorder, &comm->config));
    return open_readers(recorder->readers, comm);
}

void recorder_destroy(struct collet_comm *comm) {
    struct recorder *recorder = comm->chan->recorder;
    struct readers *readers = recorder->readers;
    if (readers != NULL) {
        if (readers->record != NULL)
            record_close(readers->record);
        if (readers->trace != NULL)
            trace_end(readers->trace, recorder);
        observing_close(&readers->observing);
    }
    for (int k = 0; k < RECORDER_THREADS; k++)
        free(recorder->rings[k].events);
    free(readers);
    free(recorder);
    comm->chan->recorder = NULL;
}
