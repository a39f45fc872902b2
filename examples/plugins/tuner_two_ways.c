/* SPDX-License-Identifier: Apache-2.0
 *
 * A tuner plugin, for NCCL 2.30 and for collet under NCCL's names: trees with LL below 64 KB, rings with Simple from there on.
 * Slots then carry 32 KB at most.
 *
 *     cc -shared -fPIC -I include/compat tuner_two_ways.c -o libnccl-tuner-two_ways.so
 *     NCCL_TUNER_PLUGIN=$PWD/libnccl-tuner-two_ways.so LD_PRELOAD=…/libnccl.so.2 program
 *
 * Its answers depend only on its arguments, so all ranks get equal answers.
 */
#include <nccl_tuner.h>

#define LARGE_BYTES (64 << 10)
#define CHUNK_BYTES (32 << 10)

static ncclResult_t begin(void **context, uint64_t comm_id, size_t nranks, size_t nnodes, ncclDebugLogger_t log,
                          ncclNvlDomainInfo_v6_t *domains, ncclTunerConstants_v6_t *constants) {
    (void)comm_id, (void)domains, (void)constants;
    *context = NULL;
    log(NCCL_LOG_INFO, 0, __FILE__, __LINE__, "two ways for %zu ranks on %zu nodes", nranks, nnodes);
    return ncclSuccess;
}

/* The smallest entry of the table wins. Entries that are marked as impossible are not changed. */
static ncclResult_t choose(void *context, ncclFunc_t function, size_t bytes, int ops, float **table, int nalgo,
                           int nproto, int registered, int *nchannels) {
    float(*cost)[NCCL_NUM_PROTOCOLS] = (float(*)[NCCL_NUM_PROTOCOLS])table;
    int algo = bytes < LARGE_BYTES ? NCCL_ALGO_TREE : NCCL_ALGO_RING;
    int proto = bytes < LARGE_BYTES ? NCCL_PROTO_LL : NCCL_PROTO_SIMPLE;
    (void)context, (void)function, (void)ops, (void)registered, (void)nchannels;
    if (algo < nalgo && proto < nproto && cost[algo][proto] >= 0)
        cost[algo][proto] = 0;
    return ncclSuccess;
}

static ncclResult_t limit_chunk(void *context, ncclFunc_t function, size_t bytes, int algo, int proto, int nchannels,
                                size_t *chunk) {
    (void)context, (void)function, (void)bytes, (void)algo, (void)nchannels;
    if (proto == NCCL_PROTO_SIMPLE && *chunk > CHUNK_BYTES)
        *chunk = CHUNK_BYTES;
    return ncclSuccess;
}

static ncclResult_t end(void *context) {
    (void)context;
    return ncclSuccess;
}

const ncclTuner_v6_t ncclTunerPlugin_v6 = {"two ways", begin, choose, end, limit_chunk};
