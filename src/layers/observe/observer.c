/* SPDX-License-Identifier: Apache-2.0 */
#include "seams/observe.h"
#include "layers/observe/observer.h"

#include "base/log.h"
#include "exec/exec.h"
#include "transport/transport.h"
#include "transport/wire.h"

#include <stdlib.h>
#include <strings.h>

/* It is set before communicators exist. Several threads may set it to the same value. Pairs with the load below. */
static const struct observer *observer;

void observer_take(const struct observer *taken) { __atomic_store_n(&observer, taken, __ATOMIC_RELEASE); }

/* Number of nodes: each node is named by its lowest rank. */
static int nodes_of_job(const struct conn_owner *owner) {
    int nnodes = 0;
    for (int rank = 0; rank < owner->nranks; rank++)
        nnodes += owner->peers[rank].node == rank;
    return nnodes;
}

enum collet_result observing_open(struct observing *observing, const struct chan *chan) {
    const struct conn_owner *owner = &chan->owner;
    const char *name = owner->config->profiler_plugin;
    if (*name == '\0' || strcasecmp(name, "none") == 0)
        return COLLET_SUCCESS;
    const struct observed_rank rank = {boot_tag(owner->boot), chan->name, nodes_of_job(owner), owner->nranks,
                                       owner->rank};
    observing->observer = __atomic_load_n(&observer, __ATOMIC_ACQUIRE);
    if (observing->observer == NULL) {
        log_always(PLAN, "COLLET_PROFILER_PLUGIN has no effect: plugins are for programs that use NCCL's names");
        return COLLET_SUCCESS;
    }
    enum collet_result result = observing->observer->open(name, &rank, &observing->context);
    if (result != COLLET_SUCCESS || observing->context == NULL)
        observing->observer = NULL;
    return result;
}

void observing_close(struct observing *observing) {
    if (observing->observer != NULL)
        observing->observer->close(observing->context);
}

/* Number of messages that go through a connection in one round. */
static int messages_of(const struct prog *prog, const struct conn *conn) {
    const bool sends = conn->side == CONN_PRODUCER;
    int count = 0;
    for (int k = 0; k < prog->nsteps; k++) {
        const struct prog_step *step = &prog->steps[k];
        const int first = sends ? step->send_first : step->recv_first;
        for (int p = first; p < first + (sends ? step->send_count : step->recv_count); p++)
            count += prog->peers[p].rank == conn->peer && prog->peers[p].lane == conn->lane % CONN_LANES;
    }
    return count;
}

/* ---- a call ---- */

/* The state of a wire. Messages have numbers. Messages before `over` are over, messages before `moved` have moved, and message `moved` is
 * awaited. */
struct look {
    struct conn *conn;
    struct observed_wire about;
    uint64_t first; /* position of message 0 in the connection */
    int over, moved;
    int nhandles;
    void **handles; /* [number % nhandles]; NULL: nobody has looked yet */
};

struct observed {
    const struct observing *observing;
    void *event;
    int nwires;
    struct look wires[];
};

static struct observed_wire describe_wire(const struct exec_call *call, const struct conn *conn) {
    const struct work_args *args = &call->args;
    const struct geometry geometry = work_geometry(args, (uint32_t)conn->channel);
    return (struct observed_wire){.channel = conn->channel,
                                  .peer = conn->peer,
                                  .sends = conn->side == CONN_PRODUCER,
                                  .messages =
                                      messages_of(call->program->progs[conn->channel], conn) * (int)geometry.nrounds,
                                  .chunk_bytes = args->chunk_elems * args->elem_bytes};
}

static void tell_of(const struct observed *observed, struct look *look, int number, enum observed_state state,
                    size_t bytes) {
    void **handle = &look->handles[number % look->nhandles];
    const struct observed_message message = {&look->about, number, state, bytes};
    *handle = observed->observing->observer->message(observed->observing->context, &message, *handle);
    if (state == OBSERVED_OVER)
        *handle = NULL;
}

/* Bytes of a message that has moved. If the thread that carries slots has reused the slot, the result is the length of
 * another message. */
