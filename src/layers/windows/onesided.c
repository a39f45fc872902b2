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

/* The arguments of a call: bytes of the caller's memory, and as many bytes of the peer's window. */
struct target {
    const char *name; /* name of the argument with the caller's memory; NULL: none */
    void *here;
    size_t offset, bytes;
};

static enum collet_result check(const struct collet_window *window, int peer, const struct target *target) {
    const size_t whole = window_bytes(window, peer);
    if (target->name != NULL && target->here == NULL && target->bytes > 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is NULL, and bytes is %zu", target->name, target->bytes);
    if (target->offset <= whole && target->bytes <= whole - target->offset)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "offset is %zu and bytes is %zu: the window of rank %d has %zu bytes",
                   target->offset, target->bytes, peer, whole);
}

/* Begins any of these calls. If it succeeds, end it with comm_leave(). */
static enum collet_result begin(struct collet_comm *comm, const struct collet_window *window, int peer,
                                const void *stream) {
    COLLET_TRY(window_enter(comm, window, peer));
    if (stream == NULL || comm_is_on_gpu(comm))
        return COLLET_SUCCESS;
    comm_leave(comm);
    return err_set(COLLET_ERR_INVALID_ARGUMENT,
                   "stream is %p: calls on windows of host memory are in no stream, pass NULL", stream);
}

/* What a call does. */
enum does { DOES_PUT, DOES_GET = 1, DOES_SIGNAL = 2, DOES_SIGNAL_OF_NO_WINDOW = 4 };

static enum collet_result move_on_host(struct collet_comm *comm, const struct collet_window *window, int peer,
                                       const struct target *target, unsigned does) {
    const struct piece piece = window_piece(comm, window, peer, target->here, target->offset, target->bytes);
    return move(comm, window, peer, &piece, does & DOES_GET, does & DOES_SIGNAL);
}

static enum collet_result move_on_gpu(struct collet_comm *comm, const struct collet_window *window, int peer,
                                      const struct target *target, unsigned does, void *stream) {
    const struct onesided_move move = {
        .window = window->on_gpu,
        .peer = peer,
        .gets = does & DOES_GET,
        .here = target->here,
        .offset = target->offset,
        .bytes = target->bytes,
        .signals = does & (DOES_SIGNAL | DOES_SIGNAL_OF_NO_WINDOW),
        .number = does & DOES_SIGNAL ? gpu_window_number(window->on_gpu) : ONESIDED_OF_NO_WINDOW,
    };
    return in_stream_move(comm, &move, stream);
}

/* Does any of these calls. */
static enum collet_result act(struct collet_comm *comm, const struct collet_window *window, int peer,
                              struct target target, unsigned does, void *stream) {
    COLLET_TRY(begin(comm, window, peer, stream));
    enum collet_result result = check(window, peer, &target);
    if (result == COLLET_SUCCESS)
        result = comm_is_on_gpu(comm) ? move_on_gpu(comm, window, peer, &target, does, stream)
                                      : move_on_host(comm, window, peer, &target, does);
    comm_remember(comm, result);
    comm_leave(comm);
    return result;
}

enum collet_result collet_put(const void *sendbuff, size_t bytes, int peer, struct collet_window *window, size_t offset,
                              struct collet_comm *comm, void *stream) {
    const struct target target = {"sendbuff", (void *)(uintptr_t)sendbuff, offset, bytes};
    return act(comm, window, peer, target, DOES_PUT, stream);
}

enum collet_result collet_put_signal(const void *sendbuff, size_t bytes, int peer, struct collet_window *window,
                                     size_t offset, struct collet_comm *comm, void *stream) {
    const struct target target = {"sendbuff", (void *)(uintptr_t)sendbuff, offset, bytes};
    return act(comm, window, peer, target, DOES_SIGNAL, stream);
}

enum collet_result collet_get(void *recvbuff, size_t bytes, int peer, struct collet_window *window, size_t offset,
                              struct collet_comm *comm, void *stream) {
    const struct target target = {"recvbuff", recvbuff, offset, bytes};
    return act(comm, window, peer, target, DOES_GET, stream);
}

enum collet_result collet_signal(int peer, struct collet_window *window, struct collet_comm *comm, void *stream) {
    return act(comm, window, peer, (struct target){.name = NULL}, DOES_SIGNAL, stream);
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

/* ---- for programs of NCCL ---- */

static enum collet_result err_host(void) {
    return err_set(COLLET_ERR_UNSUPPORTED,
                   "this communicator is on host memory (COLLET_DEVICE=host), which has no windows "
                   "by NCCL's names: collet_put_signal() is for it");
}

enum collet_result window_put_signal(struct collet_comm *comm, const void *sendbuff, size_t bytes, int peer,
                                     const struct collet_window *window, size_t offset, void *stream) {
    const struct target target = {"localbuff", (void *)(uintptr_t)sendbuff, offset, bytes};
    if (comm_is_live(comm) && !comm_is_on_gpu(comm))
        return err_host();
    return act(comm, window, peer, target, DOES_SIGNAL_OF_NO_WINDOW, stream);
}

/* Begins a call that names no window. If it succeeds, end it with comm_leave(). */
static enum collet_result begin_any(struct collet_comm *comm, int peer) {
    if (comm_is_live(comm) && !comm_is_on_gpu(comm))
        return err_host();
    return window_enter_any(comm, peer);
}

enum collet_result window_signal(struct collet_comm *comm, int peer, void *stream) {
    const struct onesided_move move = {.peer = peer, .signals = true, .number = ONESIDED_OF_NO_WINDOW};
    COLLET_TRY(begin_any(comm, peer));
    enum collet_result result = comm_remember(comm, in_stream_move(comm, &move, stream));
    comm_leave(comm);
    return result;
}

static enum collet_result check_peers(const struct collet_comm *comm, const struct onesided_wait *waits, int n) {
    for (int k = 0; k < n; k++)
        if (waits[k].peer < 0 || waits[k].peer >= comm->nranks)
            return err_set(COLLET_ERR_INVALID_ARGUMENT, "peer of descriptor %d is %d: 0 … %d in this communicator", k,
                           waits[k].peer, comm->nranks - 1);
    return COLLET_SUCCESS;
}

enum collet_result window_wait_signals(struct collet_comm *comm, const struct onesided_wait *waits, int n,
                                       void *stream) {
    COLLET_TRY(begin_any(comm, 0));
    enum collet_result result = check_peers(comm, waits, n);
    if (result == COLLET_SUCCESS)
        result = in_stream_wait(comm, ONESIDED_OF_NO_WINDOW, waits, n, stream);
    comm_remember(comm, result);
    comm_leave(comm);
    return result;
}
