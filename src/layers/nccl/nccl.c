/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's names over collet: libnccl.so.2. Each function translates its arguments, calls a function of collet.h and
 * translates the result. A communicator of NCCL is one of collet.
 *
 *    ncclX    weak ──┐
 *    pncclX   strong ┴─▶ collet_x     a profiler may define ncclX and call pncclX, so nothing here calls either
 *
 * Read next: nccl_names.h, what there is; nccl_config.c, options.
 */
#define ncclComm collet_comm
#pragma GCC visibility push(default)
#include "compat/nccl.h"
#pragma GCC visibility pop

#include "layers/nccl/nccl_call.h"
#include "layers/nccl/nccl_config.h"
#include "layers/nccl/nccl_memory.h"
#include "layers/nccl/nccl_names.h"
#include "layers/nccl/nccl_param.h"

#include "api/coll.h"
#include "api/group.h"
#include "layers/windows/window.h"
#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define VERSION 22809
#define SIM_MAGIC 0x74685283u

/* Defines a function of a newer version than the header, which does not declare it. */
#define NEWER(result, name, ...)                                                                                       \
    __attribute__((visibility("default"))) result pnccl##name(__VA_ARGS__);                                            \
    result pnccl##name(__VA_ARGS__)

/* ---- results ---- */

/* NCCL keeps one last error per process. */
static char last_error[1024];
PROCESS_LOCK(last_error_lock);

static void keep_error(const char *text) {
    pthread_mutex_lock(&last_error_lock);
    snprintf(last_error, sizeof last_error, "%s", text);
    pthread_mutex_unlock(&last_error_lock);
}

static ncclResult_t result_of(enum collet_result result) {
    switch (result) {
    case COLLET_SUCCESS: return ncclSuccess;
    case COLLET_IN_PROGRESS: return ncclInProgress;
    case COLLET_ERR_INVALID_ARGUMENT: return ncclInvalidArgument;
    case COLLET_ERR_INVALID_USAGE:
    case COLLET_ERR_UNSUPPORTED:
    case COLLET_ERR_MISMATCH: return ncclInvalidUsage;
    case COLLET_ERR_SYSTEM:
    case COLLET_ERR_NO_MEMORY: return ncclSystemError;
    case COLLET_ERR_REMOTE:
    case COLLET_ERR_TIMEOUT:
    case COLLET_ERR_ABORTED: return ncclRemoteError;
    case COLLET_ERR_INTERNAL: break;
    }
    return ncclInternalError;
}

static ncclResult_t reply(enum collet_result result) {
    if (result < 0)
        keep_error(err_last());
    return result_of(result);
}

/* Like reply(), for functions that get a communicator which is still being created, or was finalized. collet calls that
 * a wrong moment; NCCL calls it an invalid argument. */
static ncclResult_t reply_of_state(enum collet_result result) {
    ncclResult_t replied = reply(result);
    return replied == ncclInvalidUsage ? ncclInvalidArgument : replied;
}

static ncclResult_t refuse(const char *name, const char *about) {
    return reply(group_poison(err_set(COLLET_ERR_UNSUPPORTED, "nccl%s() is not supported by collet: %s", name, about)));
}

/* *said: the log has this refusal already. */
static ncclResult_t refuse_quietly(const char *name, const char *about, bool *said) {
    char text[ERR_TEXT_BYTES];
    snprintf(text, sizeof(text), "nccl%s() is not supported by collet: %s", name, about);
    if (!__atomic_exchange_n(said, true, __ATOMIC_RELAXED))
        log_info(ERR, "%s", text);
    return reply(group_poison(err_adopt(COLLET_ERR_UNSUPPORTED, text)));
}

ncclResult_t pncclGetVersion(int *version) {
    if (version == NULL)
        return reply(err_set(COLLET_ERR_INVALID_ARGUMENT, "version is NULL: pass the address of an int"));
    *version = VERSION;
    return ncclSuccess;
}

const char *pncclGetErrorString(ncclResult_t result) {
    static const char *const texts[ncclNumResults] = {"no error",
                                                      "unhandled CUDA error",
                                                      "system error",
                                                      "internal error",
                                                      "invalid argument",
                                                      "invalid usage",
                                                      "remote error: another rank or the way to it failed",
                                                      "in progress"};
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}

const char *pncclGetLastError(ncclComm_t comm) {
    (void)comm;
    return last_error;
}

void pncclResetDebugInit(void) {}

/* ---- groups ---- */

static _Thread_local struct {
    int depth;
    bool creating; /* a nonblocking communicator is being created in the open group */
} group;

ncclResult_t pncclGroupStart(void) {
    group.depth++;
    return reply(collet_group_start());
}

/* Predicts a group's time. Calls of one communicator run one after another; calls of different communicators run at the
 * same time. */
