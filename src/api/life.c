/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of collet.h that begin and end communicators.
 */
#include "api/comm.h"
#include "api/engine.h"
#include "api/group.h"
#include "api/join.h"
#include "api/options.h"
#include "base/log.h"
#include "transport/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- creation ---- */

#define ARGUMENT "by the argument nranks"

/* Makes a rank and starts to join the other ranks. */
static enum collet_result begin_rank(const struct collet_config *options, const struct collet_unique_id *ids, int nids,
                                     int nranks, int rank, const char *believed, struct collet_comm **comm_p) {
    struct collet_comm *comm;
    COLLET_TRY(comm_create(nranks, rank, &comm));
    enum collet_result result = options_apply(options, comm);
    snprintf(comm->config.believed, sizeof comm->config.believed, "%s", believed);
    if (result == COLLET_SUCCESS)
        result = comm_join(comm, ids, nids);
    if (result != COLLET_SUCCESS) {
        comm_discard(comm);
        boot_excuse(&ids[0], rank, result);
        return result;
    }
    comm->to = comm_p;
    comm_show(comm);
    *comm_p = comm;
    return COLLET_SUCCESS;
}

enum collet_result collet_get_unique_id(struct collet_unique_id *id) {
    if (id == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "id is NULL: pass the address of a struct collet_unique_id");
    return boot_unique_id(id);
}

enum collet_result collet_comm_init_rank(struct collet_comm **comm, int nranks, struct collet_unique_id id, int rank) {
    return collet_comm_init_rank_config(comm, nranks, id, rank, NULL);
}

enum collet_result comm_init_rank(struct collet_comm **comm_p, int nranks, const struct collet_unique_id *ids, int nids,
                                  int rank, const struct collet_config *config, const char *believed) {
    struct collet_config options;
    if (comm_p == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "comm is NULL: pass where the handle goes");
    *comm_p = NULL;
    COLLET_TRY(boot_check_ranks(nranks, rank));
    COLLET_TRY(options_read(config, &options));
    COLLET_TRY(begin_rank(&options, ids, nids, nranks, rank, believed, comm_p));
    return (*comm_p)->nonblocking ? COLLET_IN_PROGRESS : group_join(*comm_p);
}

enum collet_result collet_comm_init_rank_config(struct collet_comm **comm, int nranks, struct collet_unique_id id,
                                                int rank, const struct collet_config *config) {
    return group_poison(comm_init_rank(comm, nranks, &id, 1, rank, config, ARGUMENT));
}

enum collet_result collet_comm_init_rank_scalable(struct collet_comm **comm, int nranks, int rank, int nids,
                                                  const struct collet_unique_id *ids,
                                                  const struct collet_config *config) {
    if (comm != NULL)
        *comm = NULL;
    if (ids == NULL)
        return group_poison(err_set(COLLET_ERR_INVALID_ARGUMENT, "ids is NULL: pass an array of nids unique ids"));
    COLLET_TRY(group_poison(boot_check_ranks(nranks, rank)));
    if (nids < 1 || nids > nranks)
        return group_poison(err_set(COLLET_ERR_INVALID_ARGUMENT, "nids is %d: 1 … nranks, which is %d", nids, nranks));
    for (int k = 1; k < nids; k++)
        COLLET_TRY(group_poison(boot_check_id(&ids[k])));
    return group_poison(comm_init_rank(comm, nranks, ids, nids, rank, config, ARGUMENT));
}

static enum collet_result init_all(struct collet_comm **comms, int nranks, const int *devices) {
    struct collet_config options = {.size = sizeof(options)};
    struct collet_unique_id id;
    COLLET_TRY(boot_unique_id_fresh(true, &id));
    for (int rank = 0; rank < nranks; rank++) {
        options.device = devices != NULL ? devices[rank] : COLLET_DEVICE_HOST;
        COLLET_TRY(options_check_device(&options.device, "an entry of devices"));
        COLLET_TRY(begin_rank(&options, &id, 1, nranks, rank, ARGUMENT, &comms[rank]));
    }
    return comm_join_all(comms, nranks);
}

