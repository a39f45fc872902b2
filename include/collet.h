/* SPDX-License-Identifier: Apache-2.0
 *
 * collet: collective communication among processes, threads and GPUs.
 *
 * Read from top to bottom, this header is the manual. Words used throughout:
 *   rank          one participant of a communicator, numbered 0 … nranks−1
 *   communicator  an ordered set of ranks that call collectives together
 *   count         a number of elements of the call's data type, never of bytes
 *
 * What holds for every function, unless it says otherwise
 *   Results   0 is success, a positive value means "not yet", a negative value is a failure. A failure leaves outputs
 *             unwritten, and collet_last_error() tells its cause.
 *   Threads   Any thread may call any function. Calls on different communicators never wait for each other. On one
 *             communicator, a call waits only for the calls that the rule "Order" below puts before it.
 *             collet_comm_abort(), _revoke(), _get_async_error() and _dump() wait for no call.
 *   Blocking  A function returns at once, unless it creates a communicator, is a collective or a message, or says that it
 *             waits. A collective outside a group returns when its buffers may be reused; on a host stream it returns at
 *             once. Every wait ends: a dead rank, a timeout or an abort ends the wait with an error on every rank.
 *   Memory    Buffers and arrays stay the caller's. Strings that collet returns are static or belong to the thread. The
 *             caller owns communicators and ends each one exactly once.
 *   Fork      In a child of fork(), calls on a communicator of the parent return INVALID_USAGE. Destroying or aborting
 *             it there does nothing. The child may create communicators of its own, exit or exec freely.
 */
#ifndef COLLET_H
#define COLLET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define COLLET_API __attribute__((visibility("default")))
#else
#define COLLET_API
#endif

#define COLLET_MAJOR 0
#define COLLET_MINOR 1
#define COLLET_PATCH 0
/* The number collet_get_version() reports: 10000·major + 100·minor + patch. */
#define COLLET_VERSION (10000 * COLLET_MAJOR + 100 * COLLET_MINOR + COLLET_PATCH)

/* ---------------------------------------------------------------------------------------------------------- results */

enum collet_result {
    COLLET_SUCCESS = 0,
    COLLET_IN_PROGRESS = 1,           /* not done yet: ask again */
    COLLET_ERR_INVALID_ARGUMENT = -1, /* an argument is wrong in itself; the text names it */
    COLLET_ERR_INVALID_USAGE = -2,    /* the call is not allowed now: finalized communicator, unbalanced group … */
    COLLET_ERR_SYSTEM = -3,           /* the operating system refused something; the text has its reason */
    COLLET_ERR_NO_MEMORY = -4,        /* there is not enough memory */
    COLLET_ERR_REMOTE = -5,           /* another rank died, left or failed; the text names it */
    COLLET_ERR_TIMEOUT = -6,          /* a wait passed its limit; the text names the ranks it waited for */
    COLLET_ERR_ABORTED = -7,          /* collet_comm_abort() or _revoke() was called here or on another rank */
    COLLET_ERR_MISMATCH = -8,         /* ranks made different calls; the text has both */
    COLLET_ERR_UNSUPPORTED = -9,      /* this build or this device cannot do it */
    COLLET_ERR_INTERNAL = -10         /* a defect in collet: please report it */
};

/* collet_error_string: a short constant text for a result, e.g. "invalid argument". Never NULL, even for a
 * number that is no result. The string is static. */
COLLET_API const char *collet_error_string(enum collet_result result);

/* collet_last_error: the text of the newest failure: what was wrong, with which argument or rank, and the remedy.
 *   comm  NULL: the newest failure of the calling thread. Otherwise: the newest failure of this communicator.
 * Returns "" if there was none; never NULL. The string stays valid until the thread's next call to this function. */
struct collet_comm;
COLLET_API const char *collet_last_error(const struct collet_comm *comm);

/* collet_get_version: writes COLLET_VERSION of the library (not of this header) to *version.
 * Errors: INVALID_ARGUMENT if version is NULL. */
COLLET_API enum collet_result collet_get_version(int *version);

/* ------------------------------------------------------------------------------------------------------ types and ops */

enum collet_type {
    COLLET_FLOAT32 = 0,
    COLLET_FLOAT64 = 1,
    COLLET_INT32 = 2,
    COLLET_INT64 = 3,
    COLLET_UINT8 = 4,
    COLLET_FLOAT16 = 5,  /* IEEE 754 binary16 */
    COLLET_BFLOAT16 = 6, /* upper half of a float32 */
    COLLET_INT8 = 7,
    COLLET_INT16 = 8,
    COLLET_UINT16 = 9,
    COLLET_UINT32 = 10,
    COLLET_UINT64 = 11,
    COLLET_FLOAT8_E4M3 = 12, /* 4 bits of exponent, 3 of fraction; largest 448; a NaN, but no infinity */
    COLLET_FLOAT8_E5M2 = 13, /* upper half of a float16 */
    COLLET_TYPE_COUNT = 14
};

/* Reductions. In one call, every rank gets the same bits, whatever the order in which data arrives.
 * Integers wrap at their width. Floats of 8 and 16 bits are added up in float32 inside one step, and are rounded to nearest
 * even between steps. A result too large for a float of 16 bits becomes infinity. A result too large for a float of 8
 * bits, infinity too, becomes the largest finite number.
 * AVG is the sum divided by the number of ranks. For integers, the wrapped sum is divided, and rounded toward zero as in
 * C. For FLOAT16 and the floats of 8 bits, each element is first multiplied by a power of two that is about 1/nranks. So
 * no partial sum of finite numbers overflows, but very small elements lose bits.
 * SUM, PROD and AVG with a NaN give a NaN. MIN and MAX ignore NaNs: the result is a NaN only where all ranks have one. −0
 * is below +0. The other bits of a NaN are not specified. */
enum collet_op {
    COLLET_SUM = 0,
    COLLET_PROD = 1,
    COLLET_MIN = 2,
    COLLET_MAX = 3,
    COLLET_AVG = 4,
    COLLET_BAND = 5, /* bitwise and, of integers */
    COLLET_BOR = 6,  /* bitwise or, of integers */
    COLLET_BXOR = 7, /* bitwise exclusive or, of integers */
    /* The kind of the operators that collet_op_create_premul_sum() creates. No call takes this number itself. */
    COLLET_PREMULSUM = 8,
    COLLET_OP_COUNT = 9,
    COLLET_OP_LAST = 0x7fffffff /* created operators have numbers from COLLET_OP_COUNT to this one */
};

/* collet_type_size: bytes of one element of type; 0 if type is none of the above. */
COLLET_API size_t collet_type_size(enum collet_type type);

/* -------------------------------------------------------------------------------------------------------------- life */

/* A unique id serves to create one communicator. It holds the address where the ranks meet, and a secret that the ranks
 * prove to each other. Copy its bytes to every rank (MPI_Bcast, a file, a store) over a channel that you
 * trust: a process that knows the id can join. */