static enum collet_result group_predict(const struct post *calls, int ncalls, void *whom) {
    double *longest_ns = whom;
    *longest_ns = 0;
    for (int k = 0; k < ncalls; k++) {
        double ns = 0;
        for (int j = k; j < ncalls; j++) {
            struct plan_choice choice = {.predicted_ns = 0};
            if (calls[j].comm == calls[k].comm)
                COLLET_TRY(comm_choose(calls[j].comm, &calls[j].request, &choice));
            ns += choice.predicted_ns;
        }
        *longest_ns = ns > *longest_ns ? ns : *longest_ns;
    }
    return COLLET_SUCCESS;
}

/* Ends the thread's open group like collet_group_end(). If the group is the outermost one, none of its calls run, and
 * *ns is the time that the cost model predicts for them. Messages between two ranks have no prediction, and count as 0. */
static enum collet_result group_end_predicted(double *ns) { return group_end_instead(group_predict, ns); }

/* predicted_ns: result of a prediction; NULL: the group runs. */
static enum collet_result group_close(double *predicted_ns) {
    group.depth -= group.depth > 0;
    enum collet_result result = predicted_ns != NULL ? group_end_predicted(predicted_ns) : collet_group_end();
    if (group.depth > 0 || !group.creating)
        return result;
    group.creating = false;
    return result == COLLET_SUCCESS ? COLLET_IN_PROGRESS : result;
}

ncclResult_t pncclGroupEnd(void) { return reply(group_close(NULL)); }

/* The struct may be of another version: it may have more fields, or end after the time. */
static enum collet_result sim_info_check(const ncclSimInfo_t *info) {
    if (info == NULL || info->magic != SIM_MAGIC ||
        info->size < offsetof(ncclSimInfo_t, estimatedTime) + sizeof info->estimatedTime)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "simInfo is %s: pass a struct that NCCL_SIM_INFO_INITIALIZER has initialized",
                       info == NULL ? "NULL" : "not initialized");
    return COLLET_SUCCESS;
}

/* The group ends even if info is invalid. An inner group has no estimated time. */
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *info) {
    double ns = -1;
    group_poison(sim_info_check(info));
    ncclResult_t replied = reply(group_close(&ns));
    if (replied == ncclSuccess && ns >= 0)
        info->estimatedTime = (float)(ns / 1000);
    return replied;
}

/* ---- communicators ---- */

static ncclResult_t unique_id(ncclUniqueId *id) {
    struct collet_unique_id fresh;
    enum collet_result result = collet_get_unique_id(id != NULL ? &fresh : NULL);
    if (result == COLLET_SUCCESS)
        memcpy(id->internal, fresh.bytes, sizeof fresh.bytes);
    return reply(result);
}

ncclResult_t pncclGetUniqueId(ncclUniqueId *id) { return unique_id(id); }

/* A communicator is being created in an open group: the end of the group will return the final result. */
static enum collet_result begun(enum collet_result result) {
    group.creating |= result == COLLET_IN_PROGRESS && group.depth > 0;
    return result;
}

/* Both types of id are arrays of bytes. */
static const struct collet_unique_id *ids_of(const ncclUniqueId *ids) {
    _Static_assert(sizeof(ncclUniqueId) == sizeof(struct collet_unique_id), "an id of NCCL is one of collet");
    return (const struct collet_unique_id *)(const void *)ids;
}

static enum collet_result comm_init(ncclComm_t *comm, int nranks, int nids, const ncclUniqueId *ids, int rank,
                                    const ncclConfig_t *config) {
    struct collet_config options;
    enum collet_result result = nccl_config_read(config, &options);
    if (result != COLLET_SUCCESS)
        return group_poison(result);
    return begun(collet_comm_init_rank_scalable(comm, nranks, rank, nids, ids_of(ids), &options));
}

ncclResult_t pncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank) {
    return reply(comm_init(comm, nranks, 1, &id, rank, NULL));
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
    return reply(comm_init(comm, nranks, 1, &id, rank, config));
}

ncclResult_t pncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int nids, ncclUniqueId *ids,
                                       ncclConfig_t *config) {
    return reply(comm_init(comm, nranks, nids, ids, rank, config));
}

/* It is a mistake to list one GPU twice, unless NCCL_MULTI_RANK_GPU_ENABLE allows it. */
static enum collet_result list_check(int n, const int *ordinals) {
    bool may_repeat = ordinals == NULL || nccl_on_host() || nccl_env_int("NCCL_MULTI_RANK_GPU_ENABLE", 0) != 0;
    for (int k = 0; k < n && !may_repeat; k++)
        for (int j = 0; j < k; j++)
            if (ordinals[j] == ordinals[k])
                return err_set(COLLET_ERR_INVALID_USAGE,
                               "devlist has GPU %d twice: set NCCL_MULTI_RANK_GPU_ENABLE=1 if that is meant",
                               ordinals[k]);
    return COLLET_SUCCESS;
}

