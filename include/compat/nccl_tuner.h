/* SPDX-License-Identifier: Apache-2.0
 *
 * Version 6 of NCCL's interface for tuner plugins, as NCCL 2.30 has it: for authors of such plugins, and for collet, which loads
 * it (NCCL_TUNER_PLUGIN). A plugin is a shared library with a `const ncclTuner_v6_t ncclTunerPlugin_v6`. Every function
 * returns ncclSuccess, or else the library chooses without the plugin.
 *
 * Example: examples/plugins/tuner_simple_above.c. What collet makes of it: docs/nccl.md.
 */
#ifndef COLLET_COMPAT_NCCL_TUNER_H
#define COLLET_COMPAT_NCCL_TUNER_H

#include "nccl.h"

#include <stdint.h>

typedef enum {
    ncclFuncBroadcast = 0,
    ncclFuncReduce = 1,
    ncclFuncAllGather = 2,
    ncclFuncReduceScatter = 3,
    ncclFuncAllReduce = 4,
    ncclNumFuncs = 15
} ncclFunc_t;

/* Rows and columns of the table of costs. */
enum { NCCL_ALGO_TREE, NCCL_ALGO_RING, NCCL_ALGO_PAT = 6, NCCL_NUM_ALGORITHMS };
enum { NCCL_PROTO_LL, NCCL_PROTO_LL128, NCCL_PROTO_SIMPLE, NCCL_NUM_PROTOCOLS };
#define NCCL_ALGO_PROTO_IGNORE -1.0 /* This algorithm with this protocol cannot be chosen */

typedef enum { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3, NCCL_LOG_TRACE = 5 } ncclDebugLogLevel;
typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                                  const char *format, ...);

/* NVLink domains: sets of ranks whose GPUs are joined by NVLink. */
typedef struct {
    int nNvlDomains, minRanksPerNvlDomain, maxRanksPerNvlDomain;
} ncclNvlDomainInfo_v6_t;

/* Constants of NCCL's cost model. In collet they have no effect. */
typedef struct {
    double baseLatencies[7][3], hwLatencies[3][7][3];
    double llMaxBws[4][3], perChMaxRingLL128Bws[4][3], perChMaxTreeLL128Bws[4][3];
    double perChMaxTreeBws[4][3], perChMaxNVLSTreeBws[4][3];
} ncclTunerConstants_v6_t;

typedef struct {
    const char *name;
    /* Called once per communicator. */
    ncclResult_t (*init)(void **context, uint64_t commId, size_t nRanks, size_t nNodes, ncclDebugLogger_t logFunction,
                         ncclNvlDomainInfo_v6_t *nvlDomainInfo, ncclTunerConstants_v6_t *constants);
    /* collCostTable is a float[numAlgo][numProto] of predicted microseconds. The library uses the entry with the lowest
     * cost; negative entries do not count. *nChannels is 0; if the plugin sets a larger number, the library uses it. */
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                                float **collCostTable, int numAlgo, int numProto, int regBuff, int *nChannels);
    ncclResult_t (*finalize)(void *context);
    /* May change the number of bytes that a slot carries. The function may be NULL. */
    ncclResult_t (*getChunkSize)(void *context, ncclFunc_t collType, size_t nBytes, int algo, int proto, int nChannels,
                                 size_t *chunkSize);
} ncclTuner_v6_t;

#endif
