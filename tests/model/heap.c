/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of the shared heap (src/layers/memory/heap.c) among the threads of a process, which plays the other process as well:
 *
 *      each thread        opens a view of the shared heap, which the first one makes and the first one maps
 *                         takes memory, writes there, and must see it by the view, closes the view
 *                         gives back what it took
 *
 * The kernel's tables are memory here, without atomics: whoever maps or opens pages writes there, and whoever uses them reads. So
 * a thread that uses a mapping which another one made must be behind it. In the end, nothing may be left.
 *
 * Grains have 64 bytes here, and the variables of the file lie in the arena (model.sh).
 */
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/mapping.h"
#include "layers/memory/heap.h"
#include "layers/memory/os_memory.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef log_at
#define log_at(level, subsystem, ...) ((void)0)
#define free give_block_back
static void give_block_back(void *block);

#define GRAINS 4 /* the first one has the nonce */
#define BLOCKS 8
#define NONCE 77

struct block {
    uint64_t words[8];
};

struct heap_view;
struct range;
static struct {
    pthread_mutex_t lock;
    struct heap own;
    bool made;
    struct range *taken;
    struct heap_view *views;
} *variables = (void *)model_arena;
#define heap_lock (variables->lock)
#define own (variables->own)
#define made (variables->made)
#define taken (variables->taken)
#define views (variables->views)

#include "layers/memory/heap.c"

struct shared {
    char variables[1024];
    char pages[GRAINS * GRAIN_BYTES];
    struct block blocks[BLOCKS]; /* of memory_get() */
    int nblocks;
    int open[GRAINS]; /* the kernel's: may a page of this process's mapping be touched? */
    int mapped;       /* the kernel's: how many views are */
};
_Static_assert(sizeof(struct shared) <= MODEL_ARENA_BYTES && sizeof *variables <= 1024, "all fits");

static struct shared *shared(void) { return (struct shared *)(void *)model_arena; }

/* ---- rooms that are stood in for ---- */

int os_pid(void) { return 1; }
void os_random(void *bytes, size_t n) { memset(bytes, NONCE, n); }
size_t os_memory_bytes(void) { return sizeof shared()->pages; }
const char *err_last(void) { return ""; }

enum collet_result os_sparse_create(const char *name, size_t bytes, void **memory_p, int *fd_p) {
    *memory_p = shared()->pages;
    *fd_p = 3;
    return name != NULL && bytes > 0 ? COLLET_SUCCESS : COLLET_ERR_INTERNAL;
}
enum collet_result os_sparse_open(int pid, int fd, size_t bytes, void **memory_p) {
    shared()->mapped++;
    *memory_p = shared()->pages;
    return pid == 1 && fd == 3 && bytes == sizeof shared()->pages ? COLLET_SUCCESS : COLLET_ERR_INTERNAL;
}
void os_memory_destroy(void *memory, size_t bytes) { shared()->mapped -= memory != NULL && bytes > 0; }
void os_memory_open(void *memory, size_t bytes, bool open) {
    size_t first = (size_t)((char *)memory - shared()->pages) / GRAIN_BYTES;
    for (size_t page = first; page < first + bytes / GRAIN_BYTES; page++)
        shared()->open[page] = open;
}
void os_sparse_drop(void *memory, size_t bytes) { memset(memory, 0, bytes); }
void os_sparse_copy(int fd, void *memory, size_t bytes) { (void)fd, (void)memory, (void)bytes; }

/* Under the lock, as all calls of it are. */
enum collet_result memory_get(void *memory_p, size_t n, size_t entry_bytes, const char *format, ...) {
    if (shared()->nblocks == BLOCKS || n * entry_bytes > sizeof(struct block))
        model_fail("no memory: %s", format);
    *(void **)memory_p = &shared()->blocks[shared()->nblocks++];
    return COLLET_SUCCESS;
}
static void give_block_back(void *block) { memset(block, 0xee, sizeof(struct block)); }

/* ---- the threads ---- */

static void prepare(const struct model *model) {
    (void)model;
    own.ticket.fd = -1;
    model_name(&heap_lock, 4, "lock");
}

/* Whichever call comes first makes the shared heap. */
static struct heap_view *open_view(int thread) {
    struct heap_view *view;
    if (thread == 0 && heap_own()->bytes == 0)
        model_fail("no shared heap");
    struct heap_ticket ticket = heap_own()->ticket;
    if (heap_view_open(&ticket, &view) != COLLET_SUCCESS || view == NULL)
        model_fail("no view");
    return view;
}

/* As a thread of the other process: what it needs is mapped by now. */
static const uint64_t *see(struct heap_view *view, uint64_t offset) {
    const char *there = heap_view_at(view, offset, sizeof(uint64_t));
    if (there == NULL || shared()->mapped != 1)
        model_fail("the shared heap is mapped %d times", shared()->mapped);
    return (const void *)there;
}

static void take_and_look(int thread, struct heap_view *view) {
    uint64_t *word = heap_take(sizeof *word, 1);
    uint64_t offset = heap_offset(heap_own(), (uintptr_t)word);
    if (offset == 0 || !shared()->open[offset / GRAIN_BYTES] || *word != 0)
        model_fail("what was taken is not there, not open, or not zero");
    *word = (uint64_t)thread + 1;
    if (*see(view, offset) != (uint64_t)thread + 1)
        model_fail("another thread has the same memory");
    if (!heap_give_back(word))
        model_fail("it cannot be given back");
}

/* facts: non-NULL: they take memory, too. */
static void thread_main(const struct model *model, int thread) {
    struct heap_view *view = open_view(thread);
    if (model->facts != NULL)
        take_and_look(thread, view);
    else
        (void)*see(view, 0);
    heap_view_close(view);
}

static void check(const struct model *model) {
    (void)model;
    if (views != NULL || taken != NULL || shared()->mapped != 0)
        model_fail("something is left");
}

/* shared heap [quick | large]: large: three threads, too. */
int main(int argc, char **argv) {
    static const bool takes = true;
    static const struct model models[] = {
        {"2 threads see the shared heap", 2, prepare, thread_main, check, NULL, false},
        {"2 threads take memory there, too", 2, prepare, thread_main, check, &takes, false},
        {"3 threads see the shared heap", 3, prepare, thread_main, check, NULL, false},
    };
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0, large = argc > 1 && strcmp(argv[1], "large") == 0;
    unsigned long long states = 0;
    int passed = 0, failed = 0;
    for (size_t k = 0; k < sizeof models / sizeof *models && !(quick && failed); k++) {
        if (models[k].nthreads > 2 && !large)
            continue;
        struct model_result result = model_explore(&models[k], UINT64_MAX, quick);
        states += result.states;
        model_print(&models[k], &result, quick);
        passed += !result.failed;
        failed += result.failed;
    }
    if (!quick)
        printf("shared heap: %llu states\n%d passed, %d failed\n", states, passed, failed);
    return failed != 0;
}
