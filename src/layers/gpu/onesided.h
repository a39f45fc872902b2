/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts, gets and signals on windows of GPUs, in streams. The other rank makes no call for a put, a get, or a signal.
 *
 *    stream of rank 0                     GPU of rank 1                            stream of rank 1
 *    copy ═══════════════════════════════▶ window
 *    kernel of signals ── a store ───────▶ words    │ from 0 │ from 1 │ …  ───────▶ kernel of signals: waits
 *                                                                                   work that reads the window
 *
 * One lane sends, or waits for, all signals of a call (kernels/cuda/signals.cuh). A graph may hold all of this and be replayed, because the
 * counts are in memory. Waits end like the waits of collectives: by COLLET_TIMEOUT, and when the communicator fails (gpu_watch.c).
 *
 * Run on simulated and emulated GPUs, never on a real one.
 */
#ifndef COLLET_LAYERS_GPU_ONESIDED_H
#define COLLET_LAYERS_GPU_ONESIDED_H

#include "layers/gpu/windows.h"

/* Signals are counted for each number, and for each pair of ranks. A window's signals have its number. The signals of NCCL's functions belong
 * to no window. */
#define ONESIDED_OF_NO_WINDOW 0u

/* Call it for each window, during its registration. The first window gives the communicator the memory for its signals. It is collective and
 * blocks. A failure ends the communicator. */
enum collet_result gpu_onesided_open(struct chan *chan);
/* Call it when the rank's work has ended, and its windows too. */
void gpu_onesided_close(const struct chan *chan);
/* Forgets this rank's signals with this number. Call it when the window has ended: a new window may have the same number. */
enum collet_result gpu_onesided_forget(const struct chan *chan, uint32_t number);

/* What one call moves: bytes of this rank's GPU, and as many bytes of the peer's window. Then a signal, if it is asked for. */
struct onesided_move {
    const struct gpu_window *window; /* NULL: no bytes are moved */
    int peer;
    bool gets; /* the bytes come from the peer */
    void *here;
    size_t offset, bytes;
    bool signals;
    uint32_t number; /* number of the signal */
};

struct onesided_wait {
    int peer;
    uint64_t count;
};

/* Both put their work into the stream. UNSUPPORTED: this rank's GPU does not reach the memory of the peer's GPU. INVALID_USAGE: the
 * communicator has had no window. */
enum collet_result gpu_onesided_move(const struct chan *chan, const struct onesided_move *move, void *stream);
/* Later work of the stream waits for the next signals of these peers. */
enum collet_result gpu_onesided_wait(const struct chan *chan, uint32_t number, const struct onesided_wait *waits, int n,
                                     void *stream);
/* The error UNSUPPORTED of such calls. */
enum collet_result err_gpu_not_reached(const struct chan *chan, int peer);

#endif
