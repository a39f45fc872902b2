/* SPDX-License-Identifier: Apache-2.0
 *
 * What may never return is called apart, by a thread of its own: a library, or a file whose server is gone.
 *
 *      caller ─── job ──▶ thread: job->act(job)
 *        ▲                   │
 *        └──── true ◀────────┘   in time: the job is the caller's again
 *
 *      caller ◀── false          too late: the thread is left alone, at the lowest priority. It frees the job when the call returns
 *
 * A thread inside a library or a system call cannot be ended safely.
 */
#ifndef COLLET_LAYERS_OUTLET_APART_H
#define COLLET_LAYERS_OUTLET_APART_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The first field of a job. */
struct apart {
    const char *name;                    /* The name of the thread. */
    void (*act)(struct apart *job);      /* Makes the call, and keeps what it returns in the job. */
    void (*free_job)(struct apart *job); /* Frees the job, and what the call returned. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done; /* The call has returned. */
    bool left; /* The caller has gone on. */
    int tid;   /* The thread's number; 0: it has not begun. */
};

/* True: the call has returned, and the caller frees the job by apart_free(). If no thread can be started, the caller itself makes the
 * call. False: it has not returned within limit_ns, and the job is no longer the caller's. */
bool apart_call(struct apart *job, uint64_t limit_ns);
void apart_free(struct apart *job);

#endif
