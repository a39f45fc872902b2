/* SPDX-License-Identifier: Apache-2.0
 *
 * What gcc's -fsanitize=thread calls at each access to memory, in place of the sanitizer's own library.
 */
#include "explore.h"

#include <pthread.h>
#include <string.h>

/* ---- plain accesses ---- */

#define PLAIN(name, bytes)                                                                                             \
    void __tsan_read##name(void *at);                                                                                  \
    void __tsan_read##name(void *at) { memory_touch(explore_thread(), at, bytes, false); }                             \
    void __tsan_write##name(void *at);                                                                                 \
    void __tsan_write##name(void *at) { memory_touch(explore_thread(), at, bytes, true); }                             \
    void __tsan_unaligned_read##name(void *at);                                                                        \
    void __tsan_unaligned_read##name(void *at) { memory_touch(explore_thread(), at, bytes, false); }                   \
    void __tsan_unaligned_write##name(void *at);                                                                       \
    void __tsan_unaligned_write##name(void *at) { memory_touch(explore_thread(), at, bytes, true); }
PLAIN(1, 1)
PLAIN(2, 2)
PLAIN(4, 4)
PLAIN(8, 8)
PLAIN(16, 16)

void __tsan_read_range(void *at, unsigned long bytes);
void __tsan_read_range(void *at, unsigned long bytes) { memory_touch(explore_thread(), at, bytes, false); }
void __tsan_write_range(void *at, unsigned long bytes);
void __tsan_write_range(void *at, unsigned long bytes) { memory_touch(explore_thread(), at, bytes, true); }

/* Checked sources are compiled with -Dmemcpy=model_memcpy. */
void *model_memcpy(void *to, const void *from, size_t bytes);
void *model_memcpy(void *to, const void *from, size_t bytes) {
    memory_touch(explore_thread(), from, bytes, false);
    memory_touch(explore_thread(), to, bytes, true);
    return memcpy(to, from, bytes);
}

void model_copy_between(void *to, const void *from, size_t bytes) {
    memory_cross(true);
    model_memcpy(to, from, bytes);
    memory_cross(false);
}

void *model_memset(void *to, int value, size_t bytes);
void *model_memset(void *to, int value, size_t bytes) {
    memory_touch(explore_thread(), to, bytes, true);
    return memset(to, value, bytes);
}

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *from);
void __tsan_func_entry(void *from) { (void)from; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}

/* ---- atomic accesses ---- */

static uint64_t load(const void *at, uint32_t bytes, int order) {
    int thread = explore_thread();
    uint64_t value = 0;
    if (thread < 0) {
        memcpy(&value, at, bytes);
        return value;
    }
    struct place *place = memory_place(at, bytes);
    int store = explore_load(place, order == __ATOMIC_SEQ_CST);
    return memory_load(thread, place, store, order);
}

static void store(void *at, uint32_t bytes, uint64_t value, int order) {
    int thread = explore_thread();
    if (thread < 0) {
        memory_touch(thread, at, bytes, true);
        memcpy(at, &value, bytes);
        return;
    }
    struct place *place = memory_place(at, bytes);
    if (memory_is_shared(place))
        explore_exchange(place);
    memory_store(thread, place, value, order);
    explore_stored(place);
}

enum change { REPLACE, ADD, SUBTRACT, OR, AND };

static uint64_t changed(uint64_t before, uint64_t by, enum change change) {
    return change == ADD        ? before + by
           : change == SUBTRACT ? before - by
           : change == OR       ? before | by
           : change == AND      ? before & by
                                : by;
}

static uint64_t exchange(void *at, uint32_t bytes, uint64_t by, enum change change, int order) {
    int thread = explore_thread();
    uint64_t before = 0;
    if (thread < 0) {
        memory_touch(thread, at, bytes, true);
        memcpy(&before, at, bytes);
        by = changed(before, by, change);
        memcpy(at, &by, bytes);
        return before;
    }
    struct place *place = memory_place(at, bytes);
    explore_exchange(place);
    before = place->stores[place->count - 1].value;
    by = changed(before, by, change);
    if (by == before && order < __ATOMIC_RELEASE) /* nobody can tell: a lock that is taken is tried in vain */
        return memory_load(thread, place, place->count - 1, order);
    memory_exchange(thread, place, by, order);
    explore_stored(place);
    return before;
}

