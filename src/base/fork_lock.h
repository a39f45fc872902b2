/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock of the whole process that a fork() waits for. While it is held, other libraries may hold locks of their own, which a child
 * could never open. Its holder may not fork, nor take another such lock. Where only collet's own data are guarded, PROCESS_LOCK
 * (memory.h) keeps nobody waiting.
 */
#ifndef COLLET_BASE_FORK_LOCK_H
#define COLLET_BASE_FORK_LOCK_H

#include <pthread.h>

#define FORK_LOCK(name)                                                                                                \
    static pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER;                                                           \
    static void name##_hold(void) { pthread_mutex_lock(&name); }                                                       \
    static void name##_let_go(void) { pthread_mutex_unlock(&name); }                                                   \
    __attribute__((constructor)) static void name##_watch_forks(void) {                                                \
        pthread_atfork(name##_hold, name##_let_go, name##_let_go);                                                     \
    }                                                                                                                  \
    _Static_assert(1, "takes the semicolon")

#endif
