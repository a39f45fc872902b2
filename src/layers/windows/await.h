/* SPDX-License-Identifier: Apache-2.0
 *
 * A call on a window waits for another rank, and moves the RMA engine while it waits. The wait ends, whatever happens to the other rank. On
 * GPUs there is no RMA engine: the call waits for what a GPU does, or for a message of the control plane.
 */
#ifndef COLLET_LAYERS_WINDOWS_AWAIT_H
#define COLLET_LAYERS_WINDOWS_AWAIT_H

#include "layers/windows/rma.h"

struct rma_awaited {
    struct collet_comm *comm;
    struct rma *rma; /* NULL: the communicator is on GPUs */
    int peer;
    const char *what; /* "a signal of": text before the peer, for errors and the log */
    const char *hint; /* text about the likely cause of a timeout; "": none */
    bool (*is_there)(const void *about);
    const void *about;
    bool in_stream; /* the wait has no limit of time: the earlier work of a stream may take long */
};

/* Waits until is_there() returns true. Errors: REMOTE (the peer is gone, or cannot be reached), TIMEOUT, and the communicator's failure. */
enum collet_result await(const struct rma_awaited *awaited);

/* May the wait go on, after idle_ns without progress? SUCCESS: yes. Errors: as await(). */
enum collet_result await_check(const struct rma_awaited *awaited, uint64_t idle_ns);

/* Ships an operation and waits until it is done. If that fails, the caller has the operation again, and the communicator has failed. */
enum collet_result await_op(struct collet_comm *comm, struct rma *rma, int peer, struct rma_op *op, const char *what);

/* Waits until all ranks have all bytes that this rank has put. Errors: as await(). */
enum collet_result await_flushes(struct collet_comm *comm, struct rma *rma);

/* Like await_flushes(), when the communicator ends. If the other ranks do not answer in this time, gives up without an error. */
#define LAST_FLUSHES_NS 2000000000u
void await_last_flushes(struct collet_comm *comm, struct rma *rma);

#endif
