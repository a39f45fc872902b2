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
 *             communicator, a call waits for those that the rule "Order" below puts before it, and for no other.
 *             collet_comm_abort(), _revoke(), _get_async_error() and _dump() wait for no call.
 *   Blocking  Functions return at once, but for those that create communicators or wait, and collectives and messages. A
 *             collective outside a group returns when its buffers may be reused; on a host stream it returns at once.
 *             Every wait ends: a dead rank, a timeout or an abort ends it with an error on every rank.
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
    COLLET_IN_PROGRESS = 1,           /* a non-blocking communicator is still at work: ask again */
    COLLET_ERR_INVALID_ARGUMENT = -1, /* an argument is wrong in itself; the text names it */
    COLLET_ERR_INVALID_USAGE = -2,    /* the call is wrong here and now: destroyed communicator, unbalanced group … */
    COLLET_ERR_SYSTEM = -3,           /* the operating system refused something; the text has its reason */
    COLLET_ERR_NO_MEMORY = -4,        /* there is not enough memory */
    COLLET_ERR_REMOTE = -5,           /* another rank died, left or failed; the text names it */
    COLLET_ERR_TIMEOUT = -6,          /* a wait passed its limit; the text names the ranks it waited for */
    COLLET_ERR_ABORTED = -7,          /* collet_comm_abort() or _revoke() was called here or on another rank */
    COLLET_ERR_MISMATCH = -8,         /* ranks made different calls; the text has both */
    COLLET_ERR_UNSUPPORTED = -9,      /* not in this build or on this device */
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

/* Reductions. Every rank gets the same bits for the same call, whatever the order of arrival. Integers wrap at their
 * width. Floats of 8 and 16 bits are accumulated in float32 inside one step and rounded to nearest even between steps.
 * What is too large for a float of 16 bits becomes infinity. For one of 8 bits it becomes the largest finite number,
 * and so does infinity itself.
 * AVG is the sum divided by the number of ranks; for integers, the wrapped sum is divided toward zero, as C does it. For
 * floats of 16 and 8 bits with 4 or 5 bits of exponent, elements are first multiplied by a power of two that is about
 * 1/nranks: then no partial sum of finite numbers overflows, and what is very small loses bits.
 * SUM, PROD and AVG with a NaN are NaN. MIN and MAX leave NaNs out: they are NaN only where all ranks have one; −0 is
 * below +0. Of a NaN's bits nothing else is promised. */
enum collet_op {
    COLLET_SUM = 0,
    COLLET_PROD = 1,
    COLLET_MIN = 2,
    COLLET_MAX = 3,
    COLLET_AVG = 4,
    COLLET_BAND = 5, /* bitwise and, of integers */
    COLLET_BOR = 6,  /* bitwise or, of integers */
    COLLET_BXOR = 7, /* bitwise exclusive or, of integers */
    /* The kind of operators from collet_op_create_premul_sum(). It is no operator by itself. */
    COLLET_PREMULSUM = 8,
    COLLET_OP_COUNT = 9,
    COLLET_OP_LAST = 0x7fffffff /* operators that are created have numbers from COLLET_OP_COUNT to this one */
};

/* collet_type_size: bytes of one element of type; 0 if type is none of the above. */
COLLET_API size_t collet_type_size(enum collet_type type);

/* -------------------------------------------------------------------------------------------------------------- life */

/* A unique id is for one communicator that is about to be created. It holds the place where the ranks meet and a secret
 * that they prove to each other. Copy its bytes to every rank (MPI_Bcast, a file, a store) over a channel that you
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
#define COLLET_TRANSPORT_IPC 16u    /* GPUs of one host: memory of the one, written by the other */
#define COLLET_TRANSPORT_PLUGIN 32u /* what COLLET_NET_PLUGIN names */

/* collet_transport_bit: the bit of a transport by its name, as COLLET_TRANSPORT has it ("tcp"; case does not matter), also
 * of transports that have no constant above. 0: this library has none of that name. collet-info lists all names. Does not
 * block; any thread. */
COLLET_API unsigned collet_transport_bit(const char *name);

/* collet_config: options of a communicator. Set size = sizeof(struct collet_config), leave the rest zero for defaults;
 * a program compiled against an older, shorter struct stays valid. The environment (COLLET_*) overrides defaults, and
 * fields set here override the environment. All ranks get rank 0's value of what they must agree on. */
