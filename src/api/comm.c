/* SPDX-License-Identifier: Apache-2.0
 *
 * The handle of a communicator: checks before each use, the number of threads that use it, and its errors.
 */
#include "api/comm.h"
#include "seams/layer.h"
#include "base/log.h"

#include <stdio.h>

enum collet_result comm_check(const struct collet_comm *comm) {
    if (comm == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "comm is NULL: pass a communicator made by collet_comm_init_*");
    if (comm_is_inherited(comm))
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "comm was made before fork(): it is of the parent process, and a child "
                       "process has to create its own");
    if (!comm_is_live(comm))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "comm is no communicator: destroyed, aborted or never initialised");
    return COLLET_SUCCESS;
}

enum collet_result comm_check_phase(const struct collet_comm *comm) {
    COLLET_TRY(comm_check(comm));
    enum comm_phase phase = __atomic_load_n(&comm->phase, __ATOMIC_ACQUIRE);
    if (phase == COMM_JOINING)
        return err_set(COLLET_ERR_INVALID_USAGE, "the communicator is still being created: poll "
                                                 "collet_comm_get_async_error() (or end the group) first");
    if (phase == COMM_FINALIZED)
        return err_set(COLLET_ERR_INVALID_USAGE, "the communicator was finalized: no calls may follow");
    return COLLET_SUCCESS;
}

/* comm_discard() clears the magic and then reads `readers`; this function does it the other way round. So either comm_discard() sees
 * this reader, or this reader sees the cleared magic. */
bool comm_enter(struct collet_comm *comm) {
    __atomic_add_fetch(&comm->readers, 1, __ATOMIC_SEQ_CST);
    if (comm_is_live(comm))
        return true;
    __atomic_sub_fetch(&comm->readers, 1, __ATOMIC_SEQ_CST);
    return false;
}

void comm_leave(struct collet_comm *comm) { __atomic_sub_fetch(&comm->readers, 1, __ATOMIC_SEQ_CST); }

/* Takes only error_lock: the caller may hold comm's lock, or not. */
void comm_keep_error(struct collet_comm *comm) {
    pthread_mutex_lock(&comm->error_lock);
    snprintf(comm->error_text, sizeof(comm->error_text), "%s", err_last());
    pthread_mutex_unlock(&comm->error_lock);
}

void comm_error_text(struct collet_comm *comm, char *text, size_t room) {
    text[0] = '\0';
    if (!comm_enter(comm))
        return;
    pthread_mutex_lock(&comm->error_lock);
    snprintf(text, room, "%s", comm->error_text);
    pthread_mutex_unlock(&comm->error_lock);
    if (text[0] == '\0' && comm->boot != NULL)
        snprintf(text, room, "%s", boot_failed_text(comm->boot));
    comm_leave(comm);
}

void comm_fail_without_memory(struct collet_comm *comm, enum collet_result result) {
    if (result != COLLET_ERR_NO_MEMORY || !comm_enter(comm))
        return;
    boot_fail(comm->boot, result, err_last());
    comm_leave(comm);
}

void comm_tell_failure(struct collet_comm *comm) {
    for (int k = 0; k < nlayers; k++)
        if (layers[k]->comm_failed != NULL)
            layers[k]->comm_failed(comm);
}

void comm_set_phase(struct collet_comm *comm, enum comm_phase phase) {
    __atomic_store_n(&comm->phase, phase, __ATOMIC_RELEASE);
}
