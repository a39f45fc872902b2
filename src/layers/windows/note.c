/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/windows/note.h"

#include "layers/windows/await.h"
#include "layers/windows/window.h"

void note_send(const struct collet_comm *comm, int peer, const char *note, size_t bytes) {
    const enum collet_result result = boot_send(comm->boot, peer, boot_key(BOOT_NOTE, 0), note, bytes);
    if (result != COLLET_SUCCESS)
        boot_fail(comm->boot, result, err_last());
}

/* A note that is waited for. */
struct expected {
    struct collet_comm *comm;
    int peer;
    char *note;
    size_t *bytes;
    enum collet_result result; /* IN_PROGRESS: the note has not come */
};

/* Takes the note if it has come. Takes no second one. */
static bool take(const void *expected_) {
    struct expected *expected = *(struct expected *const *)expected_;
    struct rma *rma = expected->comm->windows->rma;
    if (expected->result != COLLET_IN_PROGRESS)
        return true;
    if (rma != NULL)
        expected->result = rma_take_note(rma, expected->peer, expected->note, expected->bytes);
    else
        expected->result = boot_try_recv(expected->comm->boot, expected->peer, boot_key(BOOT_NOTE, 0), expected->note,
                                         COLLET_NOTE_BYTES, expected->bytes);
    return expected->result != COLLET_IN_PROGRESS;
}

static enum collet_result check(struct collet_comm *comm, const void *note, const size_t *note_bytes, int peer) {
    COLLET_TRY(window_enter_any(comm, peer));
    if (note != NULL && note_bytes != NULL)
        return COLLET_SUCCESS;
    enum collet_result result = err_set(COLLET_ERR_INVALID_ARGUMENT, "%s",
                                        note == NULL ? "note is NULL: pass room for COLLET_NOTE_BYTES bytes"
                                                     : "note_bytes is NULL: pass where its length goes");
    comm_leave(comm);
    return result;
}

enum collet_result collet_note_wait(int peer, void *note, size_t *note_bytes, struct collet_comm *comm) {
    COLLET_TRY(check(comm, note, note_bytes, peer));
    struct expected *expected = &(struct expected){comm, peer, note, note_bytes, COLLET_IN_PROGRESS};
    const struct rma_awaited awaited = {
        .comm = comm,
        .rma = comm->windows->rma,
        .peer = peer,
        .what = "a note of",
        .hint = ": did that post a transfer with a note?",
        .is_there = take,
        .about = &expected,
    };
    enum collet_result result = await(&awaited);
    if (result == COLLET_SUCCESS)
        result = expected->result;
    if (comm_remember(comm, result) != COLLET_SUCCESS)
        boot_fail(comm->boot, result, err_last());
    comm_leave(comm);
    return result;
}

enum collet_result collet_note_test(int peer, void *note, size_t *note_bytes, struct collet_comm *comm) {
    COLLET_TRY(check(comm, note, note_bytes, peer));
    struct expected *expected = &(struct expected){comm, peer, note, note_bytes, COLLET_IN_PROGRESS};
    if (comm->windows->rma != NULL)
        rma_progress(comm->windows->rma);
    take(&expected);
    comm_leave(comm);
    return expected->result;
}
