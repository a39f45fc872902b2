/* SPDX-License-Identifier: Apache-2.0 */
#include "api/join.h"

#include "api/engine.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "boot/patience.h"
#include "seams/elastic.h"
#include "seams/layer.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

/* ---- handles ---- */

static void handle_return(struct collet_comm *comm) {
    struct process *process = process_lock();
    comm->next_free = process->free_handles;
    process->free_handles = comm;
    process_unlock();
}

static void wait_for_readers(struct collet_comm *comm) {
    struct waiter waiter = {.spin = 0};
    struct late late;
    late_begin(&late, os_now_ns(), comm->config.warn_after);
    for (; __atomic_load_n(&comm->readers, __ATOMIC_SEQ_CST) > 0; wait_pause(&waiter)) {
        engine_drain(comm);
        if (late_look(&late))
            log_always(INIT, "rank %d %s to end communicator %s: a call of another thread on it has not returned",
                       comm->rank, late_text(&late), comm->name[0] ? comm->name : "(unnamed)");
    }
    engine_drain(comm); /* The last reader may have issued a call before it left */
}

/* ---- creation ---- */

/* A handle keeps its locks and its engine until the process ends, because a thread with an old handle may be waiting for them. At the
 * end of a communicator, comm_close() has cleared its parts, and its engine is empty again. This function clears the rest. */
enum collet_result comm_create(int nranks, int rank, struct collet_comm **comm_p) {
    struct process *process = process_lock();
    struct collet_comm *comm = process->free_handles;
    if (comm != NULL)
        process->free_handles = comm->next_free;
    process_unlock();
    if (comm == NULL) {
        COLLET_TRY(memory_get(&comm, 1, sizeof *comm, "no memory for a communicator"));
        pthread_mutex_init(&comm->error_lock, NULL);
        comm->engine.busy_end = &comm->engine.busy;
    }
    comm_set_phase(comm, COMM_JOINING); /* A thread with an old handle may read the phase */
    __atomic_store_n(&comm->revoked, false, __ATOMIC_RELAXED);
    comm->failure = COLLET_SUCCESS;
    comm->to = NULL;
    comm->split = NULL;
    __atomic_store_n(&comm->making, NULL, __ATOMIC_RELAXED);
    comm->splits = 0;
    comm->error_text[0] = '\0';
    comm->nranks = nranks;
    comm->rank = rank;
    *comm_p = comm;
    return COLLET_SUCCESS;
}

void comm_show(struct collet_comm *comm) {
    __atomic_store_n(&comm->magic, COMM_MAGIC + process_forks, __ATOMIC_SEQ_CST);
}

/* Closes the layers. False: a GPU, say, still uses memory of comm, so the caller must not free that memory. */
static bool layers_close(struct collet_comm *comm) {
    bool ended = true;
    for (int k = nlayers - 1; k >= 0; k--)
        if (layers[k]->comm_close != NULL)
            ended &= layers[k]->comm_close(comm);
    return ended;
}

static void layers_free(struct collet_comm *comm) {
    for (int k = nlayers - 1; k >= 0; k--)
        if (layers[k]->comm_free != NULL)
            layers[k]->comm_free(comm);
}

void comm_close(struct collet_comm *comm) {
    const bool ended = layers_close(comm);
    engine_close(comm);
    if (ended) {
        planner_destroy(comm->planner);
        chan_destroy(comm->chan);
    }
    layers_free(comm);
    map_destroy(comm->map);
    boot_destroy(comm->boot);
    comm->boot = NULL;
    comm->survey = NULL;
    comm->map = NULL;
    comm->chan = NULL;
    comm->planner = NULL;
    comm->gpu = NULL;
}

void comm_discard(struct collet_comm *comm) {
    if (comm == NULL)
        return;
    engine_drain(comm);
    __atomic_store_n(&comm->magic, 0, __ATOMIC_SEQ_CST);
    split_discard(comm);
    wait_for_readers(comm);
    comm_close(comm);
    call_lock_release(&comm->lock); /* A thread that waits for the lock will see the cleared magic */
    handle_return(comm);
}

/* Checks that all ranks are on GPUs, or none. */
static enum collet_result check_devices(const struct collet_comm *comm) {
    const struct peer_info *peers = boot_peers(comm->boot);
    for (int rank = 0; rank < comm->nranks; rank++)
        if ((peers[rank].device == COLLET_DEVICE_HOST) != (comm->device == COLLET_DEVICE_HOST))
            return err_set(
                COLLET_ERR_INVALID_USAGE,
                "rank %d is on %s and rank %d on %s: give all ranks of a communicator the same kind of device", rank,
                peers[rank].device == COLLET_DEVICE_HOST ? "host memory" : "a GPU", comm->rank,
                comm->device == COLLET_DEVICE_HOST ? "host memory" : "a GPU");
    return COLLET_SUCCESS;
}

static enum collet_result rooms_open(struct collet_comm *comm) {
    COLLET_TRY(check_devices(comm));
    if (comm->map == NULL) /* No layer has made a map */
        COLLET_TRY(map_create(boot_peers(comm->boot), comm->nranks, &comm->map));
    struct chan_options options = {.boot = comm->boot,
                                   .config = &comm->config,
                                   .nranks = comm->nranks,
                                   .rank = comm->rank,
                                   .gpu = comm->gpu,
                                   .far = comm->map->facts[comm->rank].far,
                                   .kernel_copies = comm->map->facts[comm->rank].kernel_copies,
                                   .turns = comm->map->turns,
                                   .timeout_ms = comm->timeout_ms,
                                   .name = comm->name};
    COLLET_TRY(chan_create(&options, &comm->chan));
    COLLET_TRY(planner_create(comm->chan, &comm->config, comm->map, &comm->planner));
    COLLET_TRY(engine_open(comm));
    for (int k = 0; k < nlayers; k++)
        if (layers[k]->comm_open != NULL)
            COLLET_TRY(layers[k]->comm_open(comm));
    return COLLET_SUCCESS;
}

