/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: how they are made, found and ended.
 *
 *    rank 0                                           rank 1
 *                                                     its window   │ ······ data ······ │
 *    collet_put ── copies, or packets ──────────────▶                      │
 *    collet_signal ── adds 1, release ──────────────▶ its signals  │ of 0 │ of 1 │ …    one counter per rank
 *                                                     collet_wait_signal: acquire; then the data is there
 *
 * Each rank says where its buffer and its signals are. Ranks of its process use an address. Other processes of its host use an offset in the
 * shared heap (layers/memory/heap.h). In both cases a put is a copy, and needs nobody at the other end. If the buffer is not in the shared heap,
 * or COLLET_TRANSPORT allows no shared memory between the two ranks, the RMA engine carries the bytes (rma.h).
 */
#include "layers/windows/window.h"

#include "api/group.h"
#include "base/memory.h"
#include "base/thread.h"
#include "layers/gpu/buffers.h"
#include "layers/gpu/exec_copies.h"
#include "layers/gpu/windows.h"
#include "layers/memory/heap.h"
#include "layers/windows/await.h"
#include "transport/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PROCESS_LOCK(windows_lock); /* protects the windows of each communicator */

/* ---- registration ---- */

static void window_destroy(struct collet_window *window, int nranks) {
    for (int rank = 0; window->views != NULL && rank < nranks; rank++)
        heap_view_close(window->views[rank]);
    if (window->signals_in_heap)
        heap_give_back(window->here.signals);
    else
        free(window->here.signals);
    free(window->entries);
    free(window->views);
    free(window->reach);
    free(window->waited);
    free(window);
}

static bool tables_create(struct collet_window *window, size_t nranks) {
    window->entries = calloc(nranks, sizeof *window->entries);
    window->views = calloc(nranks, sizeof(struct heap_view *));
    window->reach = calloc(nranks, sizeof *window->reach);
    window->waited = calloc(nranks, sizeof *window->waited);
    window->here.signals = heap_take(nranks * sizeof(uint64_t), sizeof(uint64_t));
    window->signals_in_heap = window->here.signals != NULL;
    if (window->here.signals == NULL)
        window->here.signals = calloc(nranks, sizeof(uint64_t));
    return window->entries != NULL && window->views != NULL && window->reach != NULL && window->waited != NULL &&
           window->here.signals != NULL;
}

static enum collet_result window_create(const struct collet_comm *comm, const struct window_post *post,
                                        struct collet_window **window_p) {
    struct collet_window *window;
    COLLET_TRY(memory_get(&window, 1, sizeof *window, "no memory for a window"));
    window->here.buff = post->buff;
    window->here.bytes = post->bytes;
    if (!comm_is_on_gpu(comm) && !tables_create(window, (size_t)comm->nranks)) {
        window_destroy(window, comm->nranks);
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a window of %d ranks", comm->nranks);
    }
    *window_p = window;
    return COLLET_SUCCESS;
}

/* Gets the windows of a communicator. The first call makes the struct. */
static enum collet_result windows_get(struct collet_comm *comm, struct windows **windows_p) {
    SCOPED_LOCK(&windows_lock);
    if (comm->windows == NULL) {
        struct windows *windows;
        COLLET_TRY(memory_get(&windows, 1, sizeof *windows, "no memory for windows"));
        enum collet_result result = comm_is_on_gpu(comm) ? COLLET_SUCCESS : rma_open(comm, &windows->rma);
        if (result != COLLET_SUCCESS) {
            free(windows);
            return result;
        }
        comm->windows = windows;
    }
    *windows_p = comm->windows;
    return COLLET_SUCCESS;
}

static struct window_place place_in_window(const void *memory) {
    return (struct window_place){(uintptr_t)memory, heap_offset(heap_own(), (uintptr_t)memory)};
}

/* All ranks exchange their entries. Each rank opens the shared heap of the ranks on its host. Another rank may have all entries before this rank
 * does, and may write here at once. So rma_attach() comes first. */
