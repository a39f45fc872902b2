/* SPDX-License-Identifier: Apache-2.0
 *
 * The communicator handle, and what the rest of the API room asks of it.
 */
#ifndef COLLET_API_COMM_H
#define COLLET_API_COMM_H

#include "api/engine.h"
#include "base/call_lock.h"
#include "base/err.h"
#include "boot/process.h"
#include "plan/plan.h"
#include "plan/map.h"

#include <pthread.h>

enum comm_phase { COMM_JOINING, COMM_READY, COMM_FAILED, COMM_FINALIZED };

/* An operator that a program has created on a communicator: COLLET_PREMULSUM and its factor. */
struct created_op {
    struct created_op *next;
    enum collet_op number;
    enum collet_type type;
    uint16_t scaling; /* enum work_scaling */
    uint64_t factor;
};

/* Handles are never given back to the system, only reused, so that the magic of a destroyed one can be looked at. */
struct collet_comm {
    /* Set with release behind all that a caller reads, and cleared first of all at the end. Pairs with comm_is_valid(), and
     * with comm_enter(), which counts itself in `readers` before it looks. */
    uint64_t magic;
    struct call_lock
        lock;    /* the driver's (engine.h); a thread that has waited for it must look whether comm still is one */
    int readers; /* that look at the rooms below without the lock; the end of comm waits for them */
    enum comm_phase phase;      /* comm_set_phase() releases what it tells of; threads without the lock acquire it */
    enum collet_result failure; /* phase FAILED: its code */
    int nranks, rank, device;
    bool nonblocking;
    bool revoked;       /* by this rank */
    int64_t timeout_ms; /* of collet_config; 0: the configuration's */
    char name[32];
    struct collet_comm **to; /* where its creator wants the handle */
    struct split *split;     /* while it is made of another communicator */
    /* What is made of it, if it is non-blocking and somebody has to poll. The thread that takes it out, in split.c, has it alone. */
    struct collet_comm *making;
    uint64_t splits; /* how many calls have made communicators of it */
    struct config config;
    struct boot *boot;
    struct survey *survey; /* while joining, of the machine; NULL: not begun */
    struct map *map;
    struct chan *chan;
    uint64_t selftest_deadline_ns; /* while joining: when all ranks must have ended it */
    struct planner *planner;
    struct gpu_rank *gpu; /* NULL: on host memory, or not open. comm_is_on_gpu() */
    struct engine engine;
    struct created_op *ops;                    /* with the process's lock */
    struct collet_registration *registrations; /* memory.c */
    struct collet_window *windows;             /* window.c */
    pthread_mutex_t error_lock;
    char error_text[ERR_TEXT_BYTES];
    struct collet_comm *next_shown; /* of those whose metrics this process shows (exporter.h) */
    struct collet_comm *next_free;
};

/* The magic of communicators counts the forks on the way to the process that made them. So a child of fork(), which has
 * only a picture of its parent's communicators, finds that they are not its own by the check that every call makes. */
#define COMM_MAGIC 0x636f6c6c65740000ull
static inline uint64_t comm_magic(void) { return COMM_MAGIC + process_generation(); }

/* Is it a communicator? Silent. */
static inline bool comm_is_live(const struct collet_comm *comm) {
    return comm != NULL && __atomic_load_n(&comm->magic, __ATOMIC_ACQUIRE) == comm_magic();
}

/* Without the lock, also beside an abort, which takes comm->gpu away. */
static inline bool comm_is_on_gpu(const struct collet_comm *comm) { return comm->device != COLLET_DEVICE_HOST; }

/* Was it made before a fork(), by an ancestor of this process? */
static inline bool comm_is_inherited(const struct collet_comm *comm) {
    return __atomic_load_n(&comm->magic, __ATOMIC_ACQUIRE) - COMM_MAGIC < process_generation();
}

/* INVALID_ARGUMENT with a text if comm is NULL or no (longer a) communicator, INVALID_USAGE if it is inherited. */
enum collet_result comm_check(const struct collet_comm *comm);

/* Also that it may be called: INVALID_USAGE while joining or when finalized. */
enum collet_result comm_check_phase(const struct collet_comm *comm);

