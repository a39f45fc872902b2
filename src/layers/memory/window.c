/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: buffers of all ranks, one per rank, that every rank may write.
 *
 *    rank 0                                           rank 1
 *                                                     its window   │ ······ data ······ │
 *    collet_put ── copies ──────────────────────────▶                      │
 *    collet_signal ── adds 1, release ──────────────▶ its signals  │ of 0 │ of 1 │ …    one counter per rank
 *                                                     collet_wait_signal: acquire; then the data is there
 *
 * Each rank says where its buffer and its signals are: an address, which ranks of its process use, and an offset in the commons
 * (layers/memory/commons.h), which other processes of its host use. A put is a copy, and needs nobody at the other end.
 */
#include "layers/memory/window.h"

#include "api/group.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/thread.h"
#include "fifo/port.h"
#include "layers/gpu/buffers.h"
#include "layers/gpu/exec_copies.h"
#include "layers/gpu/windows.h"
#include "layers/memory/commons.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A place in memory that a rank announces. */
struct window_place {
    uint64_t address, offset; /* offset 0: not in the commons */
};

/* A rank's announcement of its window. */
struct window_entry {
    struct window_place data, signals;
    uint64_t bytes;
    struct commons_ticket ticket;
};

struct collet_window {
    struct collet_window *next;
    struct window_entry *entries; /* [nranks] */
    struct commons_view **views;  /* [nranks]; NULL: this rank's commons cannot be reached */
    uint64_t *signals;            /* [nranks]: number of signals from each rank */
    uint64_t *waited;             /* [nranks]: number of these that were waited for */
    bool signals_in_commons;
    struct gpu_window *on_gpu; /* window on GPUs, which uses none of the above (layers/gpu/windows.h) */
};

PROCESS_LOCK(windows_lock); /* protects the list of each communicator */

/* ---- registration ---- */

static void window_destroy(struct collet_window *window, int nranks) {
    for (int rank = 0; window->views != NULL && rank < nranks; rank++)
        commons_view_close(window->views[rank]);
    if (window->signals_in_commons)
        commons_give_back(window->signals);
    else
        free(window->signals);
    free(window->entries);
    free(window->views);
    free(window->waited);
    free(window);
}

static enum collet_result window_create(const struct collet_comm *comm, struct collet_window **window_p) {
    struct collet_window *window;
    size_t n = (size_t)comm->nranks;
    COLLET_TRY(memory_get(&window, 1, sizeof *window, "no memory for a window"));
    *window_p = window;
    if (comm_is_on_gpu(comm))
        return COLLET_SUCCESS;
    window->entries = calloc(n, sizeof *window->entries);
    window->views = calloc(n, sizeof(struct commons_view *));
    window->waited = calloc(n, sizeof *window->waited);
    window->signals = commons_take(n * sizeof *window->signals, sizeof *window->signals);
    window->signals_in_commons = window->signals != NULL;
    if (window->signals == NULL)
        window->signals = calloc(n, sizeof *window->signals);
    if (window->entries != NULL && window->views != NULL && window->waited != NULL && window->signals != NULL)
        return COLLET_SUCCESS;
    window_destroy(window, comm->nranks);
    return err_set(COLLET_ERR_NO_MEMORY, "no memory for a window of %d ranks", comm->nranks);
}

static struct window_place place_in_window(const void *memory) {
    return (struct window_place){(uintptr_t)memory, commons_offset(commons_own(), (uintptr_t)memory)};
}

/* All ranks exchange their entries. Each opens the commons of the ranks on its host. */
static enum collet_result window_meet(struct collet_window *window, struct collet_comm *comm, void *buff,
                                      size_t bytes) {
    struct window_entry *mine = &window->entries[comm->rank];
    *mine =
        (struct window_entry){place_in_window(buff), place_in_window(window->signals), bytes, commons_own()->ticket};
    COLLET_TRY(collet_allgather(mine, window->entries, sizeof *mine, COLLET_UINT8, comm, NULL));
    const struct peer_info *peers = boot_peers(comm->boot);
    for (int rank = 0; rank < comm->nranks; rank++)
        if (peers[rank].node == peers[comm->rank].node)
            COLLET_TRY(commons_view_open(&window->entries[rank].ticket, &window->views[rank]));
    return COLLET_SUCCESS;
}

static enum collet_result register_on_gpu(struct collet_window *window, struct collet_comm *comm, void *buff,
                                          size_t bytes) {
    enum collet_result result = gpu_window_register(comm->chan, buff, bytes, &window->on_gpu);
    if (result == COLLET_SUCCESS)
        result = exec_copies_open(comm->chan, window->on_gpu);
    return comm_remember(comm, result);
}