static enum collet_result window_meet(struct collet_window *window, struct collet_comm *comm) {
    rma_attach(comm->windows->rma, &window->here);
    const struct window_entry mine = {
        .data = place_in_window(window->here.buff),
        .signals = place_in_window(window->here.signals),
        .bytes = window->here.bytes,
        .ticket = heap_own()->ticket,
        .number = window->here.number,
    };
    COLLET_TRY(collet_allgather(&mine, window->entries, sizeof mine, COLLET_UINT8, comm, NULL));
    const struct peer_info *peers = boot_peers(comm->boot);
    for (int rank = 0; rank < comm->nranks; rank++)
        if (peers[rank].node == peers[comm->rank].node)
            COLLET_TRY(heap_view_open(&window->entries[rank].ticket, &window->views[rank]));
    return COLLET_SUCCESS;
}

static enum collet_result register_on_gpu(struct collet_window *window, struct collet_comm *comm, void *buff,
                                          size_t bytes) {
    enum collet_result result = gpu_window_register(comm->chan, buff, bytes, &window->on_gpu);
    if (result == COLLET_SUCCESS)
        result = exec_copies_open(comm->chan, window->on_gpu);
    if (result == COLLET_SUCCESS)
        result = gpu_onesided_open(comm->chan);
    return comm_remember(comm, result);
}

static enum collet_result deregister_on_gpu(const struct collet_window *window, struct collet_comm *comm) {
    if (!comm_enter(comm))
        return comm_check(comm);
    const uint32_t number = gpu_window_number(window->on_gpu);
    enum collet_result result = gpu_window_deregister(comm->chan, window->on_gpu);
    if (result == COLLET_SUCCESS) /* no rank sends with this number until all have met for another window */
        result = gpu_onesided_forget(comm->chan, number);
    comm_remember(comm, result);
    comm_leave(comm);
    return result;
}

static enum collet_result register_check(struct collet_comm *comm, const void *buff, size_t bytes,
                                         struct collet_window *const *window_p) {
    COLLET_TRY(comm_check_usable(comm));
    if (window_p == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "window is NULL: pass where the handle goes");
    if (buff == NULL && bytes > 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "buff is NULL, and bytes is %zu", bytes);
    return COLLET_SUCCESS;
}

/* Ends a window that nobody names any more. */
static void window_end(struct collet_comm *comm, struct collet_window *window) {
    if (comm->windows->rma != NULL)
        rma_detach(comm->windows->rma, &window->here);
    window_destroy(window, comm->nranks);
}

static enum collet_result register_in(struct collet_comm *comm, const struct window_post *post) {
    struct collet_window *window = NULL;
    struct windows *windows = NULL;
    enum collet_result result = windows_get(comm, &windows);
    if (result == COLLET_SUCCESS)
        result = window_create(comm, post, &window);
    if (result == COLLET_SUCCESS) {
        result =
            comm_is_on_gpu(comm) ? register_on_gpu(window, comm, post->buff, post->bytes) : window_meet(window, comm);
        if (result != COLLET_SUCCESS)
            window_end(comm, window);
    }
    comm_fail_without_memory(comm, result);
    COLLET_TRY(result);
    SCOPED_LOCK(&windows_lock);
    window->next = windows->first;
    *post->window_p = windows->first = window;
    return COLLET_SUCCESS;
}

/* Registers one window. An abort in another thread waits until this function returns. */
static enum collet_result window_register(const struct window_post *post) {
    if (!comm_enter(post->comm))
        return comm_check(post->comm);
    enum collet_result result = register_in(post->comm, post);
    comm_leave(post->comm);
    return result;
}

enum collet_result collet_win_register(struct collet_comm *comm, void *buff, size_t bytes,
                                       struct collet_window **window_p) {
    COLLET_TRY(group_poison(register_check(comm, buff, bytes, window_p)));
    return group_window(&(struct window_post){comm, buff, bytes, window_p});
}

/* ---- registration in a group: a thread for each communicator, which registers its windows in the order of the calls ---- */

struct window_job {
    const struct window_post *post, *posts_end; /* the job's first post, and the end of all posts */
    pthread_t thread;
    bool has_thread;
    enum collet_result result;
    char text[ERR_TEXT_BYTES];
};

