/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports a communicator's operations to a profiler plugin of NCCL. Each event is part of the event above it:
 *
 *      GroupApi                     from the first operation under way to the last that ends
 *      ├── Group
 *      └── CollApi, P2pApi          an operation, as it was called …
 *          └── Coll, P2p            … and as it is done
 *              ├── KernelCh         one per channel, on host memory
 *              └── ProxyOp          one per connection over a wire
 *                  └── ProxyStep    one per message, on host memory
 */
#include "layers/nccl/nccl_observer.h"

#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "compat/nccl_profiler.h"
#include "layers/nccl/nccl_plugin.h"

#include <stdlib.h>
#include <string.h>

/* The types of events that plugins want: one mask per process, as in NCCL. */
static int mask;
static bool wanted(uint64_t type) { return ((uint64_t)__atomic_load_n(&mask, __ATOMIC_RELAXED) & type) != 0; }

struct profile {
    void *library;
    const ncclProfiler_v6_t *plugin;
    void *context;
    int rank, under_way; /* under_way: number of operations that have begun and not ended */
    void *group_api, *group;
};

struct operation {
    void *called, *done; /* events of CollApi or P2pApi, and of Coll or P2p */
    int nchannels;
    void *channels[]; /* events of KernelCh */
};

/* ---- words of NCCL ---- */