#define COLLET_UNIQUE_ID_BYTES 128
struct collet_unique_id {
    char bytes[COLLET_UNIQUE_ID_BYTES];
};

/* collet_get_unique_id: makes a fresh id and starts a meeting point for it in the calling process: a listening socket,
 * served by a thread of collet. The process must live until all ranks have been created. With COLLET_COMM_ID=host:port
 * set, ranks meet there instead: rank 0 listens, and nothing is started here. The socket of an id that no rank ever
 * uses stays open until the process ends.
 *   id  written on success
 * Errors: INVALID_ARGUMENT (id is NULL), SYSTEM (no socket, or COLLET_SOCKET_IFNAME matches nothing). */
COLLET_API enum collet_result collet_get_unique_id(struct collet_unique_id *id);

/* A device is where the buffers of a communicator live. */
#define COLLET_DEVICE_HOST 0                        /* any memory the CPU can address */
#define COLLET_DEVICE_CUDA(ordinal) (1 + (ordinal)) /* GPU number `ordinal` of CUDA's numbering in this process */
#define COLLET_DEVICE_CUDA_CURRENT (-1)             /* the GPU that is current in the calling thread */

/* Transports, as bits of collet_config.transports. */
#define COLLET_TRANSPORT_SELF 1u    /* ranks of one process: plain memory */
#define COLLET_TRANSPORT_SHM 2u     /* processes of one host: shared memory */
#define COLLET_TRANSPORT_TCP 4u     /* anything that IP reaches */
#define COLLET_TRANSPORT_VERBS 8u   /* RDMA: InfiniBand and RoCE */
#define COLLET_TRANSPORT_IPC 16u    /* GPUs of one host: one GPU writes into the memory of another */
#define COLLET_TRANSPORT_PLUGIN 32u /* the network plugin that COLLET_NET_PLUGIN names */

/* collet_transport_bit: returns the bit of the transport that has this name in the variable COLLET_TRANSPORT: "tcp", in
 * upper or lower case. Returns 0 if this library has no such transport. Some transports have a name but no constant above;
 * collet-info lists all names. */
COLLET_API unsigned collet_transport_bit(const char *name);

/* collet_config: options of a communicator. Set size = sizeof(struct collet_config). A field that is zero has its default.
 * A program that was compiled with an older, shorter struct stays valid. The environment (COLLET_*) overrides defaults, and
 * fields set here override the environment. Where all ranks must agree on a value, rank 0's value holds for all. */
struct collet_config {
    size_t size;      /* bytes of the caller's struct; required */
    int nonblocking;  /* 1: init returns COLLET_IN_PROGRESS, then poll collet_comm_get_async_error() */
    int min_channels; /* bounds on the channels of one call; 0: collet chooses */
    int max_channels;
    /* COLLET_DEVICE_HOST (the default), COLLET_DEVICE_CUDA(i) or COLLET_DEVICE_CUDA_CURRENT. All ranks are on GPUs or
     * none is. UNSUPPORTED: there is no such GPU, no driver, or the build has no CUDA. */
    int device;
    int timeout_ms;      /* longest time without progress inside a call; 0: COLLET_TIMEOUT, by default 30 minutes */
    unsigned transports; /* allowed transports: bits COLLET_TRANSPORT_…; 0: all */
    const char *name;    /* shown in logs and dumps; its first 31 bytes are copied */
    int init_timeout_ms; /* longest wait for all ranks at init, in whole seconds; 0: COLLET_INIT_TIMEOUT, 10 minutes */
    /* On GPUs: who moves the data of calls into windows. "zero": copy engines, where they can. "default", "efficiency":
     * kernels. NULL: COLLET_CTA_POLICY decides. Rank 0's value holds for all ranks. */
    const char *cta_policy;
};

/* collet_comm_init_rank: creates rank `rank` of a communicator of `nranks` ranks that share `id`.
 * Collective: every rank calls it, with the same nranks and id and its own rank. Blocks until all ranks have come.
 * After 30 s it warns and names the missing ranks; after COLLET_INIT_TIMEOUT (10 minutes) it fails. Inside a group
 * collet_group_end() does the work, so one thread may create several ranks; *comm is set at once, but usable only when
 * collet_group_end() has returned. On failure *comm is NULL. The caller owns *comm and ends it with collet_comm_destroy()
 * or collet_comm_abort().
 * Errors: INVALID_ARGUMENT (comm is NULL, nranks outside 1 … 2^20, rank outside 0 … nranks−1, id is not one of collet, two
 * ranks with one number, nranks differs among ranks), INVALID_USAGE (an environment variable that cannot be obeyed), TIMEOUT,
 * REMOTE, SYSTEM, NO_MEMORY. */
COLLET_API enum collet_result collet_comm_init_rank(struct collet_comm **comm, int nranks, struct collet_unique_id id,
                                                    int rank);

/* collet_comm_init_rank_config: creates a rank as collet_comm_init_rank() does, with options. config may be NULL.
 * With config->nonblocking it returns COLLET_IN_PROGRESS and a valid *comm. Then call collet_comm_get_async_error() until it
 * no longer gives COLLET_IN_PROGRESS. Until then, only collet_comm_abort() and collet_comm_destroy() may be called besides.
 * Further errors: INVALID_ARGUMENT (names a field of config), UNSUPPORTED (config->device). */
COLLET_API enum collet_result collet_comm_init_rank_config(struct collet_comm **comm, int nranks,
                                                           struct collet_unique_id id, int rank,
                                                           const struct collet_config *config);

/* collet_comm_init_rank_scalable: creates a rank of a job that has several ids, in the same order on all ranks.
 *   nids  the number of ids, 1 … nranks
 *   ids   array of nids ids. All ranks meet at ids[0]. The other ids are cancelled: their meeting points close.
 * Further errors: INVALID_ARGUMENT (ids is NULL, nids is out of range, one of ids is not of collet). */
COLLET_API enum collet_result collet_comm_init_rank_scalable(struct collet_comm **comm, int nranks, int rank, int nids,
                                                             const struct collet_unique_id *ids,
                                                             const struct collet_config *config);

/* collet_comm_init_all: creates a communicator whose ranks all live in this process; comms[i] becomes rank i.
 *   comms    array of nranks handles, written on success, all NULL on failure
 *   devices  array of nranks devices, or NULL for COLLET_DEVICE_HOST everywhere
 * Needs no id, opens no socket, starts no thread. Afterwards one thread may drive all ranks: it makes each collective a
 * group that has the call of every rank. Or each rank has a thread of its own, and no group is needed.
 * Errors: INVALID_ARGUMENT (comms is NULL, nranks outside 1 … 2^20, no such device), INVALID_USAGE, UNSUPPORTED, NO_MEMORY. */
COLLET_API enum collet_result collet_comm_init_all(struct collet_comm **comms, int nranks, const int *devices);