static void *run_window_job(void *job_) {
    struct window_job *job = job_;
    for (const struct window_post *post = job->post; post < job->posts_end && job->result >= 0; post++)
        if (post->comm == job->post->comm)
            job->result = window_register(post);
    snprintf(job->text, sizeof job->text, "%s", job->result < 0 ? err_last() : "");
    return NULL;
}

static bool is_first_of_comm(const struct window_post *posts, int k) {
    for (int before = 0; before < k; before++)
        if (posts[before].comm == posts[k].comm)
            return false;
    return true;
}

/* Starts the job's thread. If that fails, the communicator fails, so that no rank waits for it. */
static void start_window_job(struct window_job *job) {
    enum collet_result result = os_thread_start(&job->thread, "collet-window", run_window_job, job);
    job->has_thread = result == COLLET_SUCCESS;
    if (job->has_thread) /* the thread registers the windows */
        return;
    job->result = result;
    snprintf(job->text, sizeof job->text, "%s", err_last());
    comm_fail_without_memory(job->post->comm, COLLET_ERR_NO_MEMORY);
}

enum collet_result window_register_all(const struct window_post *posts, int nposts) {
    SCOPED_FREE struct window_job *jobs = NULL;
    if (nposts == 1)
        return window_register(posts);
    enum collet_result result =
        memory_get(&jobs, (size_t)nposts, sizeof *jobs, "no memory to register %d windows", nposts);
    for (int k = 0; k < nposts && result != COLLET_SUCCESS; k++)
        comm_fail_without_memory(posts[k].comm, result);
    COLLET_TRY(result);
    for (int k = 0; k < nposts; k++) {
        jobs[k].post = &posts[k];
        jobs[k].posts_end = posts + nposts;
        if (is_first_of_comm(posts, k))
            start_window_job(&jobs[k]);
    }
    for (int k = 0; k < nposts; k++)
        if (jobs[k].has_thread)
            pthread_join(jobs[k].thread, NULL);
    for (int k = 0; k < nposts; k++)
        if (jobs[k].result < 0)
            return err_adopt(jobs[k].result, jobs[k].text);
    return COLLET_SUCCESS;
}

/* ---- finding and ending ---- */

/* Returns the list's link to the window. NULL: the communicator does not have this window. The caller holds the lock. */
static struct collet_window **link_of(struct collet_comm *comm, const struct collet_window *window) {
    if (comm->windows == NULL)
        return NULL;
    struct collet_window **link = &comm->windows->first;
    while (*link != NULL && *link != window)
        link = &(*link)->next;
    return *link != NULL ? link : NULL;
}

static enum collet_result err_no_window(const struct collet_window *window) {
    if (window == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "window is NULL: pass one that collet_win_register() has made");
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "window is %p: none of this communicator's, or deregistered already",
                   (const void *)window);
}

enum collet_result window_check_is_of(struct collet_comm *comm, const struct collet_window *window) {
    SCOPED_LOCK(&windows_lock);
    return link_of(comm, window) != NULL ? COLLET_SUCCESS : err_no_window(window);
}

static enum collet_result forget_window(struct collet_comm *comm, const struct collet_window *window) {
    SCOPED_LOCK(&windows_lock);
    struct collet_window **link = link_of(comm, window);
    if (link == NULL)
        return err_no_window(window);
    *link = window->next;
    return COLLET_SUCCESS;
}

static enum collet_result check_unused(struct collet_comm *comm, const struct collet_window *window) {
    SCOPED_LOCK(&windows_lock);
    if (link_of(comm, window) == NULL)
        return err_no_window(window);
    const int transfers = __atomic_load_n(&window->transfers, __ATOMIC_RELAXED); /* It orders no other memory. */
    if (transfers == 0)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_USAGE, "%d transfers name this window: release them first", transfers);
}

