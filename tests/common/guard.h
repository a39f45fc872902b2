/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that notice what should not have been written: margins on both sides and a copy of everything.
 *
 *     │ margin │ ≥ 0 elements │ data …                    │ margin │
 *              └ so that data has only its type's alignment
 */
#ifndef COLLET_TESTS_GUARD_H
#define COLLET_TESTS_GUARD_H

#include <stdbool.h>
#include <stddef.h>

struct guard {
    unsigned char *data;
    unsigned char *memory, *copy;
    bool in_heap;
    size_t total_bytes;
};

/* Do the next buffers of this thread come from collet_mem_alloc()? */
extern _Thread_local bool guard_in_heap;

/* data holds `bytes` bytes, `shift` bytes behind a cache line's beginning; everything has a pattern. */
void guard_create(struct guard *guard, size_t bytes, size_t shift);
void guard_destroy(struct guard *guard); /* also of a zeroed one */

/* From now on, everything as it is shall stay … */
void guard_seal(struct guard *guard);
/* … but for `bytes` bytes from `at` on, as they are now. */
void guard_release(const struct guard *guard, const void *at, size_t bytes);
/* Did it stay? If not, *offset is the first wrong byte, counted from data. */
bool guard_kept(const struct guard *guard, long *offset);

#endif