static int compare_exchange(void *at, uint32_t bytes, void *expected, uint64_t desired, int order, int failed_order) {
    int thread = explore_thread();
    uint64_t before, wanted = 0;
    memcpy(&wanted, expected, bytes);
    if (thread < 0)
        model_fail("a compare-and-exchange outside of threads");
    struct place *place = memory_place(at, bytes);
    explore_exchange(place);
    before = place->stores[place->count - 1].value;
    if (before == wanted) {
        memory_exchange(thread, place, desired, order);
        explore_stored(place);
        return 1;
    }
    memory_load(thread, place, place->count - 1, failed_order);
    memory_touch(thread, expected, bytes, true);
    memcpy(expected, &before, bytes);
    return 0;
}

#define ATOMIC(bits, type)                                                                                             \
    type __tsan_atomic##bits##_load(const volatile type *at, int order);                                               \
    type __tsan_atomic##bits##_load(const volatile type *at, int order) {                                              \
        return (type)load((const void *)at, sizeof(type), order);                                                      \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order);                                        \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order) {                                       \
        store((void *)at, sizeof(type), value, order);                                                                 \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected, type desired, int order,      \
                                                      int failed_order);                                               \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected, type desired, int order,      \
                                                      int failed_order) {                                              \
        return compare_exchange((void *)at, sizeof(type), expected, desired, order, failed_order);                     \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *expected, type desired, int order,        \
                                                    int failed_order);                                                 \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *expected, type desired, int order,        \
                                                    int failed_order) {                                                \
        return compare_exchange((void *)at, sizeof(type), expected, desired, order, failed_order);                     \
    }
#define CHANGES(bits, type, name, change)                                                                              \
    type __tsan_atomic##bits##_##name(volatile type *at, type by, int order);                                          \
    type __tsan_atomic##bits##_##name(volatile type *at, type by, int order) {                                         \
        return (type)exchange((void *)at, sizeof(type), by, change, order);                                            \
    }
#define ATOMICS(bits, type)                                                                                            \
    ATOMIC(bits, type)                                                                                                 \
    CHANGES(bits, type, exchange, REPLACE)                                                                             \
    CHANGES(bits, type, fetch_add, ADD)                                                                                \
    CHANGES(bits, type, fetch_sub, SUBTRACT)                                                                           \
    CHANGES(bits, type, fetch_or, OR)                                                                                  \
    CHANGES(bits, type, fetch_and, AND)
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

/* ---- mutexes and conditions of pthread ---- */

/* A mutex is a place, 1 while it is held. A condition is a place that counts its signals. */
static struct place *place_of_mutex(pthread_mutex_t *mutex) { return memory_place(mutex, sizeof(uint32_t)); }
static struct place *place_of_condition(pthread_cond_t *condition) { return memory_place(condition, sizeof(uint32_t)); }

static uint64_t newest(const struct place *place) { return place->stores[place->count - 1].value; }
static bool is_free(const void *mutex) { return newest(mutex) == 0; }

int model_mutex_lock(pthread_mutex_t *mutex);
int model_mutex_lock(pthread_mutex_t *mutex) {
    struct place *place = place_of_mutex(mutex);
    explore_block(place, is_free, place, "pthread_mutex_lock()");
    explore_locked(place);
    memory_exchange(explore_thread(), place, 1, __ATOMIC_ACQUIRE);
    return 0;
}

int model_mutex_unlock(pthread_mutex_t *mutex);
int model_mutex_unlock(pthread_mutex_t *mutex) {
    memory_store(explore_thread(), place_of_mutex(mutex), 0, __ATOMIC_RELEASE);
    return 0;
}

int model_cond_signal(pthread_cond_t *condition);
int model_cond_signal(pthread_cond_t *condition) {
    struct place *place = place_of_condition(condition);
    explore_exchange(place);
    memory_exchange(explore_thread(), place, newest(place) + 1, __ATOMIC_RELAXED);
    explore_stored(place);
    return 0;
}

struct sleeper {
    const struct place *place;
    uint64_t signals; /* when it fell asleep */
};

static bool is_signalled(const void *sleeper_) {
    const struct sleeper *sleeper = sleeper_;
    return newest(sleeper->place) != sleeper->signals;
}

/* It never wakes without a signal: then a signal that is forgotten is missed. */
int model_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int model_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    struct place *place = place_of_condition(condition);
    const struct sleeper sleeper = {place, newest(place)};
    explore_say("sleeps");
    model_mutex_unlock(mutex);
    explore_block(place, is_signalled, &sleeper, "pthread_cond_wait()");
    return model_mutex_lock(mutex);
}

/* The slot layer has no fences, and this model has none. */
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order) {
    (void)order;
    model_fail("a fence, which is not modelled");
}
