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

/* ---- the thread's own time ---- */

#define LOOKS 20 /* number of looks at the thread within the limit */

/* The thread's own time. The struct is only used while the thread exists. */
struct own_time {
    clockid_t clock;      /* Clock of the thread's CPU time. */
    uint64_t computed_ns; /* CPU time at the last look. */
    uint64_t looked_ns;   /* Clock time of the last look. */
    uint64_t used_ns;     /* The thread's own time until the last look. */
};

static uint64_t computed_ns(clockid_t clock) {
    struct timespec computed = {.tv_sec = 0};
    clock_gettime(clock, &computed);
    return (uint64_t)computed.tv_sec * 1000000000u + (uint64_t)computed.tv_nsec;
}

/* Adds the time since the last look. If the thread waits for a CPU, or has not begun, only its CPU time is added. */
static void own_time_look(struct own_time *time, int tid) {
    const uint64_t now_ns = os_now_ns(), computed = computed_ns(time->clock);
    const bool wants_cpu = tid == 0 || os_process_is(tid, OS_RUNS);
    time->used_ns += wants_cpu ? computed - time->computed_ns : now_ns - time->looked_ns;
    time->computed_ns = computed;
    time->looked_ns = now_ns;
}

/* ---- the caller ---- */

/* The caller holds the lock, so the thread still exists. */
static void look_until_done(struct apart *job, pthread_t thread, uint64_t limit_ns, uint64_t clock_ns) {
    const uint64_t end_ns = os_now_ns() + clock_ns;
    struct own_time time = {.looked_ns = os_now_ns()};
    pthread_getcpuclockid(thread, &time.clock);
    while (!job->done && time.used_ns < limit_ns && time.looked_ns < end_ns) {
        const uint64_t next_ns = time.looked_ns + limit_ns / LOOKS, until_ns = next_ns < end_ns ? next_ns : end_ns;
        const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                       .tv_nsec = (long)(until_ns % 1000000000)};
        if (pthread_cond_clockwait(&job->changed, &job->lock, CLOCK_MONOTONIC, &until) != 0 && !job->done)
            own_time_look(&time, __atomic_load_n(&job->tid, __ATOMIC_RELAXED));
    }
}

static bool await(struct apart *job, pthread_t thread, uint64_t limit_ns, uint64_t clock_ns) {
    pthread_mutex_lock(&job->lock);
    look_until_done(job, thread, limit_ns, clock_ns);
    const bool done = job->done;
    const int tid = __atomic_load_n(&job->tid, __ATOMIC_RELAXED);
    job->left = !done;
    if (!done && tid != 0) /* the lock is held, so the thread still exists */
        setpriority(PRIO_PROCESS, (id_t)tid, 19);
    pthread_mutex_unlock(&job->lock);
    if (done)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
    return done;
}

bool apart_call(struct apart *job, uint64_t limit_ns, uint64_t clock_ns) {
    pthread_t thread;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, NULL);
    job->done = job->left = false;
    job->tid = 0;
    if (os_thread_try(&thread, job->name, act, job) == 0)
        return await(job, thread, limit_ns, clock_ns);
    job->act(job);
    return true;
}