static enum collet_result init_all(ncclComm_t *comms, int n, const int *ordinals) {
    struct collet_config options;
    struct collet_unique_id id;
    COLLET_TRY(list_check(n, ordinals));
    COLLET_TRY(nccl_config_read(NULL, &options));
    COLLET_TRY(collet_get_unique_id(&id));
    COLLET_TRY(collet_group_start());
    options.nonblocking = 0;
    for (int k = 0; k < n; k++) { /* errors are returned by the end of the group */
        if (!nccl_on_host())
            options.device = COLLET_DEVICE_CUDA(ordinals != NULL ? ordinals[k] : k);
        collet_comm_init_rank_config(&comms[k], n, id, k, &options);
    }
    return collet_group_end();
}

ncclResult_t pncclCommInitAll(ncclComm_t *comms, int ndev, const int *devlist) {
    if (comms == NULL || ndev < 1)
        return reply(
            group_poison(err_set(COLLET_ERR_INVALID_ARGUMENT, "ndev is %d: pass an array of at least 1 handle", ndev)));
    return reply(init_all(comms, ndev, devlist));
}

/* ---- communicators made of others ---- */

/* Options of a child: it is on its parent's device. config NULL: it has all options of its parent. */
static enum collet_result child_options(const ncclConfig_t *config, struct collet_config *options) {
    if (config == NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(nccl_config_read(config, options));
    options->device = COLLET_DEVICE_HOST;
    return COLLET_SUCCESS;
}

/* Returns the result of `call`, which makes a child with `options`. */
#define CHILD(config, call)                                                                                            \
    struct collet_config read, *options = (config) != NULL ? &read : NULL;                                             \
    enum collet_result result = child_options(config, &read);                                                          \
    return reply(result == COLLET_SUCCESS ? begun(call) : group_poison(result))

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config) {
    CHILD(config, collet_comm_split(comm, color, key, child, options));
}

ncclResult_t pncclCommShrink(ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *child, ncclConfig_t *config,
                             int flags) {
    if (nexcluded < 1 || (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT))
        return reply(group_poison(err_set(COLLET_ERR_INVALID_ARGUMENT,
                                          "excludeRanksCount is %d and shrinkFlags %d: pass at least one rank, and "
                                          "NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT",
                                          nexcluded, flags)));
    enum collet_result stopped = flags == NCCL_SHRINK_ABORT ? collet_comm_revoke(comm) : COLLET_SUCCESS;
    if (stopped != COLLET_SUCCESS)
        return reply(group_poison(stopped));
    CHILD(config, collet_comm_shrink(comm, excluded, nexcluded, child, options));
}

/* A new rank has no communicator (comm NULL), and passes its rank. */
NEWER(ncclResult_t, CommGrow, ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *child,
      ncclConfig_t *config) {
    if (comm == NULL) /* comm_init() refuses a missing id */
        return reply(comm_init(child, nranks, 1, id, rank, config));
    CHILD(config, collet_comm_grow(comm, nranks, ids_of(id), child, options));
}

NEWER(ncclResult_t, CommRevoke, ncclComm_t comm, int flags) {
    if (flags != 0)
        return reply(err_set(COLLET_ERR_INVALID_ARGUMENT, "revokeFlags is %d: pass NCCL_REVOKE_DEFAULT, 0", flags));
    return reply(collet_comm_revoke(comm));
}

NEWER(ncclResult_t, CommGetUniqueId, ncclComm_t comm, ncclUniqueId *id) {
    int nranks;
    ncclResult_t replied = reply_of_state(collet_comm_count(comm, &nranks));
    return replied == ncclSuccess ? unique_id(id) : replied;
}

/* ---- their ends and states ---- */

ncclResult_t pncclCommFinalize(ncclComm_t comm) { return reply_of_state(collet_comm_finalize(comm)); }
ncclResult_t pncclCommDestroy(ncclComm_t comm) { return reply(collet_comm_destroy(comm)); }
ncclResult_t pncclCommAbort(ncclComm_t comm) { return reply(collet_comm_abort(comm)); }

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *async_error) {
    enum collet_result state;
    enum collet_result result = collet_comm_get_async_error(comm, async_error != NULL ? &state : NULL);
    if (result != COLLET_SUCCESS)
        return reply(result);
    *async_error = result_of(state);
    if (state < 0)
        keep_error(collet_last_error(comm));
    return ncclSuccess;
}

ncclResult_t pncclCommCount(const ncclComm_t comm, int *count) {
    return reply_of_state(collet_comm_count(comm, count));
}

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank) {
    return reply_of_state(collet_comm_rank(comm, rank));
}

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *ordinal) {
    int device;
    enum collet_result result = collet_comm_device(comm, ordinal != NULL ? &device : NULL);
    if (result != COLLET_SUCCESS)
        return reply_of_state(result);
    if (device == COLLET_DEVICE_HOST)
        return refuse("CommCuDevice", "this communicator is on host memory (COLLET_DEVICE=host), and on no GPU");
    *ordinal = device - COLLET_DEVICE_CUDA(0);
    return ncclSuccess;
}

/* ---- collectives ---- */

