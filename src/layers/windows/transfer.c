/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers of many blocks: checked once, posted often.
 *
 *    prepare    pieces of the caller ── checked, merged where they touch ─▶ pieces of an operation
 *    post       the operation ─▶ the RMA engine ── its pieces, then its note, then a flush ─▶ done
 *    test, wait, release
 *
 * All operations of one peer take turns (op.c), so hundreds may be under way, and a small one does not wait for a large one.
 */
#include "layers/windows/transfer.h"

#include "base/memory.h"
#include "layers/windows/await.h"
#include "layers/windows/window.h"

#include <stdlib.h>

_Static_assert(COLLET_NOTE_BYTES == PACKET_NOTE_BYTES, "a note fits into a packet");

struct collet_transfer {
    struct collet_transfer *next; /* next transfer of the communicator */
    struct collet_comm *comm;
    int peer;
    bool posted; /* it was posted, and nobody has waited for its end since */
    struct rma_op op;
    struct piece *pieces;
    size_t npieces;
    struct collet_window **windows; /* each window that the pieces name, once */
    size_t nwindows;
    bool by_messages; /* some piece goes through slots */
};

/* The caller's arguments of collet_transfer_prepare(). */
struct piece_list {
    const struct collet_local_piece *local;
    const struct collet_remote_piece *remote;
    size_t npieces;
    int peer;
    bool gets;
};

/* ---- checks ---- */

static enum collet_result check_piece(struct collet_comm *comm, const struct piece_list *list, size_t k) {
    const struct collet_local_piece *local = &list->local[k];
    const struct collet_remote_piece *remote = &list->remote[k];
    const bool known = k > 0 && remote->window == list->remote[k - 1].window;
    if (!known && !window_is_of(comm, remote->window))
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "piece %zu: its window is %p: none of this communicator's, or deregistered already", k,
                       (void *)remote->window);
    if (local->bytes != remote->bytes)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "piece %zu: it has %zu bytes here and %zu bytes at rank %d: give both ends the same length", k,
                       local->bytes, remote->bytes, list->peer);
    if (local->buff == NULL && local->bytes > 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "piece %zu: buff is NULL, and bytes is %zu", k, local->bytes);
    const size_t whole = window_bytes(remote->window, list->peer);
    if (remote->offset > whole || remote->bytes > whole - remote->offset)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "piece %zu: offset is %zu and bytes is %zu: the window of rank %d has %zu bytes", k,
                       remote->offset, remote->bytes, list->peer, whole);
    return COLLET_SUCCESS;
}

/* The place to which a piece goes. */
struct destination {
    uintptr_t space, at; /* space: the window; 0: memory of this rank */
    size_t bytes, piece;
};

static struct destination destination_of(const struct piece_list *list, size_t k) {
    const struct collet_remote_piece *remote = &list->remote[k];
    if (list->gets)
        return (struct destination){0, (uintptr_t)list->local[k].buff, remote->bytes, k};
    return (struct destination){(uintptr_t)remote->window, remote->offset, remote->bytes, k};
}

static int by_place(const void *a_, const void *b_) {
    const struct destination *a = a_, *b = b_;
    if (a->space != b->space)
        return a->space < b->space ? -1 : 1;
    return a->at != b->at ? (a->at < b->at ? -1 : 1) : 0;
}

static enum collet_result check_overlap(const struct piece_list *list) {
    SCOPED_FREE struct destination *sorted = NULL;
    size_t n = 0;
    COLLET_TRY(memory_get(&sorted, list->npieces, sizeof *sorted, "no memory to check %zu pieces", list->npieces));
    for (size_t k = 0; k < list->npieces; k++)
        if (list->remote[k].bytes > 0)
            sorted[n++] = destination_of(list, k);
    qsort(sorted, n, sizeof *sorted, by_place);
    for (size_t k = 1; k < n; k++)
        if (sorted[k].space == sorted[k - 1].space && sorted[k].at - sorted[k - 1].at < sorted[k - 1].bytes)
            return err_set(COLLET_ERR_INVALID_ARGUMENT, "piece %zu: it overlaps piece %zu where both are to go",
                           sorted[k].piece, sorted[k - 1].piece);
    return COLLET_SUCCESS;
}

