/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of collet.h that answer questions about a communicator.
 */
#include "api/engine.h"
#include "api/join.h"
#include "base/output.h"
#include "seams/elastic.h"
#include "seams/layer.h"

#include <stdio.h>
#include <stdlib.h>

/* Has the communicator failed, on any rank? Works without the lock. */
static enum collet_result failure_anywhere(struct collet_comm *comm) {
    if (!comm_enter(comm))
        return COLLET_SUCCESS;
    enum collet_result failed = comm->boot == NULL ? COLLET_SUCCESS : boot_failed(comm->boot);
    comm_leave(comm);
    return failed;
}

static enum collet_result get(const struct collet_comm *comm, const int *value, int *to, const char *argument) {
    if (to == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is NULL: pass the address of an int", argument);
    struct collet_comm *looked_at = (struct collet_comm *)comm;
    if (!comm_enter(looked_at)) /* Another thread has just destroyed comm */
        return comm_check(comm);
    const bool known = __atomic_load_n(&comm->phase, __ATOMIC_ACQUIRE) != COMM_JOINING;
    if (known)
        *to = *value;
    comm_leave(looked_at);
    return known ? COLLET_SUCCESS
                 : err_set(COLLET_ERR_INVALID_USAGE,
                           "the communicator is still being created: poll collet_comm_get_async_error() first");
}

enum collet_result collet_comm_count(const struct collet_comm *comm, int *nranks) {
    COLLET_TRY(comm_check(comm));
    return get(comm, &comm->nranks, nranks, "nranks");
}

enum collet_result collet_comm_rank(const struct collet_comm *comm, int *rank) {
    COLLET_TRY(comm_check(comm));
    return get(comm, &comm->rank, rank, "rank");
}

enum collet_result collet_comm_device(const struct collet_comm *comm, int *device) {
    COLLET_TRY(comm_check(comm));
    return get(comm, &comm->device, device, "device");
}

enum collet_result collet_comm_get_async_error(struct collet_comm *comm, enum collet_result *async_error) {
    COLLET_TRY(comm_check(comm));
    if (async_error == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "async_error is NULL: pass where the state goes");
    enum comm_phase phase = __atomic_load_n(&comm->phase, __ATOMIC_ACQUIRE);
    if (phase == COMM_JOINING) {
        *async_error = COLLET_IN_PROGRESS;
        if (call_lock_try(&comm->lock)) {
            *async_error = comm_is_live(comm) ? comm_try_join(comm) : COLLET_ERR_ABORTED;
            call_lock_release(&comm->lock);
        }
        return COLLET_SUCCESS;
    }
    enum collet_result making = split_poll(comm);
    comm_remember(comm, making);
    if (phase == COMM_FAILED)
        *async_error = comm->failure;
    else
        *async_error = making != COLLET_SUCCESS ? making : failure_anywhere(comm);
    return COLLET_SUCCESS;
}

static void print_state(const struct collet_comm *comm, FILE *out) {
    static const char *const phases[] = {[COMM_READY] = "ready", "failed", "finalized"};
    enum comm_phase phase = __atomic_load_n(&comm->phase, __ATOMIC_ACQUIRE);
    fprintf(out, "communicator %s: ", comm->name[0] ? comm->name : "(unnamed)");
    if (phase == COMM_JOINING) /* In a shrink, the rank may not be known yet */
        fprintf(out, "being created\n");
    else
        fprintf(out, "rank %d of %d, %s, %llu collectives called\n", comm->rank, comm->nranks, phases[phase],
                (unsigned long long)engine_collectives(comm));
    if (phase == COMM_READY) {
        plan_dump(comm->planner, out);
        for (int k = 0; k < nlayers; k++)
            if (layers[k]->comm_print != NULL)
                layers[k]->comm_print(comm, out);
    }
}

/* Writes the text after comm_leave(), so the end of comm does not wait for the reader of fd. */
enum collet_result collet_comm_dump(const struct collet_comm *comm, int fd) {
    COLLET_TRY(comm_check(comm));
    if (fd < 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "fd is %d: pass an open file descriptor", fd);
    struct collet_comm *looked_at = (struct collet_comm *)comm;
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the text of a dump");
    bool live = comm_enter(looked_at);
    if (live) {
        print_state(comm, out);
        comm_leave(looked_at);
    }
    enum collet_result result = live ? COLLET_SUCCESS : comm_check(comm); /* Another thread has just destroyed comm */
    if (fclose(out) != 0)
        result = err_set(COLLET_ERR_NO_MEMORY, "no memory for the text of a dump");
    else if (live && !output_write(fd, text, bytes, -1))
        result = err_set(COLLET_ERR_SYSTEM, "cannot write to file descriptor %d: %m", fd);
    free(text);
    return result;
}
