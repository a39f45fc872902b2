/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/outlet/apart.h"

#include "base/os.h"
#include "base/thread.h"

#include <sys/resource.h>
#include <time.h>

void apart_free(struct apart *job) {
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    job->free_job(job);
}

static void *act(void *job_) {
    struct apart *job = job_;
    __atomic_store_n(&job->tid, os_tid(), __ATOMIC_RELAXED);
    job->act(job);
    pthread_mutex_lock(&job->lock);
    job->done = true;
    const bool left = job->left;
    pthread_cond_signal(&job->changed);
    pthread_mutex_unlock(&job->lock);
    if (left)
        apart_free(job);
    return NULL;
}

static bool await(struct apart *job, pthread_t thread, uint64_t until_ns) {
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
    pthread_mutex_lock(&job->lock);
    while (!job->done && pthread_cond_clockwait(&job->changed, &job->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    const bool done = job->done;
    const int tid = __atomic_load_n(&job->tid, __ATOMIC_RELAXED);
    job->left = !done;
    if (!done && tid != 0) /* with the lock: the thread is still there */
        setpriority(PRIO_PROCESS, (id_t)tid, 19);
    pthread_mutex_unlock(&job->lock);
    if (done)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
    return done;
}

bool apart_call(struct apart *job, uint64_t limit_ns) {
    pthread_t thread;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, NULL);
    job->done = job->left = false;
    job->tid = 0;
    if (os_thread_try(&thread, job->name, act, job) == 0)
        return await(job, thread, os_now_ns() + limit_ns);
    job->act(job);
    return true;
}
