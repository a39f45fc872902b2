/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock that is nearly always free, held for the length of a call. Taking it is one exchange. Giving it back is a plain
 * store: unlike a mutex's unlock, it does not wait until all earlier stores have left the CPU. A thread that finds the lock
 * taken waits by the waiting policy of wait.h. So calls of several threads on one communicator are serialised, not made fast.
 */
#ifndef COLLET_BASE_CALL_LOCK_H
#define COLLET_BASE_CALL_LOCK_H

#include "base/wait.h"

struct call_lock {
    int held; /* writes of a holder before its release are visible to the next holder */
};

static inline bool call_lock_try(struct call_lock *lock) {
    return __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) == 0; /* pairs with call_lock_release() */
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
