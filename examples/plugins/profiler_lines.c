/* SPDX-License-Identifier: Apache-2.0
 *
 * A profiler plugin, for NCCL 2.30 and for collet under NCCL's names. When an operation has ended, the plugin writes a line into
 * the file that PROFILER_LINES names, or without this variable to standard error.
 *
 *     cc -shared -fPIC -I include/compat profiler_lines.c -o libnccl-profiler-lines.so
 *     NCCL_PROFILER_PLUGIN=$PWD/libnccl-profiler-lines.so LD_PRELOAD=…/libnccl.so.2 program
 *
 *     rank 0 AllReduce 16 ncclFloat32 RING LL 2 channels 4 wires 12 messages 1536 bytes 12.3 us
 */
#include <nccl_profiler.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct line {
    ncclProfilerEventDescr_v6_t about;
    struct line *operation; /* The operation of a channel, a wire or a message; NULL: this is an operation itself */
    double began_us;
    int channels, wires, messages;
    size_t bytes; /* Bytes that were sent and received over wires */
};

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static ncclResult_t begin(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nnodes, int nranks,
                          int rank, ncclDebugLogger_t log) {
    const char *path = getenv("PROFILER_LINES");
    FILE *out = path != NULL ? fopen(path, "a") : stderr;
    (void)comm_id, (void)comm_name;
    *context = out;
    *mask = ncclProfileColl | ncclProfileP2p | ncclProfileProxyOp | ncclProfileProxyStep | ncclProfileKernelCh;
    log(NCCL_LOG_INFO, 0, __FILE__, __LINE__, "lines for rank %d of %d on %d nodes", rank, nranks, nnodes);
    return out != NULL ? ncclSuccess : ncclSystemError;
}

static ncclResult_t start(void *context, void **handle, ncclProfilerEventDescr_v6_t *about) {
    struct line *line = *handle = calloc(1, sizeof *line), *parent = about->parentObj;
    if (line == NULL)
        return ncclSuccess;
    line->about = *about;
    line->began_us = now_us();
    if (about->type == ncclProfileColl || about->type == ncclProfileP2p)
        line->about.parentObj = context; /* from here on: where its line goes */
    else if (parent != NULL)
        line->operation = parent->operation != NULL ? parent->operation : parent;
    if (line->operation != NULL) {
        line->operation->channels += about->type == ncclProfileKernelCh;
        line->operation->wires += about->type == ncclProfileProxyOp;
    }
    return ncclSuccess;
}

/* Called when a message was sent, or has come. */
static ncclResult_t note(void *handle, ncclProfilerEventState_v6_t state, ncclProfilerEventStateArgs_v6_t *about) {
    const struct line *line = handle;
    if (line->operation != NULL &&
        (state == ncclProfilerProxyStepSendWait || state == ncclProfilerProxyStepRecvGPUWait)) {
        line->operation->messages++;
        line->operation->bytes += about->transSize;
    }
    return ncclSuccess;
}

static ncclResult_t stop(void *handle) {
    struct line *line = handle;
    FILE *out = line->about.parentObj;
    const double took_us = now_us() - line->began_us;
    if (line->about.type == ncclProfileColl)
        fprintf(out, "rank %d %s %zu %s %s %s", line->about.rank, line->about.coll.func, line->about.coll.count,
                line->about.coll.datatype, line->about.coll.algo, line->about.coll.proto);
    else if (line->about.type == ncclProfileP2p)
        fprintf(out, "rank %d %s %zu %s peer %d", line->about.rank, line->about.p2p.func, line->about.p2p.count,
                line->about.p2p.datatype, line->about.p2p.peer);
    if (line->about.type == ncclProfileColl || line->about.type == ncclProfileP2p)
        fprintf(out, " %d channels %d wires %d messages %zu bytes %.1f us\n", line->channels, line->wires,
                line->messages, line->bytes, took_us);
    free(line);
    return ncclSuccess;
}

static ncclResult_t end(void *context) {
    if (context != stderr)
        fclose(context);
    return ncclSuccess;
}

const ncclProfiler_v6_t ncclProfiler_v6 = {"lines", begin, start, stop, note, end};
