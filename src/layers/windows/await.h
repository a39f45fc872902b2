/* SPDX-License-Identifier: Apache-2.0
 *
 * How a call on a window waits for another rank, and moves the RMA engine while it waits. It ends, whatever happens to the other rank.
 */
#ifndef COLLET_LAYERS_WINDOWS_AWAIT_H
#define COLLET_LAYERS_WINDOWS_AWAIT_H

#include "layers/windows/rma.h"

struct rma_awaited {
    struct collet_comm *comm;
    struct rma *rma;
    int peer;
    const char *what; /* "a signal of": text before the peer, for errors and the log */
    const char *hint; /* text about the likely cause of a timeout; "": none */
    bool (*is_there)(const void *about);
    const void *about;
};

/* SUCCESS: it is there. Errors: REMOTE (the peer is gone, or cannot be reached), TIMEOUT, and the failure of the communicator. */
enum collet_result await(const struct rma_awaited *awaited);

/* May it still come, after idle_ns without progress? SUCCESS: yes. Errors: as await(). */
enum collet_result await_check(const struct rma_awaited *awaited, uint64_t idle_ns);

/* Ships an operation and waits until it is done. If that fails, the operation is the caller's again, and the communicator has failed. */
enum collet_result await_op(struct collet_comm *comm, struct rma *rma, int peer, struct rma_op *op, const char *what);

/* Waits until all ranks have what was put. Errors: as await(). */
enum collet_result await_flushes(struct collet_comm *comm, struct rma *rma);

/* The same when the communicator ends. It gives up without a word if the other ranks do not answer soon. */
#define LAST_FLUSHES_NS 2000000000u
void await_last_flushes(struct collet_comm *comm, struct rma *rma);

#endif