/* Waits until this rank's puts have arrived, and then until all ranks have come here. After that nobody accesses the window any more. */
static enum collet_result end_use(struct collet_comm *comm) {
    if (!comm_enter(comm))
        return comm_check(comm);
    enum collet_result result = comm_remember(comm, await_flushes(comm, comm->windows->rma));
    if (result != COLLET_SUCCESS)
        boot_fail(comm->boot, result, err_last());
    comm_leave(comm);
    return result == COLLET_SUCCESS ? collet_barrier(comm, NULL) : result;
}

enum collet_result collet_win_deregister(struct collet_comm *comm, struct collet_window *window) {
    COLLET_TRY(comm_check(comm));
    if (window == NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(group_check_closed("collet_win_deregister"));
    COLLET_TRY(check_unused(comm, window));
    COLLET_TRY(forget_window(comm, window));
    enum collet_result result = window->on_gpu != NULL ? deregister_on_gpu(window, comm) : end_use(comm);
    window_end(comm, window);
    return result;
}

void window_end_all(struct collet_comm *comm) {
    struct windows *windows = comm->windows;
    if (windows == NULL)
        return;
    if (windows->rma != NULL)
        await_last_flushes(comm, windows->rma);
    rma_close(windows->rma);
    for (struct collet_window *window = windows->first, *next; window != NULL; window = next) {
        next = window->next;
        window_destroy(window, comm->nranks);
    }
    free(windows);
    comm->windows = NULL;
}

/* ---- for programs of NCCL ---- */

bool window_may_have(const struct collet_comm *comm, const void *buff, size_t bytes) {
    const int ordinal = comm->device - COLLET_DEVICE_CUDA(0);
    struct gpu_buffer *buffer = comm_is_on_gpu(comm) ? gpu_buffer_hold(ordinal, buff, bytes) : NULL;
    if (buffer != NULL)
        gpu_buffer_release(buffer, true);
    return buffer != NULL;
}

bool window_is_of(struct collet_comm *comm, const struct collet_window *window) {
    SCOPED_LOCK(&windows_lock);
    return comm_is_live(comm) && link_of(comm, window) != NULL;
}

enum collet_result window_buffer(struct collet_comm *comm, const struct collet_window *window, void **buff_p) {
    COLLET_TRY(comm_check(comm));
    SCOPED_LOCK(&windows_lock);
    if (link_of(comm, window) == NULL || window->on_gpu == NULL)
        return err_no_window(window);
    *buff_p = gpu_window_base(window->on_gpu, comm->rank);
    return COLLET_SUCCESS;
}

enum collet_result window_leave(struct collet_comm *comm, struct collet_window *window) {
    COLLET_TRY(comm_check(comm));
    COLLET_TRY(forget_window(comm, window));
    enum collet_result result = COLLET_SUCCESS;
    if (comm_enter(comm)) {
        const uint32_t number = gpu_window_number(window->on_gpu);
        result = gpu_window_leave(comm->chan, window->on_gpu);
        if (result == COLLET_SUCCESS)
            result = gpu_onesided_forget(comm->chan, number);
        comm_remember(comm, result);
        comm_leave(comm);
    }
    window_destroy(window, comm->nranks);
    return result;
}

/* ---- calls on windows ---- */

static enum collet_result enter(struct collet_comm *comm, int peer) {
    if (comm == NULL || !comm_enter(comm))
        return comm_check(comm);
    enum collet_result result = comm_check_locked(comm);
    if (result == COLLET_SUCCESS && (peer < 0 || peer >= comm->nranks))
        result =
            err_set(COLLET_ERR_INVALID_ARGUMENT, "peer is %d: 0 … %d in this communicator", peer, comm->nranks - 1);
    if (result != COLLET_SUCCESS)
        comm_leave(comm);
    return result;
}

enum collet_result window_enter(struct collet_comm *comm, const struct collet_window *window, int peer) {
    COLLET_TRY(enter(comm, peer));
    enum collet_result result = window_check_is_of(comm, window);
    if (result != COLLET_SUCCESS)
        comm_leave(comm);
    return result;
}

enum collet_result window_enter_any(struct collet_comm *comm, int peer) {
    COLLET_TRY(enter(comm, peer));
    if (comm->windows != NULL)
        return COLLET_SUCCESS;
    comm_leave(comm);
    return err_set(COLLET_ERR_INVALID_USAGE, "the communicator has no window yet: call collet_win_register() first");
}

/* Does the transport between this rank and the peer share memory? */
static bool shares_memory(const struct collet_comm *comm, int peer) {
    const struct transport *transport = chan_pair_transport(comm->chan, comm->rank, peer);
    return peer == comm->rank || (transport != NULL && !transport->remote);
}

static enum window_reach find_reach(const struct collet_comm *comm, const struct collet_window *window, int peer) {
    const struct peer_info *peers = boot_peers(comm->boot), *self = &peers[comm->rank];
    const struct window_entry *entry = &window->entries[peer];
    if (!shares_memory(comm, peer))
        return WINDOW_BY_MESSAGES;
    if (memcmp(peers[peer].process, self->process, sizeof self->process) == 0)
        return WINDOW_BY_ADDRESS;
    const bool in_heap = entry->signals.offset != 0 && (entry->data.offset != 0 || entry->bytes == 0);
    return in_heap && heap_view_map(window->views[peer]) ? WINDOW_BY_VIEW : WINDOW_BY_MESSAGES;
}

static enum window_reach reach_of(const struct collet_comm *comm, const struct collet_window *window, int peer) {
    int reach = __atomic_load_n(&window->reach[peer], __ATOMIC_RELAXED); /* every thread finds the same value */
    if (reach == WINDOW_UNKNOWN)
        __atomic_store_n(&window->reach[peer], reach = (int)find_reach(comm, window, peer), __ATOMIC_RELAXED);
    return (enum window_reach)reach;
}

static char *place_at(const struct collet_comm *comm, const struct collet_window *window, int peer,
                      const struct window_place *place, size_t at, size_t bytes) {
    switch (reach_of(comm, window, peer)) {
    case WINDOW_BY_ADDRESS: return (char *)(uintptr_t)place->address + at;
    case WINDOW_BY_VIEW: return heap_view_at(window->views[peer], place->offset + at, bytes);
    default: return NULL;
    }
}

static char *data_at(const struct collet_comm *comm, const struct collet_window *window, int peer, size_t offset,
                     size_t bytes) {
    if (window->on_gpu == NULL)
        return place_at(comm, window, peer, &window->entries[peer].data, offset, bytes);
    char *base = gpu_window_base(window->on_gpu, peer);
    return base != NULL ? base + offset : NULL;
}

uint64_t *window_signal_at(const struct collet_comm *comm, const struct collet_window *window, int peer) {
    const size_t at = (size_t)comm->rank * sizeof(uint64_t);
    return (uint64_t *)(void *)place_at(comm, window, peer, &window->entries[peer].signals, at, sizeof(uint64_t));
}

enum collet_result window_check_no_stream(const void *stream) {
    if (stream == NULL)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_ARGUMENT,
                   "stream is %p: calls on windows of host memory are in no stream, pass NULL", stream);
}

size_t window_bytes(const struct collet_window *window, int peer) {
    return window->on_gpu != NULL ? gpu_window_bytes(window->on_gpu, peer) : (size_t)window->entries[peer].bytes;
}

enum collet_result window_check(const struct collet_window *window, int peer, const struct window_target *target) {
    const size_t whole = window_bytes(window, peer);
    if (target->name != NULL && target->here == NULL && target->bytes > 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is NULL, and bytes is %zu", target->name, target->bytes);
    if (target->offset <= whole && target->bytes <= whole - target->offset)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "offset is %zu and bytes is %zu: the window of rank %d has %zu bytes",
                   target->offset, target->bytes, peer, whole);
}

struct piece window_piece(const struct collet_comm *comm, const struct collet_window *window, int peer, void *here,
                          size_t offset, size_t bytes) {
    const bool on_gpu = window->on_gpu != NULL;
    return (struct piece){
        .here = here,
        .there = bytes > 0 ? data_at(comm, window, peer, offset, bytes) : NULL,
        .window = on_gpu ? gpu_window_number(window->on_gpu) : window->entries[peer].number,
        .offset = offset,
        .bytes = bytes,
    };
}
