/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of GPU communicators into streams: which are launched together, and in what order.
 *
 *    ranks of one communicator on one GPU     collective 0   collective 1   messages, by (how many-th of their pair, round)
 *      rank 0   on stream s0                  ┌─────────┐    ┌─────────┐    ┌──────────────┐
 *      rank 1   on stream s1                  │ 1 grid  │ ─▶ │ 1 grid  │ ─▶ │ 1 grid or so │
 *
 * Round r of the messages is to the rank r places further and from the rank r places back. Both ends of a message give it
 * the same place in that order, and so its parts on channels. A grid takes whole rounds, or some channels of one round. So of
 * all parts that are not done, the first one has both its ends running or about to run, whatever fits into a grid elsewhere. Messages
 * that copies carry stand before all rounds, if they are sent, and behind them, if they are received: such a send waits for no receive.
 */
#include "layers/gpu/exec_gpu.h"
#include "layers/gpu/gpu_company.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct work_status) <= GPU_STATUS_BYTES, "lies in gpu_rank.status");

/* ---- failures ---- */

static enum collet_result err_gpu_timeout(const struct chan *chan, const struct work_status *status) {
    char peer[16];
    snprintf(peer, sizeof(peer), "%d", status->peer);
    return exec_err_timeout(chan, status->timeout_ns, (enum prog_collective)status->collective, status->sequence, peer,
                            "");
}

enum collet_result exec_gpu_check(const struct chan *chan) {
    struct work_status *status = chan->owner.gpu->status;
    enum work_failure failure =
        (enum work_failure)__atomic_load_n(&status->failure, __ATOMIC_ACQUIRE); /* block_report() */
    if (failure == WORK_FINE)
        return COLLET_SUCCESS;
    if (failure == WORK_TIMEOUT)
        return err_gpu_timeout(chan, status);
    if (failure == WORK_FOREIGN)
        return err_set(
            COLLET_ERR_MISMATCH,
            "rank %d is in its call %llu, %s, but rank %d sent lines of another call: all ranks must make the "
            "same calls",
            chan->owner.rank, (unsigned long long)status->sequence,
            prog_collective_name((enum prog_collective)status->collective), status->peer);
    return err_set(
        COLLET_ERR_MISMATCH,
        "rank %d is in its call %llu, but rank %d sent %u bytes of another call (its %llu): all ranks must make "
        "the same calls, and a send and its receive must have equal byte counts",
        chan->owner.rank, (unsigned long long)status->sequence, status->peer, status->bytes,
        (unsigned long long)status->their_sequence);
}

void exec_gpu_end(const struct chan *chan) {
    struct work_status *status = chan->owner.gpu->status;
    __atomic_store_n(&status->abort, 1, __ATOMIC_RELEASE); /* pairs with block_pause() */
}

/* ---- sets of calls that are launched together ---- */

#define WAVE_MESSAGES (1ull << 40) /* those of messages are above, of collectives below */

static uint64_t round_of(const struct exec_call *call) {
    int n = call->chan->owner.nranks, distance = call->request.root - call->chan->owner.rank;
    int forward = call->request.collective == PROG_SEND ? distance : -distance;
    return (uint64_t)((forward + n) % n);
}

/* Places of messages of one nth: the sends that copies do, which wait for no receive; rounds 1 … nranks − 1; the receives of copies. */
static uint64_t places_of_messages(const struct exec_call *call) { return (uint64_t)call->chan->owner.nranks + 1; }

static uint64_t place_of_message(const struct exec_call *call) {
    if (!call->request.by_copies)
        return round_of(call);
    return call->request.collective == PROG_SEND ? 0 : (uint64_t)call->chan->owner.nranks;
}