static const enum collet_type TYPES[ncclNumTypes] = {[ncclInt8] = COLLET_INT8,
                                                     [ncclUint8] = COLLET_UINT8,
                                                     [ncclInt32] = COLLET_INT32,
                                                     [ncclUint32] = COLLET_UINT32,
                                                     [ncclInt64] = COLLET_INT64,
                                                     [ncclUint64] = COLLET_UINT64,
                                                     [ncclFloat16] = COLLET_FLOAT16,
                                                     [ncclFloat32] = COLLET_FLOAT32,
                                                     [ncclFloat64] = COLLET_FLOAT64,
                                                     [ncclBfloat16] = COLLET_BFLOAT16,
                                                     [ncclFloat8e4m3] = COLLET_FLOAT8_E4M3,
                                                     [ncclFloat8e5m2] = COLLET_FLOAT8_E5M2};
static const enum collet_op OPS[ncclNumOps] = {[ncclSum] = COLLET_SUM,
                                               [ncclProd] = COLLET_PROD,
                                               [ncclMax] = COLLET_MAX,
                                               [ncclMin] = COLLET_MIN,
                                               [ncclAvg] = COLLET_AVG};

/* Operators that were created have collet's numbers. They are greater than all numbers of NCCL's operators. */
_Static_assert((int)COLLET_OP_COUNT >= (int)ncclNumOps, "no created operator looks like one of NCCL's");
static enum collet_op op_of(ncclRedOp_t op) { return op < ncclNumOps ? OPS[op] : (enum collet_op)op; }

/* Has this rank called collet_comm_revoke()? */
static bool comm_is_revoked(const struct collet_comm *comm) {
    return comm_is_live(comm) &&
           __atomic_load_n(&comm->revoked, __ATOMIC_RELAXED); /* an independent flag: pairs with nothing */
}

static enum collet_result values_check(ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    if (comm_is_revoked(comm))
        return group_poison(
            err_set(COLLET_ERR_INVALID_USAGE, "comm was revoked by ncclCommRevoke(): shrink or destroy it"));
    if ((unsigned)type >= ncclNumTypes)
        return group_poison(err_set(COLLET_ERR_INVALID_ARGUMENT, "datatype is %d: 0 … %d", type, ncclNumTypes - 1));
    if ((unsigned)op > ncclMaxRedOp || (op >= ncclNumOps && (unsigned)op < COLLET_OP_COUNT))
        return group_poison(err_set(COLLET_ERR_INVALID_ARGUMENT,
                                    "op is %d: 0 … %d, or made by ncclRedOpCreatePreMulSum()", op, ncclNumOps - 1));
    if (stream != NULL && nccl_on_host())
        return group_poison(err_set(COLLET_ERR_INVALID_ARGUMENT,
                                    "stream is not NULL: on host memory (COLLET_DEVICE=host) there are no streams"));
    return COLLET_SUCCESS;
}

/* Makes a call, unless one of its values has no translation. */
#define CALL(type, op, comm, stream, call)                                                                             \
    do {                                                                                                               \
        enum collet_result checked_ = values_check(type, op, comm, stream);                                            \
        return reply(checked_ == COLLET_SUCCESS ? (call) : checked_);                                                  \
    } while (0)
#define COPY(type, comm, stream, call) CALL(type, ncclSum, comm, stream, call)

ncclResult_t pncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream) {
    CALL(type, op, comm, stream, collet_allreduce(in, out, count, TYPES[type], op_of(op), comm, stream));
}

ncclResult_t pncclReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                         ncclComm_t comm, cudaStream_t stream) {
    CALL(type, op, comm, stream, collet_reduce(in, out, count, TYPES[type], op_of(op), root, comm, stream));
}

ncclResult_t pncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                            cudaStream_t stream) {
    COPY(type, comm, stream, collet_broadcast(in, out, count, TYPES[type], root, comm, stream));
}

ncclResult_t pncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
    COPY(type, comm, stream, collet_broadcast(buffer, buffer, count, TYPES[type], root, comm, stream));
}

ncclResult_t pncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
                            cudaStream_t stream) {
    COPY(type, comm, stream, collet_allgather(in, out, count, TYPES[type], comm, stream));
}

ncclResult_t pncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream) {
    CALL(type, op, comm, stream, collet_reducescatter(in, out, count, TYPES[type], op_of(op), comm, stream));
}

ncclResult_t pncclSend(const void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
    COPY(type, comm, stream, collet_send(buffer, count, TYPES[type], peer, comm, stream));
}

ncclResult_t pncclRecv(void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
    COPY(type, comm, stream, collet_recv(buffer, count, TYPES[type], peer, comm, stream));
}

NEWER(ncclResult_t, Gather, const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
      cudaStream_t stream) {
    COPY(type, comm, stream, collet_gather(in, out, count, TYPES[type], root, comm, stream));
}

NEWER(ncclResult_t, Scatter, const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
      cudaStream_t stream) {
    COPY(type, comm, stream, collet_scatter(in, out, count, TYPES[type], root, comm, stream));
}