struct collet_config {
    size_t size;      /* bytes of the caller's struct; required */
    int nonblocking;  /* 1: init returns COLLET_IN_PROGRESS, then poll collet_comm_get_async_error() */
    int min_channels; /* bounds on the channels of one call; 0: collet chooses */
    int max_channels;
    /* COLLET_DEVICE_HOST (the default), COLLET_DEVICE_CUDA(i) or COLLET_DEVICE_CUDA_CURRENT. All ranks are on GPUs or
     * none is. UNSUPPORTED: there is no such GPU, no driver, or the build has no CUDA. */
    int device;
    int timeout_ms;      /* longest time without progress inside a call; 0: COLLET_TIMEOUT, by default 30 minutes */
    unsigned transports; /* allowed transports, bits of transports; 0: all */
    const char *name;    /* shown in logs and dumps; its first 31 bytes are copied */
    int init_timeout_ms; /* longest wait for all ranks at init, in whole seconds; 0: COLLET_INIT_TIMEOUT, 10 minutes */
    /* On GPUs, "zero": copy engines do what they can of calls into windows; "default", "efficiency": kernels do. NULL: as
     * COLLET_CTA_POLICY says. Rank 0's counts. */
    const char *cta_policy;
};

/* collet_comm_init_rank: creates rank `rank` of a communicator of `nranks` ranks that share `id`.
 * Collective: every rank calls it, with the same nranks and id and its own rank. Blocks until all ranks have come.
 * After 30 s it warns and names the missing ranks; after COLLET_INIT_TIMEOUT (10 minutes) it fails. Inside a group
 * collet_group_end() does the work, so one thread may create several ranks; *comm is set at once but usable only after
 * it. On failure *comm is NULL. The caller owns *comm and ends it with collet_comm_destroy() or collet_comm_abort().
 * Errors: INVALID_ARGUMENT (comm is NULL, nranks outside 1 … 2^20, rank outside 0 … nranks−1, id is not one of collet, two
 * ranks with one number, nranks differs among ranks), INVALID_USAGE (an environment variable that cannot be obeyed), TIMEOUT,
 * REMOTE, SYSTEM, NO_MEMORY. */
COLLET_API enum collet_result collet_comm_init_rank(struct collet_comm **comm, int nranks, struct collet_unique_id id,
                                                    int rank);

/* collet_comm_init_rank_config: creates a rank as collet_comm_init_rank() does, with options. config may be NULL.
 * With config->nonblocking it returns COLLET_IN_PROGRESS and a valid *comm. Then call collet_comm_get_async_error() until it
 * no longer gives COLLET_IN_PROGRESS; until then, only abort and destroy may be called besides.
 * Further errors: INVALID_ARGUMENT (names a field of config), UNSUPPORTED (config->device). */
COLLET_API enum collet_result collet_comm_init_rank_config(struct collet_comm **comm, int nranks,
                                                           struct collet_unique_id id, int rank,
                                                           const struct collet_config *config);

/* collet_comm_init_rank_scalable: creates a rank of a job that has several ids, in the same order on all ranks.
 *   ids  nids ids, 1 … nranks. All ranks meet at the first one, as they do with one id. The others are cancelled.
 * Further errors: INVALID_ARGUMENT (ids is NULL, nids is out of range, one of ids is not of collet). */
COLLET_API enum collet_result collet_comm_init_rank_scalable(struct collet_comm **comm, int nranks, int rank, int nids,
                                                             const struct collet_unique_id *ids,
                                                             const struct collet_config *config);

/* collet_comm_init_all: creates a communicator whose ranks all live in this process; comms[i] becomes rank i.
 *   comms    array of nranks handles, written on success, all NULL on failure
 *   devices  array of nranks devices, or NULL for COLLET_DEVICE_HOST everywhere
 * Needs no id, opens no socket, starts no thread. Then either one thread drives all ranks: it calls each collective on
 * every comm between collet_group_start() and collet_group_end(). Or each rank has a thread, without groups.
 * Errors: INVALID_ARGUMENT (comms is NULL, nranks outside 1 … 2^20, no such device), INVALID_USAGE, UNSUPPORTED, NO_MEMORY. */
COLLET_API enum collet_result collet_comm_init_all(struct collet_comm **comms, int nranks, const int *devices);

/* collet_comm_init_from_env: creates this process's rank of the job that a launcher describes in the environment.
 *   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun and friends), or
 *   OMPI_COMM_WORLD_*, PMI_*, SLURM_* for rank and size. The ranks then meet at COLLET_COMM_ID or MASTER_ADDR. Without
 *   these, ranks that share one host meet by the launcher's job id; others meet through the launcher (PMI-1, PMIx).
 * With none of these set it makes a communicator of one rank. config may be NULL. Blocks and fails like
 * collet_comm_init_rank(); INVALID_USAGE names the variable that is missing or contradicts another. */
