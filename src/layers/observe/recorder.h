/* SPDX-License-Identifier: Apache-2.0
 *
 * The flight recorder of a rank (seams/observe.h has its events), and its readers:
 *
 *      dump      dump.c        collet_comm_dump() and COLLET_DUMP_FILE: the newest calls
 *      record    record.c      COLLET_RECORD: a line per call, when it ends
 *      trace     trace.c       COLLET_TRACE: steps and wires, when the communicator ends
 *      profiler  observer.c    COLLET_PROFILER_PLUGIN: is told of calls and their messages while they run
 *
 * The driver writes without a lock. Equal calls in a row are one run. If COLLET_RECORD, COLLET_DUMP_FILE or a
 * profiler needs times, each call is a run of its own.
 */
#ifndef COLLET_LAYERS_OBSERVE_RECORDER_H
#define COLLET_LAYERS_OBSERVE_RECORDER_H

#include "api/comm.h"
#include "layers/observe/comms.h"
#include "layers/observe/inquest.h"
#include "layers/observe/observer.h"
#include "seams/observe.h"

#define RECORDER_CALLS 1024 /* number of events in the ring, without COLLET_TRACE */

struct readers {
    uint32_t begun;        /* number of runs so far */
    bool times;            /* each call is a run of its own, with times */
    bool dumped;           /* COLLET_DUMP_FILE has been written */
    struct record *record; /* writer of COLLET_RECORD; NULL: there is none */
    struct observing observing;
    struct trace *trace; /* writer of COLLET_TRACE; NULL: none */
    struct inquest inquest;
    struct comms_entry entry; /* entry in the list of the process's communicators */
};

/* Do readers compare times of several hosts? Then clocks must be compared. */
static inline bool recorder_compares_clocks(const struct config *config) {
    return config->record[0] != '\0' || config->dump_file[0] != '\0' || config->trace[0] != '\0';
}

/* Creates the recorder of a communicator whose parts are open, as comm->chan->recorder. */
enum collet_result recorder_create(struct collet_comm *comm);
/* Completes the record and the trace, and frees the recorder. */
void recorder_destroy(struct collet_comm *comm);

/* Shows all calls that the recorder still has: first the calls that have ended, in the order of their ends; then the calls of
 * the lanes. Another thread may be writing. */
typedef void recorder_show(const struct event_calls *calls, bool under_way, void *context);
void recorder_each(const struct collet_comm *comm, recorder_show *show, void *context);

#endif