/* NCCL documents no alltoall in place, but programs call it and expect success, for example nccl-tests. The content of
 * the buffer is undefined afterwards, as with NCCL. */
static enum collet_result alltoall_in_place(char *buffer, size_t count, enum collet_type type, ncclComm_t comm,
                                            cudaStream_t stream) {
    int nranks, rank;
    COLLET_TRY(collet_comm_count(comm, &nranks));
    COLLET_TRY(collet_comm_rank(comm, &rank));
    COLLET_TRY(collet_group_start());
    for (int peer = 0; peer < nranks && count > 0; peer++) {
        char *block = buffer + (size_t)peer * count * collet_type_size(type);
        if (peer != rank) { /* errors are returned by the end of the group */
            collet_send(block, count, type, peer, comm, stream);
            collet_recv(block, count, type, peer, comm, stream);
        }
    }
    return collet_group_end();
}

NEWER(ncclResult_t, AlltoAll, const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
      cudaStream_t stream) {
    bool in_place = in == out && in != NULL;
    COPY(type, comm, stream,
         in_place ? alltoall_in_place(out, count, TYPES[type], comm, stream)
                  : collet_alltoall(in, out, count, TYPES[type], comm, stream));
}

/* ---- collectives with options of their own ---- */

/* Makes a call with options. `request` has no type and operator yet. Invalid options are refused. */
static ncclResult_t call_with(const void *config, struct exec_request request, ncclDataType_t type, ncclRedOp_t op,
                              const void *in, void *out, ncclComm_t comm, cudaStream_t stream) {
    enum collet_result result = group_poison(nccl_call_read(config, request.collective, &request.call_options));
    if (result == COLLET_SUCCESS)
        result = values_check(type, op, comm, stream);
    if (result != COLLET_SUCCESS)
        return reply(result);
    request.type = TYPES[type];
    request.op = op_of(op);
    result = nccl_call_check(&request, comm);
    return reply(result == COLLET_SUCCESS ? coll_call(&request, in, out, comm, stream) : group_poison(result));
}

/* The variable arguments are fields of the request: the collective, the count, perhaps the root. */
#define WITH_OPTIONS(type, op, ...)                                                                                    \
    call_with(config, (struct exec_request){__VA_ARGS__}, type, op, in, out, comm, stream)

NEWER(ncclResult_t, AllReduceConfig, const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
      ncclComm_t comm, cudaStream_t stream, const void *config) {
    return WITH_OPTIONS(type, op, .collective = PROG_ALLREDUCE, .count = count);
}

NEWER(ncclResult_t, ReduceConfig, const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
      int root, ncclComm_t comm, cudaStream_t stream, const void *config) {
    return WITH_OPTIONS(type, op, .collective = PROG_REDUCE, .count = count, .root = root);
}

NEWER(ncclResult_t, ReduceScatterConfig, const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
      ncclComm_t comm, cudaStream_t stream, const void *config) {
    return WITH_OPTIONS(type, op, .collective = PROG_REDUCESCATTER, .count = count);
}

NEWER(ncclResult_t, BroadcastConfig, const void *in, void *out, size_t count, ncclDataType_t type, int root,
      ncclComm_t comm, cudaStream_t stream, const void *config) {
    return WITH_OPTIONS(type, ncclSum, .collective = PROG_BROADCAST, .count = count, .root = root);
}

NEWER(ncclResult_t, AllGatherConfig, const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
      cudaStream_t stream, const void *config) {
    return WITH_OPTIONS(type, ncclSum, .collective = PROG_ALLGATHER, .count = count);
}

/* Alltoall in place is made of messages, which have no options. */
NEWER(ncclResult_t, AlltoAllConfig, const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
      cudaStream_t stream, const void *config) {
    uint64_t options;
    if (in != out || in == NULL)
        return WITH_OPTIONS(type, ncclSum, .collective = PROG_ALLTOALL, .count = count);
    enum collet_result result = group_poison(nccl_call_read(config, PROG_ALLTOALL, &options));
    if (result != COLLET_SUCCESS)
        return reply(result);
    COPY(type, comm, stream, alltoall_in_place(out, count, TYPES[type], comm, stream));
}

NEWER(ncclResult_t, GatherConfig, const void *in, void *out, size_t count, ncclDataType_t type, int root,
      ncclComm_t comm, cudaStream_t stream, const void *config) {
    return WITH_OPTIONS(type, ncclSum, .collective = PROG_GATHER, .count = count, .root = root);
}

NEWER(ncclResult_t, ScatterConfig, const void *in, void *out, size_t count, ncclDataType_t type, int root,
      ncclComm_t comm, cudaStream_t stream, const void *config) {
    return WITH_OPTIONS(type, ncclSum, .collective = PROG_SCATTER, .count = count, .root = root);
}

/* ---- memory ---- */

ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buffer, size_t size, void **handle) {
    return reply_of_state(collet_comm_register(comm, buffer, size, (struct collet_registration **)handle));
}