/* collet_comm_init_from_env: creates this process's rank of the job that a launcher describes in the environment.
 *   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun and friends), or
 *   OMPI_COMM_WORLD_*, PMI_*, SLURM_* for rank and size. The ranks then meet at COLLET_COMM_ID or MASTER_ADDR. Without
 *   these two, ranks of one host meet by the launcher's job id; ranks of several hosts meet through the launcher (PMI-1, PMIx).
 * If no launcher is found, the communicator has one rank. config may be NULL. Blocks and fails like
 * collet_comm_init_rank(); INVALID_USAGE names the variable that is missing or contradicts another. */
COLLET_API enum collet_result collet_comm_init_from_env(struct collet_comm **comm, const struct collet_config *config);

/* ------------------------------------------------------------------------------- communicators made of another one
 *
 * What the three calls below have in common. comm is the parent. The ranks agree through the parent. After that, the new
 * communicator has its own connections, keys, configuration and failures: it lives on if the parent is destroyed, and
 * collectives on the two communicators may run at the same time.
 *   Collective  Every rank that takes part calls the same function. All ranks make their collectives and their calls of
 *               these functions on one communicator in the same order. Calls on streams may be in progress.
 *   Blocking    The call returns when the new communicator is ready. Inside a group collet_group_end() does the work, so
 *               one thread may call it for several ranks, and *newcomm is NULL until then. If comm was made with
 *               config.nonblocking, the call returns COLLET_IN_PROGRESS and begins at once. Then call
 *               collet_comm_get_async_error(comm) until it no longer gives COLLET_IN_PROGRESS. A failure is given
 *               once. *newcomm is NULL until the new communicator is ready; the variable must stay valid until then.
 *   config      Options of the new communicator. NULL: the options of comm, with its name. The new communicator is on
 *               the device of comm, so config->device is that device or 0.
 *   Errors      INVALID_ARGUMENT (names the argument), MISMATCH (a rank calls something else), TIMEOUT (a rank has not
 *               called within COLLET_INIT_TIMEOUT), REMOTE, ABORTED, SYSTEM, NO_MEMORY, and as collectives for a
 *               communicator that cannot be used. Then *newcomm is NULL. If a split or a grow fails before the
 *               ranks have agreed, comm fails too.
 *   Memory      The caller owns *newcomm, and ends it as any communicator. */

#define COLLET_SPLIT_NOCOLOR (-1) /* for collet_comm_split(): a rank that joins no new communicator */
/* collet_comm_split: makes one communicator per colour, of the ranks that pass this colour. The new order is that of the keys;
 * ranks with equal keys keep their order in comm. Every rank of comm calls it.
 *   color    0 or more; or COLLET_SPLIT_NOCOLOR: this rank gets no communicator, and *newcomm is NULL on success
 *   key      any int */
COLLET_API enum collet_result collet_comm_split(struct collet_comm *comm, int color, int key,
                                                struct collet_comm **newcomm, const struct collet_config *config);

/* collet_comm_shrink: makes a communicator of the ranks of comm that are alive and not excluded, in the same order. Ranks that
 * have died or left comm are left out: the survivors find out together which ranks these are. The ranks in exclude_ranks are
 * left out too, and do not call shrink. All other ranks call it, with the same exclude_ranks. A group contains at most one
 * shrink of the same ranks.
 *   exclude_ranks  count different ranks of comm, in any order, without the caller's; NULL if count is 0
 * comm may have failed or been revoked. If shrink fails, comm stays as it was. What shrink promises:
 *   - All survivors get the same result: a communicator of the same ranks, or an error. If a rank dies during the call, it
 *     is left out, or all survivors get an error. This holds for every rank, also for rank 0.
 *   - A process that is stopped or cut off for COLLET_HEARTBEAT_TIMEOUT counts as dead for all other processes, also on its
 *     own host, and is left out. If the process runs again later, its calls on comm and its shrink return COLLET_ERR_REMOTE.
 *     Two exceptions: if all ranks of comm are on one host, or if COLLET_HEARTBEAT_TIMEOUT is 0, a stopped process counts as
 *     alive. Then all other ranks get COLLET_ERR_TIMEOUT.
 *   - Shrink ends. It waits for news of a death as long as it takes to notice one: COLLET_HEARTBEAT_TIMEOUT for a process or
 *     a host that falls silent. It waits COLLET_INIT_TIMEOUT for a rank that lives but does not call shrink.
 *   - If a rank dies after shrink has returned on some rank, the dead rank is in the new communicator: shrink that one next.
 *   - If the network between hosts breaks, ranks that live count each other as dead, and each part makes a communicator of its
 *     own. A program that must not go on twice compares the new number of ranks with that of comm, and goes on only if it
 *     has more than half.
 * Besides the errors above: a rank that left comm while the others asked who lives may get a communicator that has failed. */
COLLET_API enum collet_result collet_comm_shrink(struct collet_comm *comm, const int *exclude_ranks, int count,
                                                 struct collet_comm **newcomm, const struct collet_config *config);

/* collet_comm_grow: makes a communicator of comm's ranks, which keep their numbers, and of new ranks. Every rank of comm
 * calls it. Each new rank calls collet_comm_init_rank_config() with nranks, the id, and a rank that comm does not have.
 *   nranks  number of ranks of the new communicator: more than comm has; equal on all ranks
 *   id      an id that collet_get_unique_id() made for this call. At least one rank of comm passes it; other ranks may pass
 *           NULL. If several ranks pass an id, the lowest rank's is used */
COLLET_API enum collet_result collet_comm_grow(struct collet_comm *comm, int nranks, const struct collet_unique_id *id,
                                               struct collet_comm **newcomm, const struct collet_config *config);

/* ------------------------------------------------------------------- the end of a communicator, and questions to it */

/* collet_comm_finalize: waits until all calls on comm are done, those of other threads and on streams too, and closes comm for
 * further calls. NULL is a success. The handle stays valid for the getters and collet_comm_destroy().
 * Errors: INVALID_ARGUMENT (no communicator), INVALID_USAGE (the second call, comm is still being created, or calls on
 * comm wait in the open group of the calling thread). */
COLLET_API enum collet_result collet_comm_finalize(struct collet_comm *comm);

/* collet_comm_destroy: finalizes comm if that was not done, says goodbye to the other ranks, and frees comm. NULL is a
 * success. Destroy is no barrier: it does not wait until other ranks call it. Afterwards the handle is invalid; collet
 * notices most later uses of it. Errors: INVALID_ARGUMENT (no communicator), INVALID_USAGE (calls on comm wait in the open
 * group of the calling thread; comm then stays as it was). */
COLLET_API enum collet_result collet_comm_destroy(struct collet_comm *comm);

/* collet_comm_abort: ends comm at once and frees it. Calls in progress on it return COLLET_ERR_ABORTED in any thread of
 * this process, and ABORTED or REMOTE on other ranks. If calls on comm wait in the open group of the calling thread,
 * nothing of that group runs. NULL is a success. Always returns within 2 s. If a call or a GPU has not stopped by then,
 * collet does not free the memory that the call or the GPU uses.
 * Errors: INVALID_ARGUMENT (no communicator). */
