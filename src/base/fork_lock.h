/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock of the whole process, which fork() waits for. Use it around calls of other libraries: they may hold their own locks at that time,
 * and in a child of a fork() these would stay locked forever. The holder must not fork, and must not take another such lock. If a lock
 * protects only collet's own data, use PROCESS_LOCK (memory.h), which fork() does not wait for.
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
