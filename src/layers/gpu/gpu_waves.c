/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/gpu_waves.h"

#include <stdlib.h>

#define WAVE_MESSAGES (1ull << 40) /* waves of messages are above this number, waves of collectives below */

static uint64_t round_of(const struct exec_call *call) {
    int n = call->chan->owner.nranks, distance = call->request.root - call->chan->owner.rank;
    int forward = call->request.collective == PROG_SEND ? distance : -distance;
    return (uint64_t)((forward + n) % n);
}

/* Counts the places of messages with one number in their pairs: sends by copies, which wait for no receive; rounds 1 … nranks − 1; receives
 * by copies. */
static uint64_t places_of_messages(const struct exec_call *call) { return (uint64_t)call->chan->owner.nranks + 1; }

static uint64_t place_of_message(const struct exec_call *call) {
    if (!call->request.by_copies)
        return round_of(call);
    return call->request.collective == PROG_SEND ? 0 : (uint64_t)call->chan->owner.nranks;
}

enum collet_result gpu_waves_entry(struct gpu_entry *e, struct exec_call *call, const struct gpu_entry *before) {
    const struct gpu_rank *gpu = call->chan->owner.gpu;
    *e = (struct gpu_entry){.call = call, .wave = call->nth, .into = call->stream};
    if (gpu_entry_is_message(e))
        e->wave = WAVE_MESSAGES + call->nth * places_of_messages(call) + place_of_message(call);
    if (before == NULL || before->call->stream != call->stream)
        return gpu->driver->streams->capture(call->stream, &e->capture);
    e->capture = before->capture;
    return COLLET_SUCCESS;
}

/* Calls of different captures are in different sets: every graph holds only the calls of its own rank. */
static int by_set(const void *a_, const void *b_) {
    const struct gpu_entry *a = a_, *b = b_;
    const struct conn_owner *x = &a->call->chan->owner, *y = &b->call->chan->owner;
    if (x->peers != y->peers)
        return x->peers < y->peers ? -1 : 1;
    if (x->gpu->ordinal != y->gpu->ordinal)
        return x->gpu->ordinal - y->gpu->ordinal;
    if (a->wave != b->wave)
        return a->wave < b->wave ? -1 : 1;
    if (a->capture != b->capture)
        return a->capture < b->capture ? -1 : 1;
    return x->rank - y->rank;
}

int gpu_waves_length(const struct gpu_entry *entries, int n) {
    int length = 1;
    while (length < n && gpu_entries_share_gpu(entries, &entries[length]) && entries[length].wave == entries->wave)
        length++;
    return length;
}

/* Does this round go into the same grid as the rounds from `first` on? A grid takes one message of each pair and direction. */
static bool round_joins(const struct gpu_entry *first, const struct gpu_entry *round) {
    uint64_t places = places_of_messages(first->call);
    return gpu_entry_is_message(first) && gpu_entries_share_gpu(first, round) && !first->call->request.by_copies &&
           !round->call->request.by_copies &&
           (first->wave - WAVE_MESSAGES) / places == (round->wave - WAVE_MESSAGES) / places;
}

/* Do the rounds of a set go into one grid? Other threads may launch other ranks of this GPU, and these must find room as well. */
static bool rounds_fit(const struct gpu_entry *set, int n) {
    const struct gpu_rank *gpu = set->call->chan->owner.gpu;
    uint64_t resident = gpu->driver->streams->resident(gpu->ordinal);
    return n <= WORK_MAX && (uint64_t)gpu_set_blocks(set, n, 0, gpu_set_channels(set, n)) * (uint64_t)gpu->sharers <=
                                resident * (uint64_t)gpu_set_ranks(set, n);
}

void gpu_waves_sort(struct gpu_entry *entries, int n) { qsort(entries, (size_t)n, sizeof(*entries), by_set); }

int gpu_waves_messages(const struct gpu_entry *entries, int n) {
    int length = 0;
    while (length < n && gpu_entry_is_message(&entries[length]) && gpu_entries_share_gpu(entries, &entries[length]))
        length++;
    return length;
}

enum collet_result gpu_waves_launch(struct gpu_entry *entries, int n) {
    for (int at = 0, length; at < n; at += length) {
        length = gpu_waves_length(&entries[at], n - at);
        while (at + length < n && round_joins(&entries[at], &entries[at + length])) {
            int more = gpu_waves_length(&entries[at + length], n - at - length);
            if (!rounds_fit(&entries[at], length + more))
                break;
            length += more;
        }
        COLLET_TRY(gpu_launch_set(&entries[at], length));
    }
    return COLLET_SUCCESS;
}