COLLET_API enum collet_result collet_comm_abort(struct collet_comm *comm);

/* collet_comm_revoke: stops comm on all ranks, but does not free it. Calls in progress end soon on every rank, and later
 * calls at once, with COLLET_ERR_ABORTED. The error text names the rank that called revoke, and the error that this rank had
 * seen on comm before. If comm has failed already, nothing changes. Afterwards comm may be passed to collet_comm_shrink(),
 * the getters, collet_comm_dump(), collet_comm_destroy() and collet_comm_abort().
 * A rank that sees an error on comm calls revoke. Then ranks that wait for a rank that lives stop waiting too, and all
 * survivors can shrink.
 * Returns at once in any state of comm. While comm is being created, its creation fails on all ranks.
 * Errors: INVALID_ARGUMENT (no communicator), INVALID_USAGE (comm was made before a fork()). */
COLLET_API enum collet_result collet_comm_revoke(struct collet_comm *comm);

/* collet_comm_count, _rank, _device: write the number of ranks, the rank and the device of comm to the last argument.
 * Errors: INVALID_ARGUMENT (NULL or no communicator), INVALID_USAGE while a non-blocking init is in progress. */
COLLET_API enum collet_result collet_comm_count(const struct collet_comm *comm, int *nranks);
COLLET_API enum collet_result collet_comm_rank(const struct collet_comm *comm, int *rank);
COLLET_API enum collet_result collet_comm_device(const struct collet_comm *comm, int *device);

/* collet_comm_get_async_error: writes the state of comm to *async_error, cheaply: COLLET_SUCCESS, COLLET_IN_PROGRESS
 * during a non-blocking init and while a communicator is made of a non-blocking comm, or the first failure of this
 * communicator on any rank. Errors: INVALID_ARGUMENT (async_error is NULL, or no communicator). */
COLLET_API enum collet_result collet_comm_get_async_error(struct collet_comm *comm, enum collet_result *async_error);

/* collet_comm_dump: prints to file descriptor fd where comm stands: for each channel and worker the step, the slots in
 * flight, and the rank that the worker waits for. The call is for debuggers and hung programs. Another thread may call it while a
 * call is in progress; the text may then be a moment old. Blocks until fd takes the text; an abort or a destroy of comm does
 * not wait for that.
 * Errors: INVALID_ARGUMENT (no communicator, or fd is negative), NO_MEMORY, SYSTEM (fd cannot be written). */
COLLET_API enum collet_result collet_comm_dump(const struct collet_comm *comm, int fd);

/* collet_comm_plan: writes to text how a collective would run, but does not run it. For example:
 * "ring, Simple, 1 channel(s), chunk 131072 bytes, predicted 230.00 us". The time comes from the cost model (docs/tuning.md).
 * A rank may ask alone; all ranks would get the same answer.
 *   collective  the name of a collective below, without "collet_": "allreduce"
 *   count       its count argument, in elements of type
 *   text, size  the caller's buffer and its bytes; a longer text is cut, and always ends with '\0'
 * Blocks while another thread is in a call on comm. Does not communicate. Errors: INVALID_ARGUMENT (names the argument),
 * NO_MEMORY, and as collectives for a communicator that cannot be used. */
COLLET_API enum collet_result collet_comm_plan(struct collet_comm *comm, const char *collective, size_t count,
                                               enum collet_type type, char *text, size_t size);

/* -------------------------------------------------------------------------------------------------------- collectives
 *
 * Common rules
 *   Arguments  All ranks call the same collective with the same count, type, op and root. Counts are in elements. count
 *              == 0 is a success that moves nothing; buffers may then be NULL.
 *   Buffers    Buffers need only the alignment of their element type. They may overlap only as the in-place rule of the
 *              call says; otherwise INVALID_ARGUMENT. A result buffer is undefined after a failure. collet does not
 *              write to other buffers.
 *   Host       On a communicator of host memory, `stream` is NULL or a host stream (below). With NULL the call is done
 *              when it returns, or when the outermost group around it returns.
 *   GPU        On a communicator of GPUs, `stream` is a cudaStream_t of the communicator's GPU (NULL: the default
 *              stream). The call returns when its work is in the stream, which may be in capture. Buffers may be any
 *              memory that the GPU reaches.
 *   Order      Collectives on one communicator are done in the order in which they were issued, even if their streams
 *              differ. So are messages from one rank to another. Other calls may be done at the same time: a message does
 *              not wait for a collective. (On GPUs, all calls on one communicator are done in order.)
 *   Errors     INVALID_ARGUMENT (names the argument: NULL buffer or communicator, unknown type or op, root out of
 *              range, count so large that bytes overflow), INVALID_USAGE (a communicator that is not ready or was
 *              finalized), MISMATCH (ranks disagree), REMOTE, TIMEOUT, ABORTED, SYSTEM, NO_MEMORY. A failed
 *              communicator answers every later call with its first failure.
 */

/* collet_allreduce: recvbuff[i] = op over ranks of sendbuff[i], i in 0 … count−1, on every rank.
 * Both buffers hold count elements. In place: sendbuff == recvbuff. */
COLLET_API enum collet_result collet_allreduce(const void *sendbuff, void *recvbuff, size_t count,
                                               enum collet_type type, enum collet_op op, struct collet_comm *comm,
                                               void *stream);

/* collet_allgather: recvbuff[r·sendcount + i] = sendbuff[i] of rank r, on every rank.
 * sendbuff: sendcount elements; recvbuff: nranks·sendcount. In place: sendbuff == recvbuff + rank·sendcount. */
COLLET_API enum collet_result collet_allgather(const void *sendbuff, void *recvbuff, size_t sendcount,
                                               enum collet_type type, struct collet_comm *comm, void *stream);

/* collet_reducescatter: recvbuff[i] on rank r = op over ranks of sendbuff[r·recvcount + i].
 * sendbuff: nranks·recvcount elements; recvbuff: recvcount. In place: recvbuff == sendbuff + rank·recvcount; then
 * collet does not change the rest of sendbuff. */
COLLET_API enum collet_result collet_reducescatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                                   enum collet_type type, enum collet_op op, struct collet_comm *comm,
                                                   void *stream);

/* collet_alltoall: block s of recvbuff on rank r = block r of sendbuff on rank s; a block is count elements.
 * Both buffers: nranks·count elements. There is no in-place form: sendbuff == recvbuff is INVALID_ARGUMENT. */
COLLET_API enum collet_result collet_alltoall(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,
                                              struct collet_comm *comm, void *stream);

/* collet_broadcast: recvbuff[i] = sendbuff[i] of rank root, on every rank. Both buffers hold count elements. sendbuff
 * is read on the root only; elsewhere it may be NULL. In place: sendbuff == recvbuff. */
