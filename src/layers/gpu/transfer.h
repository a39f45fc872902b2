/* SPDX-License-Identifier: Apache-2.0
 *
 * Many pieces between memory that one GPU reaches, moved by one kernel in a stream:
 *
 *    create    a list of pieces ── long ones are cut ─▶ the GPU's memory
 *    post      the kernel that reads the list (kernels/cuda/pieces.cuh) ─▶ the host is called ─▶ an event
 *    state     has the event come?
 *
 * A transfer has no place in the order of the rank's operations: it waits only for the earlier work of its stream. So transfers in several
 * streams move side by side.
 *
 * Run on simulated and emulated GPUs, never on a real one.
 */
#ifndef COLLET_LAYERS_GPU_TRANSFER_H
#define COLLET_LAYERS_GPU_TRANSFER_H

#include "chan/chan.h"
#include "kernels/cuda/piece_work.h"

struct gpu_transfer;

/* The list is the caller's again. The GPU reaches both ends of each piece. No two pieces overlap where they go. */
enum collet_result gpu_transfer_create(const struct chan *chan, const struct piece_copy *pieces, size_t npieces,
                                       struct gpu_transfer **transfer_p);
/* Call it when the transfer is done, or was never posted. */
void gpu_transfer_destroy(struct gpu_transfer *transfer);

/* Instead: the transfer is not done, and nobody waits for it any more. Its memory stays, and so do the windows of its communicator. */
void gpu_transfer_keep(const struct gpu_transfer *transfer);

/* Puts the transfer into a stream. Once the pieces have been moved, function(argument) is called by a thread of the driver; it may not use
 * GPUs. NULL: nothing is called. INVALID_USAGE: the stream is in a capture. */
enum collet_result gpu_transfer_post(struct gpu_transfer *transfer, void (*function)(void *argument), void *argument,
                                     void *stream);
/* SUCCESS: the newest post is done, and its function has returned. IN_PROGRESS: not yet. A failure is one of the GPU. */
enum collet_result gpu_transfer_state(const struct gpu_transfer *transfer);

#endif