/* To a program, ncclWindow_t is an opaque pointer for code on GPUs. Such code needs ncclDevCommCreate(), which is
 * refused. So nobody reads what the pointer points to. */
static struct collet_window *window_of(ncclWindow_t window) { return (struct collet_window *)(void *)window; }

/* Success, with a window of NULL. NCCL answers like this where it has no symmetric memory; host memory has none. */
static ncclResult_t no_window(const ncclComm_t comm, void *window) {
    int nranks;
    memset(window, 0, sizeof(void *));
    return reply_of_state(collet_comm_count(comm, &nranks));
}

/* A buffer that ncclMemAlloc() has not returned makes no call faster. That is no failure: the rank registers an empty
 * window. */
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window, int flags) {
    (void)flags;
    if (window == NULL)
        return reply(group_poison(err_set(COLLET_ERR_INVALID_ARGUMENT, "win is NULL: pass where it goes")));
    if (nccl_on_host() || comm_check_usable(comm) != COLLET_SUCCESS)
        return no_window(comm, window);
    *window = NULL;
    if (!window_may_have(comm, buffer, size)) {
        log_info(CONN, "ncclCommWindowRegister: %p is no memory of ncclMemAlloc(): the window is empty here", buffer);
        buffer = NULL;
        size = 0;
    }
    return reply(collet_win_register(comm, buffer, size, (struct collet_window **)(void *)window));
}

NEWER(ncclResult_t, WinGetUserPtr, ncclComm_t comm, ncclWindow_t window, void **pointer) {
    if (pointer == NULL)
        return reply(err_set(COLLET_ERR_INVALID_ARGUMENT, "outUserPtr is NULL: pass where it goes"));
    return window == NULL ? no_window(comm, pointer) : reply(window_buffer(comm, window_of(window), pointer));
}

/* In NCCL this call is not collective: one thread may deregister the windows of several ranks, one after another. */
ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
    return window == NULL ? ncclSuccess : reply(window_leave(comm, window_of(window)));
}

/* ---- one-sided ---- */

/* NCCL has one signal per pair of ranks so far, and no flags. */
static enum collet_result check_signal(const char *name, int signal, int context, unsigned flags) {
    if (signal == 0 && context == 0 && flags == 0)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s: sigIdx is %d, ctx is %d and flags is %u: all must be 0", name,
                   signal, context, flags);
}

/* Too many elements are more bytes than any window has. */
static size_t bytes_of(size_t count, enum collet_type type) {
    return count <= SIZE_MAX / type_size(type) ? count * type_size(type) : SIZE_MAX;
}

NEWER(ncclResult_t, PutSignal, const void *buffer, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
      size_t offset, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream) {
    enum collet_result checked = check_signal("ncclPutSignal", signal, context, flags);
    if (checked != COLLET_SUCCESS)
        return reply(group_poison(checked));
    COPY(type, comm, stream,
         window_put_signal(comm, buffer, bytes_of(count, TYPES[type]), peer, window_of(window), offset, stream));
}

NEWER(ncclResult_t, Signal, int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream) {
    enum collet_result checked = check_signal("ncclSignal", signal, context, flags);
    return reply(checked == COLLET_SUCCESS ? window_signal(comm, peer, stream) : group_poison(checked));
}

/* As NCCL lays it out. */
struct wait_descriptor {
    int count, peer, signal, context;
};

#define WAITS_AT_ONCE 32

NEWER(ncclResult_t, WaitSignal, int n, const struct wait_descriptor *descriptors, ncclComm_t comm,
      cudaStream_t stream) {
    if (n < 0 || (n > 0 && descriptors == NULL))
        return reply(group_poison(err_set(COLLET_ERR_INVALID_ARGUMENT, "nDesc is %d, or signalDescs is NULL", n)));
    for (int at = 0, length; at < n; at += length) {
        struct onesided_wait waits[WAITS_AT_ONCE];
        length = n - at < WAITS_AT_ONCE ? n - at : WAITS_AT_ONCE;
        for (int k = 0; k < length; k++) {
            const struct wait_descriptor *d = &descriptors[at + k];
            enum collet_result checked = check_signal("ncclWaitSignal", d->signal, d->context, 0);
            if (checked == COLLET_SUCCESS && d->count < 0)
                checked = err_set(COLLET_ERR_INVALID_ARGUMENT, "opCnt is %d", d->count);
            if (checked != COLLET_SUCCESS)
                return reply(group_poison(checked));
            waits[k] = (struct onesided_wait){d->peer, (uint64_t)d->count};
        }
        enum collet_result result = window_wait_signals(comm, waits, length, stream);
        if (result != COLLET_SUCCESS)
            return reply(result);
    }
    return ncclSuccess;
}

/* ---- ends ---- */

/* Programs deregister windows by this function too. */
ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle) {
    if (window_is_of(comm, handle))
        return reply(window_leave(comm, handle));
    return handle == NULL ? ncclSuccess : reply(collet_comm_deregister(comm, handle));
}