static enum collet_result deregister_on_gpu(const struct collet_window *window, struct collet_comm *comm) {
    if (!comm_enter(comm))
        return comm_check(comm);
    enum collet_result result = comm_remember(comm, gpu_window_deregister(comm->chan, window->on_gpu));
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

static enum collet_result register_in(struct collet_comm *comm, const struct window_post *post) {
    struct collet_window *window;
    enum collet_result result = window_create(comm, &window);
    if (result == COLLET_SUCCESS) {
        result = comm_is_on_gpu(comm) ? register_on_gpu(window, comm, post->buff, post->bytes)
                                      : window_meet(window, comm, post->buff, post->bytes);
        if (result != COLLET_SUCCESS)
            window_destroy(window, comm->nranks);
    }
    comm_fail_without_memory(comm, result);
    COLLET_TRY(result);
    SCOPED_LOCK(&windows_lock);
    window->next = comm->windows;
    *post->window_p = comm->windows = window;
    return COLLET_SUCCESS;
}

/* An abort in another thread waits until this returns. */
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
    const struct window_post *post, *posts_end; /* first post; others of the same communicator follow */
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
    if (job->has_thread) /* the thread does the rest */
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

/* The list's link to the window; NULL: the communicator does not have it. */
static struct collet_window **link_of(struct collet_comm *comm, const struct collet_window *window) {
    struct collet_window **link = &comm->windows;
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

static enum collet_result forget_window(struct collet_comm *comm, const struct collet_window *window) {
    SCOPED_LOCK(&windows_lock);
    struct collet_window **link = link_of(comm, window);
    if (link == NULL)
        return err_no_window(window);
    *link = window->next;
    return COLLET_SUCCESS;
}

enum collet_result collet_win_deregister(struct collet_comm *comm, struct collet_window *window) {
    COLLET_TRY(comm_check(comm));
    if (window == NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(group_check_closed("collet_win_deregister"));
    COLLET_TRY(forget_window(comm, window));
    enum collet_result result = window->on_gpu != NULL ? deregister_on_gpu(window, comm)
                                                       : collet_barrier(comm, NULL); /* nobody writes here any more */
    window_destroy(window, comm->nranks);
    return result;
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
        result = comm_remember(comm, gpu_window_leave(comm->chan, window->on_gpu));
        comm_leave(comm);
    }
    window_destroy(window, comm->nranks);
    return result;
}

void window_deregister_all(struct collet_comm *comm) {
    for (struct collet_window *next; comm->windows != NULL; comm->windows = next) {
        next = comm->windows->next;
        window_destroy(comm->windows, comm->nranks);
    }
}

/* ---- put and signal ---- */

/* Begins a call on a window. Any thread may make one, beside calls on the communicator. If it succeeds, end it with comm_leave(). */
static enum collet_result window_enter(struct collet_comm *comm, const struct collet_window *window, int peer) {
    if (comm == NULL || !comm_enter(comm))
        return comm_check(comm);
    enum collet_result result = comm_check_locked(comm);
    if (result == COLLET_SUCCESS && (peer < 0 || peer >= comm->nranks))
        result =
            err_set(COLLET_ERR_INVALID_ARGUMENT, "peer is %d: 0 … %d in this communicator", peer, comm->nranks - 1);
    if (result == COLLET_SUCCESS && comm_is_on_gpu(comm))
        result = err_set(COLLET_ERR_UNSUPPORTED, "on GPUs a window is for collectives, sends and receives; puts and "
                                                 "signals are for communicators of host memory");
    SCOPED_LOCK(&windows_lock);
    if (result == COLLET_SUCCESS && link_of(comm, window) == NULL)
        result = err_no_window(window);
    if (result != COLLET_SUCCESS)
        comm_leave(comm);
    return result;
}

/* The address at which this rank can access these bytes of a peer's place. */
static enum collet_result reach_peer(const struct collet_comm *comm, const struct collet_window *window, int peer,
                                     const struct window_place *place, size_t at, size_t bytes, char **there) {
    const struct peer_info *peers = boot_peers(comm->boot), *self = &peers[comm->rank];
    bool near = memcmp(peers[peer].process, self->process, sizeof self->process) == 0;
    *there = near                 ? (char *)(uintptr_t)place->address + at
             : place->offset == 0 ? NULL
                                  : commons_view_at(window->views[peer], place->offset + at, bytes);
    if (*there != NULL)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_UNSUPPORTED, "rank %d cannot write into the window of rank %d, which is %s", comm->rank,
                   peer,
                   peers[peer].node != self->node ? "on another host: use collet_send() and collet_recv()"
                   : place->offset == 0           ? "not in memory of collet_mem_alloc()"
                                                  : "in memory of another process that cannot be mapped: see the log");
}

static enum collet_result put_there(const void *sendbuff, size_t bytes, int peer, const struct collet_window *window,
                                    size_t offset, const struct collet_comm *comm) {
    const struct window_entry *entry = &window->entries[peer];
    char *there;
    if (sendbuff == NULL && bytes > 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "sendbuff is NULL, and bytes is %zu", bytes);
    if (offset > entry->bytes || bytes > entry->bytes - offset)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "offset is %zu and bytes is %zu: the window of rank %d has %llu bytes", offset, bytes, peer,
                       (unsigned long long)entry->bytes);
    if (bytes == 0)
        return COLLET_SUCCESS;
    COLLET_TRY(reach_peer(comm, window, peer, &entry->data, offset, bytes, &there));
    memmove(there, sendbuff, bytes); /* in a message to itself, source and destination may overlap */
    return COLLET_SUCCESS;
}

