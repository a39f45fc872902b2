/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers of many blocks: checked once, posted often.
 *
 *    prepare    pieces of the caller ── checked, merged where they touch ─▶ pieces of an operation
 *    post       on host memory: the operation ─▶ the RMA engine ── its pieces, then its note, then a flush ─▶ done
 *               on GPUs:        a kernel in a stream ── when it has ended, a message with the note ─▶ done
 *    test, wait, release
 *
 * All operations of one peer take turns (op.c), so hundreds may be under way, and a small one does not wait for a large one. On GPUs the
 * streams do that.
 */
#include "layers/windows/transfer.h"

#include "base/log.h"
#include "base/memory.h"
#include "layers/gpu/transfer.h"
#include "layers/windows/await.h"
#include "layers/windows/note.h"
#include "layers/windows/window.h"

#include <stdlib.h>

_Static_assert(COLLET_NOTE_BYTES == PACKET_NOTE_BYTES, "a note fits into a packet");

struct collet_transfer {
    struct collet_transfer *next; /* next transfer of the communicator */
    struct collet_comm *comm;
    int peer;
    bool posted;                 /* it was posted, and nobody has waited for its end since */
    struct rma_op op;            /* on GPUs it has only the note */
    struct gpu_transfer *on_gpu; /* NULL: on host memory */
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

/* A GPU that reads memory which it may not use fails for good. */
static enum collet_result check_local(const struct collet_comm *comm, const struct piece_list *list) {
    if (!comm_is_on_gpu(comm))
        return COLLET_SUCCESS;
    const struct gpu_driver *driver = comm->gpu->driver;
    GPU_ENTERED(driver, comm->gpu->ordinal);
    for (size_t k = 0; k < list->npieces; k++)
        if (list->local[k].bytes > 0 && !driver->memory->is_for_gpus(list->local[k].buff))
            return err_set(COLLET_ERR_INVALID_ARGUMENT,
                           "piece %zu: buff is %p, memory of the host that GPUs may not use: pass memory of the GPU", k,
                           list->local[k].buff);
    return COLLET_SUCCESS;
}

static enum collet_result check_list(struct collet_comm *comm, const struct piece_list *list) {
    if (list->npieces > 0 && (list->local == NULL || list->remote == NULL))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is NULL, and npieces is %zu",
                       list->local == NULL ? "local" : "remote", list->npieces);
    for (size_t k = 0; k < list->npieces; k++)
        COLLET_TRY(check_piece(comm, list, k));
    COLLET_TRY(check_local(comm, list));
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
    if (transfer->on_gpu != NULL)
        gpu_transfer_destroy(transfer->on_gpu);
    free(transfer->pieces);
    free(transfer->windows);
    free(transfer);
}

/* Makes what a transfer has on its GPU. */
static enum collet_result create_on_gpu(const struct collet_comm *comm, struct collet_transfer *transfer, bool gets) {
    SCOPED_FREE struct piece_copy *copies = NULL;
    const size_t npieces = transfer->npieces;
    if (transfer->by_messages)
        return err_gpu_not_reached(comm->chan, transfer->peer);
    COLLET_TRY(memory_get(&copies, npieces > 0 ? npieces : 1, sizeof *copies, "no memory for a transfer"));
    for (size_t k = 0; k < npieces; k++) {
        const struct piece *piece = &transfer->pieces[k];
        copies[k] = gets ? (struct piece_copy){piece->here, piece->there, piece->bytes}
                         : (struct piece_copy){piece->there, piece->here, piece->bytes};
    }
    return gpu_transfer_create(comm->chan, copies, npieces, &transfer->on_gpu);
}

