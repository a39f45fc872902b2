/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs on a GPU asks nobody whether it may go on waiting; so a thread of the process, collet-gpu, looks now and then
 * at each of its ranks on GPUs:
 *
 *    a block found a mismatch, or waited    ──▶ the communicator fails
 *    longer than COLLET_TIMEOUT
 *    a rank died, and ours has work pending ──▶ the communicator fails
 *    the GPU has failed, by whoever's work  ──▶ the communicator fails
 *    its launches have ended                ──▶ its proxy may sleep
 *
 * It sleeps in between, and ends with the last rank. A question to the driver may take as long as the kernels that run. So what
 * blocks say is read first, from all ranks; and a failure ends the rank's launches without this thread (boot_end_word()).
 */
#include "base/err.h"
#include "base/patrol.h"
#include "exec/exec_gpu.h"
#include "proxy/proxy.h"

#include <stdlib.h>

#define LOOK_EVERY_NS 20000000u

struct watched {
    struct chan *chan;
    struct watched *next;
};

static uint64_t look_at_gpus(void);
static struct watched *all;
static struct patrol patrol = PATROL("collet-gpu", look_at_gpus, &all);

static void check_deaths(struct chan *chan) {
    if (boot_missing_count(chan->owner.boot) == 0 || gpu_rank_query(chan->owner.gpu) != COLLET_IN_PROGRESS)
        return;
    for (int rank = 0; rank < chan->owner.nranks; rank++) {
        if (!peer_is_gone(boot_peer_settled(chan->owner.boot, rank, true)))
            continue;
        const struct peer_info *info = &chan->owner.peers[rank];
        boot_fail(chan->owner.boot,
                  err_set(COLLET_ERR_REMOTE, "rank %d (host %s, pid %d) died while rank %d had work on its GPU", rank,
                          info->host, info->pid, chan->owner.rank),
                  err_last());
        return;
    }
}

/* The proxy itself asks the driver nothing: an answer may be kept waiting by work that waits for the proxy. */
static void check_landed(struct chan *chan) {
    uint64_t launches = proxy_launches(chan); /* first: what is launched from here on counts as not landed */
    if (launches > 0 && gpu_rank_query(chan->owner.gpu) != COLLET_IN_PROGRESS)
        proxy_landed(chan, launches);
}

static void read_gpu_blocks(struct chan *chan) {
    enum collet_result result = exec_gpu_check(chan);
    if (result < 0)
        boot_fail(chan->owner.boot, result, err_last());
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

static uint64_t look_at_gpus(void) {
    for (struct watched *w = all; w != NULL; w = w->next)
        read_gpu_blocks(w->chan);
    for (struct watched *w = all; w != NULL; w = w->next)
        ask_driver(w->chan);
    return all != NULL ? LOOK_EVERY_NS : PATROL_OVER;
}

enum collet_result exec_gpu_watch(struct chan *chan) {
    struct watched *w = malloc(sizeof(*w));
    struct work_status *status = chan->owner.gpu->status;
    if (w == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to watch a rank on a GPU");
    status->timeout_ns = (uint64_t)chan->timeout_ms * 1000000u;
    patrol_lock(&patrol);
    enum collet_result result = patrol_start(&patrol);
    if (result == COLLET_SUCCESS) {
        *w = (struct watched){chan, all};
        all = w;
        w = NULL;
    }
    pthread_mutex_unlock(&patrol.lock);
    free(w);
    if (result == COLLET_SUCCESS)
        boot_end_word(chan->owner.boot, &status->abort);
    return result;
}

void exec_gpu_unwatch(struct chan *chan) {
    struct watched *gone = NULL;
    boot_end_word(chan->owner.boot, NULL);
    pthread_mutex_lock(&patrol.lock);
    for (struct watched **link = &all; *link != NULL; link = &(*link)->next)
        if ((*link)->chan == chan) {
            gone = *link;
            *link = gone->next;
            break;
        }
    pthread_mutex_unlock(&patrol.lock);
    free(gone);
}