/* A size of 0 is no failure: the pointer is NULL. */
ncclResult_t pncclMemAlloc(void **pointer, size_t size) {
    if (pointer == NULL || size > 0)
        return reply(collet_mem_alloc(pointer, size, nccl_on_host() ? COLLET_DEVICE_HOST : COLLET_DEVICE_CUDA_CURRENT));
    *pointer = NULL;
    return ncclSuccess;
}

ncclResult_t pncclMemFree(void *pointer) { return reply(collet_mem_free(pointer)); }

/* The numbers are NCCL's. collet gives back no memory of an idle communicator, so all memory counts as persistent. */
enum { STAT_SUSPEND, STAT_SUSPENDED, STAT_PERSIST, STAT_TOTAL };

NEWER(ncclResult_t, CommMemStats, ncclComm_t comm, int stat, uint64_t *value) {
    if (value == NULL || stat < STAT_SUSPEND || stat > STAT_TOTAL)
        return reply(err_set(COLLET_ERR_INVALID_ARGUMENT,
                             "stat is %d, or value is NULL: pass one of ncclCommMemStat_t, 0 … %d, and where it goes",
                             stat, STAT_TOTAL));
    uint64_t bytes;
    ncclResult_t replied = reply_of_state(nccl_memory_of(comm, &bytes));
    if (replied == ncclSuccess)
        *value = stat == STAT_PERSIST || stat == STAT_TOTAL ? bytes : 0;
    return replied;
}

/* ---- operators ---- */

_Static_assert((int)ncclScalarDevice == COLLET_SCALAR_DEVICE && (int)ncclScalarHostImmediate == COLLET_SCALAR_HOST,
               "the same numbers");

static enum collet_result make_op(ncclRedOp_t *op, void *scalar, ncclDataType_t type, ncclScalarResidence_t residence,
                                  ncclComm_t comm) {
    enum collet_op made, *made_p = op != NULL ? &made : NULL;
    COLLET_TRY(collet_op_create_premul_sum(made_p, scalar, TYPES[type], (enum collet_residence)residence, comm));
    *op = (ncclRedOp_t)made;
    return COLLET_SUCCESS;
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
    COPY(type, NULL, NULL, make_op(op, scalar, type, residence, comm));
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
    CALL(ncclInt8, op, NULL, NULL, collet_op_destroy(op_of(op), comm));
}

/* ---- teams ----
 *
 * A team is the ranks whose memory code on GPUs reaches by plain loads and stores. Here that is only the rank itself, so
 * each rank is a team of one, and all ranks are on one rail. */

struct team {
    int nranks, rank, stride;
};

static struct team team_of_all(ncclComm_t comm) {
    struct team team = {.stride = 1};
    if (reply(collet_comm_count(comm, &team.nranks)) != ncclSuccess ||
        reply(collet_comm_rank(comm, &team.rank)) != ncclSuccess)
        return (struct team){0, 0, 0};
    return team;
}

NEWER(struct team, TeamWorld, ncclComm_t comm) { return team_of_all(comm); }
NEWER(struct team, TeamRail, ncclComm_t comm) { return team_of_all(comm); }

NEWER(struct team, TeamLsa, ncclComm_t comm) {
    return team_of_all(comm).stride != 0 ? (struct team){1, 0, 1} : (struct team){0, 0, 0};
}

/* The team of ranks whose GPUs are joined by a fabric of NVIDIA's: an empty team. */
NEWER(struct team, TeamCft, ncclComm_t comm, int mode) {
    (void)comm, (void)mode;
    return (struct team){0, 0, 0};
}
NEWER(struct team, TeamCftMultimem, ncclComm_t comm) {
    (void)comm;
    return (struct team){0, 0, 0};
}

NEWER(int, TeamRankToWorld, ncclComm_t comm, struct team team, int rank) {
    return team_of_all(comm).rank + (rank - team.rank) * team.stride;
}

NEWER(int, TeamRankToLsa, ncclComm_t comm, struct team team, int rank) {
    (void)comm;
    return (rank - team.rank) * team.stride;
}

NEWER(int, LLA2ACalcSlots, int elements, int element_bytes) {
    (void)elements, (void)element_bytes;
    return 0;
}

/* ---- parameters by name ---- */

static ncclResult_t no_param(const char *what) { return reply(err_set(COLLET_ERR_INVALID_ARGUMENT, "%s", what)); }

NEWER(ncclResult_t, ParamBind, const struct nccl_param **handle, const char *key) {
    const struct nccl_param *param = nccl_param_find(key);
    if (handle == NULL || param == NULL)
        return no_param("key is no parameter, or out is NULL: ncclParamGetAllParameterKeys() has the keys");
    *handle = param;
    return ncclSuccess;
}

/* Copies a number into an `out` of `bytes` bytes. The machine is little-endian, so the first bytes of an int64_t are the
 * number in a shorter type. */