COLLET_API enum collet_result collet_broadcast(const void *sendbuff, void *recvbuff, size_t count,
                                               enum collet_type type, int root, struct collet_comm *comm, void *stream);

/* collet_reduce: recvbuff[i] on rank root = op over ranks of sendbuff[i]. Both buffers hold count elements. recvbuff is
 * written on the root only; elsewhere it may be NULL. In place on the root: sendbuff == recvbuff. */
COLLET_API enum collet_result collet_reduce(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,
                                            enum collet_op op, int root, struct collet_comm *comm, void *stream);

/* collet_gather: recvbuff[r·sendcount + i] = sendbuff[i] of rank r, on rank root. sendbuff: sendcount elements on every
 * rank; recvbuff: nranks·sendcount on the root. recvbuff is written on the root only; elsewhere it may be NULL. In place on
 * the root: sendbuff == recvbuff + root·sendcount. */
COLLET_API enum collet_result collet_gather(const void *sendbuff, void *recvbuff, size_t sendcount,
                                            enum collet_type type, int root, struct collet_comm *comm, void *stream);

/* collet_scatter: recvbuff[i] on rank r = sendbuff[r·recvcount + i] of rank root. sendbuff: nranks·recvcount elements on
 * the root. sendbuff is read on the root only; elsewhere it may be NULL. recvbuff: recvcount elements on every rank. In place on
 * the root: recvbuff == sendbuff + root·recvcount. */
COLLET_API enum collet_result collet_scatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                             enum collet_type type, int root, struct collet_comm *comm, void *stream);

/* collet_barrier: waits until every rank has called it, and moves no data. On GPUs, work behind it in the stream waits, not
 * the calling thread. */
COLLET_API enum collet_result collet_barrier(struct collet_comm *comm, void *stream);

/* Blocks of different lengths
 *
 * Counts and displacements (displs) are arrays of nranks numbers of elements, one per rank. They are read before the call
 * returns. The block of rank r begins displs[r] elements behind the beginning of its buffer. displs NULL: the blocks lie one
 * behind another, in the order of ranks. Blocks of a recvbuff must not overlap. A count may be 0. These calls are for
 * communicators of host memory; on GPUs they return UNSUPPORTED. */

/* collet_allgatherv: recvbuff[displs[r] + i] = sendbuff[i] of rank r, i in 0 … recvcounts[r]−1, on every rank. All ranks
 * pass the same recvcounts; displs may differ. sendcount is recvcounts[rank], otherwise INVALID_ARGUMENT.
 * In place: sendbuff == recvbuff + displs[rank]. */
COLLET_API enum collet_result collet_allgatherv(const void *sendbuff, size_t sendcount, void *recvbuff,
                                                const size_t *recvcounts, const size_t *displs, enum collet_type type,
                                                struct collet_comm *comm, void *stream);

/* collet_reducescatterv: recvbuff[i] on rank r = op over ranks of sendbuff[d + i], i in 0 … recvcounts[r]−1, where d is the
 * sum of recvcounts[0 … r−1]. All ranks pass the same recvcounts.
 * In place: recvbuff == sendbuff + d; then collet does not change the rest of sendbuff. */
COLLET_API enum collet_result collet_reducescatterv(const void *sendbuff, void *recvbuff, const size_t *recvcounts,
                                                    enum collet_type type, enum collet_op op, struct collet_comm *comm,
                                                    void *stream);

/* collet_alltoallv: recvbuff[rdispls[s] + i] on rank r = sendbuff[sdispls[r] + i] of rank s, i in 0 … sendcounts[r]−1 of
 * rank s. sendcounts[r] of rank s must be recvcounts[s] of rank r; otherwise the call fails on both ranks with MISMATCH,
 * and the text has both numbers. No third rank needs to know these numbers. There is no in-place form. */
COLLET_API enum collet_result collet_alltoallv(const void *sendbuff, const size_t *sendcounts, const size_t *sdispls,
                                               void *recvbuff, const size_t *recvcounts, const size_t *rdispls,
                                               enum collet_type type, struct collet_comm *comm, void *stream);

/* -------------------------------------------------------------------------------------------------------------- memory
 *
 * Buffers of calls may be any memory; the functions below are never required. Between processes of one host, calls are
 * faster with buffers of collet_mem_alloc(), because other ranks read and write such buffers where they are. Ranks on GPUs
 * that NVLink joins do this too: always within one process, and between processes if the buffers lie in a window (see
 * below). */

/* collet_mem_alloc: writes the address of `bytes` zeroed bytes to *memory.
 *   device  COLLET_DEVICE_HOST, COLLET_DEVICE_CUDA(i) or COLLET_DEVICE_CUDA_CURRENT
 * The caller owns the memory and frees it with collet_mem_free(). May block until the GPU is done with earlier work.
 * Host memory begins at a page; from 2 MiB on at a huge page, and Linux is asked for huge pages. Linux gives them only if
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled permits it. Every page is touched, so the memory lies near the CPU of the
 * calling thread.
 * Host memory comes in units of 64 KiB, and every call of this function makes system calls. So for small buffers, allocate a
 * large piece once and cut it up with an allocator of your own: all of this holds for any part of the piece, at any address.
 * Memory of a GPU takes whole pages of 2 MiB, so that other processes can map it. Where the driver refuses such memory, it is
 * plain memory, which windows do not share.
 * Other processes of the host that have a communicator with this one may map the host memory (a memfd; same user). A child of
 * fork() gets its own copy of a page when the child writes to it; until then the child sees what the parent writes there.
 * Errors: INVALID_ARGUMENT (memory is NULL, bytes is 0, no such device), UNSUPPORTED (there is no GPU, no driver, or the
 * build has no CUDA), NO_MEMORY, SYSTEM. */
COLLET_API enum collet_result collet_mem_alloc(void **memory, size_t bytes, int device);

/* collet_mem_free: frees memory of collet_mem_alloc(). No call may use the memory any more, and no window may contain it.
 * NULL is a success. May block until the GPU is done with earlier work.
 * Pages of host memory go back to the system at once, also if other processes have mapped them: such a process keeps only
 * the addresses, until its last communicator with this process ends. Memory of a GPU goes back at once, with one exception:
 * if its window ended only with the communicator, another process may still have the memory open, and collet may keep it.
 * Errors: INVALID_ARGUMENT (other memory), INVALID_USAGE (a window on GPUs has it; then nothing is freed). */
COLLET_API enum collet_result collet_mem_free(void *memory);

/* collet_comm_register: tells comm of a buffer that calls will use again and again, and writes a handle to *registration.
 * NICs then read and write this host buffer directly, without copies. Memory of collet_mem_alloc() needs no registration for
 * that. Between processes of one host a registration changes nothing: they can only map memory of collet_mem_alloc(). Buffers
 * may overlap, or be registered twice; each registration has its own handle. The caller ends the registration with
 * collet_comm_deregister() before freeing the buffer; the end of comm ends it too. Does not communicate: other ranks need not
 * register their buffers. Errors: INVALID_ARGUMENT (buff or registration is NULL, bytes is 0 or too large), NO_MEMORY, and as
 * collectives for comm. */