COLLET_API enum collet_result collet_comm_init_from_env(struct collet_comm **comm, const struct collet_config *config);

/* ------------------------------------------------------------------------------- communicators made of another one
 *
 * What the three calls below have in common. comm is the parent. The ranks agree through the parent; then the new
 * communicator has its own connections, keys, configuration and failures. It lives on after the parent is destroyed, and
 * collectives on the two may run at the same time.
 *   Collective  Every rank that takes part calls the same function. Calls of collectives and of these functions on one
 *               communicator are made in the same order on all ranks. Calls on streams may be in progress.
 *   Blocking    The call returns when the new communicator is ready. Inside a group collet_group_end() does the work, so
 *               one thread may call it for several ranks, and *newcomm is NULL until then. If comm was made with
 *               config.nonblocking, the call returns COLLET_IN_PROGRESS and begins at once. Then call
 *               collet_comm_get_async_error(comm) until it no longer gives COLLET_IN_PROGRESS. It gives a failure
 *               once. *newcomm is NULL until the new communicator is ready, and must stay valid so long.
 *   config      Options of the new communicator. NULL: those of comm, its name included. The new communicator is on
 *               the device of comm; config->device is that or 0.
 *   Errors      INVALID_ARGUMENT (names the argument), MISMATCH (a rank calls something else), TIMEOUT (a rank has not
 *               called within COLLET_INIT_TIMEOUT), REMOTE, ABORTED, SYSTEM, NO_MEMORY, and as collectives for a
 *               communicator that cannot be used. *newcomm is NULL then. A failure of split and grow before the
 *               ranks have agreed fails comm too. The caller owns *newcomm. */

#define COLLET_SPLIT_NOCOLOR (-1) /* a colour of collet_comm_split() */
/* collet_comm_split: makes one communicator per colour, of the ranks that pass it. Their order in it is that of `key`;
 * equal keys keep the order of their ranks in comm. Every rank of comm calls it.
 *   color    0 or more; or COLLET_SPLIT_NOCOLOR: this rank is in none, and *newcomm is NULL on success
 *   key      any int */
COLLET_API enum collet_result collet_comm_split(struct collet_comm *comm, int color, int key,
                                                struct collet_comm **newcomm, const struct collet_config *config);

/* collet_comm_shrink: makes a communicator of comm's ranks without some, in the same order: without those that have died
 * or left, which the survivors find out together, and without those in exclude_ranks. All others call it, with the same
 * ranks to exclude; the excluded ranks do not call it. Inside a group, at most one of the same ranks.
 *   exclude_ranks  count different ranks of comm, in any order, without the caller's; NULL if count is 0
 * It works on a communicator that has failed or was revoked, and a failure of it does not fail comm. What it promises:
 *   - All survivors get the same: a communicator of the same ranks, or an error. A rank that dies during the call is left
 *     out, or all get an error; which rank it is does not matter.
 *   - A process that is stopped, or cut off, for COLLET_HEARTBEAT_TIMEOUT counts as dead for all others, those of its host
 *     too, and is left out. If it goes on later, its calls on comm and its shrink return COLLET_ERR_REMOTE. Two exceptions:
 *     if all ranks of comm are on one host, or COLLET_HEARTBEAT_TIMEOUT is 0, a process that is stopped lives. Then all
 *     others get COLLET_ERR_TIMEOUT.
 *   - It ends. A death is waited for as long as it takes to notice (COLLET_HEARTBEAT_TIMEOUT for a process or a host that
 *     falls silent), a rank that lives and does not call, as long as COLLET_INIT_TIMEOUT.
 *   - A rank that dies when the call has returned somewhere is dead in the new communicator: shrink that one then.
 *   - Ranks that live but have lost each other (the network between their hosts is broken) count each other as dead. Each
 *     part makes a communicator of its own. A program that must not go on twice compares the count of ranks with that of
 *     comm, and goes on with more than half.
 * Beside the errors above: a rank that left comm while the others asked who lives may get a communicator that has failed. */
COLLET_API enum collet_result collet_comm_shrink(struct collet_comm *comm, const int *exclude_ranks, int count,
                                                 struct collet_comm **newcomm, const struct collet_config *config);

/* collet_comm_grow: makes a communicator of comm's ranks, which keep their numbers, and of new ranks. Every rank of comm
 * calls it. Each new rank calls collet_comm_init_rank_config() with nranks, the id, and a rank that comm does not have.
 *   nranks  of the new communicator: more than comm has; equal on all ranks
 *   id      made by collet_get_unique_id() for this. NULL on those ranks of comm that do not have it; at least one has
 *           it (of several, the lowest rank's is used) */
