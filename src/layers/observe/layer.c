/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer "observe": it looks at a communicator from its beginning to its end, and answers for the ranks of the process.
 */
#include "seams/layer.h"

#include "api/comm.h"
#include "base/memory.h"
#include "layers/observe/status_query.h"
#include "layers/observe/clock.h"
#include "layers/observe/exporter.h"
#include "layers/observe/journal.h"
#include "layers/observe/status_socket.h"
#include "layers/observe/report.h"
#include "layers/observe/selftest.h"
#include "layers/observe/tracer.h"
#include "transport/transport.h"

#include <stdlib.h>

static bool is_traced(const struct collet_comm *comm) { return comm->config.trace[0] != '\0'; }

/* Times of several hosts are compared. */
static bool compares_clocks(const struct collet_comm *comm) {
    return journal_wants_times(&comm->config) || is_traced(comm);
}

/* First, to compare clocks; when connections can be made, to test them. */
static enum collet_result observe_join(struct collet_comm *comm) {
    if (comm->chan != NULL)
        return selftest_all_try(comm->chan, comm->selftest_deadline_ns);
    return compares_clocks(comm) ? boot_try_clock(comm->boot) : COLLET_SUCCESS;
}

static enum collet_result observe_open(struct collet_comm *comm) {
    struct engine *engine = &comm->engine;
    COLLET_TRY(memory_get(&engine->journal, 1, sizeof *engine->journal, "no memory for the journal"));
    COLLET_TRY(journal_open(engine->journal, comm->chan));
    if (is_traced(comm))
        COLLET_TRY(tracer_create(&comm->chan->owner, &comm->chan->tracer));
    farewell_add(&engine->journal->farewell, comm);
    boot_report_by(comm->boot, &(struct boot_reporter){report_make, comm});
    return exporter_add(comm);
}

/* What this rank did, for whoever looks for the cause; also if it was in no call. */
static void observe_failure(struct collet_comm *comm) {
    const enum collet_result failed = comm->boot != NULL ? boot_failed(comm->boot) : COLLET_SUCCESS;
    if (failed != COLLET_SUCCESS && comm->engine.journal != NULL)
        journal_dump(comm->engine.journal, failed, boot_failed_text(comm->boot));
}

static bool observe_close(struct collet_comm *comm) {
    exporter_remove(comm);
    if (comm->boot != NULL)
        boot_report_by(comm->boot, NULL);
    observe_failure(comm);
    if (comm->engine.journal != NULL)
        farewell_remove(&comm->engine.journal->farewell);
    if (comm->engine.journal != NULL)
        journal_close(comm->engine.journal);
    free(comm->engine.journal);
    comm->engine.journal = NULL;
    if (comm->chan != NULL) {
        tracer_end(comm->chan->tracer);
        comm->chan->tracer = NULL;
    }
    return true;
}

/* Other ranks are reached by the transports of the connections that there are; if there is none yet, by the one that would be tried. */
__attribute__((no_sanitize("thread"))) static void print_transports(const struct chan *chan, FILE *out) {
    uint32_t used = 0;
    for (int peer = 0; peer < chan->owner.nranks; peer++) {
        const struct conn *conn = chan->owner.first;
        while (conn != NULL && conn->peer != peer)
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

#define SHOWN_OPERATIONS 8 /* of the journal */

/* Another thread may be driving: see exec_dump(). */
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
    if (lanes != NULL && comm->engine.journal != NULL)
        journal_print(comm->engine.journal, SHOWN_OPERATIONS, out);
}

/* ---- the ranks of a process ---- */

static bool observe_hear(struct hub *hub, const struct letter *letter, struct letter **answer) {
    const uint64_t subject = letter->key >> 56;
    if (subject == BOOT_QUERY)
        *answer = status_query_answer(hub, letter);
    else if (subject == BOOT_REPORT)
        status_query_hear(hub, letter);
    return subject == BOOT_QUERY || subject == BOOT_REPORT;
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