static enum collet_result transfer_create(struct collet_comm *comm, const struct piece_list *list,
                                          struct collet_transfer **transfer_p) {
    struct collet_transfer *transfer;
    const size_t room = list->npieces > 0 ? list->npieces : 1;
    COLLET_TRY(memory_get(&transfer, 1, sizeof *transfer, "no memory for a transfer"));
    transfer->comm = comm;
    transfer->peer = list->peer;
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
    enum collet_result result = comm_is_on_gpu(comm) ? create_on_gpu(comm, transfer, list->gets) : COLLET_SUCCESS;
    if (result == COLLET_SUCCESS)
        *transfer_p = transfer;
    else
        transfer_free(transfer);
    return result;
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

/* ---- moving ---- */

/* SUCCESS, IN_PROGRESS, or the failure of a GPU. */
static enum collet_result state_of(const struct collet_transfer *transfer) {
    if (transfer->on_gpu != NULL)
        return gpu_transfer_state(transfer->on_gpu);
    return op_is_done(&transfer->op) ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

static bool is_under_way(const struct collet_transfer *transfer) {
    return transfer->posted && state_of(transfer) == COLLET_IN_PROGRESS;
}

/* A stream cannot be told to leave a transfer out. So it is waited for: without a limit, as for other work of the rank in streams, unless the
 * communicator has failed. False: the time was up. */
static bool await_gpu(const struct collet_transfer *transfer) {
    const struct boot *boot = transfer->comm->boot;
    struct waiter waiter = transfer->comm->engine.patience;
    uint64_t end_ns = UINT64_MAX;
    while (is_under_way(transfer) && os_now_ns() < end_ns) {
        wait_pause(&waiter);
        if (end_ns == UINT64_MAX && boot_failed(boot) != COLLET_SUCCESS)
            end_ns = os_now_ns() + COMM_ABORT_WAIT_NS;
    }
    return !is_under_way(transfer);
}

/* From now on the RMA engine, or the GPU, does not touch the transfer any more. False: the GPU may still do so. */
static bool stop(struct collet_transfer *transfer) {
    bool stopped = true;
    if (transfer->on_gpu != NULL)
        stopped = await_gpu(transfer);
    else if (is_under_way(transfer))
        rma_cancel(transfer->comm->windows->rma, &transfer->op, transfer->peer);
    transfer->posted = !stopped;
    return stopped;
}

/* Transfers whose list a GPU may still read. A debugger finds them here, and a leak checker sees no leak. */
static struct collet_transfer *all_kept;

static void keep(struct collet_transfer *transfer) {
    log_warn(COLL, "the GPU is still at work for a transfer that has ended: its memory is kept");
    gpu_transfer_keep(transfer->on_gpu);
    SCOPED_LOCK(&transfers_lock);
    transfer->comm = NULL; /* so its note is not sent */
    transfer->next = all_kept;
    all_kept = transfer;
}

static void transfer_end(struct collet_transfer *transfer) {
    if (stop(transfer))
        transfer_free(transfer);
    else
        keep(transfer);
}

void transfer_end_all(struct collet_comm *comm) {
    while (comm->windows != NULL && comm->windows->transfers != NULL) {
        struct collet_transfer *transfer = comm->windows->transfers;
        comm->windows->transfers = transfer->next;
        transfer_end(transfer);
    }
}

enum collet_result collet_transfer_prepare(enum collet_transfer_kind kind, const struct collet_local_piece *local,
                                           const struct collet_remote_piece *remote, size_t npieces, int peer,
                                           struct collet_comm *comm, struct collet_transfer **transfer_p) {
    const struct piece_list list = {local, remote, npieces, peer, kind == COLLET_TRANSFER_GET};
    struct collet_transfer *transfer = NULL;
    COLLET_TRY(window_enter_any(comm, peer));
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
    return window_enter_any(transfer->comm, transfer->peer);
}

static enum collet_result leave(const struct collet_transfer *transfer, enum collet_result result) {
    comm_remember(transfer->comm, result);
    comm_leave(transfer->comm);
    return result;
}

static enum collet_result check_post(const struct collet_transfer *transfer, const void *note, size_t note_bytes,
                                     const void *stream) {
    if (is_under_way(transfer))
        return err_set(COLLET_ERR_INVALID_USAGE, "the transfer is under way: wait for it before it is posted again");
    if (note == NULL && note_bytes > 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "note is NULL, and note_bytes is %zu", note_bytes);
    if (note_bytes > COLLET_NOTE_BYTES)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "note_bytes is %zu: a note has at most %d bytes", note_bytes,
                       COLLET_NOTE_BYTES);
    return transfer->on_gpu != NULL ? COLLET_SUCCESS : window_check_no_stream(stream);
}

/* The stream has moved the pieces. Called by a thread of the driver. */
static void tell_peer(void *transfer_) {
    const struct collet_transfer *transfer = transfer_;
    SCOPED_LOCK(&transfers_lock);
    if (transfer->comm != NULL)
        note_send(transfer->comm, transfer->peer, transfer->op.note, transfer->op.note_bytes);
}

static enum collet_result post(struct collet_transfer *transfer, const void *note, size_t note_bytes, void *stream) {
    struct rma_op *op = &transfer->op;
    COLLET_TRY(check_post(transfer, note, note_bytes, stream));
    op->end = note != NULL ? OP_NOTES : OP_ENDS;
    op->note_bytes = note_bytes;
    if (note_bytes > 0)
        memcpy(op->note, note, note_bytes);
    op->by_messages = transfer->by_messages || note != NULL;
    op->flushes = !op->gets || note != NULL;
    COLLET_TRY(transfer->on_gpu != NULL
                   ? gpu_transfer_post(transfer->on_gpu, note != NULL ? tell_peer : NULL, transfer, stream)
                   : rma_post(transfer->comm->windows->rma, transfer->peer, op));
    transfer->posted = true;
    return COLLET_SUCCESS;
}

enum collet_result collet_transfer_post(struct collet_transfer *transfer, const void *note, size_t note_bytes,
                                        void *stream) {
    COLLET_TRY(transfer_enter(transfer));
    return leave(transfer, post(transfer, note, note_bytes, stream));
}

static bool is_done(const void *transfer) { return state_of(transfer) != COLLET_IN_PROGRESS; }

static struct rma_awaited awaited_of(const struct collet_transfer *transfer) {
    return (struct rma_awaited){
        .comm = transfer->comm,
        .rma = transfer->comm->windows->rma,
        .peer = transfer->peer,
        .what = transfer->op.gets ? "a transfer from" : "a transfer to",
        .hint = "",
        .is_there = is_done,
        .about = transfer,
        .in_stream = transfer->on_gpu != NULL,
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
    if (is_under_way(transfer) && awaited.rma != NULL)
        rma_progress(awaited.rma);
    enum collet_result result = state_of(transfer);
    if (result == COLLET_IN_PROGRESS && (result = await_check(&awaited, 0)) == COLLET_SUCCESS)
        return COLLET_IN_PROGRESS;
    return judge(transfer, result);
}

enum collet_result collet_transfer_test(struct collet_transfer *transfer) {
    COLLET_TRY(transfer_enter(transfer));
    return leave(transfer, test(transfer));
}

enum collet_result collet_transfer_wait(struct collet_transfer *transfer) {
    COLLET_TRY(transfer_enter(transfer));
    const struct rma_awaited awaited = awaited_of(transfer);
    enum collet_result result = check_posted(transfer);
    if (result == COLLET_SUCCESS) {
        result = await(&awaited);
        result = judge(transfer, result == COLLET_SUCCESS ? state_of(transfer) : result);
    }
    return leave(transfer, result);
}

enum collet_result collet_transfer_release(struct collet_transfer *transfer) {
    if (transfer == NULL)
        return COLLET_SUCCESS;
    struct collet_comm *comm = transfer->comm;
    if (!comm_enter(comm))
        return comm_check(comm);
    enum collet_result result = COLLET_SUCCESS;
    if (is_under_way(transfer) && boot_failed(comm->boot) == COLLET_SUCCESS) {
        result = err_set(COLLET_ERR_INVALID_USAGE, "the transfer is under way: wait for it before it is released");
    } else {
        take_off_list(transfer);
        transfer_end(transfer);
    }
    comm_leave(comm);
    return result;
}