static enum collet_result check_list(struct collet_comm *comm, const struct piece_list *list) {
    if (list->npieces > 0 && (list->local == NULL || list->remote == NULL))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is NULL, and npieces is %zu",
                       list->local == NULL ? "local" : "remote", list->npieces);
    for (size_t k = 0; k < list->npieces; k++)
        COLLET_TRY(check_piece(comm, list, k));
    return list->npieces > 0 ? check_overlap(list) : COLLET_SUCCESS;
}

/* ---- preparing ---- */

static bool touch(const struct piece *a, const struct piece *b) {
    return a->here + a->bytes == b->here && a->window == b->window && a->offset + a->bytes == b->offset &&
           (a->there == NULL) == (b->there == NULL);
}

static void add_piece(struct collet_transfer *transfer, struct piece piece) {
    struct piece *last = transfer->npieces > 0 ? &transfer->pieces[transfer->npieces - 1] : NULL;
    transfer->by_messages |= piece.there == NULL;
    if (last != NULL && touch(last, &piece))
        last->bytes += piece.bytes;
    else
        transfer->pieces[transfer->npieces++] = piece;
}

static void add_window(struct collet_transfer *transfer, struct collet_window *window) {
    for (size_t k = transfer->nwindows; k-- > 0;)
        if (transfer->windows[k] == window)
            return;
    transfer->windows[transfer->nwindows++] = window;
}

static void transfer_free(struct collet_transfer *transfer) {
    free(transfer->pieces);
    free(transfer->windows);
    free(transfer);
}

static enum collet_result transfer_create(const struct collet_comm *comm, const struct piece_list *list,
                                          struct collet_transfer **transfer_p) {
    struct collet_transfer *transfer;
    const size_t room = list->npieces > 0 ? list->npieces : 1;
    COLLET_TRY(memory_get(&transfer, 1, sizeof *transfer, "no memory for a transfer"));
    transfer->pieces = calloc(room, sizeof *transfer->pieces);
    transfer->windows = calloc(room, sizeof(struct collet_window *));
    if (transfer->pieces == NULL || transfer->windows == NULL) {
        transfer_free(transfer);
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a transfer of %zu pieces", list->npieces);
    }
    for (size_t k = 0; k < list->npieces; k++) {
        const struct collet_remote_piece *remote = &list->remote[k];
        add_window(transfer, remote->window);
        if (remote->bytes > 0)
            add_piece(transfer, window_piece(comm, remote->window, list->peer, list->local[k].buff, remote->offset,
                                             remote->bytes));
    }
    *transfer_p = transfer;
    return COLLET_SUCCESS;
}

/* Are the bytes and their copies larger than this rank's share of the last-level cache? */
static bool leaves_cache(const struct collet_comm *comm, const struct collet_transfer *transfer) {
    uint64_t bytes = 0;
    for (size_t k = 0; k < transfer->npieces; k++)
        bytes += transfer->pieces[k].bytes;
    return transfer->peer != comm->rank && 2 * bytes >= comm->chan->cache_bytes;
}

/* ---- the list of a communicator's transfers, which end with the communicator ---- */

PROCESS_LOCK(transfers_lock); /* protects the list of each communicator */

static void count_in_windows(const struct collet_transfer *transfer, int more) {
    for (size_t k = 0; k < transfer->nwindows; k++)
        __atomic_add_fetch(&transfer->windows[k]->transfers, more, __ATOMIC_RELAXED); /* It orders no other memory. */
}

static void put_on_list(struct collet_transfer *transfer) {
    SCOPED_LOCK(&transfers_lock);
    count_in_windows(transfer, 1);
    transfer->next = transfer->comm->windows->transfers;
    transfer->comm->windows->transfers = transfer;
}

static void take_off_list(const struct collet_transfer *transfer) {
    SCOPED_LOCK(&transfers_lock);
    struct collet_transfer **link = &transfer->comm->windows->transfers;
    while (*link != transfer)
        link = &(*link)->next;
    *link = transfer->next;
    count_in_windows(transfer, -1);
}

/* From now on the RMA engine does not touch the transfer any more. */
static void stop(struct collet_transfer *transfer) {
    if (transfer->posted && !op_is_done(&transfer->op))
        rma_cancel(transfer->comm->windows->rma, &transfer->op, transfer->peer);
    transfer->posted = false;
}

void transfer_end_all(struct collet_comm *comm) {
    while (comm->windows != NULL && comm->windows->transfers != NULL) {
        struct collet_transfer *transfer = comm->windows->transfers;
        comm->windows->transfers = transfer->next;
        stop(transfer);
        transfer_free(transfer);
    }
}

