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

/* gcc defines a name for each sanitizer; clang has a question. */
#ifdef __has_feature
#define LEVEL_HAS(feature) __has_feature(feature)
#else
#define LEVEL_HAS(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || LEVEL_HAS(thread_sanitizer)
#define LEVEL_TSAN 1
#else
#define LEVEL_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || LEVEL_HAS(address_sanitizer)
#define LEVEL_ASAN 1
#else
#define LEVEL_ASAN 0
#endif

/* The thread sanitizer does not see what another process puts in order: thread 1 writes, a process is told and tells
 * thread 2, which reads. */
#define LEVEL_WATCHES_THREADS LEVEL_TSAN

/* A child that is forked beside other threads may have no allocator: the address sanitizer's of gcc 12 and of clang 14 does not hold its
 * locks over a fork, and one of those threads may have had one. The thread sanitizer forbids such a child threads of its own. */
#define LEVEL_CHILDREN_ONLY_ASK (LEVEL_TSAN || LEVEL_ASAN)

/* Limits that are not themselves what is tested stretch by this much under a sanitizer. */
#define LEVEL_SLOWER (LEVEL_TSAN || LEVEL_ASAN ? 5 : 1)

/* How long a test waits for what is to come soon, before it fails. */
#define LEVEL_SOON_NS (20000000000ull * LEVEL_SLOWER)

#endif
