/* SPDX-License-Identifier: Apache-2.0
 *
 * Probes this machine. hwloc has the tree, the kernel has the links and ports, and the library of the GPUs has the rest.
 *
 * hwloc's answer is taken as XML, as if it were a file about this machine: see files.c, which adds the rest.
 *
 * hwloc has no limit of time: where a sandbox refuses sched_getaffinity(), it asks again without end. So a thread of its own
 * waits for it. A thread inside a library cannot be ended safely. If hwloc takes too long, the thread is left alone, at the lowest
 * priority, and the process asks hwloc no more.
 */
#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/thread.h"
#include "topo/probe/topo.h"

#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* One question to hwloc. */
struct question {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool answered;
    bool given_up; /* nobody waits for the answer: the thread frees it */
    int tid;       /* 0: the thread has not begun */
    hwloc_topology_t hwloc;
    char *text; /* NULL: hwloc has failed, for the reason `error` */
    int bytes;  /* with the zero at the end */
    int error;
};

static bool gave_up; /* in this process, or in an ancestor of it */

/* hwloc runs without its plugins for accelerators: they would start the drivers of GPUs that this process may not even use.
 * It also runs without its plugin for PCI, which leaks memory. Without this plugin hwloc finds the same in /sys. */
static hwloc_topology_t new_hwloc(void) {
    static const char *const unwanted[] = {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl", "pci"};
    hwloc_topology_t hwloc;
    if (hwloc_topology_init(&hwloc) != 0)
        return NULL;
    hwloc_topology_set_io_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_ALL);
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
    return hwloc;
}

static void question_free(struct question *question) {
    if (question->text != NULL)
        hwloc_free_xmlbuffer(question->hwloc, question->text);
    if (question->hwloc != NULL)
        hwloc_topology_destroy(question->hwloc);
    pthread_cond_destroy(&question->changed);
    pthread_mutex_destroy(&question->lock);
    free(question);
}

static void *ask_hwloc(void *question_) {
    struct question *question = question_;
    char *text = NULL;
    int bytes = 0, error = ENOMEM;
    __atomic_store_n(&question->tid, os_tid(), __ATOMIC_RELAXED);
    question->hwloc = new_hwloc();
    if (question->hwloc != NULL && (hwloc_topology_load(question->hwloc) != 0 ||
                                    hwloc_topology_export_xmlbuffer(question->hwloc, &text, &bytes, 0) != 0))
        error = errno;
    pthread_mutex_lock(&question->lock);
    question->answered = true;
    question->text = text;
    question->bytes = bytes;
    question->error = error;
    const bool given_up = question->given_up;
    pthread_cond_signal(&question->changed);
    pthread_mutex_unlock(&question->lock);
    if (given_up)
        question_free(question);
    return NULL;
}

/* False: it takes too long. The question is the thread's then. */
static bool await_answer(struct question *question, pthread_t thread, double limit_s) {
    const uint64_t until_ns = os_now_ns() + (uint64_t)(limit_s * 1e9);
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
    pthread_mutex_lock(&question->lock);
    while (!question->answered &&
           pthread_cond_clockwait(&question->changed, &question->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    const bool answered = question->answered;
    question->given_up = !answered;
    const int tid = __atomic_load_n(&question->tid, __ATOMIC_RELAXED);
    if (!answered && tid != 0) /* with the lock: the thread is still there */
        setpriority(PRIO_PROCESS, (id_t)tid, 19);
    pthread_mutex_unlock(&question->lock);
    if (answered)
        pthread_join(thread, NULL);
    return answered;
}

static enum collet_result err_too_slow(double limit_s) {
    return err_set(COLLET_ERR_SYSTEM,
                   "hwloc has looked at this machine for %g s and does not end; does a sandbox refuse a system call? "
                   "COLLET_TOPO_FILE takes a topology from a file instead",
                   limit_s);
}

/* Asks hwloc in a thread of its own, and waits for the answer. */
static enum collet_result ask(double limit_s, struct question **question_p) {
    struct question *question;
    pthread_t thread;
    if (gave_up)
        return err_too_slow(limit_s);
    COLLET_TRY(memory_get(&question, 1, sizeof *question, "no memory to look at this machine"));
    pthread_mutex_init(&question->lock, NULL);
    pthread_cond_init(&question->changed, NULL);
    enum collet_result result = os_thread_start(&thread, "collet-hwloc", ask_hwloc, question);
    if (result != COLLET_SUCCESS) {
        question_free(question);
        return result;
    }
    if (await_answer(question, thread, limit_s)) {
        *question_p = question;
        return COLLET_SUCCESS;
    }
    gave_up = true;
    pthread_detach(thread);
    log_always(GRAPH, "hwloc has looked at this machine for %g s and does not end: going on without it", limit_s);
    return err_too_slow(limit_s);
}

enum collet_result topo_probe(double limit_s, struct topo **topo_p) {
    struct question *question = NULL;
    COLLET_TRY(ask(limit_s, &question));
    enum collet_result status;
    errno = question->error;
    if (question->text != NULL)
        status = topo_read_text(question->text, (size_t)question->bytes - 1, "this machine", TOPO_PROBED, topo_p);
    else if (question->hwloc == NULL)
        status = err_set(COLLET_ERR_NO_MEMORY, "no memory to look at this machine");
    else
        status = err_set(COLLET_ERR_SYSTEM, "hwloc cannot look at this machine: %m");
    question_free(question);
    return status;
}