struct collet_registration;
COLLET_API enum collet_result collet_comm_register(struct collet_comm *comm, const void *buff, size_t bytes,
                                                   struct collet_registration **registration);

/* collet_comm_deregister: ends a registration. No call that uses the buffer may be in progress. NULL is a success. The buffer
 * itself stays the caller's.
 * Errors: INVALID_ARGUMENT (no communicator, or no registration of it). */
COLLET_API enum collet_result collet_comm_deregister(struct collet_comm *comm,
                                                     struct collet_registration *registration);

/* ------------------------------------------------------------------------------------------------------------- windows
 *
 * A window is one buffer per rank. Other ranks write into the buffer and read from it, and its owner makes no call for that. A rank that has
 * written sends a signal, and the owner waits for the signal:
 *
 *     writer      collet_put(data, bytes, peer, window, offset, comm, stream);   collet_signal(peer, window, comm, stream);
 *     owner       collet_wait_signal(writer, 1, window, comm, stream);           the data is in its buffer
 *
 * How does the writer learn that it may write there again? By a signal of the owner.
 *
 *     local completion    the call has returned: the caller's memory is its own again
 *     order               what a thread puts for a rank is there before a signal that the thread sends it later. Nothing else is promised:
 *                         two puts may arrive in any order, and one put in any order of its bytes
 *     remote visibility   collet_win_flush() has returned: what was put is in the window. For ranks that share memory it is there at once
 *
 *   Host       On host memory, `stream` is NULL, and the peer may be on any host. The thread collet-rma carries what no rank can copy.
 *   GPU        On a communicator of GPUs, `stream` is as for collectives, and these calls have one order with them. The call returns when its
 *              work is in the stream, which may be in capture, and the words above hold for the work behind it. The caller's memory is of the
 *              rank's GPU. The peer's GPU is the same, or NVLink joins them, on one host. A wait keeps the stream waiting, and others of its
 *              hardware queue (CUDA_DEVICE_MAX_CONNECTIONS). Before comm or the window ends on a rank, all puts, gets and signals are done.
 *
 * A group does not delay these calls. Any thread may call them while other calls on comm are in progress. A death, an abort and
 * COLLET_TIMEOUT end them as they end collectives: the communicator has failed then. */

/* collet_win_register: makes a window of comm; a collective call. Writes a handle to *window.
 *   buff, bytes  this rank's buffer; it may be as long as the rank likes, and NULL if bytes is 0
 * On host memory the buffer may be any memory. If it is of collet_mem_alloc(), other processes of the host reach it themselves: a put is
 * one copy. Ranks of one process reach any memory so. Other ranks send what they put, and the owner's process stores it.
 * On GPUs, the buffer must lie in memory of collet_mem_alloc() on the rank's GPU. Processes whose GPUs NVLink joins read
 * payloads of later calls directly in the window (docs/gpu.md, "Direct access"), and NVSwitches may make the sums of
 * allreduces (docs/gpu.md, "Sums by switches").
 * The window ends with collet_win_deregister(), or with comm. Until then the caller must not free the buffer.
 * Blocks until all ranks have called; on GPUs also until the rank's work of comm in its streams is done. Inside a group
 * collet_group_end() does the work before it runs the group's calls, so one thread may register windows of several ranks. Then
 * collet_group_end() writes *window, and returns the errors of all these ranks. Windows of one comm are made in the order in
 * which they were registered. On a failure there is no window.
 * Errors: INVALID_ARGUMENT (names the argument; on GPUs, on all ranks, also if one rank's buffer is other memory), UNSUPPORTED
 * (on GPUs: comm has 62 windows), NO_MEMORY, and as collectives. */
struct collet_window;
COLLET_API enum collet_result collet_win_register(struct collet_comm *comm, void *buff, size_t bytes,
                                                  struct collet_window **window);

/* collet_win_deregister: ends a window; a collective call. Blocks until all ranks have called. When it returns, what was put is
 * there, and no rank writes into this rank's buffer or reads from it any more. Signals that nobody has waited for are lost. NULL
 * is a success, and does not wait for other ranks.
 * On GPUs it also waits until the rank's work of comm in its streams is done. A graph that was captured while the window
 * existed must not be replayed afterwards. If comm had failed before, the buffer may stay in use until the end of comm.
 * Errors: INVALID_ARGUMENT (no communicator, or no window of it), INVALID_USAGE (a group is open), and as collectives;
 * the window has ended then, too. */
COLLET_API enum collet_result collet_win_deregister(struct collet_comm *comm, struct collet_window *window);

/* collet_put: copies `bytes` bytes from sendbuff into the buffer of rank peer in the window, from byte `offset` on. peer may be
 * the calling rank. When it returns, sendbuff may be reused (local completion). The peer may read the data after a signal (see below),
 * or after collet_win_flush() here and any other message. Until then, no rank may touch these bytes of the buffer.
 * Where the ranks share memory, it does not block. Otherwise it blocks until the bytes are on their way. For that the peer's process must
 * run, but the peer need make no call. Errors: INVALID_ARGUMENT (names the argument; also if the bytes do not fit into the window),
 * UNSUPPORTED (no transport, or no GPU, reaches peer), NO_MEMORY, and as collectives for comm. */
COLLET_API enum collet_result collet_put(const void *sendbuff, size_t bytes, int peer, struct collet_window *window,
                                         size_t offset, struct collet_comm *comm, void *stream);

/* collet_get: copies `bytes` bytes from the buffer of rank peer in the window, from byte `offset` on, into recvbuff. peer may be the
 * calling rank. Blocks until the bytes are there. Until then, no rank may write them. Errors: as collet_put(). */
COLLET_API enum collet_result collet_get(void *recvbuff, size_t bytes, int peer, struct collet_window *window,
                                         size_t offset, struct collet_comm *comm, void *stream);

/* collet_signal: tells rank peer that the puts which this thread has made into peer's buffer (on GPUs: this rank's puts before it) are
 * complete. Signals are counted for each window and each pair of ranks. Blocks as collet_put() does. Errors: as collet_put(). */
COLLET_API enum collet_result collet_signal(int peer, struct collet_window *window, struct collet_comm *comm,
                                            void *stream);

/* collet_put_signal: does what collet_put() and then collet_signal() do. Where they are sent, one message has both. */
COLLET_API enum collet_result collet_put_signal(const void *sendbuff, size_t bytes, int peer,
                                                struct collet_window *window, size_t offset, struct collet_comm *comm,
                                                void *stream);

/* collet_win_flush: blocks until all that this rank has put for rank peer is in the peer's windows (remote visibility). Its signals are
 * counted then, too. The peer need make no call. Errors: as collet_put(). */