/* before: the entry of the call before it; NULL: there is none. */
static enum collet_result entry_init(struct gpu_entry *e, struct exec_call *call, const struct gpu_entry *before) {
    const struct gpu_rank *gpu = call->chan->owner.gpu;
    *e = (struct gpu_entry){.call = call, .wave = call->nth};
    if (gpu_entry_is_message(e))
        e->wave = WAVE_MESSAGES + call->nth * places_of_messages(call) + place_of_message(call);
    if (before == NULL || before->call->stream != call->stream)
        return gpu->driver->streams->capture(call->stream, &e->capture);
    e->capture = before->capture;
    return COLLET_SUCCESS;
}

/* Ranks whose streams are in captures of their own, each: every graph holds the call of its rank alone. */
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

static int wave_length(const struct gpu_entry *entries, int n) {
    int length = 1;
    while (length < n && gpu_entries_share_gpu(entries, &entries[length]) && entries[length].wave == entries->wave)
        length++;
    return length;
}

/* Does this round go into the same grid as those from `first` on? Of one pair and direction a grid takes one message. */
static bool round_joins(const struct gpu_entry *first, const struct gpu_entry *round) {
    uint64_t places = places_of_messages(first->call);
    return gpu_entry_is_message(first) && gpu_entries_share_gpu(first, round) && !first->call->request.by_copies &&
           !round->call->request.by_copies &&
           (first->wave - WAVE_MESSAGES) / places == (round->wave - WAVE_MESSAGES) / places;
}

/* Do the rounds of a set go into one grid? Other ranks of this GPU may be launched by others, and must find room as well. */
static bool rounds_fit(const struct gpu_entry *set, int n) {
    const struct gpu_rank *gpu = set->call->chan->owner.gpu;
    uint64_t resident = gpu->driver->streams->resident(gpu->ordinal);
    return n <= WORK_MAX && (uint64_t)gpu_set_blocks(set, n, 0, gpu_set_channels(set, n)) * (uint64_t)gpu->sharers <=
                                resident * (uint64_t)gpu_set_ranks(set, n);
}

/* Collectives of ranks of this GPU that other threads make go with them. */
static enum collet_result launch_with_company(struct gpu_entry *set, int n) {
    const bool alone = gpu_entry_is_message(set) || set->call->request.by_copies;
    return alone ? gpu_launch_set(set, n) : gpu_company_launch(set, n);
}

static enum collet_result launch_sorted(struct gpu_entry *entries, int n) {
    for (int at = 0, length; at < n; at += length) {
        length = wave_length(&entries[at], n - at);
        while (at + length < n && round_joins(&entries[at], &entries[at + length])) {
            int more = wave_length(&entries[at + length], n - at - length);
            if (!rounds_fit(&entries[at], length + more))
                break;
            length += more;
        }
        COLLET_TRY(launch_with_company(&entries[at], length));
    }
    return COLLET_SUCCESS;
}

/* ---- all of them ---- */

static enum collet_result launch_calls(struct exec_call *calls, int ncalls, struct gpu_entry *entries) {
    COLLET_TRY(exec_connect(calls, ncalls));
    for (int k = 0; k < ncalls; k++) {
        COLLET_TRY(exec_gpu_check(calls[k].chan));
        COLLET_TRY(entry_init(&entries[k], &calls[k], k > 0 ? &entries[k - 1] : NULL));
    }
    qsort(entries, (size_t)ncalls, sizeof(*entries), by_set);
    return launch_sorted(entries, ncalls);
}

enum collet_result exec_gpu_run(struct exec_call *calls, int ncalls) {
    struct gpu_entry few[8], *entries = few;
    char text[ERR_TEXT_BYTES];
    if (ncalls > 8 && (entries = calloc((size_t)ncalls, sizeof(*entries))) == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a group of %d calls", ncalls);
    enum collet_result result = launch_calls(calls, ncalls, entries);
    if (entries != few)
        free(entries);
    snprintf(text, sizeof(text), "%s", err_last());
    for (int k = 0; k < ncalls && result != COLLET_SUCCESS; k++)
        boot_fail(calls[k].chan->owner.boot, result, text);
    return result;
}
