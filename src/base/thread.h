/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of collet. They get no signals of the program, and have names.
 */
#ifndef COLLET_BASE_THREAD_H
#define COLLET_BASE_THREAD_H

#include "collet.h"

#include <pthread.h>
#include <signal.h>

/* Blocks the signals of the program, because a thread that is started now inherits this. Signals of a fault in the thread itself stay
 * unblocked, for crash handlers. *before: the old mask, to be restored with pthread_sigmask(). */
void os_signals_block(sigset_t *before);
/* Starts a thread of collet with these signals blocked. name: the thread's name in debuggers and top. */
enum collet_result os_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *argument);
/* Returns 0 or an errno, and sets no error text. */
int os_thread_try(pthread_t *thread, const char *name, void *(*body)(void *), void *argument);

#endif