COLLET_API enum collet_result collet_win_flush(int peer, struct collet_window *window, struct collet_comm *comm,
                                               void *stream);

/* collet_wait_signal: waits for the next `count` signals of rank peer in the window. Then the data that peer had put before these
 * signals is in this rank's buffer. Only one thread at a time may wait for signals of one peer in a window.
 * Errors: INVALID_ARGUMENT (names the argument); REMOTE (peer is gone), TIMEOUT and failures of comm, which make comm fail as in
 * collectives. */
COLLET_API enum collet_result collet_wait_signal(int peer, uint64_t count, struct collet_window *window,
                                                 struct collet_comm *comm, void *stream);

/* ------------------------------------------------------------------------------------------------ transfers of many blocks
 *
 * Many blocks for one rank, or from it: the blocks of a key-value cache, the slices of a tensor. A list of pieces is prepared once, and
 * posted as often as the blocks are to be moved:
 *
 *     collet_transfer_prepare(COLLET_TRANSFER_PUT, local, remote, npieces, peer, comm, &transfer);
 *     collet_transfer_post(transfer, "layer 7", 8, stream);                 the owner: collet_note_wait(peer, note, &bytes, comm)
 *     … compute …   collet_transfer_test(transfer)
 *     collet_transfer_wait(transfer);                                       posted again, or
 *     collet_transfer_release(transfer);
 *
 * Hundreds may be under way. Those for one rank take turns, so a small one does not wait for a large one; so nothing is promised about
 * the order of two of them. On a communicator of GPUs one kernel moves all pieces. It begins when the earlier work of `stream` is done, and
 * later work of the stream waits for it; transfers in several streams move side by side. On host memory `stream` is NULL.
 * docs/transfers.md says when they are better than a collective, and what makes them slow. */

enum collet_transfer_kind {
    COLLET_TRANSFER_PUT = 0, /* from this rank's memory into the peer's windows */
    COLLET_TRANSFER_GET = 1  /* from the peer's windows into this rank's memory */
};

/* A piece in this rank's memory: any host memory; on GPUs, memory of the rank's GPU, or of the host if GPUs may use it. */
struct collet_local_piece {
    void *buff;
    size_t bytes;
};

/* A piece of the peer's buffer in a window, from byte `offset` of the buffer on. */
struct collet_remote_piece {
    struct collet_window *window;
    size_t offset, bytes;
};

struct collet_transfer;
#define COLLET_NOTE_BYTES 64 /* longest note */

/* collet_transfer_prepare: makes a transfer of npieces pieces between this rank and rank peer. local[k] and remote[k] are the two ends of
 * piece k, of the same length. Both lists are the caller's again when it returns; the memory that they name must stay until the transfer is
 * released. Pieces that touch at both ends are merged, so a caller need not. The windows cannot be deregistered before the release.
 * Does not block, and no other rank need call. A transfer ends with collet_transfer_release(), or with comm. Errors: INVALID_ARGUMENT
 * (names the argument, or the number of the piece: its window is none of comm's, its ends differ in length, it lies outside of the window,
 * it overlaps another one where both are to go; GPUs may not use its memory), INVALID_USAGE (comm has no window), UNSUPPORTED (this
 * rank's GPU does not reach the peer's), NO_MEMORY, and as collectives for comm. On a failure there is no transfer. */
COLLET_API enum collet_result collet_transfer_prepare(enum collet_transfer_kind kind,
                                                      const struct collet_local_piece *local,
                                                      const struct collet_remote_piece *remote, size_t npieces,
                                                      int peer, struct collet_comm *comm,
                                                      struct collet_transfer **transfer);

/* collet_transfer_post: begins to move the pieces. note_bytes bytes of note (0 … COLLET_NOTE_BYTES; NULL: there is no note) are handed to
 * rank peer when all pieces have been moved. Until the transfer is done, nobody may change what it reads, or touch what it writes.
 * Does not block for other ranks; where they share memory it copies a part itself. The thread collet-rma and calls on windows go on with
 * it. One thread at a time may use a transfer. Errors: INVALID_ARGUMENT (names the argument), INVALID_USAGE (it is under way, or stream is
 * in a capture), UNSUPPORTED (no transport reaches peer), NO_MEMORY, and as collectives for comm. */
COLLET_API enum collet_result collet_transfer_post(struct collet_transfer *transfer, const void *note,
                                                   size_t note_bytes, void *stream);

/* collet_transfer_test: is the transfer done? SUCCESS: it is. What was put is in the peer's windows then, and what was got is here.
 * IN_PROGRESS: not yet; the call has moved it on. Does not block. Errors: INVALID_ARGUMENT, INVALID_USAGE (it is not posted); REMOTE (peer
 * is gone) and failures of comm end the communicator, as those of collectives do. */
COLLET_API enum collet_result collet_transfer_test(struct collet_transfer *transfer);

/* collet_transfer_wait: blocks until the transfer is done. Errors: as collet_transfer_test(), and on host memory TIMEOUT: on GPUs the earlier
 * work of the stream may take as long as it likes. */
COLLET_API enum collet_result collet_transfer_wait(struct collet_transfer *transfer);

/* collet_transfer_release: ends a transfer that is done, or was never posted, or whose communicator has failed. NULL is a success. Does not
 * block, but for less than a second if comm has failed while a GPU moves the pieces. Errors: INVALID_USAGE (it is under way),
 * INVALID_ARGUMENT (comm has ended, and the transfer with it). */
COLLET_API enum collet_result collet_transfer_release(struct collet_transfer *transfer);

/* collet_note_wait: blocks until a transfer of rank peer has left a note here, and takes the oldest one. What that transfer put is in the
 * windows then. note has room for COLLET_NOTE_BYTES bytes; *note_bytes says how many came. One thread at a time may wait for notes of one
 * peer. Errors: as collet_wait_signal(). */
COLLET_API enum collet_result collet_note_wait(int peer, void *note, size_t *note_bytes, struct collet_comm *comm);

/* collet_note_test: takes the oldest note of rank peer if one has come, as collet_note_wait() does. IN_PROGRESS: none has. Does not block. */
COLLET_API enum collet_result collet_note_test(int peer, void *note, size_t *note_bytes, struct collet_comm *comm);

/* ------------------------------------------------------------------------------------------------ operators of your own
 *
 * A pre-multiplied sum multiplies each element of this rank's sendbuff by a scalar, rounds the product to the type, and
 * then sums over ranks. Each rank has its own scalar. If only some ranks of a call use such an operator, the call is a MISMATCH. */

enum collet_residence {
    COLLET_SCALAR_DEVICE = 0, /* the scalar is read when a call runs; on GPUs the GPU reads it */
    COLLET_SCALAR_HOST = 1    /* the scalar is read by collet_op_create_premul_sum() itself */
};

