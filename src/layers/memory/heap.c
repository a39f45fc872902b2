/* SPDX-License-Identifier: Apache-2.0
 *
 * See heap.h. A list holds the ranges that are taken, in the order of their offsets. Memory between these ranges cannot be touched: a
 * program that uses memory after freeing it gets SIGSEGV.
 */
#include "layers/memory/heap.h"

#include "base/log.h"
#include "base/mapping.h"
#include "base/memory.h"
#include "base/os.h"
#include "layers/memory/os_memory.h"

#include <stdlib.h>
#include <string.h>

#define GRAIN_BYTES 65536u /* A number of whole pages on every machine */

struct range {
    struct range *next;
    size_t offset, bytes;
};

struct heap_view {
    struct heap_ticket ticket;
    char *base;  /* NULL: the shared heap is not mapped */
    bool failed; /* True: the shared heap could not be mapped, and nobody tries again */
    int users;   /* Number of calls of heap_view_open() without a heap_view_close() */
    struct heap_view *next;
};

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER; /* Protects all variables below */
static struct heap own = {.ticket.fd = -1};
static bool made;
static struct range *taken;
static struct heap_view *views;

/* ---- this process's shared heap ---- */

/* Called in the child of a fork(). Another thread of the parent may have held the lock, so the child initialises it anew. The child does
 * not need the parent's views. */
static void part_from_parent(void) {
    if (own.base != NULL)
        os_sparse_copy(own.ticket.fd, own.base, own.bytes);
    own = (struct heap){.ticket.fd = -1};
    made = false;
    taken = NULL;
    views = NULL;
    heap_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, part_from_parent); }

static void heap_make(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t bytes = os_memory_bytes() / GRAIN_BYTES * GRAIN_BYTES;
    void *memory;
    int fd;
    pthread_once(&once, watch_forks);
    made = true;
    if (os_sparse_create("collet-heap", bytes, &memory, &fd) != COLLET_SUCCESS) {
        log_info(CONN, "no memory is shared with the other processes of this host: %s", err_last());
        return;
    }
    struct heap_ticket ticket = {.bytes = bytes, .pid = os_pid(), .fd = fd};
    os_random(&ticket.nonce, sizeof ticket.nonce);
    os_memory_open(memory, GRAIN_BYTES, true);
    memcpy(memory, &ticket.nonce, sizeof ticket.nonce);
    own = (struct heap){memory, bytes, ticket};
}

static void heap_need(void) {
    if (!made)
        heap_make();
}

const struct heap *heap_own(void) {
    SCOPED_LOCK(&heap_lock);
    heap_need();
    return &own;
}

/* Returns the first gap with enough room. NULL: there is none. *link: the pointer in the list that points to the range behind the gap. */
static char *find_gap(size_t bytes, size_t align, struct range ***link) {
    size_t free_from = GRAIN_BYTES;
    for (*link = &taken;; *link = &(**link)->next) {
        const struct range *behind = **link;
        size_t end = behind != NULL ? behind->offset : own.bytes;
        size_t skipped = (align - ((uintptr_t)own.base + free_from) % align) % align;
        if (free_from + skipped <= end && bytes <= end - free_from - skipped)
            return own.base + free_from + skipped;
        if (behind == NULL)
            return NULL;
        free_from = behind->offset + behind->bytes;
    }
}

void *heap_take(size_t bytes, size_t align) {
    SCOPED_LOCK(&heap_lock);
    struct range **link, *range;
    heap_need();
    size_t grains = bytes / GRAIN_BYTES + 1;
    char *memory =
        own.base != NULL && grains < own.bytes / GRAIN_BYTES ? find_gap(grains * GRAIN_BYTES, align, &link) : NULL;
    if (memory == NULL || memory_get(&range, 1, sizeof *range, "no memory to note what is taken") != COLLET_SUCCESS)
        return NULL;
    *range = (struct range){*link, (size_t)(memory - own.base), grains * GRAIN_BYTES};
    *link = range;
    os_memory_open(memory, range->bytes, true);
    return memory;
}

bool heap_give_back(void *memory) {
    SCOPED_LOCK(&heap_lock);
    size_t offset = heap_offset(&own, (uintptr_t)memory);
    struct range **link = &taken;
    while (*link != NULL && (*link)->offset != offset)
        link = &(*link)->next;
    struct range *range = *link;
    if (offset == 0 || range == NULL)
        return false;
    os_sparse_drop(memory, range->bytes);
    os_memory_open(memory, range->bytes, false);
    *link = range->next;
    free(range);
    return true;
}

/* ---- another process's shared heap ---- */

enum collet_result heap_view_open(const struct heap_ticket *ticket, struct heap_view **view_p) {
    SCOPED_LOCK(&heap_lock);
    struct heap_view *view = ticket->fd >= 0 ? views : NULL;
    while (view != NULL && view->ticket.nonce != ticket->nonce)
        view = view->next;
    if (view == NULL && ticket->fd >= 0) {
        COLLET_TRY(memory_get(&view, 1, sizeof *view, "no memory to note process %d", ticket->pid));
        *view = (struct heap_view){.ticket = *ticket, .next = views};
        views = view;
    }
    if (view != NULL)
        view->users++;
    *view_p = view;
    return COLLET_SUCCESS;
}

void heap_view_close(struct heap_view *view) {
    SCOPED_LOCK(&heap_lock);
    struct heap_view **link = &views;
    if (view == NULL || --view->users > 0)
        return;
    while (*link != NULL && *link != view)
        link = &(*link)->next;
    if (*link != NULL)
        *link = view->next;
    os_memory_destroy(view->base, view->ticket.bytes);
    free(view);
}

static bool is_the_one(const struct heap_view *view, const void *memory) {
    return memcmp(memory, &view->ticket.nonce, sizeof view->ticket.nonce) == 0;
}

static char *view_map(struct heap_view *view) {
    SCOPED_LOCK(&heap_lock);
    void *memory = NULL;
    if (view->base != NULL || view->failed)
        return view->base;
    view->failed = true;
    if (os_sparse_open(view->ticket.pid, view->ticket.fd, view->ticket.bytes, &memory) != COLLET_SUCCESS) {
        log_info(CONN, "cannot map memory of process %d: %s", view->ticket.pid, err_last());
    } else if (!is_the_one(view, memory)) {
        log_info(CONN, "cannot map memory of process %d: descriptor %d is another file", view->ticket.pid,
                 view->ticket.fd);
        os_memory_destroy(memory, view->ticket.bytes);
    } else {
        view->failed = false;
        __atomic_store_n(&view->base, memory, __ATOMIC_RELEASE); /* pairs with heap_view_at() */
    }
    return view->base;
}

bool heap_view_map(struct heap_view *view) { return view != NULL && view_map(view) != NULL; }

char *heap_view_at(struct heap_view *view, uint64_t offset, size_t bytes) {
    char *base = view == NULL ? NULL : __atomic_load_n(&view->base, __ATOMIC_ACQUIRE); /* pairs with view_map() */
    if (view == NULL || (base == NULL && (base = view_map(view)) == NULL))
        return NULL;
    if (offset <= view->ticket.bytes && bytes <= view->ticket.bytes - offset)
        return base + offset;
    log_warn(CONN, "process %d names %zu bytes at %llu of its shared heap, which has %llu: they are not touched",
             view->ticket.pid, bytes, (unsigned long long)offset, (unsigned long long)view->ticket.bytes);
    return NULL;
}