COLLET_API enum collet_result collet_comm_grow(struct collet_comm *comm, int nranks, const struct collet_unique_id *id,
                                               struct collet_comm **newcomm, const struct collet_config *config);

/* ------------------------------------------------------------------- the end of a communicator, and questions to it */

/* collet_comm_finalize: waits for calls of other threads on comm; no more calls may follow. comm == NULL is a success.
 * The handle stays valid for getters and collet_comm_destroy().
 * Errors: INVALID_ARGUMENT (no communicator), INVALID_USAGE (the second call, comm is still being created, or calls on
 * comm wait in the open group of the calling thread). */
COLLET_API enum collet_result collet_comm_finalize(struct collet_comm *comm);

/* collet_comm_destroy: finalizes comm if that was not done, tells the other ranks goodbye, and frees comm. NULL is a
 * success. It is not a barrier: it does not wait until other ranks call it. The handle is invalid afterwards; collet
 * notices most later uses. Errors: INVALID_ARGUMENT (no communicator), INVALID_USAGE (calls on comm wait in the open
 * group of the calling thread; comm then stays as it was). */
COLLET_API enum collet_result collet_comm_destroy(struct collet_comm *comm);

/* collet_comm_abort: ends comm at once and frees it. Calls in progress on it return COLLET_ERR_ABORTED in any thread of
 * this process, and ABORTED or REMOTE on other ranks. If calls on comm wait in the open group of the calling thread,
 * nothing of that group runs. NULL is a success. Always returns, within 2 s: if a call or a GPU has not stopped by then, the memory that
 * it uses is kept.
 * Errors: INVALID_ARGUMENT (no communicator). */
COLLET_API enum collet_result collet_comm_abort(struct collet_comm *comm);

/* collet_comm_revoke: stops comm on all ranks, and keeps it. Calls in progress end soon on every rank, and later ones at
 * once, with COLLET_ERR_ABORTED and a text that names the rank that called this, and the error that it had seen on comm
 * before. If comm has failed already, nothing changes. Afterwards comm is good for collet_comm_shrink(), getters, _dump(),
 * and collet_comm_destroy() or _abort(). A rank that sees an error on comm calls this, so that ranks which wait for
 * others than the dead one end too; then all survivors shrink.
 * Returns at once, in whatever state comm is; while comm is being created, its creation fails on all ranks.
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
 * flight, and the rank that it waits for. It is meant for debuggers and hung programs. Another thread may call it while
 * a call is in progress; what it prints may then be a moment old. It waits until fd takes the text. An abort
 * or a destroy of comm does not wait for that.
 * Errors: INVALID_ARGUMENT (no communicator, or fd is negative), NO_MEMORY, SYSTEM (fd cannot be written). */
COLLET_API enum collet_result collet_comm_dump(const struct collet_comm *comm, int fd);

/* collet_comm_plan: writes to text how a collective would be run, without running it: for example
 * "ring, Simple, 1 channel(s), chunk 131072 bytes, predicted 230.00 us". The prediction is the cost model's. All ranks
 * get the same answer, and no rank needs to ask.
 *   collective  the name of a collective below, without "collet_": "allreduce"
 *   count       its count argument, in elements of type
 *   text, size  the caller's buffer and its bytes; a longer text is cut, and always ends with '\0'
 * Waits for a call of another thread on comm. Does not communicate. Errors: INVALID_ARGUMENT (names the argument),
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
 *              differ. So are messages of one pair of ranks and direction. All else may be done at the same time: a
 *              message does not wait for a collective. (On GPUs, all calls on one communicator are done in order.)
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
 * sendbuff: nranks·recvcount elements; recvbuff: recvcount. In place: recvbuff == sendbuff + rank·recvcount; collet
 * does not change the rest of sendbuff then. */
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
 * touched on the root only; elsewhere it may be NULL. In place on the root: sendbuff == recvbuff. */
COLLET_API enum collet_result collet_reduce(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,
                                            enum collet_op op, int root, struct collet_comm *comm, void *stream);

/* collet_gather: recvbuff[r·sendcount + i] = sendbuff[i] of rank r, on rank root. sendbuff: sendcount elements on every
 * rank; recvbuff: nranks·sendcount on the root. It is touched on the root only; elsewhere it may be NULL. In place on the
 * root: sendbuff == recvbuff + root·sendcount. */
COLLET_API enum collet_result collet_gather(const void *sendbuff, void *recvbuff, size_t sendcount,
                                            enum collet_type type, int root, struct collet_comm *comm, void *stream);

