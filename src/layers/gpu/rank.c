/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's parts on its GPU: small memory, carved from chunks, and the order of its operations.
 *
 *    user's streams    s1  ──▶ op 1 ──▶ ·                 record `done`
 *                      s2       ·   wait `done` ──▶ op 2 ──▶
 *
 * One launch may run an operation of several ranks. Then one event stands behind it for all of them: a mark. Why not the event of one of
 * these ranks? That rank may record its event anew, behind an operation that waits for the others.
 *
 * In a capture the same waits become edges of the graph. Toward work outside of the graph, `done` is an external event: the graph waits
 * for it and records it, so each replay takes its place among the communicator's operations. A program replays graphs without telling
 * us. So a rank that is in a graph always waits for `done`, and always records it, as replays do.
 *
 * A call of copy engines ends with words that the stream writes anyhow. So the same call of the driver also writes `turn`, and `done` is
 * not recorded. As soon as there are graphs, `done` is recorded again.
 */
#include "layers/gpu/gpu.h"

#include "base/low.h"
#include "base/memory.h"
#include "base/wait.h"

#include <stdio.h>
#include <stdlib.h>

#define CHUNK_BYTES (1u << 20)
#define ALIGN_BYTES 256u

PROCESS_LOCK(ranks_lock); /* while a thread holds the lock, no work of a rank is put into a stream */
static struct gpu_rank *ranks;

/* An event behind an operation of several ranks. It is used while that is the newest operation of some rank. Then it is recorded again. */
struct gpu_mark {
    struct gpu_mark *next;
    int ordinal, users;
    void *event;
};
static struct gpu_mark *marks;

struct gpu_chunk {
    struct gpu_chunk *next;
    char *memory;
    size_t used, bytes;
};

enum collet_result gpu_find(int device, const char *argument, int *ordinal_p) {
    const struct gpu_driver *driver = gpu_driver();
    const char *why = "";
    if (device == COLLET_DEVICE_HOST || device < COLLET_DEVICE_CUDA_CURRENT)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "%s is %d: COLLET_DEVICE_HOST, COLLET_DEVICE_CUDA(i) or COLLET_DEVICE_CUDA_CURRENT", argument,
                       device);
    if (driver == NULL)
        return err_set(COLLET_ERR_UNSUPPORTED,
                       "%s is a CUDA GPU, but this build of collet drives host memory only (it was built without nvcc)",
                       argument);
    int count = driver->count(&why);
    if (count == 0)
        return err_set(COLLET_ERR_UNSUPPORTED, "%s is a CUDA GPU, but there is none here: %s", argument, why);
    if (device == COLLET_DEVICE_CUDA_CURRENT)
        return driver->current(ordinal_p);
    *ordinal_p = device - COLLET_DEVICE_CUDA(0);
    if (*ordinal_p >= count)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is GPU %d, but this process sees %d", argument, *ordinal_p,
                       count);
    return COLLET_SUCCESS;
}

void gpu_busid(int ordinal, char text[GPU_BUSID_BYTES]) {
    uint32_t bus = gpu_driver()->bus(ordinal);
    snprintf(text, GPU_BUSID_BYTES, "%04x:%02x:%02x.0", bus >> 16, bus >> 8 & 0xff, bus & 0xff);
}

static enum collet_result rank_init(struct gpu_rank *rank) {
    const struct gpu_driver *driver = rank->driver;
    COLLET_TRY(driver->memory->pinned_create(GPU_STATUS_BYTES + sizeof(*rank->turn), &rank->status));
    rank->turn = (uint32_t *)(void *)((char *)rank->status + GPU_STATUS_BYTES);
    COLLET_TRY(driver->streams->event_create(&rank->done));
    COLLET_TRY(driver->streams->event_create(&rank->done_in_capture));
    return driver->streams->event_create(&rank->ready);
}

static void rank_enlist(struct gpu_rank *rank) {
    SCOPED_LOCK(&ranks_lock);
    rank->next = ranks;
    ranks = rank;
}

static void rank_unlist(const struct gpu_rank *rank) {
    SCOPED_LOCK(&ranks_lock);
    struct gpu_rank **link = &ranks;
    while (*link != rank)
        link = &(*link)->next;
    *link = rank->next;
}

/* ---- marks ---- */