/* collet_op_create_premul_sum: writes an operator to *op. Only calls on comm with this type may use the operator.
 *   scalar     address of one element of type; with COLLET_SCALAR_DEVICE the element must stay until the calls are done
 *   residence  says when the scalar is read
 * The caller owns *op and ends it with collet_op_destroy(); the end of comm ends it too. Does not block or communicate.
 * Errors: INVALID_ARGUMENT (names the argument), NO_MEMORY, and as collectives for comm. */
COLLET_API enum collet_result collet_op_create_premul_sum(enum collet_op *op, const void *scalar, enum collet_type type,
                                                          enum collet_residence residence, struct collet_comm *comm);

/* collet_op_destroy: ends an operator. Calls that were issued with it before, also in an open group, still use it.
 * Errors: INVALID_ARGUMENT (comm is no communicator; op was not created on comm, or is destroyed). */
COLLET_API enum collet_result collet_op_destroy(enum collet_op op, struct collet_comm *comm);

/* ------------------------------------------------------------------------------------------------------ point to point
 *
 * Messages from one rank to another. collet_send() on rank a with peer b matches collet_recv() on rank b with peer a. Messages
 * from one rank to another match in the order of issue. The buffer holds count elements. Both ends must pass the same number
 * of bytes; their types may differ. count == 0 is a real message and must be received.
 * Outside a group, a send blocks until sendbuff may be reused, and a receive until the message is in recvbuff. So if two ranks
 * both send to each other first, they may wait for each other forever: put the send and the receive into one group, where all
 * messages make progress together, in any order. A message to oneself needs its receive in the same group. stream and errors
 * are as for collectives; MISMATCH: byte counts differ. */
COLLET_API enum collet_result collet_send(const void *sendbuff, size_t count, enum collet_type type, int peer,
                                          struct collet_comm *comm, void *stream);
COLLET_API enum collet_result collet_recv(void *recvbuff, size_t count, enum collet_type type, int peer,
                                          struct collet_comm *comm, void *stream);

/* collet_probe: waits until a message has begun to come from some other rank, and writes that rank to *peer. Ranks from which a
 * receive is in progress do not count. The message stays: collet_recv() from that rank takes it. If several ranks have sent,
 * calls find them in turns. On a stream, *peer must stay valid until the call is done. For communicators of host memory; on
 * GPUs it returns UNSUPPORTED.
 * Errors also: INVALID_ARGUMENT (peer is NULL), INVALID_USAGE (the communicator has one rank). */
COLLET_API enum collet_result collet_probe(int *peer, struct collet_comm *comm, void *stream);

/* -------------------------------------------------------------------------------------------------------------- groups
 *
 * Calls between collet_group_start() and collet_group_end() of one thread are collected; the outermost end runs them
 * together. A group may mix calls and communicators. Collectives of one communicator run in the order of issue; sends and
 * receives run at the same time. Groups nest. A call with a bad argument returns its error at once; then the end returns the
 * same error, and no call of the group runs. An empty group is a success.
 * collet_group_end() blocks until all calls of the group that have no stream are done. Errors: INVALID_USAGE (no group is
 * open); otherwise those of the calls in the group. */
COLLET_API enum collet_result collet_group_start(void);
COLLET_API enum collet_result collet_group_end(void);

/* ----------------------------------------------------------------------------------------------- host streams and work
 *
 * A host stream is a queue of calls. The calls may be on any number of communicators of host memory. A call with a host
 * stream returns at once, and so does the end of a group of such calls. The call is done later, by a thread that waits for
 * it, or by a thread of collet: each communicator gets one with its first such call. Calls on one stream are done in the order
 * of issue, but the calls of one group together. Calls on different streams, and calls without a stream, wait for each other
 * only as the rule "Order" above says. A message to oneself has streams at both ends or at none.
 *   Memory    Until the call is done, do not write to its buffers, and do not read recvbuff.
 *   Errors    If arguments are wrong, the call returns the error at once. A later failure makes the call's communicator fail,
 *             as always. Threads that wait learn of it: collet_wait() and similar functions return the first failure among
 *             the calls they wait for. Later calls on the stream are still done, if their communicators have not failed.
 *   Ends      collet_comm_finalize() and collet_comm_destroy() first wait for the calls on the communicator;
 *             collet_comm_abort() fails them.
 * In a child of fork(), a stream of the parent is INVALID_USAGE; destroying it there does nothing. */
struct collet_stream;

/* collet_stream_create: writes a new, empty host stream to *stream. It is cheap: a stream has no thread. The caller owns
 * it and ends it with collet_stream_destroy(). Errors: INVALID_ARGUMENT (stream is NULL), NO_MEMORY. */
COLLET_API enum collet_result collet_stream_create(struct collet_stream **stream);

/* collet_stream_synchronize: waits until all calls issued on stream so far are done. collet_stream_query() does not wait: it
 * returns COLLET_IN_PROGRESS if some of these calls are not done. Both return the first failure of these calls, in every
 * thread that asks. Errors also: INVALID_ARGUMENT (no host stream); collet_stream_synchronize(): INVALID_USAGE (calls on stream
 * wait in the open group of the calling thread). */
COLLET_API enum collet_result collet_stream_synchronize(struct collet_stream *stream);
COLLET_API enum collet_result collet_stream_query(struct collet_stream *stream);

/* collet_stream_destroy: waits until all calls on stream are done, whether they fail or not, and frees the stream. NULL is a
 * success. To end it at once, abort the communicators first. Errors as for collet_stream_synchronize(), except failures of
 * calls. */
COLLET_API enum collet_result collet_stream_destroy(struct collet_stream *stream);

/* A work handle stands for all calls that were issued on a stream before collet_stream_record(). It is a value: copy it, drop
 * it, use it in any thread and as often as you like while the stream exists. */
struct collet_work {
    struct collet_stream *stream;
    uint64_t ticket;
};

/* collet_stream_record: writes to *work a handle of all calls issued on stream so far.
 * Errors: INVALID_ARGUMENT (no host stream, or work is NULL). */
COLLET_API enum collet_result collet_stream_record(struct collet_stream *stream, struct collet_work *work);

/* collet_test: writes 1 to *done if all calls of the work are done, else 0, and does not wait. collet_wait() waits until they
 * are done. Both return the first failure among the calls of the work; then collet_test() has written 1.
 * Errors also: INVALID_ARGUMENT (work is of no host stream, or done is NULL); collet_wait(): INVALID_USAGE as for
 * collet_stream_synchronize(). */
COLLET_API enum collet_result collet_test(struct collet_work work, int *done);
COLLET_API enum collet_result collet_wait(struct collet_work work);

/* collet_wait_for: waits until the work is done, but at most timeout_ms milliseconds. If time is up, it returns
 * COLLET_IN_PROGRESS, and the work goes on: wait again, or end the calls with collet_comm_abort(). Other results as
 * collet_wait(). Errors also: INVALID_ARGUMENT (timeout_ms < 0). */
COLLET_API enum collet_result collet_wait_for(struct collet_work work, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