/* collet_scatter: recvbuff[i] on rank r = sendbuff[r·recvcount + i] of rank root. sendbuff: nranks·recvcount elements on
 * the root. It is read on the root only; elsewhere it may be NULL. recvbuff: recvcount elements on every rank. In place on
 * the root: recvbuff == sendbuff + root·recvcount. */
COLLET_API enum collet_result collet_scatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                             enum collet_type type, int root, struct collet_comm *comm, void *stream);

/* collet_barrier: done on no rank before every rank has called it. It moves no data. On GPUs it holds back what follows in
 * the stream. */
COLLET_API enum collet_result collet_barrier(struct collet_comm *comm, void *stream);

/* Blocks of different lengths
 *
 * recvcounts, sendcounts and displacements are arrays of nranks numbers of elements, one per rank. The arrays are the
 * caller's, and are read before the call returns. Blocks of a buffer begin at its displacements; NULL means that they lie
 * one behind another, in the order of ranks. Blocks that are received must not overlap. A count may be 0. These calls are
 * for communicators of host memory; on GPUs they return UNSUPPORTED. */

/* collet_allgatherv: recvbuff[displs[r] + i] = sendbuff[i] of rank r, i in 0 … recvcounts[r]−1, on every rank. All ranks
 * pass the same recvcounts; displs may differ. sendcount is recvcounts[rank], otherwise INVALID_ARGUMENT.
 * In place: sendbuff == recvbuff + displs[rank]. */
COLLET_API enum collet_result collet_allgatherv(const void *sendbuff, size_t sendcount, void *recvbuff,
                                                const size_t *recvcounts, const size_t *displs, enum collet_type type,
                                                struct collet_comm *comm, void *stream);

/* collet_reducescatterv: recvbuff[i] on rank r = op over ranks of sendbuff[d + i], i in 0 … recvcounts[r]−1, where d is the
 * sum of recvcounts[0 … r−1]. All ranks pass the same recvcounts.
 * In place: recvbuff == sendbuff + d; collet does not change the rest of sendbuff then. */
COLLET_API enum collet_result collet_reducescatterv(const void *sendbuff, void *recvbuff, const size_t *recvcounts,
                                                    enum collet_type type, enum collet_op op, struct collet_comm *comm,
                                                    void *stream);

/* collet_alltoallv: recvbuff[rdispls[s] + i] on rank r = sendbuff[sdispls[r] + i] of rank s, i in 0 … sendcounts[r]−1 of
 * rank s. sendcounts[r] of rank s must be recvcounts[s] of rank r; otherwise the call fails on both ranks with MISMATCH,
 * and the text has both numbers. Other ranks need not know them. There is no in-place form. */
COLLET_API enum collet_result collet_alltoallv(const void *sendbuff, const size_t *sendcounts, const size_t *sdispls,
                                               void *recvbuff, const size_t *recvcounts, const size_t *rdispls,
                                               enum collet_type type, struct collet_comm *comm, void *stream);

/* -------------------------------------------------------------------------------------------------------------- memory
 *
 * Buffers of calls may be any memory. Nothing needs what follows. Between processes of one host, calls are faster with buffers of
 * collet_mem_alloc(): other ranks read and write them where they are. On GPUs that NVLink joins, ranks read them so, too: in one
 * process at once, in several if they lie in a window (see below). */

/* collet_mem_alloc: writes the address of `bytes` zeroed bytes to *memory.
 *   device  COLLET_DEVICE_HOST, COLLET_DEVICE_CUDA(i) or COLLET_DEVICE_CUDA_CURRENT
 * Host memory begins with a page. From 2 MiB on it begins with a huge page and Linux is asked for more of them. Every page
 * is touched, so the memory lies near the CPU of the calling thread. The caller owns it and ends it with
 * collet_mem_free(). May wait for work on the GPU.
 * Host memory is taken in pieces of 64 KiB, and each takes system calls. So for small buffers, let an allocator of yours cut up a large
 * piece: calls find any part of it where it is, at any address.
 * Memory of a GPU takes whole pages of 2 MiB there, so that other processes can attach it; where the driver refuses such memory, it
 * is plain memory, which windows do not share.
 * Other processes of the host that have a communicator with this one may map host memory of this call (a memfd; same user).
 * A child of fork() gets its own copy of a page when it writes to it; until then it sees what the parent writes there. Huge
 * pages need that Linux gives them to shared memory, too (/sys/kernel/mm/transparent_hugepage/shmem_enabled).
 * Errors: INVALID_ARGUMENT (memory is NULL, bytes is 0, no such device), UNSUPPORTED (there is no GPU, no driver, or the
 * build has no CUDA), NO_MEMORY, SYSTEM. */