static void mark_leave(struct gpu_rank *rank) {
    struct gpu_mark *mark = __atomic_exchange_n(&rank->mark, NULL, __ATOMIC_ACQ_REL);
    if (mark != NULL)
        __atomic_sub_fetch(&mark->users, 1, __ATOMIC_ACQ_REL);
}

/* Finds a free mark. The caller holds the lock. NULL: none is free. */
static struct gpu_mark *mark_find(int ordinal) {
    for (struct gpu_mark *mark = marks; mark != NULL; mark = mark->next)
        if (mark->ordinal == ordinal && __atomic_load_n(&mark->users, __ATOMIC_ACQUIRE) == 0)
            return mark;
    return NULL;
}

/* Takes a mark with `users` counted already, so nobody else takes it. The caller has entered the GPU. */
static enum collet_result mark_take(const struct gpu_driver *driver, int ordinal, int users, struct gpu_mark **mark_p) {
    SCOPED_LOCK(&ranks_lock);
    struct gpu_mark *mark = mark_find(ordinal);
    if (mark == NULL) {
        COLLET_TRY(memory_get(&mark, 1, sizeof *mark, "no memory for an event on GPU %d", ordinal));
        enum collet_result result = driver->streams->event_create(&mark->event);
        if (result != COLLET_SUCCESS) {
            free(mark);
            return result;
        }
        mark->ordinal = ordinal;
        mark->next = marks;
        marks = mark;
    }
    mark->users = users;
    *mark_p = mark;
    return COLLET_SUCCESS;
}

/* Ends all marks. The caller holds the lock, and no rank is left. */
static void marks_end(const struct gpu_driver *driver) {
    for (struct gpu_mark *mark = marks, *next; mark != NULL; mark = next) {
        next = mark->next;
        driver->streams->event_destroy(mark->event);
        free(mark);
    }
    marks = NULL;
}

static void sweep_behind_the_last(const struct gpu_driver *driver) {
    SCOPED_LOCK(&ranks_lock);
    if (ranks != NULL)
        return;
    marks_end(driver);
    driver->memory->sweep();
}

enum collet_result gpu_rank_create(int ordinal, struct gpu_rank **rank_p) {
    struct gpu_rank *rank;
    COLLET_TRY(memory_get(&rank, 1, sizeof *rank, "no memory for a rank on GPU %d", ordinal));
    rank->driver = gpu_driver();
    rank->ordinal = ordinal;
    SCOPED_LOW; /* the driver keeps the descriptors that it opens for a context, for memory and for streams */
    enum collet_result result = rank->driver->open(ordinal);
    if (result != COLLET_SUCCESS) {
        free(rank);
        return result;
    }
    rank_enlist(rank);
    gpu_rank_detach_all(rank); /* this may wait for kernels, but so does a new rank when it makes connections */
    GPU_ENTERED(rank->driver, ordinal);
    result = rank_init(rank);
    if (result == COLLET_SUCCESS)
        *rank_p = rank;
    else
        gpu_rank_destroy(rank);
    return result;
}

void gpu_rank_destroy(struct gpu_rank *rank) {
    if (rank == NULL)
        return;
    const struct gpu_driver *driver = rank->driver;
    GPU_ENTERED(rank->driver, rank->ordinal);
    rank_unlist(rank);
    mark_leave(rank);
    for (struct gpu_chunk *chunk = rank->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        driver->memory->destroy(chunk->memory);
        free(chunk);
    }
    driver->streams->event_destroy(rank->done);
    driver->streams->event_destroy(rank->done_in_capture);
    driver->streams->event_destroy(rank->ready);
    driver->memory->pinned_destroy(rank->status);
    free(rank);
    sweep_behind_the_last(driver);
}

/* Returns the event behind the rank's newest operation. */
static void *newest_event(const struct gpu_rank *rank) {
    const struct gpu_mark *mark = __atomic_load_n(&rank->mark, __ATOMIC_ACQUIRE);
    return mark != NULL ? mark->event : rank->done;
}

/* The caller has entered the rank's GPU. */
static enum collet_result query(const struct gpu_rank *rank) {
    const enum collet_result result = rank->driver->streams->query(newest_event(rank));
    const uint32_t turns = __atomic_load_n(&rank->turns, __ATOMIC_ACQUIRE); /* pairs with gpu_rank_turn() */
    const bool has_come = __atomic_load_n(rank->turn, __ATOMIC_ACQUIRE) == turns;
    return result == COLLET_SUCCESS && !has_come ? COLLET_IN_PROGRESS : result;
}

