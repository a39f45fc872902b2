/* SPDX-License-Identifier: Apache-2.0
 *
 * Refuses what this process asks the system for: memory, or descriptors. The linker leads the calls of the library and of the
 * test here (mk/programs.mk: REFUSED); calls of other libraries, some of which abort without memory, go where they always go.
 *
 *      collet ── malloc() ──▶ __wrap_malloc() ── may have it ──▶ malloc() of libc
 *                                  └── is refused ──▶ NULL, ENOMEM
 */
#ifndef COLLET_TESTS_REFUSE_H
#define COLLET_TESTS_REFUSE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum resource { NO_RESOURCE, MEMORY, DESCRIPTORS };

static struct {
    enum resource resource; /* of which something is refused; NO_RESOURCE: nothing is */
    int64_t first, last;    /* those of its requests that are refused, counted from 1 */
    int64_t asked;          /* so many requests so far */
    bool of_one_thread;     /* requests of other threads than `thread` are not meant */
    pthread_t thread;
} refusing;

/* From now on. last INT64_MAX: for good. */
static inline void refuse(enum resource resource, int64_t first, int64_t last) {
    __atomic_store_n(&refusing.first, first, __ATOMIC_RELAXED);
    __atomic_store_n(&refusing.last, last, __ATOMIC_RELAXED);
    __atomic_store_n(&refusing.asked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&refusing.resource, resource, __ATOMIC_RELEASE); /* pairs with refused() */
}

/* The same for the thread that says so, and for no other one, which may ask at any moment. Later, refuse(NO_RESOURCE, 0, 0). */
static inline void refuse_this_thread(enum resource resource, int64_t first, int64_t last) {
    refusing.thread = pthread_self();
    refusing.of_one_thread = true;
    refuse(resource, first, last);
}

static inline bool refused(enum resource resource) {
    static const int errors[] = {[MEMORY] = ENOMEM, [DESCRIPTORS] = EMFILE};
    if (__atomic_load_n(&refusing.resource, __ATOMIC_ACQUIRE) != resource)
        return false;
    if (refusing.of_one_thread && !pthread_equal(refusing.thread, pthread_self()))
        return false;
    const int64_t number = __atomic_add_fetch(&refusing.asked, 1, __ATOMIC_RELAXED);
    if (number < __atomic_load_n(&refusing.first, __ATOMIC_RELAXED) ||
        number > __atomic_load_n(&refusing.last, __ATOMIC_RELAXED))
        return false;
    errno = errors[resource];
    return true;
}

#define REFUSE_WRAP(resource, failure, type, name, parameters, arguments)                                              \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters { return refused(resource) ? (failure) : __real_##name arguments; }
REFUSE_WRAP(MEMORY, NULL, void *, malloc, (size_t bytes), (bytes))
REFUSE_WRAP(MEMORY, NULL, void *, calloc, (size_t n, size_t bytes), (n, bytes))
REFUSE_WRAP(MEMORY, NULL, void *, realloc, (void *memory, size_t bytes), (memory, bytes))
REFUSE_WRAP(MEMORY, NULL, char *, strdup, (const char *text), (text))
REFUSE_WRAP(MEMORY, NULL, FILE *, open_memstream, (char **text, size_t *bytes), (text, bytes))
REFUSE_WRAP(MEMORY, NULL, FILE *, fmemopen, (void *text, size_t bytes, const char *mode), (text, bytes, mode))
REFUSE_WRAP(MEMORY, MAP_FAILED, void *, mmap, (void *at, size_t bytes, int protection, int flags, int fd, off_t offset),
            (at, bytes, protection, flags, fd, offset))
REFUSE_WRAP(MEMORY, EAGAIN, int, pthread_create,
            (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument),
            (thread, attributes, run, argument))
REFUSE_WRAP(DESCRIPTORS, -1, int, memfd_create, (const char *name, unsigned flags), (name, flags))
REFUSE_WRAP(DESCRIPTORS, -1, int, socket, (int domain, int type, int protocol), (domain, type, protocol))
REFUSE_WRAP(DESCRIPTORS, -1, int, accept4, (int fd, struct sockaddr *from, socklen_t *bytes, int flags),
            (fd, from, bytes, flags))
REFUSE_WRAP(DESCRIPTORS, -1, int, eventfd, (unsigned count, int flags), (count, flags))
REFUSE_WRAP(DESCRIPTORS, -1, int, epoll_create1, (int flags), (flags))
REFUSE_WRAP(DESCRIPTORS, NULL, FILE *, fopen, (const char *path, const char *mode), (path, mode))
REFUSE_WRAP(DESCRIPTORS, NULL, DIR *, opendir, (const char *path), (path))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = va_arg(more, mode_t);
    va_end(more);
    return refused(DESCRIPTORS) ? -1 : __real_open(path, flags, mode);
}

#endif
