/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/observer.h"

#include "base/log.h"
#include "exec/exec.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <strings.h>

/* Set before there are communicators, or by several threads to the same. Pairs with its load below. */
static const struct observer *observer;

void observer_take(const struct observer *taken) { __atomic_store_n(&observer, taken, __ATOMIC_RELEASE); }

/* A node is named by its lowest rank. */
static int nodes_of_job(const struct conn_owner *owner) {
    int nnodes = 0;
    for (int rank = 0; rank < owner->nranks; rank++)
        nnodes += owner->peers[rank].node == rank;
    return nnodes;
}

enum collet_result observing_open(struct observing *observing, const struct chan *chan) {
    const struct conn_owner *owner = &chan->owner;
    const char *name = owner->config->profiler_plugin;
    const struct observed_rank rank = {boot_tag(owner->boot), chan->name, nodes_of_job(owner), owner->nranks,
                                       owner->rank};
    if (*name == '\0' || strcasecmp(name, "none") == 0)
        return COLLET_SUCCESS;
    observing->observer = __atomic_load_n(&observer, __ATOMIC_ACQUIRE);
    if (observing->observer == NULL) {
        log_warn(PLAN, "COLLET_PROFILER_PLUGIN has no effect: plugins are for programs that use NCCL's names");
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

/* How many messages go through a connection in one round. */
static int messages_of(const struct prog *prog, const struct conn *conn) {
    const bool sends = conn->side == CONN_PRODUCER;
    int count = 0;
    for (int k = 0; k < prog->nsteps; k++) {
        const struct prog_step *step = &prog->steps[k];
        const int first = sends ? step->send_first : step->recv_first;
        for (int p = first; p < first + (sends ? step->send_count : step->recv_count); p++)
            count += prog->peers[p].rank == conn->peer && prog->peers[p].lane == conn->lane;
    }
    return count;
}

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

void *observing_begin(const struct observing *observing, const struct exec_call *call) {
    const struct exec_request *request = &call->request;
    const struct exec_program *program = call->program;
    struct observed_call about = {.collective = prog_collective_name(request->collective),
                                  .algorithm = program->source != NULL ? program->source->name : "",
                                  .protocol = protocol_names[call->args.protocol],
                                  .sequence = call->args.sequence,
                                  .in = call->args.in,
                                  .out = call->args.out,
                                  .stream = call->stream,
                                  .count = request->count,
                                  .type = request->type,
                                  .root = request->root,
                                  .nchannels = (int)call->args.nchannels,
                                  .is_message = prog_is_p2p(request->collective)};
    about.wires = program->nremote > 0 ? calloc((size_t)program->nconns, sizeof *about.wires) : NULL;
    for (int k = 0; about.wires != NULL && k < program->nconns; k++)
        if (program->conns[k]->transport->progress != NULL && program->conns[k]->channel < about.nchannels)
            about.wires[about.nwires++] = describe_wire(call, program->conns[k]);
    void *event = observing->observer->begin(observing->context, &about);
    free(about.wires);
    return event;
}

void observing_end(const struct observing *observing, void *event) {
    if (event != NULL)
        observing->observer->end(observing->context, event);
}
