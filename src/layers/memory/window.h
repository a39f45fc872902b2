/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that other ranks write into.
 */
#ifndef COLLET_LAYERS_MEMORY_WINDOW_H
#define COLLET_LAYERS_MEMORY_WINDOW_H

#include "api/comm.h"
#include "seams/memory.h"

/* Would collet_win_register() accept this buffer, for a communicator on GPUs? */
bool window_may_have(const struct collet_comm *comm, const void *buff, size_t bytes);
/* Is this a window of comm? */
bool window_is_of(struct collet_comm *comm, const struct collet_window *window);
/* Gets this rank's buffer in a window on GPUs. INVALID_ARGUMENT: comm has no such window. */
enum collet_result window_buffer(struct collet_comm *comm, const struct collet_window *window, void **buff_p);
/* collet_win_deregister() on GPUs, for this rank alone: it does not wait for the others, which may not use the window any more either. */
enum collet_result window_leave(struct collet_comm *comm, struct collet_window *window);

/* Deregisters all windows, when their communicator ends. */
void window_deregister_all(struct collet_comm *comm);

#endif
