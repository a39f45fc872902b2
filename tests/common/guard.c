/* SPDX-License-Identifier: Apache-2.0 */
#include "common/guard.h"

#include "collet.h"

#include <stdlib.h>
#include <string.h>

#define MARGIN_BYTES 256u
#define PATTERN 0xa5

static void *get(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory == NULL)
        abort();
    return memory;
}

_Thread_local bool guard_in_heap;

static void *get_common(size_t bytes) {
    void *memory;
    if (collet_mem_alloc(&memory, bytes, COLLET_DEVICE_HOST) != COLLET_SUCCESS)
        abort();
    return memory;
}

void guard_create(struct guard *guard, size_t bytes, size_t shift) {
    guard->total_bytes = MARGIN_BYTES + shift + bytes + MARGIN_BYTES;
    guard->in_heap = guard_in_heap;
    guard->memory = guard->in_heap ? get_common(guard->total_bytes) : get(guard->total_bytes);
    guard->copy = get(guard->total_bytes);
    guard->data = guard->memory + MARGIN_BYTES + shift;
    memset(guard->memory, PATTERN, guard->total_bytes);
}

void guard_destroy(struct guard *guard) {
    if (guard->in_heap)
        collet_mem_free(guard->memory);
    else
        free(guard->memory);
    free(guard->copy);
    *guard = (struct guard){0};
}

void guard_seal(struct guard *guard) { memcpy(guard->copy, guard->memory, guard->total_bytes); }

void guard_release(const struct guard *guard, const void *at, size_t bytes) {
    if (bytes > 0)
        memcpy(guard->copy + ((const unsigned char *)at - guard->memory), at, bytes);
}

bool guard_kept(const struct guard *guard, long *offset) {
    size_t at = 0;
    if (memcmp(guard->memory, guard->copy, guard->total_bytes) == 0)
        return true;
    while (guard->memory[at] == guard->copy[at])
        at++;
    *offset = (long)at - (long)(guard->data - guard->memory);
    return false;
}
