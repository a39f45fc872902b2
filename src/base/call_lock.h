/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock that a thread holds for the length of a call, and that is nearly always free. Taking it is one atomic exchange. Releasing it is
 * one store: unlike a mutex's unlock, the store does not wait until all earlier stores have left the CPU. A thread that finds the lock
 * taken waits as wait.h says. So calls of several threads on one communicator run one after the other, and are not fast.
 */
#ifndef COLLET_BASE_CALL_LOCK_H
#define COLLET_BASE_CALL_LOCK_H

#include "base/wait.h"

struct call_lock {
    int held; /* 1: a thread holds the lock. The next holder sees all that this thread has written */
};

static inline bool call_lock_try(struct call_lock *lock) {
    return __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) == 0; /* Pairs with call_lock_release() */
}

/* Waits for the lock. False: another thread still holds it after limit_ns (0: no limit). */
static inline bool call_lock_acquire(struct call_lock *lock, uint64_t limit_ns) {
    struct waiter waiter = {.spin = 0};
    while (!call_lock_try(lock))
        if (wait_pause(&waiter) && limit_ns > 0 && wait_idle_ns(&waiter) > limit_ns)
            return false;
    return true;
}

static inline void call_lock_release(struct call_lock *lock) { __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE); }

#endif