COLLET_API enum collet_result collet_mem_alloc(void **memory, size_t bytes, int device);

/* collet_mem_free: frees what collet_mem_alloc() has given. No call may use it any more, and no window have it. Host memory: its pages go
 * back to the system at once, also those that other processes have mapped; such a process keeps only addresses, until its
 * last communicator with this process ends. Memory of a GPU goes back at once, unless its window ended with its communicator:
 * then collet may keep it for itself, since another process may still have it open. NULL is a success. May wait for work on the GPU.
 * Errors: INVALID_ARGUMENT (other memory), INVALID_USAGE (a window on GPUs has it; then nothing is freed). */
COLLET_API enum collet_result collet_mem_free(void *memory);

/* collet_comm_register: tells comm of a buffer that calls will use again and again, and that stays where it is. A handle is
 * written to *registration. NICs read and write such a buffer of the host where it is; memory of collet_mem_alloc() needs no registration
 * for that. Between processes of one host it changes nothing: they cannot map other memory than that of collet_mem_alloc(), registered or
 * not. Buffers may overlap, or be registered twice; each registration has its own handle. The caller ends it with
 * collet_comm_deregister(), before it frees the buffer; the end of comm ends it, too. Does not communicate: other ranks need not
 * register theirs. Errors: INVALID_ARGUMENT (buff or registration is NULL, bytes is 0 or too large), NO_MEMORY, and as
 * collectives for comm. */
struct collet_registration;
COLLET_API enum collet_result collet_comm_register(struct collet_comm *comm, const void *buff, size_t bytes,
                                                   struct collet_registration **registration);

/* collet_comm_deregister: ends a registration. No call may use the buffer now. NULL is a success. The buffer itself stays the
 * caller's.
 * Errors: INVALID_ARGUMENT (no communicator, or no registration of it). */
COLLET_API enum collet_result collet_comm_deregister(struct collet_comm *comm,
                                                     struct collet_registration *registration);

/* ------------------------------------------------------------------------------------------------------------- windows
 *
 * A window is one buffer per rank that other ranks of the host reach. On GPUs it makes calls faster: see collet_win_register().
 * On host memory, other ranks write into it, without a call of its owner. A rank that has written says so by a signal, and the
 * owner waits for it:
 *
 *     writer      collet_put(data, bytes, peer, window, offset, comm);   collet_signal(peer, window, comm);
 *     owner       collet_wait_signal(writer, 1, window, comm);           the data is in its buffer
 *
 * How does the writer learn that it may write there again? By a signal of the owner. Puts and signals take effect when they
 * return, and need no stream; so they are not part of a group. Any thread may call them, beside other calls of comm. */

/* collet_win_register: makes a window of comm; a collective call. Writes a handle to *window.
 *   buff, bytes  this rank's buffer; it may be as long as the rank likes, and NULL if bytes is 0
 * Another process can write only into memory of collet_mem_alloc(). Ranks of one process reach any memory.
 * The window ends with collet_win_deregister(), or with comm. The buffer stays the caller's; it must stay until then.
 * If comm is on GPUs, the buffer lies in memory that collet_mem_alloc() has given on the rank's GPU. Processes whose GPUs NVLink
 * joins read payloads of later calls of comm in it where they are (docs/gpu.md, "Direct access"), and NVSwitches may make the sums of
 * its allreduces (docs/gpu.md, "Sums by switches"). Puts and signals are UNSUPPORTED.
 * Blocks until all ranks have called; on GPUs also until the rank's work of comm in its streams is done. Inside a group
 * collet_group_end() does it, before the group's calls; so one thread may register windows of several ranks. Those of one comm are made
 * in the order in which they were registered. Then *window is written there, and it returns errors of the other ranks. Errors: INVALID_ARGUMENT (names the argument; on GPUs, on all ranks: the buffer of
 * one of them is other memory), UNSUPPORTED (on GPUs: comm has 63 windows), NO_MEMORY, and as collectives. On a failure there is no
 * window. */
struct collet_window;
COLLET_API enum collet_result collet_win_register(struct collet_comm *comm, void *buff, size_t bytes,
                                                  struct collet_window **window);

/* collet_win_deregister: ends a window; a collective call. When it returns, no rank writes or reads there any more. Signals that
 * were not waited for are lost. On GPUs it waits until the rank's work of comm in its streams is done; a graph that was captured
 * while there was the window must not be replayed after it. NULL is a success, without waiting for others. Errors: INVALID_ARGUMENT (no communicator, or no
 * window of it), INVALID_USAGE (a group is open), and as collectives; the window has ended then, too.
 * On GPUs the buffer may stay the window's until the end of comm, if comm had failed before. */
