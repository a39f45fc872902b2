/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures and graphs: operations that are noted with what they come behind, and put into streams of the graph's own as often as
 * the graph is launched.
 *
 *    captured          s1   a ──▶ b ──▶ d          launched   s    ·────────────────────▶ · (behind all)
 *                      s2         └▶ c ─┘                     chain 0   a ──▶ b ──▶ d
 *                                                             chain 1         └▶ c ─┘
 *
 * A node continues the chain of the first node that it comes behind, if nothing has yet.
 */
#include "gpusim/machine.h"
#include "gpusim/sim.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MAX 32 /* that one node comes behind */
#define CHAINS_MAX 64

struct sim_nodes {
    int n, at[NODES_MAX];
};

struct node {
    struct sim_op op;
    struct sim_device *device;
    struct sim_nodes behind;
    int chain;
    bool is_continued;
};

struct graph {
    int nnodes, nchains;
    struct node *nodes;
    struct sim_stream *chains[CHAINS_MAX]; /* once it is launched */
    struct sim_mark last;                  /* the end of its newest launch */
};

struct sim_capture {
    struct sim_capture *next;
    unsigned long long id;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    struct sim_stream *origin;
    struct graph *graph;
    bool is_spoiled, is_over;
};

static struct sim_capture *captures;
static _Thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

static void *get(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (memory == NULL)
        abort();
    return memory;
}

static void nodes_add(struct sim_nodes *nodes, int node) {
    for (int k = 0; k < nodes->n; k++)
        if (nodes->at[k] == node)
            return;
    if (nodes->n == NODES_MAX)
        sim_violation("a node of a graph comes behind more than %d others", NODES_MAX);
    nodes->at[nodes->n++] = node;
}

/* ---- what is legal ---- */

bool sim_capture_permits(void) {
    bool permits = true;
    for (struct sim_capture *c = captures; c != NULL && thread_mode != cudaStreamCaptureModeRelaxed; c = c->next) {
        bool is_own = pthread_equal(c->thread, pthread_self()) != 0;
        bool is_in_the_way = is_own
                                 ? c->mode != cudaStreamCaptureModeRelaxed
                                 : c->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
        if (c->is_over || !is_in_the_way)
            continue;
        c->is_spoiled = true;
        permits = false;
    }
    return permits;
}

cudaError_t sim_capture_spoil(struct sim_stream *stream, cudaError_t error) {
    stream->capture->is_spoiled = true;
    return error;
}

bool sim_capture_is_around(const struct sim_device *device) {
    for (const struct sim_stream *stream = sim_streams; stream != NULL; stream = stream->next)
        if (stream->device == device && stream->capture != NULL && !stream->waits_for_none)
            return true;
    return false;
}

/* Of a device's streams, those that wait for its default stream, or all. False: there were some. */
static bool spoil_captures(const struct sim_device *device, bool all) {
    bool permits = true;
    for (struct sim_stream *stream = sim_streams; stream != NULL; stream = stream->next)
        if (stream->device == device && stream->capture != NULL && (all || !stream->waits_for_none)) {
            stream->capture->is_spoiled = true;
            permits = false;
        }
    return permits;
}

bool sim_capture_permits_legacy(const struct sim_stream *stream) {
    return stream != stream->device->legacy || spoil_captures(stream->device, false);
}

bool sim_captures_permit_waiting(const struct sim_device *device) { return spoil_captures(device, true); }

void sim_capture_of_event_spoil(const struct sim_event *event) { event->capture->is_spoiled = true; }

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    enum cudaStreamCaptureMode before = thread_mode;
    SIM_CALL(SIM_SAFE);
    thread_mode = *mode;
    *mode = before;
    return cudaSuccess;
}

/* ---- captures ---- */

static int chain_of(struct graph *graph, const struct sim_nodes *behind, const struct sim_device *device) {
    struct node *before = behind->n > 0 ? &graph->nodes[behind->at[0]] : NULL;
    if (before == NULL || before->is_continued || before->device != device) {
        if (graph->nchains == CHAINS_MAX)
            sim_violation("a graph has more than %d chains", CHAINS_MAX);
        return graph->nchains++;
    }
    before->is_continued = true;
    return before->chain;
}

cudaError_t sim_capture_put(struct sim_stream *stream, const struct sim_op *text) {
    struct graph *graph = stream->capture->graph;
    if (stream->capture->is_spoiled)
        return cudaErrorStreamCaptureInvalidated;
    graph->nodes = realloc(graph->nodes, (size_t)(graph->nnodes + 1) * sizeof(*graph->nodes));
    if (graph->nodes == NULL)
        abort();
    int chain = chain_of(graph, stream->frontier, stream->device);
    graph->nodes[graph->nnodes] =
        (struct node){.op = *text, .device = stream->device, .behind = *stream->frontier, .chain = chain};
    *stream->frontier = (struct sim_nodes){.n = 1, .at = {graph->nnodes++}};
    return cudaSuccess;
}

