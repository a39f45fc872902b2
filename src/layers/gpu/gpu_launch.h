/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of calls that go into one stream together. They are calls of ranks of one communicator on one GPU. They run as one grid, or as a
 * few grids one after the other.
 */
#ifndef COLLET_LAYERS_GPU_GPU_LAUNCH_H
#define COLLET_LAYERS_GPU_GPU_LAUNCH_H

#include "exec/exec.h"
#include "kernels/work.h"
#include "layers/gpu/gpu.h"

/* A call of a set. */
struct gpu_entry {
    struct exec_call *call;
    uint64_t wave;    /* place of the call in the order of the communicator's calls of the group */
    uint64_t capture; /* number of the capture that the call's stream is in; 0: none */
    void *into;       /* the stream of the launch: the call's own; for a guest: a stream of the thread that launches */
    bool is_guest;    /* another thread made the call; only that thread may use the call's stream (gpu_party.h) */
};

static inline bool gpu_entry_is_message(const struct gpu_entry *e) { return prog_is_p2p(e->call->request.collective); }

/* Ranks of one process and communicator have the same table of peers. So equal tables tell that two ranks belong together. */
static inline bool gpu_entries_share_gpu(const struct gpu_entry *a, const struct gpu_entry *b) {
    const struct conn_owner *x = &a->call->chan->owner, *y = &b->call->chan->owner;
    return x->peers == y->peers && x->gpu->ordinal == y->gpu->ordinal && a->capture == b->capture;
}

/* Counts the blocks of a set for `nchannels` channels, from `first_channel` on. */
uint32_t gpu_set_blocks(const struct gpu_entry *set, int n, uint32_t first_channel, uint32_t nchannels);
/* Returns the largest number of channels of a call of the set. */
uint32_t gpu_set_channels(const struct gpu_entry *set, int n);
/* Returns the number of ranks in a set. */
int gpu_set_ranks(const struct gpu_entry *set, int n);

/* Puts the set into the stream `into` of its first call. The set waits for the streams of the other calls, and their later work waits for
 * the set. For streams of guests, their own threads do that. UNSUPPORTED, with the numbers: one channel of the set does not fit on the
 * GPU. MISMATCH: its ranks make different calls. */
enum collet_result gpu_launch_set(const struct gpu_entry *set, int n);

/* The thread of guests calls both. Before: gpu_launch_set() in another thread will wait for the present work of the guests' streams.
 * Afterwards: later work of these streams waits for the sets. */
enum collet_result gpu_guests_come(const struct gpu_entry *guests, int n);
enum collet_result gpu_guests_leave(const struct gpu_entry *guests, int n);

#endif
