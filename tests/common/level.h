/* SPDX-License-Identifier: Apache-2.0
 *
 * How much a test should do (make check, make test, make test-full), and how long it may take.
 */
#ifndef COLLET_TESTS_LEVEL_H
#define COLLET_TESTS_LEVEL_H

#include <stdlib.h>
#include <string.h>

enum level { LEVEL_FAST, LEVEL_NORMAL, LEVEL_FULL };

static inline enum level level_now(void) {
    const char *name = getenv("COLLET_TEST_LEVEL");
    if (name != NULL && strcmp(name, "fast") == 0)
        return LEVEL_FAST;
    return name != NULL && strcmp(name, "full") == 0 ? LEVEL_FULL : LEVEL_NORMAL;
}

/* The thread sanitizer does not see what another process puts in order: thread 1 writes, a process is told and tells
 * thread 2, which reads. */
#ifdef __SANITIZE_THREAD__
#define LEVEL_WATCHES_THREADS 1
#else
#define LEVEL_WATCHES_THREADS 0
#endif

/* A child that is forked beside other threads may have no allocator: where the address sanitizer's does not hold its locks over a
 * fork (gcc 12), one of those threads may have had one. The thread sanitizer forbids such a child threads of its own. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define LEVEL_CHILDREN_ONLY_ASK 1
#else
#define LEVEL_CHILDREN_ONLY_ASK 0
#endif

/* Limits that are not themselves what is tested stretch by this much under a sanitizer. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define LEVEL_SLOWER 5
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define LEVEL_SLOWER 5
#endif
#endif
#ifndef LEVEL_SLOWER
#define LEVEL_SLOWER 1
#endif

/* How long a test waits for what is to come soon, before it fails. */
#define LEVEL_SOON_NS (20000000000ull * LEVEL_SLOWER)

#endif
