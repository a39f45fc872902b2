/* SPDX-License-Identifier: Apache-2.0
 *
 * Every function that NCCL 2.28.9, 2.30.7 or 2.32.3 exports, without the prefix "nccl". For each name, nccl.c makes a
 * strong symbol pncclX and a weak symbol ncclX. For a refused name, nccl.c defines the function too. docs/nccl.md has this
 * table for people.
 *
 * X(kind, name, since, about)
 *   kind    WORKS    the function does what NCCL documents
 *           NOTHING  the function answers like an NCCL without the feature: success, and an empty result
 *           REFUSED  the function returns ncclInvalidUsage; ncclGetLastError() names the function and the missing feature
 *           ASKED    as REFUSED. Programs call it for each communicator to ask for features, so the log mentions it once, at INFO
 *   since   the first version of NCCL that has the function; "2.3" stands for older versions too
 *   about   the feature that is refused, or the function's answer
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_NAMES_H
#define COLLET_LAYERS_NCCL_NCCL_NAMES_H

#define NCCL_NAMES(X)                                                                                                  \
    X(WORKS, GetVersion, "2.3", "22809")                                                                               \
    X(WORKS, GetErrorString, "2.3", "")                                                                                \
    X(WORKS, GetLastError, "2.13", "")                                                                                 \
    X(NOTHING, ResetDebugInit, "2.24", "the log stays as it is")                                                       \
    X(WORKS, GetUniqueId, "2.3", "")                                                                                   \
    X(WORKS, CommInitRank, "2.3", "")                                                                                  \
    X(WORKS, CommInitRankConfig, "2.14", "")                                                                           \
    X(WORKS, CommInitRankScalable, "2.23", "")                                                                         \
    X(WORKS, CommInitAll, "2.3", "")                                                                                   \
    X(WORKS, CommFinalize, "2.14", "")                                                                                 \
    X(WORKS, CommDestroy, "2.3", "")                                                                                   \
    X(WORKS, CommAbort, "2.4", "")                                                                                     \
    X(WORKS, CommRevoke, "2.28.7", "for all ranks; later calls return ncclInvalidUsage")                               \
    X(WORKS, CommSplit, "2.18", "")                                                                                    \
    X(WORKS, CommShrink, "2.27", "")                                                                                   \
    X(WORKS, CommGrow, "2.29", "")                                                                                     \
    X(WORKS, CommGetUniqueId, "2.29", "")                                                                              \
    X(WORKS, CommGetAsyncError, "2.4", "")                                                                             \
    X(WORKS, CommCount, "2.3", "")                                                                                     \
    X(WORKS, CommCuDevice, "2.3", "")                                                                                  \
    X(WORKS, CommUserRank, "2.3", "")                                                                                  \
    X(WORKS, CommRegister, "2.19", "the handle is kept; calls are no faster")                                          \
    X(WORKS, CommDeregister, "2.19", "")                                                                               \
    X(WORKS, CommWindowRegister, "2.27", "in host memory: a window that is NULL")                                      \
    X(WORKS, CommWindowDeregister, "2.27", "")                                                                         \
    X(WORKS, WinGetUserPtr, "2.29", "")                                                                                \
    X(WORKS, MemAlloc, "2.19", "")                                                                                     \
    X(WORKS, MemFree, "2.19", "")                                                                                      \
    X(WORKS, AllReduce, "2.3", "")                                                                                     \
    X(WORKS, Reduce, "2.3", "")                                                                                        \
    X(WORKS, Broadcast, "2.3", "")                                                                                     \
    X(WORKS, Bcast, "2.3", "")                                                                                         \
    X(WORKS, AllGather, "2.3", "")                                                                                     \
    X(WORKS, ReduceScatter, "2.3", "")                                                                                 \
    X(WORKS, AlltoAll, "2.28", "in place it succeeds, and the result is undefined")                                    \
    X(WORKS, Gather, "2.28", "")                                                                                       \
    X(WORKS, Scatter, "2.28", "")                                                                                      \
    X(WORKS, Send, "2.7", "")                                                                                          \
    X(WORKS, Recv, "2.7", "")                                                                                          \
    X(WORKS, GroupStart, "2.3", "")                                                                                    \
    X(WORKS, GroupEnd, "2.3", "")                                                                                      \
    X(WORKS, GroupSimulateEnd, "2.22", "a prediction of the cost model, in which messages count nothing")              \
    X(WORKS, RedOpCreatePreMulSum, "2.11", "")                                                                         \
    X(WORKS, RedOpDestroy, "2.11", "")                                                                                 \
    X(WORKS, TeamWorld, "2.28", "")                                                                                    \
    X(WORKS, TeamLsa, "2.28", "the rank alone: no memory is shared with code on GPUs")                                 \
    X(WORKS, TeamRail, "2.28", "all ranks")                                                                            \
    X(WORKS, TeamRankToWorld, "2.28", "")                                                                              \
    X(WORKS, TeamRankToLsa, "2.28", "")                                                                                \
    X(WORKS, PutSignal, "2.29", "on one host, where NVLink joins the GPUs; a group does not delay it")                 \
    X(WORKS, Signal, "2.29", "as ncclPutSignal; the communicator has a window")                                        \
    X(WORKS, WaitSignal, "2.29", "as ncclSignal; all signals of a rank count together")                                \
    X(REFUSED, CommSuspend, "2.29.7", "giving back the memory of an idle communicator")                                \
    X(REFUSED, CommResume, "2.29.7", "giving back the memory of an idle communicator")                                 \
    X(WORKS, CommMemStats, "2.29.7", "slots of connections; nothing of it can be given back")                          \
    X(ASKED, CommQueryProperties, "2.29", "communication by code on GPUs")                                             \
    X(REFUSED, DevCommCreate, "2.28", "communication by code on GPUs")                                                 \
    X(REFUSED, DevCommDestroy, "2.28", "communication by code on GPUs")                                                \
    X(REFUSED, LsaBarrierCreateRequirement, "2.28", "communication by code on GPUs")                                   \
    X(NOTHING, LLA2ACalcSlots, "2.28", "0 slots")                                                                      \
    X(REFUSED, LLA2ACreateRequirement, "2.28", "communication by code on GPUs")                                        \
    X(REFUSED, GinBarrierCreateRequirement, "2.28.7", "communication by code on GPUs")                                 \
    X(REFUSED, GinOutboxCreateRequirement, "2.29.7", "communication by code on GPUs")                                  \
    X(REFUSED, GinInboxA2ACreateRequirement, "2.29.7", "communication by code on GPUs")                                \
    X(REFUSED, GetLsaDevicePointer, "2.29", "communication by code on GPUs")                                           \
    X(REFUSED, GetLsaMultimemDevicePointer, "2.29", "communication by code on GPUs")                                   \
    X(REFUSED, GetMultimemDevicePointer, "2.29", "communication by code on GPUs")                                      \
    X(REFUSED, GetPeerDevicePointer, "2.29", "communication by code on GPUs")                                          \
    X(WORKS, ParamBind, "2.30", "keys are the variables that set a knob")                                              \
    X(WORKS, ParamGetI8, "2.30", "")                                                                                   \
    X(WORKS, ParamGetI16, "2.30", "")                                                                                  \
    X(WORKS, ParamGetI32, "2.30", "")                                                                                  \
    X(WORKS, ParamGetI64, "2.30", "")                                                                                  \
    X(WORKS, ParamGetU8, "2.30", "")                                                                                   \
    X(WORKS, ParamGetU16, "2.30", "")                                                                                  \
    X(WORKS, ParamGetU32, "2.30", "")                                                                                  \
    X(WORKS, ParamGetU64, "2.30", "")                                                                                  \
    X(WORKS, ParamGetStr, "2.30", "")                                                                                  \
    X(WORKS, ParamGet, "2.30", "a number as an int64_t")                                                               \
    X(WORKS, ParamGetParameter, "2.30", "")                                                                            \
    X(WORKS, ParamGetAllParameterKeys, "2.30", "")                                                                     \
    X(WORKS, ParamDumpAll, "2.30", "into the log")                                                                     \
    X(WORKS, AllReduceConfig, "2.31", "algorithm, protocol, channels and policy of one call")                          \
    X(WORKS, BroadcastConfig, "2.31", "algorithm, protocol, channels and policy of one call")                          \
    X(WORKS, ReduceConfig, "2.31", "algorithm, protocol, channels and policy of one call")                             \
    X(WORKS, AllGatherConfig, "2.31", "algorithm, protocol, channels and policy of one call")                          \
    X(WORKS, ReduceScatterConfig, "2.31", "algorithm, protocol, channels and policy of one call")                      \
    X(WORKS, AlltoAllConfig, "2.31", "algorithm, protocol, channels and policy of one call")                           \
    X(WORKS, GatherConfig, "2.31", "algorithm, protocol, channels and policy of one call")                             \
    X(WORKS, ScatterConfig, "2.31", "algorithm, protocol, channels and policy of one call")                            \
    X(REFUSED, SetEncryption, "2.32", "encryption by a call; COLLET_ENCRYPT=1 and COLLET_SECRET are collet's way")     \
    X(NOTHING, TeamCft, "2.32", "nobody")                                                                              \
    X(NOTHING, TeamCftMultimem, "2.32", "nobody")                                                                      \
    X(REFUSED, GetPeerDeviceLeInfo, "2.32", "communication by code on GPUs")                                           \
    X(REFUSED, GetMultimemDeviceLeInfo, "2.32", "communication by code on GPUs")                                       \
    X(REFUSED, GetCftDeviceLeInfo, "2.32", "communication by code on GPUs")

#endif
