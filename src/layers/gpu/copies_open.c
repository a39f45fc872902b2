/* SPDX-License-Identifier: Apache-2.0
 *
 * Before copy engines do calls, the ranks share two things: words, in memory of rank 0 that all ranks map; and boxes for messages, in a
 * window like a program's window.
 *
 *    rank 0    creates the words ──▶ says where ──▶ pins them ─┐
 *    others                          map and pin them ─────────┴─▶ all register a window of boxes: now all have both
 */
#include "layers/gpu/exec_copies.h"

#include "base/log.h"
#include "base/mapping.h"
#include "base/memory.h"
#include "layers/gpu/buffers.h"

#include <stdlib.h>
#include <unistd.h>

#define MAIL_BYTES (4u << 20) /* bytes of a box, unless COLLET_BUFFSIZE says otherwise */

struct copies_ticket {
    int32_t pid, fd;
};

static enum collet_result hear_of_ticket(const struct copies *copies, struct copies_ticket *ticket) {
    const struct conn_owner *owner = &copies->chan->owner;
    struct waiter waiter = copies->chan->patience;
    uint64_t deadline_ns = os_now_ns() + (uint64_t)copies->chan->timeout_ms * 1000000u;
    enum collet_result result;
    size_t bytes;
    while ((result = boot_try_recv(owner->boot, 0, boot_key(BOOT_COPIES, 0), ticket, sizeof(*ticket), &bytes)) ==
           COLLET_IN_PROGRESS) {
        wait_pause(&waiter);
        COLLET_TRY(boot_check(owner->boot));
        if (os_now_ns() > deadline_ns)
            return err_set(COLLET_ERR_TIMEOUT, "rank 0 did not say where the words of copy engines are");
    }
    if (result == COLLET_SUCCESS && bytes != sizeof(*ticket))
        return err_set(COLLET_ERR_INTERNAL, "rank 0 says in %zu bytes where the words of copy engines are, not in %zu",
                       bytes, sizeof(*ticket));
    return result;
}

static enum collet_result create_words(struct copies *copies) {
    const struct conn_owner *owner = &copies->chan->owner;
    COLLET_TRY(os_shared_create("collet-copies", copies->bytes, (void **)&copies->words, &copies->fd));
    struct copies_ticket ticket = {os_pid(), copies->fd};
    for (int rank = 1; rank < owner->nranks; rank++)
        COLLET_TRY(boot_send(owner->boot, rank, boot_key(BOOT_COPIES, 0), &ticket, sizeof(ticket)));
    return COLLET_SUCCESS;
}

static enum collet_result open_words(struct copies *copies) {
    struct copies_ticket ticket;
    COLLET_TRY(hear_of_ticket(copies, &ticket));
    return os_shared_open(ticket.pid, ticket.fd, copies->bytes, (void **)&copies->words);
}

static enum collet_result share_words(struct copies *copies) {
    struct gpu_rank *gpu = copies->chan->owner.gpu;
    COLLET_TRY(copies->chan->owner.rank == 0 ? create_words(copies) : open_words(copies));
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    COLLET_TRY(gpu->driver->memory->pin(copies->words, copies->bytes, (void **)&copies->on_gpu));
    copies->is_pinned = true;
    return copies_watch(copies);
}

/* Opens the mail. If one rank has no memory for the mail, kernels carry the messages of all ranks. When the mail is registered, all ranks
 * have the words. */
static enum collet_result share_mail(struct copies *copies) {
    const struct conn_owner *owner = &copies->chan->owner;
    size_t bytes = owner->config->buffsize > 0 ? (size_t)owner->config->buffsize : MAIL_BYTES;
    if (gpu_buffer_create(owner->gpu->ordinal, bytes * (size_t)owner->nranks, &copies->mail_memory) != COLLET_SUCCESS)
        copies->mail_memory = NULL;
    enum collet_result result =
        gpu_window_register(copies->chan, copies->mail_memory, bytes * (size_t)owner->nranks, &copies->mail);
    if (result == COLLET_SUCCESS && gpu_window_is_symmetric(copies->mail)) {
        copies->mail_bytes = bytes;
        return COLLET_SUCCESS;
    }
    log_info(CONN, "rank %d: kernels carry messages, and not copy engines: %s", owner->rank, err_last());
    copies->mail = NULL;
    if (result == COLLET_SUCCESS)
        return COLLET_SUCCESS; /* the window ends with the communicator */
    gpu_buffer_give_back(copies->mail_memory);
    copies->mail_memory = NULL;
    return result == COLLET_ERR_INVALID_ARGUMENT || result == COLLET_ERR_UNSUPPORTED ? COLLET_SUCCESS : result;
}

static bool opens(const struct chan *chan, const struct gpu_window *window) {
    return chan->copies == NULL && gpu_policy_is_zero(chan->owner.config) && chan->owner.nranks > 1 &&
           chan->owner.nranks <= COPIES_RANKS_MAX && gpu_window_is_symmetric(window) && gpu_window_may_wait(window);
}

enum collet_result exec_copies_open(struct chan *chan, const struct gpu_window *window) {
    struct copies *copies;
    if (!opens(chan, window))
        return COLLET_SUCCESS;
    enum collet_result result = memory_get(&copies, 1, sizeof(*copies), "no memory for words between ranks");
    if (result == COLLET_SUCCESS) {
        *copies = (struct copies){.chan = chan, .fd = -1};
        copies->bytes = copies_row(copies, chan->owner.nranks) * sizeof(uint32_t);
        result = share_words(copies);
        if (result == COLLET_SUCCESS)
            result = share_mail(copies);
        __atomic_store_n(&chan->copies, copies, __ATOMIC_RELEASE); /* pairs with exec_copies_take() */
    }
    if (result != COLLET_SUCCESS)
        boot_fail(chan->owner.boot, result, err_last());
    return result;
}

/* If the communicator has failed, a stream of another rank may still copy into this rank's mail. So the mail stays. */
static void end_mail(const struct copies *copies) {
    gpu_windows_end(copies->chan);
    if (boot_failed(copies->chan->owner.boot) == COLLET_SUCCESS)
        gpu_buffer_give_back(copies->mail_memory);
}

void exec_copies_close(struct chan *chan) {
    struct copies *copies = chan->copies;
    if (copies == NULL)
        return;
    struct gpu_rank *gpu = chan->owner.gpu;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    copies_unwatch(copies);
    end_mail(copies);
    if (copies->is_pinned)
        gpu->driver->memory->unpin(copies->words, copies->bytes);
    else if (copies->words != NULL)
        os_memory_destroy(copies->words, copies->bytes);
    if (copies->fd >= 0)
        close(copies->fd);
    free(copies);
    chan->copies = NULL;
}