static const char *function_of(const char *collective) {
    static const char *const names[][2] = {{"allreduce", "AllReduce"},
                                           {"allgather", "AllGather"},
                                           {"reducescatter", "ReduceScatter"},
                                           {"alltoall", "AlltoAll"},
                                           {"broadcast", "Broadcast"},
                                           {"reduce", "Reduce"},
                                           {"gather", "Gather"},
                                           {"scatter", "Scatter"},
                                           {"send", "Send"},
                                           {"recv", "Recv"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strcmp(names[k][0], collective) == 0)
            return names[k][1];
    return collective;
}

/* NCCL's name of an algorithm. An algorithm that NCCL does not have keeps its name. */
static const char *algorithm_of(const char *name) {
    static const char *const names[][2] = {{"ring", "RING"}, {"chain", "RING"}, {"tree", "TREE"}, {"pat", "PAT"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strcmp(names[k][0], name) == 0)
            return names[k][1];
    return name;
}

static const char *protocol_of(const char *name) { return strcmp(name, "Simple") == 0 ? "SIMPLE" : name; }

static const char *type_of(enum collet_type type) {
    static const char *const names[COLLET_TYPE_COUNT] = {[COLLET_FLOAT32] = "ncclFloat32",
                                                         [COLLET_FLOAT64] = "ncclFloat64",
                                                         [COLLET_INT32] = "ncclInt32",
                                                         [COLLET_INT64] = "ncclInt64",
                                                         [COLLET_UINT8] = "ncclUint8",
                                                         [COLLET_FLOAT16] = "ncclFloat16",
                                                         [COLLET_BFLOAT16] = "ncclBfloat16",
                                                         [COLLET_INT8] = "ncclInt8",
                                                         [COLLET_UINT32] = "ncclUint32",
                                                         [COLLET_UINT64] = "ncclUint64",
                                                         [COLLET_FLOAT8_E4M3] = "ncclFloat8e4m3",
                                                         [COLLET_FLOAT8_E5M2] = "ncclFloat8e5m2"};
    return names[type] != NULL ? names[type] : "Unknown";
}

/* ---- events ---- */

static void *start(const struct profile *profile, ncclProfilerEventDescr_v6_t *about) {
    void *handle = NULL;
    about->rank = profile->rank;
    if (!wanted(about->type) || profile->plugin->startEvent(profile->context, &handle, about) != ncclSuccess)
        return NULL;
    return handle;
}

static void stop(const struct profile *profile, void *handle) {
    if (handle != NULL)
        profile->plugin->stopEvent(handle);
}

static void start_group(struct profile *profile) {
    profile->group_api =
        start(profile, &(ncclProfilerEventDescr_v6_t){.type = ncclProfileGroupApi, .groupApi = {.groupDepth = 1}});
    profile->group =
        start(profile, &(ncclProfilerEventDescr_v6_t){.type = ncclProfileGroup, .parentObj = profile->group_api});
}

static void *start_called(const struct profile *profile, const struct exec_call *call) {
    ncclProfilerEventDescr_v6_t about = {.parentObj = profile->group_api};
    const char *function = function_of(prog_collective_name(call->request.collective)),
               *type = type_of(call->request.type);
    if (prog_is_p2p(call->request.collective)) {
        about.type = ncclProfileP2pApi;
        about.p2pApi.func = function;
        about.p2pApi.count = call->request.count;
        about.p2pApi.datatype = type;
        about.p2pApi.stream = call->stream;
    } else {
        about.type = ncclProfileCollApi;
        about.collApi.func = function;
        about.collApi.count = call->request.count;
        about.collApi.datatype = type;
        about.collApi.root = call->request.root;
        about.collApi.stream = call->stream;
    }
    return start(profile, &about);
}

static void *start_done(const struct profile *profile, const struct exec_call *call, void *called) {
    ncclProfilerEventDescr_v6_t about = {.parentObj = called};
    if (prog_is_p2p(call->request.collective)) {
        about.type = ncclProfileP2p;
        about.p2p.func = function_of(prog_collective_name(call->request.collective));
        about.p2p.buff = call->args.out != NULL ? call->args.out : (void *)call->args.in;
        about.p2p.datatype = type_of(call->request.type);
        about.p2p.count = call->request.count;
        about.p2p.peer = call->request.root;
        about.p2p.nChannels = (uint8_t)call->args.nchannels;
        about.p2p.parentGroup = profile->group;
    } else {
        about.type = ncclProfileColl;
        about.coll.seqNumber = call->args.sequence;
        about.coll.func = function_of(prog_collective_name(call->request.collective));
        about.coll.sendBuff = call->args.in;
        about.coll.recvBuff = call->args.out;
        about.coll.count = call->request.count;
        about.coll.root = call->request.root;
        about.coll.datatype = type_of(call->request.type);
        about.coll.nChannels = (uint8_t)call->args.nchannels;
        about.coll.algo = algorithm_of(call->program->source != NULL ? call->program->source->name : "");
        about.coll.proto = protocol_of(protocol_names[call->args.protocol]);
        about.coll.parentGroup = profile->group;
    }
    return start(profile, &about);
}

static void record(const struct profile *profile, void *handle, ncclProfilerEventState_v6_t state,
                   ncclProfilerEventStateArgs_v6_t args) {
    if (handle != NULL && profile->plugin->recordEventState != NULL)
        profile->plugin->recordEventState(handle, state, &args);
}

static void *start_channel(const struct profile *profile, int channel, void *parent) {
    ncclProfilerEventDescr_v6_t about = {.type = ncclProfileKernelCh, .parentObj = parent};
    about.kernelCh.channelId = (uint8_t)channel;
    about.kernelCh.pTimer = os_now_ns();
    return start(profile, &about);
}

static void stop_channel(const struct profile *profile, void *handle) {
    record(profile, handle, ncclProfilerKernelChStop, (ncclProfilerEventStateArgs_v6_t){.pTimer = os_now_ns()});
    stop(profile, handle);
}

static void *profile_begin(void *context, const struct exec_call *call) {
    struct profile *profile = context;
    const int nchannels = call->chan->owner.gpu == NULL ? (int)call->args.nchannels : 0;
    struct operation *operation = calloc(1, sizeof *operation + (size_t)nchannels * sizeof *operation->channels);
    if (operation == NULL)
        return NULL;
    if (profile->under_way++ == 0)
        start_group(profile);
    operation->called = start_called(profile, call);
    operation->done = start_done(profile, call, operation->called);
    operation->nchannels = nchannels;
    for (int k = 0; k < nchannels; k++)
        operation->channels[k] = start_channel(profile, k, operation->done);
    return operation;
}

static void profile_end(void *context, void *event) {
    struct profile *profile = context;
    struct operation *operation = event;
    for (int k = 0; k < operation->nchannels; k++)
        stop_channel(profile, operation->channels[k]);
    stop(profile, operation->done);
    stop(profile, operation->called);
    free(operation);
    if (--profile->under_way > 0)
        return;
    stop(profile, profile->group);
    stop(profile, profile->group_api);
}

/* ---- wires ---- */

static void profile_begin_wire(void *context, void *event, struct observed_wire *wire) {
    const struct profile *profile = context;
    const struct operation *operation = event;
    ncclProfilerEventDescr_v6_t about = {.type = ncclProfileProxyOp,
                                         .parentObj = operation != NULL ? operation->done : NULL};
    about.proxyOp.pid = os_pid();
    about.proxyOp.channelId = (uint8_t)wire->channel;
    about.proxyOp.peer = wire->peer;
    about.proxyOp.nSteps = wire->messages;
    about.proxyOp.chunkSize = (int)wire->chunk_bytes;
    about.proxyOp.isSend = wire->sends;
    wire->event = start(profile, &about);
    record(profile, wire->event, ncclProfilerProxyOpInProgress_v4, (ncclProfilerEventStateArgs_v6_t){0});
}

static void profile_end_wire(void *context, struct observed_wire *wire) { stop(context, wire->event); }

static void *start_message(const struct profile *profile, const struct observed_message *message) {
    ncclProfilerEventDescr_v6_t about = {.type = ncclProfileProxyStep, .parentObj = message->wire->event};
    about.proxyStep.step = message->number;
    return start(profile, &about);
}

static void *profile_message(void *context, const struct observed_message *message, void *handle) {
    static const ncclProfilerEventState_v6_t states[][2] = {
        [OBSERVED_WAITING] = {ncclProfilerProxyStepRecvWait, ncclProfilerProxyStepSendGPUWait},
        [OBSERVED_MOVED] = {ncclProfilerProxyStepRecvGPUWait, ncclProfilerProxyStepSendWait}};
    const struct profile *profile = context;
    if (message->state == OBSERVED_WAITING)
        handle = start_message(profile, message);
    if (message->state == OBSERVED_OVER)
        stop(profile, handle);
    else
        record(profile, handle, states[message->state][message->wire->sends],
               (ncclProfilerEventStateArgs_v6_t){.transSize = message->bytes});
    return handle;
}

/* ---- life ---- */

static void profile_close(void *context) {
    struct profile *profile = context;
    if (profile->plugin != NULL && profile->plugin->finalize != NULL)
        profile->plugin->finalize(profile->context);
    nccl_plugin_close(profile->library);
    free(profile);
}

/* Opens the plugin. If its init() fails, there is no profile, as in NCCL. False: a warning was written. */
static bool begin(const char *name, const struct observed_rank *rank, struct profile *profile) {
    const void *table;
    if (!nccl_plugin_open("PROFILER", name, "ncclProfiler_v6", &profile->library, &table))
        return false;
    const ncclProfiler_v6_t *plugin = table;
    profile->rank = rank->rank;
    if (plugin->init == NULL || plugin->startEvent == NULL || plugin->stopEvent == NULL)
        nccl_plugin_miss("PROFILER", name, "lacks init, startEvent or stopEvent");
    else if (plugin->init(&profile->context, rank->communicator, &mask, rank->name, rank->nnodes, rank->nranks,
                          rank->rank, nccl_plugin_log) != ncclSuccess)
        nccl_plugin_miss("PROFILER", name, "is no help: its init() failed");
    else
        profile->plugin = plugin;
    return profile->plugin != NULL;
}

static enum collet_result profile_open(const char *name, const struct observed_rank *rank, void **context_p) {
    struct profile *profile;
    *context_p = NULL;
    COLLET_TRY(memory_get(&profile, 1, sizeof *profile, "no memory for a profiler plugin"));
    if (!begin(name, rank, profile)) {
        profile_close(profile);
        return COLLET_SUCCESS;
    }
    log_info(PLAN, "profiler plugin %s: %s", name, profile->plugin->name);
    *context_p = profile;
    return COLLET_SUCCESS;
}

const struct observer nccl_profiler = {.open = profile_open,
                                       .begin = profile_begin,
                                       .begin_wire = profile_begin_wire,
                                       .message = profile_message,
                                       .end_wire = profile_end_wire,
                                       .end = profile_end,
                                       .close = profile_close};