COLLET_API enum collet_result collet_win_deregister(struct collet_comm *comm, struct collet_window *window);

/* collet_put: copies bytes bytes from sendbuff into the window of rank peer, from byte `offset` of its buffer on. peer may be the
 * calling rank. When it returns, sendbuff is the caller's again. The peer may read the data after a signal (see below); until
 * then neither it nor another rank may touch these bytes.
 * Does not block. Errors: INVALID_ARGUMENT (names the argument; also if the bytes do not fit into the window), UNSUPPORTED
 * (comm is on GPUs, peer is on another host, or its buffer is not of collet_mem_alloc(); the text says which), and as collectives
 * for comm. */
COLLET_API enum collet_result collet_put(const void *sendbuff, size_t bytes, int peer, struct collet_window *window,
                                         size_t offset, struct collet_comm *comm);

/* collet_signal: tells rank peer that the puts which this thread has made into its window are complete. Signals are counted, per
 * window and pair of ranks. Does not block. Errors: as collet_put(). */
COLLET_API enum collet_result collet_signal(int peer, struct collet_window *window, struct collet_comm *comm);

/* collet_wait_signal: blocks until rank peer has signalled count times more than was waited for so far. What peer had put before
 * these signals is then in the buffer. One thread at a time may wait for signals of one peer in a window.
 * Errors: INVALID_ARGUMENT (names the argument); REMOTE (peer is gone), TIMEOUT and failures of comm end the communicator, as
 * those of collectives do. */
COLLET_API enum collet_result collet_wait_signal(int peer, uint64_t count, struct collet_window *window,
                                                 struct collet_comm *comm);

/* ------------------------------------------------------------------------------------------------ operators of your own
 *
 * A pre-multiplied sum multiplies each element of this rank's sendbuff by a scalar, rounds the product to the type, and
 * then sums over ranks. Each rank has its own scalar. All ranks of a call use such an operator, or it is a MISMATCH. */

enum collet_residence {
    COLLET_SCALAR_DEVICE = 0, /* the scalar is read when a call runs, by the communicator's GPU if it has one */
    COLLET_SCALAR_HOST = 1    /* the scalar is read by collet_op_create_premul_sum() itself */
};

/* collet_op_create_premul_sum: writes an operator to *op. It is for one communicator and one type.
 *   scalar     address of one element of type; with COLLET_SCALAR_DEVICE it must stay until the calls are done
 *   residence  says when the scalar is read
 * The caller owns *op and ends it with collet_op_destroy(); the end of comm ends it, too. Does not block or communicate.
 * Errors: INVALID_ARGUMENT (names the argument), NO_MEMORY, and as collectives for comm. */
COLLET_API enum collet_result collet_op_create_premul_sum(enum collet_op *op, const void *scalar, enum collet_type type,
                                                          enum collet_residence residence, struct collet_comm *comm);

/* collet_op_destroy: ends an operator. Calls that were issued with it, also those in an open group, are not affected.
 * Errors: INVALID_ARGUMENT (comm is none, or op was not created on it or is destroyed). */
COLLET_API enum collet_result collet_op_destroy(enum collet_op op, struct collet_comm *comm);

/* ------------------------------------------------------------------------------------------------------ point to point
 *
 * Messages from one rank to another. collet_send on rank a with peer b meets collet_recv on rank b with peer a. Messages of
 * one pair of ranks match in the order of issue. The buffer holds count elements. Byte counts must be equal at both ends;
 * types need not be. count == 0 is a real message and must be received.
 * Outside a group a call blocks until its own part is complete. So two ranks that both send first may wait for each
 * other: put the send and the receive into one group, inside which all messages progress together, in any order. A
 * message to oneself needs its receive in the same group. Stream and errors are as for collectives; MISMATCH: byte
 * counts differ. */
COLLET_API enum collet_result collet_send(const void *sendbuff, size_t count, enum collet_type type, int peer,
                                          struct collet_comm *comm, void *stream);
COLLET_API enum collet_result collet_recv(void *recvbuff, size_t count, enum collet_type type, int peer,
                                          struct collet_comm *comm, void *stream);

/* collet_probe: waits until a message from any other rank has begun to come, of ranks from which no receive is in progress,
 * and writes that rank to *peer. The message stays: collet_recv() from that rank takes it. Ranks take turns. On a stream,
 * *peer must stay valid until the call is done. For communicators of host memory; on GPUs it returns UNSUPPORTED.
 * Errors also: INVALID_ARGUMENT (peer is NULL), INVALID_USAGE (the communicator has one rank). */
