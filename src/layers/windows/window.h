/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: a buffer of each rank that other ranks write and read. window.c makes and ends them, onesided.c and transfer.c use them.
 */
#ifndef COLLET_LAYERS_WINDOWS_WINDOW_H
#define COLLET_LAYERS_WINDOWS_WINDOW_H

#include "fifo/loan_end.h"
#include "layers/gpu/onesided.h"
#include "layers/windows/rma.h"
#include "seams/windows.h"

/* All windows of a communicator. */
struct windows {
    struct collet_window *first;
    struct rma *rma;                   /* NULL: the communicator is on GPUs */
    struct collet_transfer *transfers; /* all prepared transfers (transfer.c) */
};

/* A place in memory that a rank announces. */
struct window_place {
    uint64_t address, offset; /* offset 0: the place is not in the shared heap */
};

/* A rank's announcement of its window. */
struct window_entry {
    struct window_place data, signals;
    uint64_t bytes;
    struct heap_ticket ticket;
    uint32_t number; /* the window's number in packets */
};

/* How this rank reaches a window of another rank. */
enum window_reach { WINDOW_UNKNOWN, WINDOW_BY_ADDRESS, WINDOW_BY_VIEW, WINDOW_BY_MESSAGES };

struct collet_window {
    struct collet_window *next;
    struct window_entry *entries; /* [nranks] */
    struct heap_view **views;     /* [nranks]; NULL: this rank's shared heap cannot be reached */
    int *reach;                   /* [nranks] enum window_reach, found at first use by any thread */
    uint64_t *waited;             /* [nranks]: number of signals from each rank that were waited for */
    bool signals_in_heap;
    struct rma_window here;    /* this rank's buffer and signals */
    struct gpu_window *on_gpu; /* window on GPUs, which uses none of the above (layers/gpu/windows.h) */
    int transfers;             /* number of prepared transfers that name the window */
};

/* Begins a call on a window. Any thread may make one, beside calls on the communicator. If it succeeds, end it with comm_leave(). Errors:
 * INVALID_ARGUMENT (comm, peer, window), and the failure of comm. */
enum collet_result window_enter(struct collet_comm *comm, const struct collet_window *window, int peer);
/* Like window_enter(), for any window. INVALID_USAGE: comm has no window. */
enum collet_result window_enter_any(struct collet_comm *comm, int peer);

/* Calls on host memory are in no stream. INVALID_ARGUMENT: this is one. */
enum collet_result window_check_no_stream(const void *stream);

/* Length of the peer's buffer, in bytes. */
size_t window_bytes(const struct collet_window *window, int peer);

/* The arguments of a call: bytes of the caller's memory, and as many bytes of the peer's window. */
struct window_target {
    const char *name; /* name of the argument with the caller's memory; NULL: none */
    void *here;
    size_t offset, bytes;
};
/* Errors: INVALID_ARGUMENT (the memory is NULL, or the bytes do not lie in the window). */
enum collet_result window_check(const struct collet_window *window, int peer, const struct window_target *target);

/* Makes the piece of an operation for these bytes of the peer's window. The bytes lie in the window. The caller has entered. */
struct piece window_piece(const struct collet_comm *comm, const struct collet_window *window, int peer, void *here,
                          size_t offset, size_t bytes);
/* The address of the peer's counter of this rank's signals; NULL: the RMA engine must carry them. */
uint64_t *window_signal_at(const struct collet_comm *comm, const struct collet_window *window, int peer);

/* Ends all windows when the communicator ends. Puts still reach the other ranks, if these answer soon. */
void window_end_all(struct collet_comm *comm);

/* ---- for programs of NCCL ---- */

/* Would collet_win_register() accept this buffer, for a communicator on GPUs? */
bool window_may_have(const struct collet_comm *comm, const void *buff, size_t bytes);
/* Errors: INVALID_ARGUMENT (this is no window of comm). The caller has entered comm. */
enum collet_result window_check_is_of(struct collet_comm *comm, const struct collet_window *window);
/* Is this a window of comm? */
bool window_is_of(struct collet_comm *comm, const struct collet_window *window);
/* Gets this rank's buffer in a window on GPUs. INVALID_ARGUMENT: comm has no such window. */
enum collet_result window_buffer(struct collet_comm *comm, const struct collet_window *window, void **buff_p);
/* A put with a signal, a signal, and a wait for signals, on GPUs. These signals belong to no window. */
enum collet_result window_put_signal(struct collet_comm *comm, const void *sendbuff, size_t bytes, int peer,
                                     const struct collet_window *window, size_t offset, void *stream);
enum collet_result window_signal(struct collet_comm *comm, int peer, void *stream);
enum collet_result window_wait_signals(struct collet_comm *comm, const struct onesided_wait *waits, int n,
                                       void *stream);
/* collet_win_deregister() on GPUs, for this rank alone: it does not wait for the others. They may not use the window any more. */
enum collet_result window_leave(struct collet_comm *comm, struct collet_window *window);

#endif
