/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists network interfaces, and waits for a limited time.
 *
 * The kernel lets one caller at a time look at its interfaces. If other programs make and remove many of them, as programs that start
 * containers do, a caller waits for a minute, and no signal ends that wait (Linux 6.18). So a thread apart asks the kernel (apart.h):
 *
 *     caller ── starts ──▶ thread: interfaces_read()
 *       ▲                    │
 *       ├──── new list ◀─────┘      within 2 s
 *       ├──── last list             later. The thread goes on. Until it has an answer, all callers have the last list at once
 *       └──── error                 there is no last list, and half of COLLET_INIT_TIMEOUT has passed
 */
#include "boot/interfaces.h"
#include "base/config.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/remedy.h"
#include "boot/process.h"
#include "layers/outlet/apart.h"
#include "seams/outlet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NEW_LIST_NS 2000000000ull /* maximum wait for a new list, if there is an older one */

PROCESS_LOCK(lock);
static struct interfaces *last; /* The last list. NULL: there is none. */
static unsigned answers;        /* Number of answers of the kernel. */
/* process_forks of the process that has waited in vain, and has had no answer since. ~0: there is no such process. */
static unsigned stuck_in = ~0u;

struct listing {
    struct apart apart;
    int error; /* errno, if there is no list. */
};

static void ask_kernel(struct apart *job) {
    struct interfaces *made = interfaces_read();
    ((struct listing *)job)->error = made != NULL ? 0 : errno;
    SCOPED_LOCK(&lock);
    __atomic_store_n(&answers, answers + 1, __ATOMIC_RELAXED);
    stuck_in = ~0u;
    if (made == NULL)
        return;
    free(last);
    last = made;
}

static void listing_free(struct apart *job) { free(job); }

static void note_stuck(unsigned before) {
    SCOPED_LOCK(&lock);
    if (answers == before)
        stuck_in = process_forks;
}

/* Asks the kernel for a new list. TIMEOUT: no answer has come in limit_ns. */
static enum collet_result ask(uint64_t limit_ns) {
    const unsigned before = __atomic_load_n(&answers, __ATOMIC_RELAXED);
    struct listing *job;
    COLLET_TRY(memory_get(&job, 1, sizeof *job, "no memory to list the network interfaces"));
    job->apart = (struct apart){.name = "collet-links", .act = ask_kernel, .free_job = listing_free};
    if (!apart_call(&job->apart, limit_ns, limit_ns)) {
        note_stuck(before);
        return COLLET_ERR_TIMEOUT;
    }
    errno = job->error;
    apart_free(&job->apart);
    return errno == 0 ? COLLET_SUCCESS
                      : err_set(COLLET_ERR_SYSTEM, "cannot list the network interfaces: %m%s", os_remedy());
}

/* Asks for the first list. A long wait is logged. */
static enum collet_result ask_first(void) {
    const uint64_t limit_ns = (uint64_t)config_process()->init_timeout * 500000000u;
    const uint64_t warn_ns = (uint64_t)config_process()->warn_after * 1000000000u;
    const bool warns = config_process()->warn_after > 0 && warn_ns < limit_ns;
    enum collet_result result = ask(warns ? warn_ns : limit_ns);
    if (result == COLLET_ERR_TIMEOUT && warns) {
        log_always(NET, "host %s has waited for %d s: for the kernel to list its network interfaces", os_host_name(),
                   (int)config_process()->warn_after);
        result = ask(limit_ns - warn_ns);
    }
    if (result == COLLET_ERR_TIMEOUT)
        return err_set(COLLET_ERR_TIMEOUT,
                       "the kernel has not listed the network interfaces of host %s for %.0f s (half of "
                       "COLLET_INIT_TIMEOUT): do other programs make and remove many of them at the moment?",
                       os_host_name(), (double)limit_ns / 1e9);
    return result;
}

static enum collet_result ask_again(void) {
    const enum collet_result result = ask(NEW_LIST_NS);
    if (result != COLLET_ERR_TIMEOUT)
        return result;
    log_info(NET, "the kernel does not list the network interfaces at the moment: going on with the last list");
    return COLLET_SUCCESS;
}

enum collet_result outlet_interfaces(bool known, struct interfaces **interfaces_p) {
    pthread_mutex_lock(&lock);
    const bool first = last == NULL, stuck = stuck_in == process_forks;
    pthread_mutex_unlock(&lock);
    if (first)
        COLLET_TRY(ask_first());
    else if (!known && !stuck)
        COLLET_TRY(ask_again());
    SCOPED_LOCK(&lock);
    const size_t bytes = sizeof *last + (size_t)last->count * sizeof *last->list;
    COLLET_TRY(memory_get(interfaces_p, 1, bytes, "no memory for the list of network interfaces"));
    memcpy(*interfaces_p, last, bytes);
    return COLLET_SUCCESS;
}
