/* SPDX-License-Identifier: Apache-2.0 */
#include "common/guard.h"

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

void guard_create(struct guard *guard, size_t bytes, size_t shift) {
    guard->total_bytes = MARGIN_BYTES + shift + bytes + MARGIN_BYTES;
    guard->memory = get(guard->total_bytes);
    guard->copy = get(guard->total_bytes);
    guard->data = guard->memory + MARGIN_BYTES + shift;
    memset(guard->memory, PATTERN, guard->total_bytes);
}

void guard_destroy(struct guard *guard) {
    free(guard->memory);
    free(guard->copy);
    *guard = (struct guard){0};
}

void guard_seal(struct guard *guard) { memcpy(guard->copy, guard->memory, guard->total_bytes); }

static bool same(const struct guard *guard, size_t from, size_t to, long *offset) {
    if (memcmp(guard->memory + from, guard->copy + from, to - from) == 0)
        return true;
    while (guard->memory[from] == guard->copy[from])
        from++;
    *offset = (long)from - (long)(guard->data - guard->memory);
    return false;
}

bool guard_kept(const struct guard *guard, const void *at, size_t bytes, long *offset) {
    size_t from = bytes > 0 ? (size_t)((const unsigned char *)at - guard->memory) : guard->total_bytes;
    return same(guard, 0, from, offset) && same(guard, from + bytes, guard->total_bytes, offset);
}