/* Begins a call of this file. If it succeeds, end it with comm_leave(). */
static enum collet_result begin(struct collet_comm *comm, int peer) {
    COLLET_TRY(window_enter_any(comm, peer));
    if (!comm_is_on_gpu(comm))
        return COLLET_SUCCESS;
    comm_leave(comm);
    return err_set(COLLET_ERR_UNSUPPORTED, "transfers and notes are for communicators of host memory; on GPUs, "
                                           "collet_put_signal() and collet_wait_signal() go into streams");
}

enum collet_result collet_transfer_prepare(enum collet_transfer_kind kind, const struct collet_local_piece *local,
                                           const struct collet_remote_piece *remote, size_t npieces, int peer,
                                           struct collet_comm *comm, struct collet_transfer **transfer_p) {
    const struct piece_list list = {local, remote, npieces, peer, kind == COLLET_TRANSFER_GET};
    struct collet_transfer *transfer = NULL;
    COLLET_TRY(begin(comm, peer));
    enum collet_result result = COLLET_SUCCESS;
    if (kind != COLLET_TRANSFER_PUT && kind != COLLET_TRANSFER_GET)
        result =
            err_set(COLLET_ERR_INVALID_ARGUMENT, "kind is %d: COLLET_TRANSFER_PUT or COLLET_TRANSFER_GET", (int)kind);
    else if (transfer_p == NULL)
        result = err_set(COLLET_ERR_INVALID_ARGUMENT, "transfer is NULL: pass where the handle goes");
    if (result == COLLET_SUCCESS)
        result = check_list(comm, &list);
    if (result == COLLET_SUCCESS)
        result = transfer_create(comm, &list, &transfer);
    if (result == COLLET_SUCCESS) {
        transfer->comm = comm;
        transfer->peer = peer;
        transfer->op = (struct rma_op){.gets = list.gets,
                                       .past_caches = leaves_cache(comm, transfer),
                                       .pieces = transfer->pieces,
                                       .npieces = transfer->npieces};
        put_on_list(transfer);
        *transfer_p = transfer;
    }
    comm_remember(comm, result);
    comm_leave(comm);
    return result;
}

/* ---- using it ---- */

/* Begins a call on a transfer. If it succeeds, end it with comm_leave(). */
static enum collet_result transfer_enter(const struct collet_transfer *transfer) {
    if (transfer == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "transfer is NULL: pass one that collet_transfer_prepare() has made");
    return begin(transfer->comm, transfer->peer);
}

static enum collet_result leave(const struct collet_transfer *transfer, enum collet_result result) {
    comm_remember(transfer->comm, result);
    comm_leave(transfer->comm);
    return result;
}

static enum collet_result post(struct collet_transfer *transfer, const void *note, size_t note_bytes) {
    struct rma_op *op = &transfer->op;
    if (transfer->posted && !op_is_done(op))
        return err_set(COLLET_ERR_INVALID_USAGE, "the transfer is under way: wait for it before it is posted again");
    if (note == NULL && note_bytes > 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "note is NULL, and note_bytes is %zu", note_bytes);
    if (note_bytes > COLLET_NOTE_BYTES)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "note_bytes is %zu: a note has at most %d bytes", note_bytes,
                       COLLET_NOTE_BYTES);
    op->end = note != NULL ? OP_NOTES : OP_ENDS;
    op->note_bytes = note_bytes;
    if (note_bytes > 0)
        memcpy(op->note, note, note_bytes);
    op->by_messages = transfer->by_messages || note != NULL;
    op->flushes = !op->gets || note != NULL;
    COLLET_TRY(rma_post(transfer->comm->windows->rma, transfer->peer, op));
    transfer->posted = true;
    return COLLET_SUCCESS;
}

enum collet_result collet_transfer_post(struct collet_transfer *transfer, const void *note, size_t note_bytes) {
    COLLET_TRY(transfer_enter(transfer));
    return leave(transfer, post(transfer, note, note_bytes));
}

static bool is_done(const void *op) { return op_is_done(op); }

static struct rma_awaited awaited_of(const struct collet_transfer *transfer) {
    return (struct rma_awaited){
        .comm = transfer->comm,
        .rma = transfer->comm->windows->rma,
        .peer = transfer->peer,
        .what = transfer->op.gets ? "a transfer from" : "a transfer to",
        .hint = "",
        .is_there = is_done,
        .about = &transfer->op,
    };
}

