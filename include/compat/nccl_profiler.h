/* SPDX-License-Identifier: Apache-2.0
 *
 * Version 6 of NCCL's interface for profiler plugins, as NCCL 2.30 has it: for authors of such plugins, and for collet, which loads
 * it (NCCL_PROFILER_PLUGIN). A plugin is a shared library with an `ncclProfiler_v6_t ncclProfiler_v6`.
 *
 * Example: examples/plugins/profiler_lines.c. Which events collet reports: docs/nccl.md.
 */
#ifndef COLLET_COMPAT_NCCL_PROFILER_H
#define COLLET_COMPAT_NCCL_PROFILER_H

#include "nccl_tuner.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Types of events; a plugin's mask has those that it wants. */
enum {
    ncclProfileGroup = 1 << 0,
    ncclProfileColl = 1 << 1,
    ncclProfileP2p = 1 << 2,
    ncclProfileProxyOp = 1 << 3,
    ncclProfileProxyStep = 1 << 4,
    ncclProfileProxyCtrl = 1 << 5, /* collet does not report it */
    ncclProfileKernelCh = 1 << 6,
    ncclProfileNetPlugin = 1 << 7, /* collet does not report it */
    ncclProfileGroupApi = 1 << 8,
    ncclProfileCollApi = 1 << 9,
    ncclProfileP2pApi = 1 << 10,
    ncclProfileKernelLaunch = 1 << 11, /* collet reports neither this type nor those below */
    ncclProfileCeColl = 1 << 12,
    ncclProfileCeSync = 1 << 13,
    ncclProfileCeBatch = 1 << 14
};

/* The states that collet records. */
typedef enum {
    ncclProfilerProxyStepSendGPUWait = 8, /* The executor has not filled the slot yet */
    /* The message travels over the wire; the state ends when its credit is back */
    ncclProfilerProxyStepSendWait = 9,
    ncclProfilerProxyStepRecvWait = 10,    /* The message has not come over the wire yet */
    ncclProfilerProxyStepRecvGPUWait = 12, /* The message is here; the executor has not used it yet */
    ncclProfilerProxyOpInProgress_v4 = 19,
    ncclProfilerKernelChStop = 22
} ncclProfilerEventState_v6_t;

/* The arguments of a state. */
typedef union {
    size_t transSize;     /* SendWait, RecvGPUWait: bytes of the message */
    int appendedProxyOps; /* not used by collet */
    void *data;           /* not used by collet */
    uint64_t pTimer;      /* KernelChStop: ns of CLOCK_MONOTONIC, as in the event */
} ncclProfilerEventStateArgs_v6_t;

/* The description of an event. Texts stay valid. `type` says which member of the union is valid. */
typedef struct {
    uint64_t type;
    /* The plugin's handle of the event to which this event belongs; NULL: it belongs to none. */
    void *parentObj;
    int rank;
    union {
        struct {
            bool graphCaptured;
            int groupDepth; /* 1: the program itself has opened no group */
        } groupApi;
        struct {
            const char *func;
            size_t count;
            const char *datatype;
            int root;
            void *stream;
            bool graphCaptured;
        } collApi;
        struct {
            const char *func;
            size_t count;
            const char *datatype;
            void *stream;
            bool graphCaptured;
        } p2pApi;
        struct {
            uint64_t seqNumber;
            const char *func;
            const void *sendBuff;
            void *recvBuff;
            size_t count;
            int root;
            const char *datatype;
            uint8_t nChannels, nWarps;
            const char *algo, *proto;
            void *parentGroup;
        } coll;
        struct {
            const char *func;
            void *buff;
            const char *datatype;
            size_t count;
            int peer;
            uint8_t nChannels;
            void *parentGroup;
        } p2p;
        struct {
            pid_t pid;
            uint8_t channelId;
            int peer, nSteps, chunkSize, isSend;
        } proxyOp;
        struct {
            int step;
        } proxyStep;
        struct {
            uint8_t channelId;
            uint64_t pTimer;
        } kernelCh;
        /* A collective of copy engines. collet never reports one, but this member is the largest, so it sets the size of the union. */
        struct {
            uint64_t seqNumber;
            const char *func;
            const void *sendBuff;
            void *recvBuff;
            size_t count;
            int root;
            const char *datatype, *syncStrategy;
            bool intraBatchSync;
            uint32_t batchSize, numBatches, ceSeqNum;
            void *stream;
        } ceColl;
    };
} ncclProfilerEventDescr_v6_t;

typedef struct {
    const char *name;
    /* Called once per communicator. Sets *eActivationMask, of which the process has only one; it may change later.
     * Failure: no profile. */
    ncclResult_t (*init)(void **context, uint64_t commId, int *eActivationMask, const char *commName, int nNodes,
                         int nranks, int rank, ncclDebugLogger_t logfn);
    /* *eHandle NULL: the plugin does not want to hear of this event again. */
    ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v6_t *eDescr);
    ncclResult_t (*stopEvent)(void *eHandle);
    ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_v6_t eState,
                                     ncclProfilerEventStateArgs_v6_t *eStateArgs);
    ncclResult_t (*finalize)(void *context);
} ncclProfiler_v6_t;

#endif