cudaError_t sim_capture_record(struct sim_stream *stream, struct sim_event *event) {
    if (stream->capture->is_spoiled)
        return cudaErrorStreamCaptureInvalidated;
    event->capture = stream->capture;
    if (event->frontier == NULL)
        event->frontier = get(sizeof(*event->frontier));
    *event->frontier = *stream->frontier;
    return cudaSuccess;
}

/* A stream that waits for an event of a capture comes into the capture. */
static void stream_join(struct sim_stream *stream, struct sim_capture *capture) {
    stream->capture = capture;
    if (stream->frontier == NULL)
        stream->frontier = get(sizeof(*stream->frontier));
    stream->frontier->n = 0;
}

cudaError_t sim_capture_wait(struct sim_stream *stream, const struct sim_event *event) {
    if (event->capture->is_over)
        return cudaErrorCapturedEvent;
    if (stream == stream->device->legacy)
        return cudaErrorStreamCaptureImplicit;
    if (event->capture->is_spoiled)
        return cudaErrorStreamCaptureInvalidated;
    if (stream->capture == NULL)
        stream_join(stream, event->capture);
    if (stream->capture != event->capture) {
        event->capture->is_spoiled = true;
        return sim_capture_spoil(stream, cudaErrorStreamCaptureMerge);
    }
    for (int k = 0; k < event->frontier->n; k++)
        nodes_add(stream->frontier, event->frontier->at[k]);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
    static unsigned long long ids;
    SIM_CALL(SIM_SAFE);
    struct sim_stream *stream = sim_stream_of(handle);
    if (stream == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    if (stream == stream->device->legacy)
        return sim_result(cudaErrorStreamCaptureUnsupported);
    if (stream->capture != NULL)
        return sim_result(cudaErrorIllegalState);
    struct sim_capture *capture = get(sizeof(*capture));
    *capture =
        (struct sim_capture){.next = captures, .id = ++ids, .mode = mode, .thread = pthread_self(), .origin = stream};
    capture->graph = get(sizeof(*capture->graph));
    captures = capture;
    stream_join(stream, capture);
    return cudaSuccess;
}

/* Marks what comes before these nodes, and them. */
static void mark_before(const struct graph *graph, const struct sim_nodes *nodes, bool *marks) {
    for (int k = 0; k < nodes->n; k++)
        if (!marks[nodes->at[k]]) {
            marks[nodes->at[k]] = true;
            mark_before(graph, &graph->nodes[nodes->at[k]].behind, marks);
        }
}

static bool all_joined(const struct sim_stream *origin) {
    const struct graph *graph = origin->capture->graph;
    bool *marks = get((size_t)graph->nnodes + 1), all = true;
    mark_before(graph, origin->frontier, marks);
    for (int k = 0; k < graph->nnodes; k++)
        all = all && marks[k];
    free(marks);
    return all;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph_p) {
    SIM_CALL(SIM_SAFE);
    struct sim_stream *stream = sim_stream_of(handle);
    *graph_p = NULL;
    if (stream == NULL || stream->capture == NULL)
        return sim_result(stream == NULL ? cudaErrorInvalidResourceHandle : cudaErrorIllegalState);
    struct sim_capture *capture = stream->capture;
    if (capture->origin != stream)
        return sim_result(sim_capture_spoil(stream, cudaErrorStreamCaptureUnmatched));
    if (capture->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(capture->thread, pthread_self()))
        return sim_result(sim_capture_spoil(stream, cudaErrorStreamCaptureWrongThread));
    cudaError_t error = capture->is_spoiled   ? cudaErrorStreamCaptureInvalidated
                        : !all_joined(stream) ? cudaErrorStreamCaptureUnjoined
                                              : cudaSuccess;
    capture->is_over = true;
    for (struct sim_stream *other = sim_streams; other != NULL; other = other->next)
        if (other->capture == capture)
            other->capture = NULL;
    if (error == cudaSuccess)
        *graph_p = (cudaGraph_t)(void *)capture->graph;
    return sim_result(error);
}

static cudaError_t capture_info(cudaStream_t handle, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                cudaGraph_t *graph) {
    const struct sim_stream *stream = sim_stream_of(handle);
    if (stream == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    if (stream == stream->device->legacy && sim_capture_is_around(stream->device))
        return sim_result(cudaErrorStreamCaptureImplicit);
    const struct sim_capture *capture = stream->capture;
    *status = capture == NULL       ? cudaStreamCaptureStatusNone
              : capture->is_spoiled ? cudaStreamCaptureStatusInvalidated
                                    : cudaStreamCaptureStatusActive;
    if (id != NULL && capture != NULL)
        *id = capture->id;
    if (graph != NULL && capture != NULL)
        *graph = (cudaGraph_t)(void *)capture->graph;
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **behind,
#if CUDART_VERSION >= 13000
                                     __attribute__((unused)) const cudaGraphEdgeData **edges,
#endif
                                     size_t *nbehind) {
    SIM_CALL(SIM_SAFE);
    (void)behind, (void)nbehind;
    return capture_info(handle, status, id, graph);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status) {
    SIM_CALL(SIM_SAFE);
    return capture_info(handle, status, NULL, NULL);
}

/* ---- graphs ---- */

static void free_node(struct node *node) {
    free(node->op.launch);
    free(node->op.staged);
    free(node->op.words);
}

/* What is launched is a copy: the graph may be destroyed. */
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph_, unsigned long long flags) {
    SIM_CALL(SIM_UNSAFE);
    const struct graph *graph = (const struct graph *)(void *)graph_;
    struct graph *copy = get(sizeof(*copy));
    (void)flags;
    *copy = *graph;
    copy->nodes = get((size_t)graph->nnodes * sizeof(*copy->nodes) + 1);
    for (int k = 0; k < graph->nnodes; k++) {
        copy->nodes[k] = graph->nodes[k];
        if (graph->nodes[k].op.launch != NULL)
            copy->nodes[k].op.launch = sim_launch_copy(graph->nodes[k].op.launch);
        if (graph->nodes[k].op.words != NULL)
            copy->nodes[k].op.words = sim_words_copy(graph->nodes[k].op.words, graph->nodes[k].op.nwords);
    }
    *made = (cudaGraphExec_t)(void *)copy;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(made, graph, flags);
}

static void graph_free(struct graph *graph) {
    for (int k = 0; k < graph->nnodes; k++)
        free_node(&graph->nodes[k]);
    free(graph->nodes);
    free(graph);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    SIM_CALL(SIM_SAFE);
    graph_free((struct graph *)(void *)graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    SIM_CALL(SIM_SAFE);
    graph_free((struct graph *)(void *)graph);
    return cudaSuccess;
}

/* Behind the nodes that it comes behind, or else behind the stream and the launch before. */
static struct sim_mark launch_node(struct graph *graph, const struct node *node, const struct sim_mark *ends,
                                   struct sim_mark start) {
    struct sim_stream **chain = &graph->chains[node->chain];
    struct sim_mark marks[NODES_MAX + 3];
    struct sim_op op = node->op;
    int n = 0;
    marks[n++] = start;
    marks[n++] = graph->last;
    for (int k = 0; k < node->behind.n; k++)
        marks[n++] = ends[node->behind.at[k]];
    if (op.kind == OP_WAIT && op.event != NULL)
        marks[n++] = op.event->mark;
    if (op.launch != NULL)
        op.launch = sim_launch_copy(op.launch);
    if (op.words != NULL)
        op.words = sim_words_copy(op.words, op.nwords);
    if (*chain == NULL)
        *chain = sim_stream_create(node->device, true);
    sim_put_behind(*chain, &op, marks, n);
    return sim_mark_of(*chain);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph_, cudaStream_t handle) {
    SIM_CALL(SIM_SAFE);
    struct graph *graph = (struct graph *)(void *)graph_;
    struct sim_stream *stream = sim_stream_of(handle);
    if (stream == NULL || graph == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    if (stream->capture != NULL)
        return sim_result(sim_capture_spoil(stream, cudaErrorStreamCaptureUnsupported));
    if (!sim_capture_permits_legacy(stream))
        return sim_result(cudaErrorStreamCaptureImplicit);
    struct sim_mark *ends = get((size_t)graph->nnodes * sizeof(*ends) + 1), start;
    sim_put_behind(stream, &(struct sim_op){.kind = OP_WAIT}, NULL, 0); /* behind what its kind of stream waits for */
    start = sim_mark_of(stream);
    for (int k = 0; k < graph->nnodes; k++)
        ends[k] = launch_node(graph, &graph->nodes[k], ends, start);
    sim_put_behind(stream, &(struct sim_op){.kind = OP_WAIT}, ends, graph->nnodes);
    graph->last = sim_mark_of(stream);
    free(ends);
    return sim_result(stream->device->failed);
}
