/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread collet-engine. See engine_thread.h.
 */
#include "layers/streams/engine_thread.h"

#include "api/comm.h"
#include "api/engine.h"
#include "base/memory.h"
#include "base/thread.h"
#include "seams/layer.h"

#include <stdlib.h>

struct engine_thread {
    struct collet_comm *comm;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool woken, over;
};

/* False: the thread must end. */
static bool sleep_until_woken(struct engine_thread *thread) {
    SCOPED_LOCK(&thread->lock);
    while (!thread->woken && !thread->over)
        pthread_cond_wait(&thread->wake, &thread->lock);
    thread->woken = false;
    return !thread->over;
}

static bool post_is_over(struct engine_thread *thread) {
    SCOPED_LOCK(&thread->lock);
    return thread->over;
}

static bool others_come_first(const struct engine *engine) {
    return __atomic_load_n(&engine->callers, __ATOMIC_ACQUIRE) > 0;
}

/* Becomes the driver. False: another thread drives or wants to, and wakes this one when it has finished. Threads that
 * take the lock for other reasons keep it for a moment, or for as long as a device takes (chan/attend.c). */
static bool take_patiently(struct driver *driver, struct engine_thread *thread) {
    const struct engine *engine = &thread->comm->engine;
    while (!others_come_first(engine) && !post_is_over(thread)) {
        if (driver_take(driver, thread->comm))
            return true;
        if (__atomic_load_n(&engine->driver, __ATOMIC_RELAXED) != NULL)
            return false;
        wait_pause(&driver->waiter);
    }
    return false;
}

/* The program computes at the same time, perhaps on the same CPU. When a thread wakes that sleeps between its looks, it
 * gets the CPU at once. A thread that yields waits until the others have had their turns. */
#define THREAD_YIELD_NS 20000u

static void *engine_thread_main(void *thread_) {
    struct engine_thread *thread = thread_;
    const struct engine *engine = &thread->comm->engine;
    while (sleep_until_woken(thread)) {
        struct driver driver = {.waiter = engine->patience};
        driver.waiter.yield_ns = THREAD_YIELD_NS;
        if (!take_patiently(&driver, thread))
            continue;
        while (engine_is_busy(engine) && !others_come_first(engine))
            driver_turn(&driver);
        driver_leave(&driver);
    }
    return NULL;
}

enum collet_result engine_thread_start(struct collet_comm *comm) {
    struct engine_thread *thread;
    if (comm->engine.thread != NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(memory_get(&thread, 1, sizeof *thread, "no memory for the thread collet-engine"));
    thread->comm = comm;
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->wake, NULL);
    enum collet_result result = os_thread_start(&thread->thread, "collet-engine", engine_thread_main, thread);
    if (result == COLLET_SUCCESS)
        __atomic_store_n(&comm->engine.thread, thread, __ATOMIC_RELEASE); /* Pairs with engine_thread_wake(). */
    else
        free(thread);
    return result;
}

void engine_thread_wake(struct collet_comm *comm) {
    struct engine_thread *thread = __atomic_load_n(&comm->engine.thread, __ATOMIC_ACQUIRE);
    if (thread == NULL)
        return;
    SCOPED_LOCK(&thread->lock);
    thread->woken = true;
    pthread_cond_signal(&thread->wake);
}

static bool engine_thread_stop(struct collet_comm *comm) {
    struct engine_thread *thread = comm->engine.thread;
    if (thread == NULL)
        return true;
    pthread_mutex_lock(&thread->lock);
    thread->over = true;
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->thread, NULL);
    comm->engine.thread = NULL;
    pthread_cond_destroy(&thread->wake);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
    return true;
}

/* The thread ends with the communicator. */
const struct layer layer_streams = {.comm_close = engine_thread_stop};
