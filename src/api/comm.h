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

/* An operator that a program created on a communicator: COLLET_PREMULSUM with its factor. */
struct created_op {
    struct created_op *next;
    enum collet_op number;
    enum collet_type type;
    uint16_t scaling; /* enum work_scaling */
    uint64_t factor;
};

/* A communicator. Handles are reused but never freed, so a call with a destroyed handle can still look at its magic. */
struct collet_comm {
    /* Set with release after everything that a caller reads, and cleared first at the end. Pairs with comm_is_valid(), and with
     * comm_enter(), which first counts itself in `readers` and then reads the magic. */
    uint64_t magic;
    struct call_lock
        lock;    /* the driver's (engine.h); a thread that has waited for it must look whether comm still is one */
    int readers; /* number of threads that use the communicator without the lock; its end waits for them */
    enum comm_phase phase;      /* stored with release (comm_set_phase()); threads without the lock acquire it */
    enum collet_result failure; /* phase FAILED: error code */
    int nranks, rank, device;
    bool nonblocking;
    bool revoked;       /* this rank has revoked the communicator */
    int64_t timeout_ms; /* from collet_config; 0: take the configuration's */
    char name[32];
    struct collet_comm **to; /* where the creator wants the handle */
    struct split *split;     /* set while it is made from another communicator */
    /* The communicator that is being made from this one, if it must be polled. In split.c, the thread that takes it out owns it. */
    struct collet_comm *making;
    uint64_t splits; /* number of calls that have made communicators from it */
    struct config config;
    struct boot *boot;
    struct survey *survey; /* while joining: results about this machine; NULL: not begun */
    struct map *map;
    struct chan *chan;
    uint64_t selftest_deadline_ns; /* while joining: when all ranks must have finished the self-test */
    struct planner *planner;
    struct gpu_rank *gpu; /* NULL: host memory, or not open yet; see comm_is_on_gpu() */
    struct engine engine;
    struct created_op *ops;                    /* protected by the process's lock */
    struct collet_registration *registrations; /* memory.c */
    struct collet_window *windows;             /* window.c */
    pthread_mutex_t error_lock;
    char error_text[ERR_TEXT_BYTES];
    struct collet_comm *next_shown; /* list of communicators whose metrics this process shows (exporter.h) */
    struct collet_comm *next_free;
};

/* The magic contains the number of forks before the process that made the communicator. A child of fork() has a copy of its
 * parent's communicators. Every call checks the magic, so it finds that they do not belong to the child. */
#define COMM_MAGIC 0x636f6c6c65740000ull
static inline uint64_t comm_magic(void) { return COMM_MAGIC + process_generation(); }

/* Is this a communicator? Sets no error. */
static inline bool comm_is_live(const struct collet_comm *comm) {
    return comm != NULL && __atomic_load_n(&comm->magic, __ATOMIC_ACQUIRE) == comm_magic();
}

/* Works without the lock, and during an abort, which clears comm->gpu. */
static inline bool comm_is_on_gpu(const struct collet_comm *comm) { return comm->device != COLLET_DEVICE_HOST; }

/* Was it made before fork(), by a parent of this process? */
static inline bool comm_is_inherited(const struct collet_comm *comm) {
    return __atomic_load_n(&comm->magic, __ATOMIC_ACQUIRE) - COMM_MAGIC < process_generation();
}

/* Is this a communicator? Errors: INVALID_ARGUMENT: comm is NULL, or not a communicator (any more). INVALID_USAGE: it is inherited. */
enum collet_result comm_check(const struct collet_comm *comm);

/* Also checks that calls are allowed. INVALID_USAGE: it is still joining, or finalized. */
enum collet_result comm_check_phase(const struct collet_comm *comm);

/* Does the same check, fast: every call begins with it. */
static inline enum collet_result comm_check_usable(const struct collet_comm *comm) {
    bool ready = comm_is_live(comm) && __atomic_load_n(&comm->phase, __ATOMIC_ACQUIRE) == COMM_READY;
    return ready ? COLLET_SUCCESS : comm_check_phase(comm);
}

/* Does all checks above, and returns the failure of a failed communicator. The caller holds comm's lock. */
static inline enum collet_result comm_check_locked(const struct collet_comm *comm) {
    COLLET_TRY(comm_check_usable(comm));
    return boot_check(comm->boot);
}

/* Makes the end of comm wait until comm_leave(), so the caller may use its parts without the lock. False: comm is no communicator. */
bool comm_enter(struct collet_comm *comm);
void comm_leave(struct collet_comm *comm);

void comm_set_phase(struct collet_comm *comm, enum comm_phase phase);

/* How long an abort waits for calls to stop, and then for a GPU to stop. If one does not stop, its memory is not freed. */
#define COMM_ABORT_WAIT_NS 750000000ull /* used twice; with the news of it, a goodbye and a dump: 2 s */
_Static_assert(2 * COMM_ABORT_WAIT_NS + 2 * BOOT_TELL_NS <= 1900000000ull, "an abort returns within 2 s");

/* Tells the layers that comm has failed, or that joining is given up for lack of memory. */
void comm_tell_failure(struct collet_comm *comm);

/* If result is NO_MEMORY, comm fails, with the thread's last error. This rank cannot make the call, and the other ranks would wait for
 * it. */
void comm_fail_without_memory(struct collet_comm *comm, enum collet_result result);

/* Copies the calling thread's last error text into comm. */
void comm_keep_error(struct collet_comm *comm);

/* Does that if result is a failure. Returns result. */
static inline enum collet_result comm_remember(struct collet_comm *comm, enum collet_result result) {
    if (result < 0)
        comm_keep_error(comm);
    return result;
}
void comm_error_text(struct collet_comm *comm, char *text, size_t room);

#endif