/* The same; every call begins with it. */
static inline enum collet_result comm_check_usable(const struct collet_comm *comm) {
    bool ready = comm_is_live(comm) && __atomic_load_n(&comm->phase, __ATOMIC_ACQUIRE) == COMM_READY;
    return ready ? COLLET_SUCCESS : comm_check_phase(comm);
}

/* How a call of comm would be run. Waits for a call of another thread. */
enum collet_result comm_choose(struct collet_comm *comm, const struct exec_request *request,
                               struct plan_choice *choice);

/* With its lock held: all of the above, and a failed communicator gives its failure. */
static inline enum collet_result comm_check_locked(const struct collet_comm *comm) {
    COLLET_TRY(comm_check_usable(comm));
    return boot_check(comm->boot);
}

/* Keeps the rooms below comm while the caller looks at them without the lock. False: comm is no communicator. */
bool comm_enter(struct collet_comm *comm);
void comm_leave(struct collet_comm *comm);

/* A communicator that is joining, with nothing but these. No other thread takes the handle for one until comm_show(): so
 * what comes before that is written undisturbed. */
enum collet_result comm_create(int nranks, int rank, struct collet_comm **comm_p);
void comm_show(struct collet_comm *comm);
void comm_set_phase(struct collet_comm *comm, enum comm_phase phase);

/* Begins to join the other ranks, with nranks, rank and configuration set. */
enum collet_result comm_join(struct collet_comm *comm, const struct collet_unique_id *ids, int nids);

/* collet_comm_init_rank_scalable(), of arguments that are right. believed: what says that there are so many ranks. */
enum collet_result comm_init_rank(struct collet_comm **comm_p, int nranks, const struct collet_unique_id *ids, int nids,
                                  int rank, const struct collet_config *config, const char *believed);

/* Moves a rank toward the others as if it were for it alone: without a parent. */
enum collet_result comm_join_alone(struct collet_comm *comm);

/* Moves a joining communicator forward; IN_PROGRESS until it is ready. On failure it is FAILED. */
enum collet_result comm_try_join(struct collet_comm *comm);

/* With its lock, which goes: joining has ended. *comm->to becomes comm, or NULL: it failed and is discarded, or the rank is
 * in no communicator. */
void comm_hand_over(struct collet_comm *comm, enum collet_result result);

/* Discards a communicator that is joining; *comm->to becomes NULL. If there was no memory (result) to go on, the other ranks hear of
 * it, with the thread's last error. */
void comm_give_up(struct collet_comm *comm, enum collet_result result);

/* Blocks until every comms[k] is ready and handed over; on failure gives all of them up. */
enum collet_result comm_join_all(struct collet_comm *const *comms, int ncomms);

/* How long an abort waits for calls that were told to stop, and then for a GPU that was. Who does not stop keeps the memory. */
#define COMM_ABORT_WAIT_NS 750000000ull /* twice, a goodbye and a dump are 2 s */
_Static_assert(2 * COMM_ABORT_WAIT_NS + BOOT_GOODBYE_NS <= 1800000000ull, "an abort returns within 2 s");

/* Carries the calls of comm to their ends and frees it, whatever its state. With its lock held, which goes with it, or
 * where nobody else knows it; NULL is fine. */
void comm_discard(struct collet_comm *comm);

/* Closes all that has been opened for comm, which then could join anew. Where nobody else uses it. */
void comm_close(struct collet_comm *comm);

/* Layers hear that comm has failed, or is given up for want of memory while it joins. */
void comm_tell_failure(struct collet_comm *comm);

/* If a call of comm cannot be made for want of memory (result), comm fails, with the thread's last error: the other ranks make that
 * call, and would wait. */
void comm_fail_without_memory(struct collet_comm *comm, enum collet_result result);

/* Keeps the calling thread's last error text in comm as well. */
void comm_keep_error(struct collet_comm *comm);

/* The same if result is a failure; returns result. */
static inline enum collet_result comm_remember(struct collet_comm *comm, enum collet_result result) {
    if (result < 0)
        comm_keep_error(comm);
    return result;
}
void comm_error_text(struct collet_comm *comm, char *text, size_t room);

#endif