__attribute__((no_sanitize("thread"))) static size_t message_bytes(const struct look *look, int number) {
    const struct fifo_end *end = &look->conn->end;
    return fifo_word_bytes(end->headers[(look->first + (uint64_t)number) & (end->nslots - 1)].word);
}

/* Returns the number of this call's messages that come before a position of the connection. */
static int numbers_before(const struct look *look, uint64_t position) {
    const int64_t number = (int64_t)(position - look->first);
    return number < 0 ? 0 : number < look->about.messages ? (int)number : look->about.messages;
}

static void wait_for_next(const struct observed *observed, struct look *look) {
    if (look->moved < look->about.messages)
        tell_of(observed, look, look->moved, OBSERVED_WAITING, 0);
}

/* Finds the position of message 0. When a call begins, the executor has finished all earlier messages. */
static bool first_look(const struct observed *observed, struct look *look) {
    look->nhandles = (int)look->conn->end.nslots + 1;
    look->handles = calloc((size_t)look->nhandles, sizeof *look->handles);
    look->first = look->about.sends ? wire_tail(look->conn) : wire_head(look->conn);
    if (look->handles != NULL)
        wait_for_next(observed, look);
    return look->handles != NULL;
}

static void look_at_wire(const struct observed *observed, struct look *look) {
    if (look->handles == NULL && !first_look(observed, look))
        return;
    /* Two acquires: heads are read first, so messages that are over have also moved. They pair with fifo_publish(),
     * fifo_consumed() and wire.h. */
    const int over = numbers_before(look, wire_head(look->conn)), moved = numbers_before(look, wire_tail(look->conn));
    while (look->moved < moved) {
        tell_of(observed, look, look->moved, OBSERVED_MOVED, message_bytes(look, look->moved));
        if (look->over < over && look->over <= look->moved)
            tell_of(observed, look, look->over++, OBSERVED_OVER, 0);
        look->moved++;
        wait_for_next(observed, look);
    }
    while (look->over < over)
        tell_of(observed, look, look->over++, OBSERVED_OVER, 0);
}

void observing_look(struct observed *observed) {
    for (int k = 0; k < observed->nwires; k++)
        look_at_wire(observed, &observed->wires[k]);
}

/* The call has ended: all messages that were reported as begun are over. */
static void last_look(struct observed *observed, struct look *look) {
    if (look->handles == NULL)
        return;
    look_at_wire(observed, look);
    const int begun = look->moved < look->about.messages ? look->moved + 1 : look->moved;
    while (look->over < begun)
        tell_of(observed, look, look->over++, OBSERVED_OVER, 0);
    free(look->handles);
}

static void add_wires(struct observed *observed, const struct exec_call *call) {
    for (int k = 0; k < call->program->nconns; k++) {
        struct conn *conn = call->program->conns[k];
        if (conn->transport->progress != NULL && conn->channel < (int)call->args.nchannels)
            observed->wires[observed->nwires++] = (struct look){.conn = conn, .about = describe_wire(call, conn)};
    }
}

struct observed *observing_begin(const struct observing *observing, const struct exec_call *call) {
    const struct exec_program *program = call->program;
    const size_t room = program->nremote > 0 ? (size_t)program->nconns : 0;
    struct observed *observed = calloc(1, sizeof *observed + room * sizeof *observed->wires);
    if (observed == NULL)
        return NULL;
    observed->observing = observing;
    if (room > 0)
        add_wires(observed, call);
    observed->event = observing->observer->begin(observing->context, call);
    for (int k = 0; k < observed->nwires; k++)
        observing->observer->begin_wire(observing->context, observed->event, &observed->wires[k].about);
    return observed;
}

void observing_end(struct observed *observed) {
    if (observed == NULL)
        return;
    const struct observing *observing = observed->observing;
    for (int k = 0; k < observed->nwires; k++) {
        last_look(observed, &observed->wires[k]);
        observing->observer->end_wire(observing->context, &observed->wires[k].about);
    }
    if (observed->event != NULL)
        observing->observer->end(observing->context, observed->event);
    free(observed);
}
