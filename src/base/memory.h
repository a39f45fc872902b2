/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is freed automatically or together, and locks that are released at the end of a block.
 *
 *     SCOPED_FREE int *places = NULL;                                             freed where the block ends
 *     COLLET_TRY(memory_get(&places, n, sizeof *places, "no memory for %zu places", n));
 *
 *     rings->place = arena_get(&rings->arena, n, sizeof *rings->place);           freed together, by arena_free()
 *     rings->first = arena_get(&rings->arena, h, sizeof *rings->first);
 *     COLLET_TRY(arena_check(&rings->arena, "no memory for %zu ranks", n));       fails if any arena_get() has failed
 *
 *     SCOPED_LOCK(&hub->lock);                                                    unlocked where the block ends
 *
 * A block ends at its brace, or by return, break or continue. This uses the attribute `cleanup` of gcc and clang.
 */
#ifndef COLLET_BASE_MEMORY_H
#define COLLET_BASE_MEMORY_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Allocates n zeroed entries; release them with free(). memory_p: address of the pointer to the first entry. On failure the pointer is
 * NULL, and the formatted text becomes the error text. */
enum collet_result memory_get(void *memory_p, size_t n, size_t entry_bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Frees a pointer at the end of its block. It must start as NULL. */
#define SCOPED_FREE __attribute__((cleanup(memory_free)))
void memory_free(void *memory_p);

/* Arrays that are all freed together. {0} is an empty arena. */
struct arena {
    struct arena_block *newest;
    bool failed; /* True: an allocation has failed */
};
#define SCOPED_ARENA __attribute__((cleanup(arena_free)))

/* Allocates n zeroed entries. NULL: there is no memory, and arena_check() will fail. */
void *arena_get(struct arena *arena, size_t n, size_t entry_bytes);
enum collet_result arena_check(const struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void arena_free(struct arena *arena);

#define SCOPED_LOCK(mutex)                                                                                             \
    pthread_mutex_t *scoped_lock_ __attribute__((cleanup(memory_unlock), unused)) = memory_lock(mutex)
static inline pthread_mutex_t *memory_lock(pthread_mutex_t *mutex) {
    pthread_mutex_lock(mutex);
    return mutex;
}
static inline void memory_unlock(pthread_mutex_t *const *mutex) { pthread_mutex_unlock(*mutex); }

/* A lock of the whole process. If another thread holds the lock during fork(), that thread does not exist in the child. So in the child
 * the lock becomes free. Therefore the protected data must be valid at every moment: for example, a list entry is linked only when all its
 * fields are set. */
#define PROCESS_LOCK(name)                                                                                             \
    static pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER;                                                           \
    static void name##_renew(void) { name = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }                              \
    __attribute__((constructor)) static void name##_watch_forks(void) { pthread_atfork(NULL, NULL, name##_renew); }    \
    _Static_assert(1, "takes the semicolon")

#endif
