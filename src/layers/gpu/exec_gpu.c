/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts calls of GPU communicators into streams: first all steps that may fail, then the launches, in the order of gpu_waves.h.
 */
#include "layers/gpu/exec_gpu.h"

#include "layers/gpu/connect.h"
#include "layers/gpu/gpu_company.h"
#include "layers/gpu/gpu_waves.h"

#include "base/err.h"
#include "kernels/cuda/signal_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct work_status) <= GPU_STATUS_BYTES, "lies in gpu_rank.status");

/* ---- failures ---- */

static enum collet_result err_gpu_timeout(const struct chan *chan, const struct work_status *status) {
    char peer[16];
    if (status->collective == WORK_IS_SIGNAL)
        return err_set(COLLET_ERR_TIMEOUT,
                       "rank %d waited %.1f s for a signal of rank %d: did that call collet_signal()? (COLLET_TIMEOUT "
                       "or config.timeout_ms sets the limit)",
                       chan->owner.rank, (double)status->timeout_ns / 1e9, status->peer);
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

/* ---- in the order of waves ---- */

/* Launches sorted entries. Calls that other threads make for ranks of this GPU are launched together with these. */
static enum collet_result launch_sorted(struct gpu_entry *entries, int n) {
    for (int at = 0, length; at < n; at += length) {
        struct gpu_entry *set = &entries[at];
        length = gpu_entry_is_message(set) ? gpu_waves_messages(set, n - at) : gpu_waves_length(set, n - at);
        if (gpu_entry_is_message(set))
            COLLET_TRY(gpu_company_exchange(set, length));
        else
            COLLET_TRY(set->call->request.by_copies ? gpu_launch_set(set, length) : gpu_company_launch(set, length));
    }
    return COLLET_SUCCESS;
}

/* ---- all of them ---- */

static enum collet_result launch_calls(struct exec_call *calls, int ncalls, struct gpu_entry *entries) {
    COLLET_TRY(exec_connect(calls, ncalls));
    for (int k = 0; k < ncalls; k++) {
        COLLET_TRY(exec_gpu_check(calls[k].chan));
        COLLET_TRY(gpu_waves_entry(&entries[k], &calls[k], k > 0 ? &entries[k - 1] : NULL));
    }
    gpu_waves_sort(entries, ncalls);
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