/* Cancels the ids that are not needed: all ranks meet at the first of several ids. Ids made from COLLET_COMM_ID (host:port) are all
 * equal, so none of them is cancelled. */
static void cancel_other_ids(const struct collet_unique_id *ids, int nids) {
    for (int k = 1; k < nids; k++)
        if (memcmp(&ids[k], &ids[0], sizeof ids[0]) != 0)
            boot_cancel_id(&ids[k], COLLET_ERR_INVALID_ARGUMENT,
                           "ids differ: other ranks of this communicator have another id first in their list");
}

enum collet_result comm_join(struct collet_comm *comm, const struct collet_unique_id *ids, int nids) {
    struct boot_self self = {.device = comm->device};
    enum collet_result result;
    int naps = 0;
    transport_cards(comm->device, self.cards);
    do /* Tries again without memory, because a rank that does not join cannot tell the others why */
        result = boot_join(&ids[0], comm->nranks, comm->rank, &self, &comm->config, &comm->boot);
    while (result == COLLET_ERR_NO_MEMORY && patience_left(&naps));
    if (result == COLLET_SUCCESS)
        cancel_other_ids(ids, nids);
    return result;
}

static enum collet_result layers_join(struct collet_comm *comm) {
    for (int k = 0; k < nlayers; k++)
        if (layers[k]->comm_join != NULL)
            COLLET_TRY(layers[k]->comm_join(comm));
    return COLLET_SUCCESS;
}

enum collet_result comm_join_alone(struct collet_comm *comm) {
    if (comm->nranks == 0) /* A split has left this rank in no communicator: it joins nobody */
        return COLLET_SUCCESS;
    COLLET_TRY(boot_try_init(comm->boot));
    if (comm->chan == NULL) {
        COLLET_TRY(layers_join(comm));
        COLLET_TRY(rooms_open(comm));
        comm->selftest_deadline_ns = os_now_ns() + (uint64_t)comm->config.init_timeout * 1000000000u;
    }
    return layers_join(comm);
}

enum collet_result comm_try_join(struct collet_comm *comm) {
    if (comm->phase == COMM_FAILED)
        return comm->failure;
    if (comm->phase != COMM_JOINING)
        return COLLET_SUCCESS;
    enum collet_result result = comm->split != NULL ? split_join(comm) : comm_join_alone(comm);
    if (result == COLLET_SUCCESS && comm->nranks == 0) {
        comm_set_phase(comm, COMM_FINALIZED);
        return COLLET_SUCCESS;
    }
    if (result < 0) {
        comm_remember(comm, result);
        if (comm->boot != NULL)
            boot_fail(comm->boot, result, err_last());
        comm->failure = result;
        comm_set_phase(comm, COMM_FAILED);
    } else if (result == COLLET_SUCCESS) {
        log_info(INIT, "communicator %s: rank %d of %d ready", comm->name[0] ? comm->name : "(unnamed)", comm->rank,
                 comm->nranks);
        comm_set_phase(comm, COMM_READY);
    }
    return result;
}

/* Makes progress with joining, with the lock: another thread may poll or abort the communicator. */
static enum collet_result try_join_locked(struct collet_comm *comm) {
    call_lock_acquire(&comm->lock, 0);
    enum collet_result result =
        comm_is_live(comm) ? comm_try_join(comm) : err_set(COLLET_ERR_ABORTED, "aborted while it was being created");
    call_lock_release(&comm->lock);
    return result;
}

void comm_hand_over(struct collet_comm *comm, enum collet_result result) {
    struct collet_comm **to = comm->to;
    if (result != COLLET_SUCCESS || comm->nranks == 0) {
        comm_remember(comm, result);
        *to = NULL;
        comm_discard(comm);
        return;
    }
    call_lock_release(&comm->lock);
    __atomic_store_n(to, comm, __ATOMIC_RELEASE); /* Another thread may wait for *to */
}

void comm_end_join(struct collet_comm *comm, enum collet_result result) {
    call_lock_acquire(&comm->lock, 0);
    if (comm_is_live(comm)) {
        if (result == COLLET_ERR_NO_MEMORY)
            comm_tell_failure(comm);
        if (result < 0 && comm->boot != NULL) /* Also if only another communicator of the group cannot be made */
            boot_fail(comm->boot, result, err_last());
        comm_hand_over(comm, result);
        return;
    }
    *comm->to = NULL;
    call_lock_release(&comm->lock);
}

enum collet_result comm_join_all(struct collet_comm *const *comms, int ncomms) {
    struct waiter waiter = {.spin = 0};
    enum collet_result result = COLLET_IN_PROGRESS;
    while (result == COLLET_IN_PROGRESS) {
        result = COLLET_SUCCESS;
        for (int k = 0; k < ncomms && result >= 0; k++) {
            enum collet_result joined = try_join_locked(comms[k]);
            if (joined != COLLET_SUCCESS)
                result = joined;
        }
        if (result == COLLET_IN_PROGRESS)
            wait_pause(&waiter);
    }
    for (int k = 0; k < ncomms; k++)
        comm_end_join(comms[k], result);
    return result;
}
