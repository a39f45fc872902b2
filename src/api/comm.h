/* SPDX-License-Identifier: Apache-2.0
 *
 * The communicator handle, and what the rest of the API room asks of it.
 */
#ifndef COLLET_API_COMM_H
#define COLLET_API_COMM_H

#include "api/post.h"
#include "base/call_lock.h"
#include "base/err.h"
#include "boot/process.h"
#include "plan/plan.h"
#include "plan/map.h"

#include <pthread.h>

enum comm_phase { COMM_JOINING, COMM_READY, COMM_FAILED, COMM_FINALIZED };

/* An operator that a program created on a communicator: a COLLET_PREMULSUM with a factor of its own. */
struct created_op {
    struct created_op *next;
    enum collet_op number;
    enum collet_type type;
    uint16_t scaling; /* enum work_scaling */
    uint64_t factor;
};

/* A communicator. Handles are reused but never freed, so a call with a destroyed handle can still look at its magic. */
struct collet_comm {
    /* comm_show() stores the magic after all that a caller reads. comm_discard() clears the magic before anything else. Pairs with
     * comm_is_live(), and with comm_enter(), which first counts itself in `readers` and then reads the magic. */
    uint64_t magic;
    /* The driver holds this lock (engine.h). A thread that had to wait for the lock must then check that comm is still a communicator. */
    struct call_lock lock;
    int readers; /* Number of threads that use the communicator without the lock. comm_discard() waits until it is 0. */
    enum comm_phase phase; /* Stored with release by comm_set_phase(). Threads without the lock load it with acquire. */
    enum collet_result failure; /* COMM_FAILED: the error code. Other phases: SUCCESS. */
    int nranks, rank, device;
    bool nonblocking;
    bool revoked;       /* This rank has called collet_comm_revoke(). */
    int64_t timeout_ms; /* Longest wait without progress in a call: collet_config.timeout_ms, or else COLLET_TIMEOUT. */
    char name[32];
    struct collet_comm **to; /* The variable of the caller that gets the handle once joining has ended. */
    struct split *split;     /* State of the split, shrink or grow that makes this communicator. NULL: none makes it. */
    /* The communicator that is being made from this one, if the program polls for its end; else NULL. The thread that exchanges the
     * pointer for NULL owns that communicator from then on (split.c). */
    struct collet_comm *making;
    uint64_t splits; /* Number of calls that have made communicators from this one. */
    struct config config;
    struct boot *boot;
    struct survey *survey; /* While joining: facts about this rank's machine. NULL: the survey has not begun. */
    struct map *map;
    struct chan *chan;
    uint64_t selftest_deadline_ns; /* While joining: the time at which all ranks must have finished the self-test. */
    struct planner *planner;
    struct gpu_rank *gpu; /* NULL: on host memory, or the GPU is not open yet. comm_is_on_gpu() tells which. */
    struct engine engine;
    struct created_op *ops; /* List of the operators that the program created. process_lock() protects it. */
    struct collet_registration *registrations; /* List of registered buffers (memory.c). */
    struct windows *windows;                   /* All windows (window.c). NULL: no window has been made yet. */
    pthread_mutex_t error_lock;
    char error_text[ERR_TEXT_BYTES];
    struct collet_comm *next_free;
};

/* The magic of a communicator is COMM_MAGIC plus the number of forks that led to the process that made it. A child of fork() has a copy
 * of its parent's communicators. Their magics are too low for the child, so every call finds that they belong to the parent. */
#define COMM_MAGIC 0x636f6c6c65740000ull

/* Is this a communicator? Sets no error. */
static inline bool comm_is_live(const struct collet_comm *comm) {
    return comm != NULL && __atomic_load_n(&comm->magic, __ATOMIC_SEQ_CST) == COMM_MAGIC + process_forks;
}

/* Are the buffers of comm in the memory of a GPU? Works without the lock, and during an abort, which clears comm->gpu. */
static inline bool comm_is_on_gpu(const struct collet_comm *comm) { return comm->device != COLLET_DEVICE_HOST; }

/* Was comm made before a fork(), by a parent of this process? */
static inline bool comm_is_inherited(const struct collet_comm *comm) {
    return __atomic_load_n(&comm->magic, __ATOMIC_ACQUIRE) - COMM_MAGIC < process_forks;
}

/* Is this a communicator? Errors: INVALID_ARGUMENT: comm is NULL, or not a communicator (any more). INVALID_USAGE: it is inherited. */
enum collet_result comm_check(const struct collet_comm *comm);

/* Does comm_check(), and checks that comm is ready for calls. INVALID_USAGE: comm is still joining, or finalized. */
enum collet_result comm_check_phase(const struct collet_comm *comm);

/* Does comm_check_phase(), but fast if comm is ready: every call begins with this check. */
static inline enum collet_result comm_check_usable(const struct collet_comm *comm) {
    bool ready = comm_is_live(comm) && __atomic_load_n(&comm->phase, __ATOMIC_ACQUIRE) == COMM_READY;
    return ready ? COLLET_SUCCESS : comm_check_phase(comm);
}

/* Does comm_check_usable(). If comm has failed, returns the failure. The caller holds comm's lock. */
static inline enum collet_result comm_check_locked(const struct collet_comm *comm) {
    COLLET_TRY(comm_check_usable(comm));
    return boot_check(comm->boot);
}

/* Makes the end of comm wait until comm_leave(), so the caller may use its parts without the lock. False: comm is no communicator. */
bool comm_enter(struct collet_comm *comm);
void comm_leave(struct collet_comm *comm);

void comm_set_phase(struct collet_comm *comm, enum comm_phase phase);

/* An abort waits this long for calls to stop, and then this long for a GPU to stop. If a call or a GPU does not stop, the abort does not
 * free its memory. */
#define COMM_ABORT_WAIT_NS 750000000ull /* Two such waits, the news of the abort, a goodbye and a dump take 2 s. */
_Static_assert(2 * COMM_ABORT_WAIT_NS + 2 * BOOT_TELL_NS <= 1900000000ull, "an abort returns within 2 s");

/* Tells the layers that comm has failed, or that comm gives up joining for lack of memory. */
void comm_tell_failure(struct collet_comm *comm);

/* If result is NO_MEMORY, comm fails with the thread's last error: this rank cannot make its call, and the other ranks would wait for
 * that call. */
void comm_fail_without_memory(struct collet_comm *comm, enum collet_result result);

/* Copies the calling thread's last error text into comm. */
void comm_keep_error(struct collet_comm *comm);

/* If result is a failure, copies the thread's last error text into comm. Returns result. */
static inline enum collet_result comm_remember(struct collet_comm *comm, enum collet_result result) {
    if (result < 0)
        comm_keep_error(comm);
    return result;
}
void comm_error_text(struct collet_comm *comm, char *text, size_t room);

#endif
