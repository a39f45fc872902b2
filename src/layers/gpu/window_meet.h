/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the ranks of a GPU communicator meet while they register or deregister a window: each tells all something, and whoever waits
 * gives its descriptor to those that come for it.
 */
#ifndef COLLET_LAYERS_GPU_WINDOW_MEET_H
#define COLLET_LAYERS_GPU_WINDOW_MEET_H

#include "base/wait.h"
#include "chan/chan.h"
#include "transport/ipc/hand_over.h"

struct window_meeting {
    struct chan *chan;
    struct waiter waiter;
    uint64_t deadline_ns; /* of taking descriptors */
    int listener, given;  /* who comes there is given this descriptor; −1: nothing is given */
};

struct window_meeting window_meeting_begin(struct chan *chan);
void window_meeting_end(struct window_meeting *meeting);

/* All ranks' entries, by rank, when all have come. */
enum collet_result window_agree(struct window_meeting *meeting, const char *call, const void *entry, size_t entry_bytes,
                                void *table);

/* From now on to the end, or to the next one that is given; the descriptor stays the caller's. */
enum collet_result window_give(struct window_meeting *meeting, int fd, char name[HAND_OVER_NAME_BYTES]);
/* *fd_p is the caller's. */
enum collet_result window_take(struct window_meeting *meeting, const char name[HAND_OVER_NAME_BYTES], int *fd_p);

#endif