/* If this fails here, the rank cannot follow the others any more. So the communicator fails, as in any call. */
static enum collet_result judge(struct collet_transfer *transfer, enum collet_result result) {
    if (result >= 0)
        return result;
    boot_fail(transfer->comm->boot, result, err_last());
    stop(transfer);
    return result;
}

static enum collet_result check_posted(const struct collet_transfer *transfer) {
    if (transfer->posted)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_USAGE, "the transfer is not posted: call collet_transfer_post() first");
}

static enum collet_result test(struct collet_transfer *transfer) {
    const struct rma_awaited awaited = awaited_of(transfer);
    COLLET_TRY(check_posted(transfer));
    if (!op_is_done(&transfer->op))
        rma_progress(awaited.rma);
    if (op_is_done(&transfer->op))
        return COLLET_SUCCESS;
    enum collet_result result = judge(transfer, await_check(&awaited, 0));
    return result == COLLET_SUCCESS ? COLLET_IN_PROGRESS : result;
}

enum collet_result collet_transfer_test(struct collet_transfer *transfer) {
    COLLET_TRY(transfer_enter(transfer));
    return leave(transfer, test(transfer));
}

enum collet_result collet_transfer_wait(struct collet_transfer *transfer) {
    COLLET_TRY(transfer_enter(transfer));
    const struct rma_awaited awaited = awaited_of(transfer);
    enum collet_result result = check_posted(transfer);
    if (result == COLLET_SUCCESS)
        result = judge(transfer, await(&awaited));
    return leave(transfer, result);
}

enum collet_result collet_transfer_release(struct collet_transfer *transfer) {
    if (transfer == NULL)
        return COLLET_SUCCESS;
    struct collet_comm *comm = transfer->comm;
    if (!comm_enter(comm))
        return comm_check(comm);
    const bool under_way = transfer->posted && !op_is_done(&transfer->op);
    enum collet_result result = COLLET_SUCCESS;
    if (under_way && boot_failed(comm->boot) == COLLET_SUCCESS) {
        result = err_set(COLLET_ERR_INVALID_USAGE, "the transfer is under way: wait for it before it is released");
    } else {
        stop(transfer);
        take_off_list(transfer);
        transfer_free(transfer);
    }
    comm_leave(comm);
    return result;
}

/* ---- notes ---- */

struct note_of {
    struct rma *rma;
    int peer;
};

static bool has_note(const void *of_) {
    const struct note_of *of = of_;
    return rma_has_note(of->rma, of->peer);
}

static enum collet_result check_note(struct collet_comm *comm, const void *note, const size_t *note_bytes, int peer) {
    COLLET_TRY(begin(comm, peer));
    if (note != NULL && note_bytes != NULL)
        return COLLET_SUCCESS;
    enum collet_result result = err_set(COLLET_ERR_INVALID_ARGUMENT, "%s",
                                        note == NULL ? "note is NULL: pass room for COLLET_NOTE_BYTES bytes"
                                                     : "note_bytes is NULL: pass where its length goes");
    comm_leave(comm);
    return result;
}

enum collet_result collet_note_wait(int peer, void *note, size_t *note_bytes, struct collet_comm *comm) {
    COLLET_TRY(check_note(comm, note, note_bytes, peer));
    struct rma *rma = comm->windows->rma;
    const struct note_of of = {rma, peer};
    const struct rma_awaited awaited = {
        .comm = comm,
        .rma = rma,
        .peer = peer,
        .what = "a note of",
        .hint = ": did that post a transfer with a note?",
        .is_there = has_note,
        .about = &of,
    };
    enum collet_result result = comm_remember(comm, await(&awaited));
    if (result == COLLET_SUCCESS)
        result = rma_take_note(rma, peer, note, note_bytes);
    else
        boot_fail(comm->boot, result, err_last());
    comm_leave(comm);
    return result;
}

enum collet_result collet_note_test(int peer, void *note, size_t *note_bytes, struct collet_comm *comm) {
    COLLET_TRY(check_note(comm, note, note_bytes, peer));
    struct rma *rma = comm->windows->rma;
    rma_progress(rma);
    enum collet_result result = rma_take_note(rma, peer, note, note_bytes);
    comm_leave(comm);
    return result;
}
