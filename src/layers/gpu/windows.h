/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of GPU communicators: one buffer per rank, which the GPUs of other ranks of its host read and write.
 *
 *    rank 0, on GPU 0                                        rank 1, on GPU 1
 *    gpu_window_base(window, 0): its buffer ◀─────────────── gpu_window_base(window, 0): an address of rank 1's own
 *    gpu_window_base(window, 1) ───────────────────────────▶ gpu_window_base(window, 1): its buffer
 *
 * A GPU reaches the buffers of ranks that share it, and of ranks whose GPUs NVLink joins with it (transport/ipc/gpu_peers.h). In its
 * own process, the address itself is used. Memory of another process is attached by its name (layers/gpu/buffers.h).
 *
 *    register    each rank tells its buffer's name ─▶ attaches the others' buffers ─▶ says whether it could ─▶ all know ─▶ if
 *                switches can do it: the same for one address of all buffers (window_team.h)
 *    deregister  waits for its own work ─▶ unmaps, or will later (layers/gpu/cuda_blocks.h) ─▶ says which ─▶ all know: nobody uses the
 *                buffers of others, and whether anybody still has them mapped
 *
 * So a window has the same number on all ranks, and all ranks agree whether it is lent, or symmetric. Work of a rank uses only memory
 * that this rank has attached. So it is enough that each rank waits for its own work.
 */
#ifndef COLLET_LAYERS_GPU_WINDOWS_H
#define COLLET_LAYERS_GPU_WINDOWS_H

#include "chan/chan.h"
#include "layers/gpu/gpu.h"
#include "seams/gpu.h"

struct gpu_window;

/* Both are collective, and block. buff lies in a buffer of the rank's GPU, or bytes is 0. INVALID_ARGUMENT, on all ranks: on
 * one rank buff lies in no such buffer. UNSUPPORTED: there are too many windows. Other failures of register end the communicator. */
enum collet_result gpu_window_register(struct chan *chan, void *buff, size_t bytes, struct gpu_window **window_p);
/* If the communicator fails before this rank's work is done, the work may still use the window. Then the end of the communicator ends the
 * window. Any other failure ends both at once: the communicator and the window. */
enum collet_result gpu_window_deregister(struct chan *chan, struct gpu_window *window);

/* Deregisters the window for this rank alone, and tells the others nothing. Waits for this rank's work. No rank may use the window after
 * that. */
enum collet_result gpu_window_leave(struct chan *chan, struct gpu_window *window);

/* Ends all windows of a rank whose work is done. Tells the others nothing. */
void gpu_windows_end(struct chan *chan);

/* Finds the window of the communicator in which [address, address + bytes) lies; if there are several, the newest. False: there is none.
 * Any thread may call it. */
bool gpu_window_find(const struct chan *chan, const void *address, size_t bytes, struct gpu_window_place *place);

/* Returns the number of the window: the same on all ranks; 0 is no window's. */
uint32_t gpu_window_number(const struct gpu_window *window);
/* Returns the length of the buffer of `rank`. */
size_t gpu_window_bytes(const struct gpu_window *window, int rank);
/* Returns the address at which the GPU of this rank reaches the buffer of `rank`; NULL: it does not reach the buffer, or there is none. */
void *gpu_window_base(const struct gpu_window *window, int rank);

/* Each returns the same on all ranks. Lent: each rank reaches the buffers of all ranks whose GPUs are near to its own. Symmetric: each rank
 * reaches the buffers of all ranks of the communicator. May wait: the streams of each rank may wait for words of the others. Has a team:
 * switches sum the contents of the window, and store the same bytes on all ranks (window_team.h). */
bool gpu_window_is_lent(const struct gpu_window *window);
bool gpu_window_is_symmetric(const struct gpu_window *window);
bool gpu_window_may_wait(const struct gpu_window *window);
bool gpu_window_has_team(const struct gpu_window *window);

/* Has any window of the communicator had a team, or been lent? Between the same two calls, the answer is the same on all ranks. Any thread
 * may call it. */
bool gpu_windows_had_team(const struct chan *chan);
bool gpu_windows_had_lent(const struct chan *chan);

/* Does COLLET_CTA_POLICY ask for as few kernels as possible? */
bool gpu_policy_is_zero(const struct config *config);

#endif