COLLET_API enum collet_result collet_probe(int *peer, struct collet_comm *comm, void *stream);

/* -------------------------------------------------------------------------------------------------------------- groups
 *
 * Calls between collet_group_start() and collet_group_end() of one thread are collected; the outermost end runs them
 * together. A group may mix calls and communicators. Collectives of one communicator run in the order of issue, sends
 * and receives beside them. Groups nest. A call with a bad argument returns its error at once; then the end returns the
 * same error and runs nothing of the group. An empty group is a success.
 * collet_group_end blocks until all of the group is done that has no stream. Errors: INVALID_USAGE without a start;
 * otherwise those of the calls in the group. */
COLLET_API enum collet_result collet_group_start(void);
COLLET_API enum collet_result collet_group_end(void);

/* ----------------------------------------------------------------------------------------------- host streams and work
 *
 * A host stream is a queue of calls on communicators of host memory, any number of them. A call whose `stream` is one
 * returns at once, or the group around it does, and is done later: by a thread of collet, which each communicator gets
 * with its first such call, or by a thread that waits. Calls on one stream are done in the order of issue, but those of
 * one group together. Calls on different streams wait for each other only as the rule "Order" above says, and so do calls
 * with stream NULL. A message to oneself has streams at both ends or at none.
 *   Memory    Buffers are collet's until the call is done: do not touch them, but for reading a send buffer.
 *   Errors    What is wrong in itself, the call returns at once. What fails later fails the call's communicator, as always,
 *             and is told by whoever waits: collet_wait() and its kin return the stream's first failure, if a call
 *             before the work's place had it. The calls behind it are still done, if their communicators have not failed.
 *   Ends      collet_comm_finalize() and collet_comm_destroy() first wait for the calls on the communicator;
 *             collet_comm_abort() fails them.
 * In a child of fork(), a stream of the parent is INVALID_USAGE; destroying it there does nothing. */
struct collet_stream;

/* collet_stream_create: writes a new, empty host stream to *stream. It is cheap: a stream has no thread. The caller owns
 * it and ends it with collet_stream_destroy(). Errors: INVALID_ARGUMENT (stream is NULL), NO_MEMORY. */
COLLET_API enum collet_result collet_stream_create(struct collet_stream **stream);

/* collet_stream_synchronize: waits until all calls issued on stream so far are done. collet_stream_query: the same without
 * waiting: COLLET_IN_PROGRESS if they are not done. Both return the first failure of those calls, in every thread that
 * asks. Errors also: INVALID_ARGUMENT (no host stream), INVALID_USAGE (calls on stream wait in the open group of the
 * calling thread). */
COLLET_API enum collet_result collet_stream_synchronize(struct collet_stream *stream);
COLLET_API enum collet_result collet_stream_query(struct collet_stream *stream);

/* collet_stream_destroy: waits until all calls on stream are done, whether they fail or not, and frees it. NULL is a
 * success. To end at once, abort the communicators first. Errors as for collet_stream_synchronize(), but for failures of
 * calls. */
COLLET_API enum collet_result collet_stream_destroy(struct collet_stream *stream);

/* A work handle stands for all calls on a stream up to a moment. It is a value: copy it, drop it, use it in any thread and
 * as often as you like while the stream exists. */
struct collet_work {
    struct collet_stream *stream;
    uint64_t ticket;
};

/* collet_stream_record: writes to *work the handle of all that was issued on stream so far.
 * Errors: INVALID_ARGUMENT (no host stream, or work is NULL). */
COLLET_API enum collet_result collet_stream_record(struct collet_stream *stream, struct collet_work *work);

/* collet_test: writes 1 to *done if the work is done, else 0, at once. collet_wait: waits until it is done. Both return the
 * first failure on the stream, if it was before the work's place; collet_test() then has written 1.
 * Errors also: INVALID_ARGUMENT (work is of no host stream, or done is NULL), INVALID_USAGE as above. */
COLLET_API enum collet_result collet_test(struct collet_work work, int *done);
COLLET_API enum collet_result collet_wait(struct collet_work work);

/* collet_wait_for: waits until the work is done, for timeout_ms at most. Then it returns COLLET_IN_PROGRESS, and the work
 * goes on: wait again, or end it with collet_comm_abort(). Errors also: INVALID_ARGUMENT (timeout_ms < 0). */
COLLET_API enum collet_result collet_wait_for(struct collet_work work, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