enum collet_result gpu_rank_query(const struct gpu_rank *rank) {
    GPU_ENTERED(rank->driver, rank->ordinal);
    return query(rank);
}

/* The caller holds the lock. An operation that failed while it was put may be there in part. The driver is asked last, because a launch may
 * keep it waiting. */
static bool may_have_work(const struct gpu_rank *rank) {
    return rank->is_putting || rank->in_graphs || (rank->any && query(rank) == COLLET_IN_PROGRESS);
}

bool gpu_rank_detach_all(const struct gpu_rank *rank) {
    GPU_ENTERED(rank->driver, rank->ordinal);
    SCOPED_LOCK(&ranks_lock);
    for (const struct gpu_rank *other = ranks; other != NULL; other = other->next)
        if (other != rank && other->ordinal == rank->ordinal && may_have_work(other))
            return false;
    rank->driver->sharing->sweep(rank->ordinal);
    return true;
}

bool gpu_rank_wait(const struct gpu_rank *rank, uint64_t limit_ns) {
    struct waiter waiter = {.spin = 0};
    GPU_ENTERED(rank->driver, rank->ordinal);
    bool pending = rank->any && query(rank) == COLLET_IN_PROGRESS;
    while (pending && (limit_ns == 0 || wait_idle_ns(&waiter) < limit_ns)) {
        wait_pause(&waiter);
        pending = query(rank) == COLLET_IN_PROGRESS;
    }
    return !pending;
}

enum collet_result gpu_rank_take(struct gpu_rank *rank, size_t bytes, void **memory_p) {
    size_t rounded = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    struct gpu_chunk *chunk = rank->chunks;
    if (chunk == NULL || chunk->bytes - chunk->used < rounded) {
        chunk = calloc(1, sizeof(*chunk));
        if (chunk == NULL)
            return err_set(COLLET_ERR_NO_MEMORY, "no memory to note %zu bytes on a GPU", bytes);
        chunk->bytes = rounded > CHUNK_BYTES ? rounded : CHUNK_BYTES;
        enum collet_result result = rank->driver->memory->create(chunk->bytes, (void **)&chunk->memory);
        if (result != COLLET_SUCCESS) {
            free(chunk);
            return result;
        }
        chunk->next = rank->chunks;
        rank->chunks = chunk;
    }
    *memory_p = chunk->memory + chunk->used;
    chunk->used += rounded;
    return COLLET_SUCCESS;
}

/* ---- order ---- */

static void say_that_it_puts(struct gpu_rank *rank, bool puts) {
    SCOPED_LOCK(&ranks_lock);
    rank->is_putting = puts;
}

/* Does the stream itself keep the order of the newest and the next operation? In a capture nobody knows the stream, and a rank's work in
 * graphs runs in any stream. */
static bool is_one_stream(const struct gpu_rank *rank, const struct gpu_place *place) {
    return !rank->in_graphs && place->capture == 0 && rank->newest.id == place->id;
}

/* Each replay waits for the operation before this mark. So the mark is never recorded again. */
static enum collet_result graph_waits_for_mark(struct gpu_mark *mark, const struct gpu_driver *driver,
                                               const struct gpu_place *place) {
    __atomic_add_fetch(&mark->users, 1, __ATOMIC_ACQ_REL);
    return driver->streams->wait(place->stream, mark->event, true);
}

enum collet_result gpu_rank_before(struct gpu_rank *rank, const struct gpu_place *place) {
    const struct gpu_word_op told = {.word = rank->turn, .value = rank->turns, .waits = true};
    const bool tells = rank->tells;
    say_that_it_puts(rank, true);
    rank->tells = false;
    if (!rank->any || is_one_stream(rank, place))
        return COLLET_SUCCESS;
    if (tells)
        COLLET_TRY(rank->driver->streams->words(&told, 1, place->stream));
    if (rank->mark != NULL && place->capture != 0)
        COLLET_TRY(graph_waits_for_mark(rank->mark, rank->driver, place));
    return tells && place->capture == 0 ? COLLET_SUCCESS : gpu_rank_follow(rank, place, place->stream);
}

