/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of collet: they see no signal of the program, and have names.
 */
#ifndef COLLET_BASE_THREAD_H
#define COLLET_BASE_THREAD_H

#include "collet.h"

#include <pthread.h>
#include <signal.h>

/* Blocks the signals of the program, for a thread that will be started. Signals of a fault in the thread itself stay unblocked, for crash
 * handlers. *before: restore it with pthread_sigmask(). */
void os_signals_block(sigset_t *before);
/* Starts a thread of collet with these signals blocked. name: for debuggers and top. */
enum collet_result os_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *argument);
int os_thread_try(pthread_t *thread, const char *name, void *(*body)(void *), void *argument); /* only gives errno */

#endif
