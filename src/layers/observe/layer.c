/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer "observe". It watches a communicator from its beginning to its end, and answers questions about the ranks of
 * the process.
 */
#include "seams/layer.h"

#include "api/comm.h"
#include "layers/observe/status_query.h"
#include "layers/observe/clock.h"
#include "layers/observe/dump.h"
#include "layers/observe/recorder.h"
#include "layers/observe/status_socket.h"
#include "layers/observe/status.h"
#include "layers/observe/selftest.h"
#include "transport/transport.h"

#include <stdlib.h>

/* Before there are connections, compares clocks; afterwards, tests connections. */
static enum collet_result observe_join(struct collet_comm *comm) {
    if (comm->chan != NULL)
        return selftest_all_try(comm->chan, comm->selftest_deadline_ns);
    return recorder_compares_clocks(&comm->config) ? boot_try_clock(comm->boot) : COLLET_SUCCESS;
}

static enum collet_result observe_open(struct collet_comm *comm) {
    COLLET_TRY(recorder_create(comm));
    comms_add(&comm->chan->recorder->readers->entry, comm);
    return COLLET_SUCCESS;
}

/* Does the communicator have a recorder? Not if its creation failed halfway. */
static bool is_recorded(const struct collet_comm *comm) {
    const struct recorder *recorder = comm->chan != NULL ? comm->chan->recorder : NULL;
    return recorder != NULL && recorder->readers != NULL && recorder->readers->entry.comm != NULL;
}

/* Saves what this rank did, for a search for the cause. Works outside calls, too. */
static void observe_failure(struct collet_comm *comm) {
    const enum collet_result failed = comm->boot != NULL ? boot_failed(comm->boot) : COLLET_SUCCESS;
    if (failed != COLLET_SUCCESS && is_recorded(comm))
        dump_save(comm, failed, boot_failed_text(comm->boot));
}

static bool observe_close(struct collet_comm *comm) {
    observe_failure(comm);
    if (is_recorded(comm))
        comms_remove(&comm->chan->recorder->readers->entry);
    if (comm->chan != NULL && comm->chan->recorder != NULL)
        recorder_destroy(comm);
    return true;
}

/* Prints the transports by which this rank reaches others: the transports of its connections; or, if there is no connection yet, the
 * transport that would be tried first. */
__attribute__((no_sanitize("thread"))) static void print_transports(const struct chan *chan, FILE *out) {
    uint32_t used = 0;
    for (int peer = 0; peer < chan->owner.nranks; peer++) {
        const struct conn *conn = chan->owner.first;
        while (conn != NULL && (conn->peer != peer || conn->transport->fans))
            conn = conn->next;
        const struct transport *transport = conn != NULL ? conn->transport
                                            : peer != chan->owner.rank
                                                ? chan_pair_transport(chan, chan->owner.rank, peer)
                                                : NULL;
        used |= transport != NULL ? transport->bit : 0;
    }
    fprintf(out, " transports:");
    for (const struct transport *const *t = transports; *t != NULL; t++)
        if (used & (*t)->bit)
            fprintf(out, " %s", (*t)->name);
    fprintf(out, "%s\n", used == 0 ? " none is needed" : "");
}

/* Another thread may be driving the calls: see exec_dump(). */
__attribute__((no_sanitize("thread"))) static void observe_print(const struct collet_comm *comm, FILE *out) {
    const struct lane *lanes = comm->engine.lanes;
    print_transports(comm->chan, out);
    for (int k = 0; lanes != NULL && k < 2 + 2 * comm->nranks; k++)
        if (lanes[k].call.state != EXEC_IDLE)
            exec_dump(&lanes[k].call, out);
        else if (lanes[k].first != NULL)
            fprintf(out, " a %s waits for an earlier call of its stream\n",
                    k == 0                      ? "collective"
                    : k == 1 + 2 * comm->nranks ? "probe"
                    : k % 2 == 1                ? "send"
                                                : "receive");
    if (lanes != NULL && is_recorded(comm))
        dump_print(comm, out);
}

/* ---- the ranks of a process ---- */

static bool observe_hear(struct hub *hub, const struct letter *letter, struct letter **answer) {
    const bool asks = letter->key >> 56 == BOOT_QUERY;
    const bool is_outside = letter->key == boot_key(BOOT_REPORT, STATUS_OUTSIDE);
    if (asks)
        *answer = status_answer(hub, letter);
    else if (is_outside)
        status_query_hear(hub, letter);
    return asks || is_outside;
}

const struct layer layer_observe = {
    .hub_begin = status_socket_add,
    .hub_end = status_socket_remove,
    .hub_hear = observe_hear,
    .comm_join = observe_join,
    .comm_open = observe_open,
    .comm_failed = observe_failure,
    .comm_close = observe_close,
    .comm_print = observe_print,
};
