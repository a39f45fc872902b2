/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of GPU communicators: one buffer per rank, which the GPUs of other ranks of its host read and write.
 *
 *    rank 0, on GPU 0                                        rank 1, on GPU 1
 *    gpu_window_base(window, 0): its buffer ◀─────────────── gpu_window_base(window, 0): an address of rank 1's own
 *    gpu_window_base(window, 1) ───────────────────────────▶ gpu_window_base(window, 1): its buffer
 *
 * A GPU reaches the buffers of ranks that share it, and of ranks whose GPUs NVLink joins with it (transport/ipc/gpu_peers.h). In its
 * own process that is the address itself. Memory of another process is attached by its name (layers/gpu/buffers.h).
 *
 *    register    each rank says what its buffer is called ─▶ attaches the others' ─▶ says whether it could ─▶ all know ─▶ the same
 *                of one address for all buffers, where switches know such (window_team.h)
 *    deregister  waits for its own work ─▶ unmaps, or will later (layers/gpu/cuda_blocks.h) ─▶ says which ─▶ all know: nobody uses the
 *                buffers of others, and whether anybody still has them mapped
 *
 * So a window has the same number on all ranks, and whether it is lent, or symmetric, all ranks answer alike. Work of a rank uses
 * what that rank has attached, and nobody else's: it is enough that each rank waits for its own.
 */
#ifndef COLLET_LAYERS_GPU_WINDOWS_H
#define COLLET_LAYERS_GPU_WINDOWS_H

#include "chan/chan.h"
#include "layers/gpu/gpu.h"
#include "seams/gpu.h"

struct gpu_window;

/* Both are collective, and block. buff lies in a buffer of the rank's GPU, or bytes is 0. INVALID_ARGUMENT on all ranks: that is
 * not so on one of them. UNSUPPORTED: there are too many windows. Other failures of register end the communicator. */
enum collet_result gpu_window_register(struct chan *chan, void *buff, size_t bytes, struct gpu_window **window_p);
/* If the communicator has failed before this rank's work is done, that may still be at work in the window: then the end of the
 * communicator ends it. Another failure ends both at once: the communicator and the window. */
enum collet_result gpu_window_deregister(struct chan *chan, struct gpu_window *window);

/* The same for this rank alone, without a word to the others; it waits for its own work. No rank may use the window any more. */
enum collet_result gpu_window_leave(struct chan *chan, struct gpu_window *window);

/* Ends all windows of a rank whose work is done, without a word to the others. */
void gpu_windows_end(struct chan *chan);

/* In which window of the communicator does [address, address + bytes) lie, and of several, in which is the newest? False: in none.
 * By any thread. */
bool gpu_window_find(const struct chan *chan, const void *address, size_t bytes, struct gpu_window_place *place);

/* Returns the address at which the GPU of this rank reaches the buffer of `rank`; NULL: it does not, or there is none. */
void *gpu_window_base(const struct gpu_window *window, int rank);

/* All ranks answer alike. Lent: each rank reaches the buffers of all ranks that its GPU is near to. Symmetric: each rank of the
 * communicator reaches those of all. May wait: so may the streams of each rank, for words of the others. Has a team: switches sum
 * what lies in it, and store what all ranks are to have (window_team.h). */
bool gpu_window_is_lent(const struct gpu_window *window);
bool gpu_window_is_symmetric(const struct gpu_window *window);
bool gpu_window_may_wait(const struct gpu_window *window);
bool gpu_window_has_team(const struct gpu_window *window);

/* Has any window of the communicator had one, or been lent? All ranks answer alike, between the same two of their calls. By any
 * thread. */
bool gpu_windows_had_team(const struct chan *chan);
bool gpu_windows_had_lent(const struct chan *chan);

/* Does COLLET_CTA_POLICY ask for as few kernels as possible? */
bool gpu_policy_is_zero(const struct config *config);

#endif