enum collet_result collet_put(const void *sendbuff, size_t bytes, int peer, struct collet_window *window, size_t offset,
                              struct collet_comm *comm) {
    COLLET_TRY(window_enter(comm, window, peer));
    enum collet_result result = comm_remember(comm, put_there(sendbuff, bytes, peer, window, offset, comm));
    comm_leave(comm);
    return result;
}

static enum collet_result signal_peer(int peer, const struct collet_window *window, const struct collet_comm *comm) {
    size_t at = (size_t)comm->rank * sizeof *window->signals;
    char *there;
    COLLET_TRY(reach_peer(comm, window, peer, &window->entries[peer].signals, at, sizeof *window->signals, &there));
    __atomic_fetch_add((uint64_t *)(void *)there, 1, __ATOMIC_RELEASE); /* pairs with has_signals() */
    return COLLET_SUCCESS;
}

enum collet_result collet_signal(int peer, struct collet_window *window, struct collet_comm *comm) {
    COLLET_TRY(window_enter(comm, window, peer));
    enum collet_result result = comm_remember(comm, signal_peer(peer, window, comm));
    comm_leave(comm);
    return result;
}

/* ---- waiting ---- */

static bool has_signals(const struct collet_window *window, int peer, uint64_t count) {
    uint64_t sent = port_load_acquire(&window->signals[peer]); /* pairs with signal_peer() */
    return sent - window->waited[peer] >= count;
}

/* May the signals still come? */
static enum collet_result check_signaller(const struct collet_comm *comm, int peer, uint64_t idle_ns) {
    COLLET_TRY(boot_check(comm->boot));
    if (boot_missing_count(comm->boot) > 0 && boot_peer_settled(comm->boot, peer, false) != PEER_ALIVE)
        return err_set(COLLET_ERR_REMOTE, "rank %d is gone, and rank %d waited for its signal", peer, comm->rank);
    if (idle_ns / 1000000u < (uint64_t)comm->chan->timeout_ms || boot_peer_state(comm->boot, peer, NULL) != PEER_ALIVE)
        return COLLET_SUCCESS; /* a death is a better answer than a timeout */
    if (boot_has_ended_here(comm->boot, peer))
        return err_set(COLLET_ERR_REMOTE, "rank %d died, and rank %d waited for its signal", peer, comm->rank);
    return err_set(COLLET_ERR_TIMEOUT,
                   "rank %d waited %.1f s for a signal of rank %d: did that call collet_signal()? (COLLET_TIMEOUT or "
                   "config.timeout_ms sets the limit)",
                   comm->rank, (double)idle_ns / 1e9, peer);
}

static enum collet_result await_signals(const struct collet_comm *comm, struct collet_window *window, int peer,
                                        uint64_t count) {
    struct waiter waiter = comm->engine.patience;
    struct late late = {0};
    enum collet_result result = COLLET_SUCCESS;
    while (!has_signals(window, peer, count) && result == COLLET_SUCCESS) {
        if (!wait_pause(&waiter))
            continue;
        result = check_signaller(comm, peer, wait_idle_ns(&waiter));
        if (late.since_ns == 0)
            late_begin(&late, os_now_ns(), comm->config.warn_after);
        if (late_look(&late))
            log_always(COLL, "rank %d %s: for a signal of rank %d", comm->rank, late_text(&late), peer);
    }
    if (result != COLLET_SUCCESS && !has_signals(window, peer, count)) /* a dead rank may have sent the last ones */
        return result;
    window->waited[peer] += count;
    return COLLET_SUCCESS;
}

/* A rank that fails here stays behind, as in any call: the communicator is over. */
enum collet_result collet_wait_signal(int peer, uint64_t count, struct collet_window *window,
                                      struct collet_comm *comm) {
    COLLET_TRY(window_enter(comm, window, peer));
    enum collet_result result = comm_remember(comm, await_signals(comm, window, peer, count));
    if (result != COLLET_SUCCESS)
        boot_fail(comm->boot, result, err_last());
    comm_leave(comm);
    return result;
}
