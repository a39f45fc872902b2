/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of calls that go into one stream together: calls of ranks of one communicator on one GPU, as one grid, or as a few one after
 * the other.
 */
#ifndef COLLET_LAYERS_GPU_GPU_LAUNCH_H
#define COLLET_LAYERS_GPU_GPU_LAUNCH_H

#include "exec/exec.h"
#include "kernels/work.h"
#include "layers/gpu/gpu.h"

/* A call, as launches see it. */
struct gpu_entry {
    struct exec_call *call;
    uint64_t wave;    /* its place in the order of the communicator's calls of the group */
    uint64_t capture; /* number of the capture that its stream is in; 0: none */
    void *into;       /* the stream of its launch: its call's, or, of a guest, one of the thread that launches */
    bool is_guest;    /* another thread made it: that thread alone may name its stream (gpu_party.h) */
};

static inline bool gpu_entry_is_message(const struct gpu_entry *e) { return prog_is_p2p(e->call->request.collective); }

/* Ranks of one process and communicator see the same table of peers. */
static inline bool gpu_entries_share_gpu(const struct gpu_entry *a, const struct gpu_entry *b) {
    const struct conn_owner *x = &a->call->chan->owner, *y = &b->call->chan->owner;
    return x->peers == y->peers && x->gpu->ordinal == y->gpu->ordinal && a->capture == b->capture;
}

/* Counts the blocks of a set for so many channels, from the first one on. */
uint32_t gpu_set_blocks(const struct gpu_entry *set, int n, uint32_t first_channel, uint32_t nchannels);
/* The most channels that any of the calls has. */
uint32_t gpu_set_channels(const struct gpu_entry *set, int n);
/* Returns the number of ranks in a set. */
int gpu_set_ranks(const struct gpu_entry *set, int n);

/* Puts the set into the stream `into` of its first call. The streams of the others wait for it, and it for them; those of
 * guests their threads make wait. Errors: UNSUPPORTED, with the numbers, if one channel of the set does not fit on the GPU;
 * MISMATCH, if its ranks make different calls. */
enum collet_result gpu_launch_set(const struct gpu_entry *set, int n);

/* Of guests, by their thread: gpu_launch_set() elsewhere waits for what is in their streams now. And afterwards: what comes in these
 * streams waits for the sets. */
enum collet_result gpu_guests_come(const struct gpu_entry *guests, int n);
enum collet_result gpu_guests_leave(const struct gpu_entry *guests, int n);

#endif
