/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of NCCL 2.27 as a header of its own: names, values and layouts, for programs that are to be built where
 * NCCL is not. collet's libnccl.so.2 serves it, and so does NCCL's. docs/nccl.md says what works.
 *
 * The library has the names of newer versions too (it reports 2.28.9). They are left out here on purpose: a program that
 * finds 2.28 in its header expects headers for code on GPUs beside it.
 *
 * Every function exists twice, as ncclX and pncclX: a profiler may define ncclX and call pncclX.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>

/* Programs expect CUDA's headers behind this one. If there are none, a stream is an opaque pointer. */
#if !defined(__has_include)
#include <cuda_runtime.h>
#elif __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#if defined(__cplusplus) && __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#endif
#else
typedef struct CUstream_st *cudaStream_t;
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 27
#define NCCL_PATCH 7
#define NCCL_SUFFIX ""
/* A version as a number: 2.8.4 is 2804, 2.27.7 is 22707. */
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE 22707

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------------------------------------- handles */

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/* ------------------------------------------------------------------------------------------------------------- values */

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
    ncclNumResults = 8
} ncclResult_t;

typedef enum {
    ncclInt8 = 0,
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

/* Operators that ncclRedOpCreatePreMulSum() makes have values from ncclNumOps on. */
typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
    ncclNumOps = 5,
    ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

/* Where a scalar lies, and when it is read: by the device when the reduction runs, or by the host when the operator is made. */
typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01

/* ------------------------------------------------------------------------------------------------------------ options */

/* Begin with NCCL_CONFIG_INITIALIZER. The library compares size, magic and version. */
typedef struct ncclConfig_v22700 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                                        \
    {                                                                                                                  \
        sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_CONFIG_UNDEF_INT,     \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR,                \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,                \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                                        \
    }

typedef struct ncclSimInfo_v22200 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    float estimatedTime; /* microseconds */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                                                                      \
    { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_UNDEF_FLOAT }

/* ---------------------------------------------------------------------------------------------------------- functions */

#define NCCL_FUNCTION(result, name, ...)                                                                               \
    result nccl##name(__VA_ARGS__);                                                                                    \
    result pnccl##name(__VA_ARGS__)

NCCL_FUNCTION(ncclResult_t, GetVersion, int *version);
NCCL_FUNCTION(const char *, GetErrorString, ncclResult_t result);
NCCL_FUNCTION(const char *, GetLastError, ncclComm_t comm);
NCCL_FUNCTION(void, ResetDebugInit, void);

/* Communicators. The id is passed by value. */
NCCL_FUNCTION(ncclResult_t, GetUniqueId, ncclUniqueId *uniqueId);
NCCL_FUNCTION(ncclResult_t, CommInitRank, ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank);
NCCL_FUNCTION(ncclResult_t, CommInitRankConfig, ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
              ncclConfig_t *config);
NCCL_FUNCTION(ncclResult_t, CommInitRankScalable, ncclComm_t *newcomm, int nranks, int myrank, int nId,
              ncclUniqueId *commIds, ncclConfig_t *config);
NCCL_FUNCTION(ncclResult_t, CommInitAll, ncclComm_t *comm, int ndev, const int *devlist);
NCCL_FUNCTION(ncclResult_t, CommFinalize, ncclComm_t comm);
NCCL_FUNCTION(ncclResult_t, CommDestroy, ncclComm_t comm);
NCCL_FUNCTION(ncclResult_t, CommAbort, ncclComm_t comm);
NCCL_FUNCTION(ncclResult_t, CommSplit, ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);
NCCL_FUNCTION(ncclResult_t, CommShrink, ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
              ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags);
NCCL_FUNCTION(ncclResult_t, CommGetAsyncError, ncclComm_t comm, ncclResult_t *asyncError);
NCCL_FUNCTION(ncclResult_t, CommCount, const ncclComm_t comm, int *count);
NCCL_FUNCTION(ncclResult_t, CommCuDevice, const ncclComm_t comm, int *device);
NCCL_FUNCTION(ncclResult_t, CommUserRank, const ncclComm_t comm, int *rank);

/* Memory. */
NCCL_FUNCTION(ncclResult_t, MemAlloc, void **ptr, size_t size);
NCCL_FUNCTION(ncclResult_t, MemFree, void *ptr);
NCCL_FUNCTION(ncclResult_t, CommRegister, const ncclComm_t comm, void *buff, size_t size, void **handle);
NCCL_FUNCTION(ncclResult_t, CommDeregister, const ncclComm_t comm, void *handle);
NCCL_FUNCTION(ncclResult_t, CommWindowRegister, ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
              int winFlags);
NCCL_FUNCTION(ncclResult_t, CommWindowDeregister, ncclComm_t comm, ncclWindow_t win);

/* Operators of one's own: inputs are multiplied by *scalar, then added. */
NCCL_FUNCTION(ncclResult_t, RedOpCreatePreMulSum, ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
              ncclScalarResidence_t residence, ncclComm_t comm);
NCCL_FUNCTION(ncclResult_t, RedOpDestroy, ncclRedOp_t op, ncclComm_t comm);

/* Collectives and messages. Counts are in elements. The count of ReduceScatter and AllGather is that of one rank's block. */
NCCL_FUNCTION(ncclResult_t, AllReduce, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
              ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
NCCL_FUNCTION(ncclResult_t, Reduce, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
NCCL_FUNCTION(ncclResult_t, Bcast, void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
              cudaStream_t stream);
NCCL_FUNCTION(ncclResult_t, Broadcast, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
              int root, ncclComm_t comm, cudaStream_t stream);
NCCL_FUNCTION(ncclResult_t, ReduceScatter, const void *sendbuff, void *recvbuff, size_t recvcount,
              ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
NCCL_FUNCTION(ncclResult_t, AllGather, const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
              ncclComm_t comm, cudaStream_t stream);
NCCL_FUNCTION(ncclResult_t, Send, const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
              ncclComm_t comm, cudaStream_t stream);
NCCL_FUNCTION(ncclResult_t, Recv, void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
              cudaStream_t stream);

NCCL_FUNCTION(ncclResult_t, GroupStart, void);
NCCL_FUNCTION(ncclResult_t, GroupEnd, void);
NCCL_FUNCTION(ncclResult_t, GroupSimulateEnd, ncclSimInfo_t *simInfo);

#undef NCCL_FUNCTION

#ifdef __cplusplus
}
#endif
#endif
