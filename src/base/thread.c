/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include "base/err.h"
#include "base/remedy.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

void os_signals_block(sigset_t *before) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++)
        sigdelset(&blocked, faults[k]);
    pthread_sigmask(SIG_SETMASK, &blocked, before);
}

int os_thread_try(pthread_t *thread, const char *name, void *(*body)(void *), void *argument) {
    sigset_t before;
    os_signals_block(&before);
    const int error = pthread_create(thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_setname_np(*thread, name);
    return error;
}

enum collet_result os_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *argument) {
    errno = os_thread_try(thread, name, body, argument);
    if (errno != 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot start the thread %s: %m" OS_THREAD_REMEDY, name);
    return COLLET_SUCCESS;
}