enum collet_result collet_comm_init_all(struct collet_comm **comms, int nranks, const int *devices) {
    if (comms == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "comms is NULL: pass an array of nranks handles");
    COLLET_TRY(boot_check_ranks(nranks, 0));
    memset(comms, 0, (size_t)nranks * sizeof(struct collet_comm *));
    enum collet_result result = init_all(comms, nranks, devices);
    for (int rank = 0; result != COLLET_SUCCESS && rank < nranks; rank++) {
        comm_discard(comms[rank]);
        comms[rank] = NULL;
    }
    return result;
}

/* ---- end ---- */

enum collet_result collet_comm_finalize(struct collet_comm *comm) {
    if (comm == NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(comm_check(comm));
    COLLET_TRY(group_check_none_queued(comm, NULL, "collet_comm_finalize"));
    engine_take(comm, 0);
    engine_drain(comm);
    enum comm_phase phase = comm->phase;
    if (phase == COMM_READY)
        comm_set_phase(comm, COMM_FINALIZED);
    engine_give(comm);
    if (phase == COMM_FINALIZED)
        return err_set(COLLET_ERR_INVALID_USAGE, "the communicator was finalized before");
    if (phase == COMM_JOINING)
        return err_set(COLLET_ERR_INVALID_USAGE, "the communicator is still being created: abort it instead");
    return COLLET_SUCCESS;
}

/* A child of fork() has only a copy of its parent's communicator: nothing to end. */
enum collet_result collet_comm_destroy(struct collet_comm *comm) {
    if (comm == NULL || comm_is_inherited(comm))
        return COLLET_SUCCESS;
    COLLET_TRY(comm_check(comm));
    COLLET_TRY(group_check_none_queued(comm, NULL, "collet_comm_destroy"));
    engine_take(comm, 0);
    if (!comm_is_live(comm)) {
        engine_give(comm);
        return comm_check(comm);
    }
    comm_discard(comm);
    return COLLET_SUCCESS;
}

/* Ends the calls of all ranks. */
static enum collet_result stop_everywhere(struct collet_comm *comm, const char *function) {
    if (!comm_enter(comm))
        return comm_check(comm);
    char text[ERR_TEXT_BYTES], error[ERR_TEXT_BYTES];
    comm_error_text(comm, error, sizeof(error));
    snprintf(text, sizeof(text), "rank %d called %s()%s%.400s", comm->rank, function, error[0] ? " after: " : "",
             error);
    boot_fail(comm->boot, COLLET_ERR_ABORTED, text);
    comm_leave(comm);
    return COLLET_SUCCESS;
}

enum collet_result collet_comm_revoke(struct collet_comm *comm) {
    COLLET_TRY(comm_check(comm));
    if (!comm_enter(comm))
        return comm_check(comm);
    /* Set before calls fail, so that later calls report the revocation. */
    __atomic_store_n(&comm->revoked, true, __ATOMIC_RELAXED);
    comm_leave(comm);
    return stop_everywhere(comm, "collet_comm_revoke");
}

enum collet_result collet_comm_abort(struct collet_comm *comm) {
    if (comm == NULL || comm_is_inherited(comm))
        return COLLET_SUCCESS;
    COLLET_TRY(stop_everywhere(comm, "collet_comm_abort"));
    if (group_check_none_queued(comm, NULL, "collet_comm_abort") != COLLET_SUCCESS)
        group_poison(COLLET_ERR_ABORTED);
    if (!engine_take(comm, COMM_ABORT_WAIT_NS)) { /* A call hangs: its memory leaks, but this thread returns */
        log_warn(INIT, "a call on the aborted communicator has not returned: its memory is kept");
        return COLLET_SUCCESS;
    }
    if (comm_is_live(comm))
        comm_discard(comm);
    else
        engine_give(comm);
    return COLLET_SUCCESS;
}
