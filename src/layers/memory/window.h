/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that other ranks write into.
 */
#ifndef COLLET_LAYERS_MEMORY_WINDOW_H
#define COLLET_LAYERS_MEMORY_WINDOW_H

#include "api/comm.h"
#include "seams/memory.h"

/* Would collet_win_register() take this buffer, of a communicator on GPUs? */
bool window_may_have(const struct collet_comm *comm, const void *buff, size_t bytes);
/* Is it a window of comm? */
bool window_is_of(struct collet_comm *comm, const struct collet_window *window);
/* This rank's buffer in a window on GPUs. INVALID_ARGUMENT: it is no such window of comm. */
enum collet_result window_buffer(struct collet_comm *comm, const struct collet_window *window, void **buff_p);
/* collet_win_deregister() on GPUs for this rank alone: it does not wait for the others, which may no longer use the window either. */
enum collet_result window_leave(struct collet_comm *comm, struct collet_window *window);

/* The end of a communicator ends its windows. */
void window_deregister_all(struct collet_comm *comm);

#endif