static ncclResult_t param_get(const struct nccl_param *param, int64_t least, int64_t most, void *out, size_t bytes) {
    int64_t number;
    if (param == NULL || out == NULL || !nccl_param_number(param, least, most, &number))
        return no_param("the handle or out is NULL, or the value is no number of this type");
    memcpy(out, &number, bytes);
    return ncclSuccess;
}

NEWER(ncclResult_t, ParamGetI8, const struct nccl_param *param, int8_t *out) {
    return param_get(param, INT8_MIN, INT8_MAX, out, sizeof *out);
}
NEWER(ncclResult_t, ParamGetI16, const struct nccl_param *param, int16_t *out) {
    return param_get(param, INT16_MIN, INT16_MAX, out, sizeof *out);
}
NEWER(ncclResult_t, ParamGetI32, const struct nccl_param *param, int32_t *out) {
    return param_get(param, INT32_MIN, INT32_MAX, out, sizeof *out);
}
NEWER(ncclResult_t, ParamGetI64, const struct nccl_param *param, int64_t *out) {
    return param_get(param, INT64_MIN, INT64_MAX, out, sizeof *out);
}
NEWER(ncclResult_t, ParamGetU8, const struct nccl_param *param, uint8_t *out) {
    return param_get(param, 0, UINT8_MAX, out, sizeof *out);
}
NEWER(ncclResult_t, ParamGetU16, const struct nccl_param *param, uint16_t *out) {
    return param_get(param, 0, UINT16_MAX, out, sizeof *out);
}
NEWER(ncclResult_t, ParamGetU32, const struct nccl_param *param, uint32_t *out) {
    return param_get(param, 0, UINT32_MAX, out, sizeof *out);
}
NEWER(ncclResult_t, ParamGetU64, const struct nccl_param *param, uint64_t *out) {
    return param_get(param, 0, INT64_MAX, out, sizeof *out);
}

/* The returned text is valid until this thread asks for the next one. */
static _Thread_local char param_text[CONFIG_TEXT_BYTES];

NEWER(ncclResult_t, ParamGetStr, const struct nccl_param *param, const char **out) {
    if (param == NULL || out == NULL || !nccl_param_text(param, param_text))
        return no_param("the handle or out is NULL, or the environment has a value that is refused");
    *out = param_text;
    return ncclSuccess;
}

/* A number is returned as an int64_t, a text as its bytes with the final 0. */
NEWER(ncclResult_t, ParamGet, const struct nccl_param *param, void *out, int room, int *length) {
    int64_t number;
    if (param == NULL || out == NULL || length == NULL || !nccl_param_text(param, param_text))
        return no_param("the handle, out or len is NULL, or the environment has a value that is refused");
    const bool is_number = nccl_param_number(param, INT64_MIN, INT64_MAX, &number);
    const void *raw = is_number ? (const void *)&number : param_text;
    *length = is_number ? (int)sizeof number : (int)strlen(param_text) + 1;
    if (*length > room)
        return no_param("maxLen is less than the parameter's length, which len has now");
    memcpy(out, raw, (size_t)*length);
    return ncclSuccess;
}

NEWER(ncclResult_t, ParamGetParameter, const char *key, const char **value, int *length) {
    static _Thread_local char text[CONFIG_TEXT_BYTES];
    const struct nccl_param *param = nccl_param_find(key);
    if (param == NULL || value == NULL || length == NULL || !nccl_param_text(param, text))
        return no_param(
            "key is no parameter, value or valueLen is NULL, or the environment has a value that is refused");
    *value = text;
    *length = (int)strlen(text);
    return ncclSuccess;
}

NEWER(ncclResult_t, ParamGetAllParameterKeys, const char ***table, int *length) {
    if (table == NULL || length == NULL)
        return no_param("table or tableLen is NULL: pass where they go");
    *length = nccl_param_keys(table);
    return ncclSuccess;
}

NEWER(void, ParamDumpAll, void) { nccl_param_dump(); }

/* ---- what is refused, and every name ---- */

/* A refused function ignores its arguments, so it is defined without any. */
#define DEFINE_WORKS(name, about)
#define DEFINE_NOTHING(name, about)
#define DEFINE_REFUSED(name, about)                                                                                    \
    NEWER(ncclResult_t, name, void) { return refuse(#name, about); }
#define DEFINE_ASKED(name, about)                                                                                      \
    NEWER(ncclResult_t, name, void) {                                                                                  \
        static bool said;                                                                                              \
        return refuse_quietly(#name, about, &said);                                                                    \
    }
#define X(kind, name, since, about)                                                                                    \
    DEFINE_##kind(name, about) extern __typeof__(pnccl##name) nccl##name                                               \
        __attribute__((weak, alias("pnccl" #name), visibility("default")));
NCCL_NAMES(X)
#undef X

/* NCCL 2.28.9 exports this name by mistake. */
__attribute__((visibility("default"))) void ncclResetDebugInitInternal(void);
void ncclResetDebugInitInternal(void) {}
