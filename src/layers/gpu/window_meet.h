/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a GPU communicator meet while they register or deregister a window. Each rank tells all ranks something. While a rank
 * waits, it gives its descriptor to ranks that come for it.
 */
#ifndef COLLET_LAYERS_GPU_WINDOW_MEET_H
#define COLLET_LAYERS_GPU_WINDOW_MEET_H

#include "base/wait.h"
#include "chan/chan.h"
#include "transport/ipc/hand_over.h"

struct window_meeting {
    struct chan *chan;
    struct waiter waiter;
    uint64_t deadline_ns; /* no descriptor is awaited after this time */
    int listener, given;  /* a rank that connects to `listener` gets the descriptor `given`; −1: none is given */
};

struct window_meeting window_meeting_begin(struct chan *chan);
void window_meeting_end(struct window_meeting *meeting);

/* Waits until all ranks have come. Stores all ranks' entries in the table, by rank. */
enum collet_result window_agree(struct window_meeting *meeting, const char *call, const void *entry, size_t entry_bytes,
                                void *table);

/* Gives this descriptor to all that come, until the next call or the end of the meeting. The caller keeps the descriptor. */
enum collet_result window_give(struct window_meeting *meeting, int fd, char name[HAND_OVER_NAME_BYTES]);
/* Takes the descriptor that another rank gives under this name. The caller owns *fd_p. */
enum collet_result window_take(struct window_meeting *meeting, const char name[HAND_OVER_NAME_BYTES], int *fd_p);

#endif
