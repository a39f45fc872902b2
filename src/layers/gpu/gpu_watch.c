/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel on a GPU cannot ask whether it may go on waiting. So two threads of the process look now and then at each of its ranks on
 * GPUs:
 *
 *    collet-gpu        a block found a mismatch, or waited          ──▶ the communicator fails
 *                      longer than COLLET_TIMEOUT
 *                      a rank died, and the driver does not answer  ──▶ the communicator fails
 *    collet-gpu-ask    a rank died, and ours has work pending       ──▶ the communicator fails
 *                      the GPU has failed, by anybody's work        ──▶ the communicator fails
 *                      its launches have ended                      ──▶ its proxy may sleep
 *
 * They sleep in between, and end with the last rank. Why two? A call of the driver may take as long as the running kernels: behind a
 * launch into a full queue, all calls wait. The kernel that keeps them waiting may itself wait for a rank that is dead. So collet-gpu
 * never calls the driver. And a failure ends the rank's launches without either thread (boot_end_word()).
 */
#include "base/err.h"
#include "base/os.h"
#include "layers/patrol/patrol.h"
#include "boot/hub.h"
#include "layers/gpu/exec_gpu.h"
#include "layers/gpu/gpu_company.h"
#include "layers/gpu/proxy.h"

#include <stdlib.h>

#define LOOK_EVERY_NS 20000000u
#define SILENCE_NS 1000000000u /* after this time without an answer, some work keeps the driver waiting */

struct watched {
    struct chan *chan;
    struct watched *next;
};

static uint64_t look_at_gpus(void), ask_about_gpus(void);
static struct watched *looked_at, *asked_about;
static struct patrol looks = PATROL("collet-gpu", look_at_gpus, &looked_at);
static struct patrol questions = PATROL("collet-gpu-ask", ask_about_gpus, &asked_about);
static uint64_t asked_ns; /* time of the question that the driver has not answered yet; 0: it has answered all */

static void fail_if_a_rank_died(struct chan *chan, const char *meanwhile) {
    for (int rank = 0; rank < chan->owner.nranks; rank++) {
        if (!peer_is_gone(boot_peer_settled(chan->owner.boot, rank, true)))
            continue;
        const struct peer_info *info = &chan->owner.peers[rank];
        boot_fail(chan->owner.boot,
                  err_set(COLLET_ERR_REMOTE, "rank %d (host %s, pid %d) %s while rank %d %s", rank, info->host,
                          info->pid, boot_fate(chan->owner.boot, rank), chan->owner.rank, meanwhile),
                  err_last());
        return;
    }
}

/* ---- without the driver ---- */

static bool driver_is_silent(void) {
    const uint64_t since_ns = __atomic_load_n(&asked_ns, __ATOMIC_RELAXED);
    return since_ns != 0 && os_now_ns() - since_ns > SILENCE_NS;
}

static void read_gpu_blocks(struct chan *chan) {
    enum collet_result result = exec_gpu_check(chan);
    if (result < 0)
        boot_fail(chan->owner.boot, result, err_last());
}

static uint64_t look_at_gpus(void) {
    const bool silent = driver_is_silent();
    for (struct watched *w = looked_at; w != NULL; w = w->next) {
        read_gpu_blocks(w->chan);
        if (silent && boot_failed(w->chan->owner.boot) == COLLET_SUCCESS)
            fail_if_a_rank_died(w->chan, "waited for an answer of its GPU's driver");
    }
    return looked_at != NULL ? LOOK_EVERY_NS : PATROL_OVER;
}

/* ---- with it ---- */

static void check_deaths(struct chan *chan) {
    if (boot_missing_count(chan->owner.boot) > 0 && gpu_rank_query(chan->owner.gpu) == COLLET_IN_PROGRESS)
        fail_if_a_rank_died(chan, "had work on its GPU");
}

/* The proxy itself must not call the driver: the answer may have to wait for work that waits for the proxy. */
static void check_landed(struct chan *chan) {
    uint64_t launches = proxy_launches(chan); /* read before the query: later launches do not count as landed */
    if (launches > 0 && gpu_rank_query(chan->owner.gpu) != COLLET_IN_PROGRESS)
        proxy_landed(chan, launches);
}

static void ask_driver(struct chan *chan) {
    if (boot_failed(chan->owner.boot) != COLLET_SUCCESS)
        return;
    enum collet_result result = gpu_rank_query(chan->owner.gpu);
    if (result < 0)
        boot_fail(chan->owner.boot, result, err_last());
    else
        check_deaths(chan);
    check_landed(chan);
}

static uint64_t ask_about_gpus(void) {
    __atomic_store_n(&asked_ns, os_now_ns(), __ATOMIC_RELAXED);
    for (struct watched *w = asked_about; w != NULL; w = w->next)
        ask_driver(w->chan);
    __atomic_store_n(&asked_ns, 0, __ATOMIC_RELAXED);
    return asked_about != NULL ? LOOK_EVERY_NS : PATROL_OVER;
}

/* ---- lists ---- */

static enum collet_result put_on_list(struct patrol *patrol, struct watched **list, struct chan *chan) {
    struct watched *w = malloc(sizeof(*w));
    if (w == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to watch a rank on a GPU");
    patrol_lock(patrol);
    enum collet_result result = patrol_start(patrol);
    if (result == COLLET_SUCCESS) {
        *w = (struct watched){chan, *list};
        *list = w;
    }
    pthread_mutex_unlock(&patrol->lock);
    if (result != COLLET_SUCCESS)
        free(w);
    return result;
}

static void take_off_list(struct patrol *patrol, struct watched **list, const struct chan *chan) {
    struct watched *gone = NULL;
    pthread_mutex_lock(&patrol->lock);
    for (struct watched **link = list; *link != NULL; link = &(*link)->next)
        if ((*link)->chan == chan) {
            gone = *link;
            *link = gone->next;
            break;
        }
    pthread_mutex_unlock(&patrol->lock);
    free(gone);
}

/* From now on, a thread that notices that the communicator has failed also writes 1 to this word. It is for kernels on GPUs, which cannot
 * ask. NULL: there is no such word any more. */
static void boot_end_word(struct boot *boot, int32_t *word) {
    SCOPED_LOCK(&boot->hub->lock);
    boot->end_word = word;
    if (word != NULL && hub_failed(boot->hub) != COLLET_SUCCESS)
        __atomic_store_n(word, 1, __ATOMIC_RELEASE); /* pairs with the reader of the word */
}

enum collet_result exec_gpu_watch(struct chan *chan) {
    struct work_status *status = chan->owner.gpu->status;
    status->timeout_ns = (uint64_t)chan->timeout_ms * 1000000u;
    COLLET_TRY(gpu_company_join(chan));
    COLLET_TRY(put_on_list(&looks, &looked_at, chan));
    enum collet_result result = put_on_list(&questions, &asked_about, chan);
    if (result == COLLET_SUCCESS)
        boot_end_word(chan->owner.boot, &status->abort);
    else
        take_off_list(&looks, &looked_at, chan);
    return result;
}

void exec_gpu_unwatch(struct chan *chan) {
    gpu_company_leave(chan);
    boot_end_word(chan->owner.boot, NULL);
    take_off_list(&looks, &looked_at, chan);
    take_off_list(&questions, &asked_about, chan);
}
