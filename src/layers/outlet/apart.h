/* SPDX-License-Identifier: Apache-2.0
 *
 * A call that may never return is made in a thread of its own ("apart"): a call into a library, or on a file whose server is gone.
 *
 *      caller ─── job ──▶ thread: job->act(job)
 *        ▲                   │
 *        └──── true ◀────────┘   in time: the caller has the job again
 *
 *      caller ◀── false          too late: the thread is left alone, at the lowest priority. It frees the job when the call returns
 *
 * A thread inside a library or a system call cannot be ended safely.
 *
 * When is it too late? On a busy machine, a thread may wait for a CPU longer than its call takes. That is not the call's
 * fault. So the limit counts the thread's own time. A second limit counts clock time:
 *
 *      thread   ▒▒▒▒▒▒▒█▒▒▒▒▒▒▒▒█████░░░░░░░░▒▒▒▒▒▒█        ▒ waits for a CPU: does not count
 *                      1        2               3        █ computes, ░ waits in the call: count
 */
#ifndef COLLET_LAYERS_OUTLET_APART_H
#define COLLET_LAYERS_OUTLET_APART_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A call; it is the first field of the caller's job. */
struct apart {
    const char *name;                    /* The name of the thread. */
    void (*act)(struct apart *job);      /* Makes the call, and keeps its results in the job. */
    void (*free_job)(struct apart *job); /* Frees the job, and the results of the call. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done; /* The call has returned. */
    bool left; /* The caller has given up waiting. */
    int tid;   /* The thread's number; 0: the thread has not begun. */
};

/* Factor of the clock limit over the limit of the thread's own time, for callers without a clock limit of their own. */
#define APART_BUSY 20

/* Makes the call. True: the call has returned, and the caller frees the job by apart_free(). False: the call has not returned in
 * limit_ns of the thread's own time, or in clock_ns by the clock; the caller has lost the job. If no thread can be
 * started, the caller itself makes the call. */
bool apart_call(struct apart *job, uint64_t limit_ns, uint64_t clock_ns);
void apart_free(struct apart *job);

#endif
