/* SPDX-License-Identifier: Apache-2.0
 *
 * Host streams and work handles.
 *
 *    issued 9   ┌────┬────┬────┬────┬────┬ ─ ─          a call with place p begins when done ≥ p
 *    done   5   │ 4  │ 5  │ 6  │ 7  │ 8  │              all calls of a group have the place of the group's first call
 *               └────┴────┴────┴────┴────┴ ─ ─          a work handle is a number: its calls are done when done ≥ number
 */
#include "seams/streams.h"

#include "api/comm.h"
#include "api/engine.h"
#include "api/group.h"
#include "base/memory.h"
#include "base/os.h"
#include "layers/streams/engine_thread.h"

#include <stdlib.h>

/* Handles are not freed but reused, so that the magic of a destroyed handle can be read. The numbers of a reused stream
 * go on, so old work handles are done. */
struct collet_stream {
    /* Set with release after the other fields, cleared when the stream is destroyed. Pairs with stream_check(). */
    uint64_t magic;
    struct queue queue;
    /* Communicator of the newest call; a thread that waits for the stream drives its calls. */
    struct collet_comm *newest;
    uint64_t group, place;      /* the last issue number with calls in this stream, and the place of these calls */
    struct collet_stream *next; /* list of destroyed streams */
};

#define STREAM_MAGIC 0x73747265616d0000ull /* plus the number of forks, as for communicators */

static struct post *spare_posts; /* posts are taken by one thread at a time, and given back by any thread */
static struct collet_stream *destroyed;

/* ---- posts ---- */

