/* SPDX-License-Identifier: Apache-2.0
 *
 * Put, get, signal, flush: calls on windows for which the other rank makes no call.
 *
 *    the window is                  put, get                      signal
 *    reached by address             a copy                        an atomic add, release
 *    reached by the RMA engine      an operation of one piece     an operation without pieces that ends with a signal
 *    on GPUs                        a copy in a stream            a kernel in a stream (in_stream.h)
 */
#include "layers/windows/await.h"
#include "layers/windows/in_stream.h"
#include "layers/windows/window.h"

#include "fifo/port.h"

/* Moves the piece now, by the RMA engine if piece->there is NULL. If the data goes by the engine, so does its signal. */
static enum collet_result move(struct collet_comm *comm, const struct collet_window *window, int peer,
                               const struct piece *piece, bool gets, bool signals) {
    uint64_t *counter = signals ? window_signal_at(comm, window, peer) : NULL;
    const bool by_address = piece->bytes == 0 || piece->there != NULL;
    const bool by_messages = !by_address || (signals && counter == NULL);
    if (by_address && piece->bytes > 0)
        memmove(gets ? piece->here : piece->there, gets ? piece->there : piece->here, piece->bytes);
    if (!by_messages && signals)
        __atomic_fetch_add(counter, 1, __ATOMIC_RELEASE); /* pairs with has_signals() */
    if (!by_messages)
        return COLLET_SUCCESS;
    struct rma_op op = {
        .gets = gets,
        .by_messages = true,
        .end = signals ? OP_SIGNALS : OP_ENDS,
        .signal_window = piece->window,
        .pieces = piece,
        .npieces = by_address ? 0 : 1,
    };
    return await_op(comm, comm->windows->rma, peer, &op, gets ? "a get from" : "a put to");
}

/* Begins any of these calls. If it succeeds, end it with comm_leave(). */
static enum collet_result begin(struct collet_comm *comm, const struct collet_window *window, int peer,
                                const void *stream) {
    COLLET_TRY(window_enter(comm, window, peer));
    enum collet_result result = comm_is_on_gpu(comm) ? COLLET_SUCCESS : window_check_no_stream(stream);
    if (result != COLLET_SUCCESS)
        comm_leave(comm);
    return result;
}

static enum collet_result move_on_host(struct collet_comm *comm, const struct collet_window *window, int peer,
                                       const struct window_target *target, bool gets, bool signals) {
    const struct piece piece = window_piece(comm, window, peer, target->here, target->offset, target->bytes);
    return move(comm, window, peer, &piece, gets, signals);
}

static enum collet_result move_on_gpu(struct collet_comm *comm, const struct collet_window *window, int peer,
                                      const struct window_target *target, bool gets, bool signals, void *stream) {
    struct onesided_move move = in_stream_move_of(window, peer, target);
    move.gets = gets;
    move.signals = signals;
    move.number = gpu_window_number(window->on_gpu);
    return in_stream_move(comm, &move, stream);
}

/* Does any of these calls. */
static enum collet_result act(struct collet_comm *comm, const struct collet_window *window, int peer,
                              struct window_target target, bool gets, bool signals, void *stream) {
    COLLET_TRY(begin(comm, window, peer, stream));
    enum collet_result result = window_check(window, peer, &target);
    if (result == COLLET_SUCCESS)
        result = comm_is_on_gpu(comm) ? move_on_gpu(comm, window, peer, &target, gets, signals, stream)
                                      : move_on_host(comm, window, peer, &target, gets, signals);
    comm_remember(comm, result);
    comm_leave(comm);
    return result;
}

enum collet_result collet_put(const void *sendbuff, size_t bytes, int peer, struct collet_window *window, size_t offset,
                              struct collet_comm *comm, void *stream) {
    const struct window_target target = {"sendbuff", (void *)(uintptr_t)sendbuff, offset, bytes};
    return act(comm, window, peer, target, false, false, stream);
}

enum collet_result collet_put_signal(const void *sendbuff, size_t bytes, int peer, struct collet_window *window,
                                     size_t offset, struct collet_comm *comm, void *stream) {
    const struct window_target target = {"sendbuff", (void *)(uintptr_t)sendbuff, offset, bytes};
    return act(comm, window, peer, target, false, true, stream);
}

enum collet_result collet_get(void *recvbuff, size_t bytes, int peer, struct collet_window *window, size_t offset,
                              struct collet_comm *comm, void *stream) {
    const struct window_target target = {"recvbuff", recvbuff, offset, bytes};
    return act(comm, window, peer, target, true, false, stream);
}

enum collet_result collet_signal(int peer, struct collet_window *window, struct collet_comm *comm, void *stream) {
    return act(comm, window, peer, (struct window_target){.name = NULL}, false, true, stream);
}

/* Bytes that were copied by address are there already, and on GPUs when the stream has come here. */
enum collet_result collet_win_flush(int peer, struct collet_window *window, struct collet_comm *comm, void *stream) {
    COLLET_TRY(begin(comm, window, peer, stream));
    struct rma *rma = comm->windows->rma;
    struct rma_op op = {.by_messages = true, .flushes = true};
    enum collet_result result = COLLET_SUCCESS;
    if (rma != NULL && rma_is_dirty(rma, peer))
        result = comm_remember(comm, await_op(comm, rma, peer, &op, "a flush at"));
    comm_leave(comm);
    return result;
}

/* ---- waiting for signals ---- */

struct signals {
    const struct collet_window *window;
    int peer;
    uint64_t count;
};

static bool has_signals(const void *signals_) {
    const struct signals *signals = signals_;
    const struct collet_window *window = signals->window;
    uint64_t sent = port_load_acquire(&window->here.signals[signals->peer]); /* pairs with move(), take_signal() */
    return sent - window->waited[signals->peer] >= signals->count;
}

/* If this fails, the rank cannot follow the others any more. So the communicator fails, as in any call. */
static enum collet_result wait_on_host(struct collet_comm *comm, struct collet_window *window, int peer,
                                       uint64_t count) {
    const struct signals signals = {window, peer, count};
    const struct rma_awaited awaited = {
        .comm = comm,
        .rma = comm->windows->rma,
        .peer = peer,
        .what = "a signal of",
        .hint = ": did that call collet_signal()?",
        .is_there = has_signals,
        .about = &signals,
    };
    enum collet_result result = await(&awaited);
    if (result == COLLET_SUCCESS)
        window->waited[peer] += count;
    else
        boot_fail(comm->boot, result, err_last());
    return result;
}

static enum collet_result wait_on_gpu(struct collet_comm *comm, const struct collet_window *window, int peer,
                                      uint64_t count, void *stream) {
    const struct onesided_wait wait = {peer, count};
    return in_stream_wait(comm, gpu_window_number(window->on_gpu), &wait, 1, stream);
}

enum collet_result collet_wait_signal(int peer, uint64_t count, struct collet_window *window, struct collet_comm *comm,
                                      void *stream) {
    COLLET_TRY(begin(comm, window, peer, stream));
    enum collet_result result =
        comm_is_on_gpu(comm) ? wait_on_gpu(comm, window, peer, count, stream) : wait_on_host(comm, window, peer, count);
    comm_remember(comm, result);
    comm_leave(comm);
    return result;
}