bool gpu_rank_turn(struct gpu_rank *rank, const struct gpu_place *place, struct gpu_word_op *last) {
    if (place->capture != 0 || rank->in_graphs)
        return false;
    *last = (struct gpu_word_op){.word = rank->turn, .value = rank->turns + 1};
    __atomic_store_n(&rank->turns, last->value, __ATOMIC_RELEASE);
    return rank->tells = true;
}

/* Puts the event behind an operation of this rank alone, or behind one in a capture. */
static enum collet_result record_done(const struct gpu_rank *rank, const struct gpu_place *place) {
    const struct gpu_streams *streams = rank->driver->streams;
    if (place->capture != 0)
        COLLET_TRY(streams->record(rank->done_in_capture, place->stream, false));
    return streams->record(rank->done, place->stream, place->capture != 0);
}

/* Puts one event behind an operation of several ranks. None of them is in a graph. */
static enum collet_result record_mark(struct gpu_rank *const *of, int n, const struct gpu_place *place) {
    const struct gpu_driver *driver = of[0]->driver;
    struct gpu_mark *mark;
    COLLET_TRY(mark_take(driver, of[0]->ordinal, n, &mark));
    for (int k = 0; k < n; k++) {
        mark_leave(of[k]);
        __atomic_store_n(&of[k]->mark, mark, __ATOMIC_RELEASE);
    }
    return driver->streams->record(mark->event, place->stream, false);
}

static bool any_in_graphs(struct gpu_rank *const *of, int n) {
    for (int k = 0; k < n; k++)
        if (of[k]->in_graphs)
            return true;
    return false;
}

enum collet_result gpu_ranks_after(struct gpu_rank *const *of, int n, const struct gpu_place *place) {
    for (int k = 0; k < n; k++) {
        of[k]->any = true;
        of[k]->newest = *place;
        of[k]->in_graphs |= place->capture != 0;
    }
    if (n > 1 && !any_in_graphs(of, n))
        COLLET_TRY(record_mark(of, n, place));
    else
        for (int k = 0; k < n; k++) {
            mark_leave(of[k]);
            if (!of[k]->tells)
                COLLET_TRY(record_done(of[k], place));
        }
    for (int k = 0; k < n; k++)
        say_that_it_puts(of[k], false);
    return COLLET_SUCCESS;
}

enum collet_result gpu_rank_ready(struct gpu_rank *rank, void *stream) {
    return rank->driver->streams->record(rank->ready, stream, false);
}

enum collet_result gpu_rank_follow(const struct gpu_rank *rank, const struct gpu_place *place, void *stream) {
    const struct gpu_streams *streams = rank->driver->streams;
    if (place->capture != 0 && rank->newest.capture == place->capture)
        return streams->wait(stream, rank->done_in_capture, false);
    return place->capture != 0 ? streams->wait(stream, rank->done, true)
                               : streams->wait(stream, newest_event(rank), false);
}

enum collet_result gpu_rank_copy(struct gpu_rank *rank, void *to, const void *from, size_t bytes, void *stream,
                                 void *other) {
    const struct gpu_streams *streams = rank->driver->streams;
    struct gpu_place place;
    uint64_t capture;
    GPU_ENTERED(rank->driver, rank->ordinal);
    COLLET_TRY(streams->capture(stream, &capture));
    COLLET_TRY(gpu_place_in(streams, stream, capture, &place));
    COLLET_TRY(gpu_rank_before(rank, &place));
    if (other != stream) {
        COLLET_TRY(gpu_rank_ready(rank, other));
        COLLET_TRY(streams->wait(stream, rank->ready, false));
    }
    COLLET_TRY(streams->copy(to, from, bytes, stream));
    COLLET_TRY(gpu_ranks_after(&rank, 1, &place));
    return other != stream ? gpu_rank_follow(rank, &place, other) : COLLET_SUCCESS;
}

/* ---- memory of the host ---- */

enum collet_result gpu_pinned_create(const struct gpu_rank *rank, size_t bytes, void **memory_p) {
    GPU_ENTERED(rank->driver, rank->ordinal);
    return rank->driver->memory->pinned_create(bytes, memory_p);
}

void gpu_pinned_destroy(const struct gpu_rank *rank, void *memory) {
    GPU_ENTERED(rank->driver, rank->ordinal);
    rank->driver->memory->pinned_destroy(memory);
}