static struct post *spare_take(void) {
    struct post *post = __atomic_load_n(&spare_posts, __ATOMIC_ACQUIRE); /* Pairs with stream_post_free(). */
    while (post != NULL &&
           !__atomic_compare_exchange_n(&spare_posts, &post, post->next, true, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
        ;
    return post;
}

void stream_post_free(struct post *copy) {
    free(copy->request.extents);
    copy->next = __atomic_load_n(&spare_posts, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&spare_posts, &copy->next, copy, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

/* Copies a post. The copy takes over the memory that must live as long as the call. */
static enum collet_result post_copy(struct post *post, struct post **copy_p) {
    struct post *copy = spare_take();
    if (copy == NULL)
        COLLET_TRY(memory_get(&copy, 1, sizeof *copy, "no memory for an asynchronous call"));
    *copy = *post;
    post->request.extents = NULL;
    *copy_p = copy;
    return COLLET_SUCCESS;
}

static void take_place(struct post *post, uint64_t issue) {
    struct collet_stream *stream = post->stream;
    if (stream->group != issue) {
        stream->group = issue;
        stream->place = stream->queue.issued;
    }
    post->queue = &stream->queue;
    post->place = stream->place;
    post->failure = &stream->queue.failure;
    __atomic_store_n(&stream->newest, post->comm, __ATOMIC_RELAXED);
    __atomic_store_n(&stream->queue.issued, stream->queue.issued + 1, __ATOMIC_RELEASE); /* Pairs with issued_on(). */
}

enum collet_result stream_post(struct post *post, uint64_t issue, struct post **copy_p) {
    struct post *copy;
    COLLET_TRY(engine_thread_start(post->comm));
    COLLET_TRY(post_copy(post, &copy));
    if (post->partner != NULL && post_copy(post->partner, &copy->partner) != COLLET_SUCCESS) {
        stream_post_free(copy);
        return COLLET_ERR_NO_MEMORY;
    }
    take_place(copy, issue);
    if (copy->partner != NULL)
        take_place(copy->partner, issue);
    *copy_p = copy;
    return COLLET_SUCCESS;
}

/* ---- streams ---- */

static uint64_t stream_magic(void) { return STREAM_MAGIC + process_forks; }

/* Is this a host stream? A cudaStream_t is an address too, or a small number. */
enum collet_result stream_check(const void *stream_) {
    const struct collet_stream *stream = stream_;
    bool is_address = (uintptr_t)stream >= 4096 && (uintptr_t)stream % _Alignof(struct collet_stream) == 0;
    uint64_t magic = is_address ? __atomic_load_n(&stream->magic, __ATOMIC_ACQUIRE) : 0;
    if (magic == stream_magic())
        return COLLET_SUCCESS;
    if (magic - STREAM_MAGIC < process_forks)
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "stream was made before fork(): it is of the parent process, and a child "
                       "process has to create its own");
    return err_set(
        COLLET_ERR_INVALID_ARGUMENT,
        "stream is no host stream: for host memory pass NULL or a stream that collet_stream_create() has made "
        "and that was not destroyed; a cudaStream_t belongs to a communicator of GPUs");
}

enum collet_result collet_stream_create(struct collet_stream **stream_p) {
    if (stream_p == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "stream is NULL: pass where the handle goes");
    process_lock();
    struct collet_stream *stream = destroyed;
    if (stream != NULL)
        destroyed = stream->next;
    process_unlock();
    if (stream == NULL)
        COLLET_TRY(memory_get(&stream, 1, sizeof *stream, "no memory for a stream"));
    stream->queue.failure.result = COLLET_SUCCESS;
    stream->newest = NULL;
    __atomic_store_n(&stream->magic, stream_magic(), __ATOMIC_RELEASE);
    *stream_p = stream;
    return COLLET_SUCCESS;
}

static uint64_t issued_on(const struct collet_stream *stream) {
    return __atomic_load_n(&stream->queue.issued, __ATOMIC_ACQUIRE); /* Pairs with take_place(). */
}

static void wait_until(const struct collet_stream *stream, uint64_t ticket, uint64_t deadline_ns) {
    engine_wait(&stream->queue, ticket, __atomic_load_n(&stream->newest, __ATOMIC_RELAXED), deadline_ns);
}

/* Calls that are queued in the stream are completed first. */
enum collet_result collet_stream_destroy(struct collet_stream *stream) {
    if (stream == NULL)
        return COLLET_SUCCESS;
    if (__atomic_load_n(&stream->magic, __ATOMIC_ACQUIRE) - STREAM_MAGIC < process_forks) /* the parent process's */
        return COLLET_SUCCESS;
    COLLET_TRY(stream_check(stream));
    COLLET_TRY(group_check_none_queued(NULL, stream, "collet_stream_destroy"));
    wait_until(stream, issued_on(stream), 0);
    __atomic_store_n(&stream->magic, 0, __ATOMIC_RELEASE);
    process_lock();
    stream->next = destroyed;
    destroyed = stream;
    process_unlock();
    return COLLET_SUCCESS;
}

/* ---- work ---- */

enum collet_result collet_stream_record(struct collet_stream *stream, struct collet_work *work) {
    COLLET_TRY(stream_check(stream));
    if (work == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "work is NULL: pass the address of a struct collet_work");
    *work = (struct collet_work){stream, issued_on(stream)};
    return COLLET_SUCCESS;
}

enum collet_result collet_test(struct collet_work work, int *done) {
    COLLET_TRY(stream_check(work.stream));
    if (done == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "done is NULL: pass the address of an int");
    bool over = queue_has_come_to(&work.stream->queue, work.ticket);
    enum collet_result result = over ? post_failure(&work.stream->queue.failure, work.ticket) : COLLET_SUCCESS;
    *done = over;
    return result;
}

enum collet_result collet_wait(struct collet_work work) {
    COLLET_TRY(stream_check(work.stream));
    COLLET_TRY(group_check_none_queued(NULL, work.stream, "collet_wait"));
    wait_until(work.stream, work.ticket, 0);
    return post_failure(&work.stream->queue.failure, work.ticket);
}

enum collet_result collet_wait_for(struct collet_work work, int timeout_ms) {
    int done = 0;
    COLLET_TRY(stream_check(work.stream));
    COLLET_TRY(group_check_none_queued(NULL, work.stream, "collet_wait_for"));
    if (timeout_ms < 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "timeout_ms is %d: 0 or more", timeout_ms);
    wait_until(work.stream, work.ticket, os_now_ns() + (uint64_t)timeout_ms * 1000000u);
    COLLET_TRY(collet_test(work, &done));
    return done ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

enum collet_result collet_stream_synchronize(struct collet_stream *stream) {
    struct collet_work work;
    COLLET_TRY(collet_stream_record(stream, &work));
    return collet_wait(work);
}

enum collet_result collet_stream_query(struct collet_stream *stream) {
    struct collet_work work;
    int done;
    COLLET_TRY(collet_stream_record(stream, &work));
    COLLET_TRY(collet_test(work, &done));
    return done ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}
