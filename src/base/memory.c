/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum collet_result no_memory(const char *format, va_list args) {
    char text[ERR_TEXT_BYTES];
    vsnprintf(text, sizeof text, format, args);
    return err_set(COLLET_ERR_NO_MEMORY, "%s", text);
}

enum collet_result memory_get(void *memory_p, size_t n, size_t entry_bytes, const char *format, ...) {
    void *memory = calloc(n + (n == 0), entry_bytes);
    enum collet_result result = COLLET_SUCCESS;
    va_list args;
    va_start(args, format);
    if (memory == NULL)
        result = no_memory(format, args);
    memcpy(memory_p, &memory, sizeof memory);
    va_end(args);
    return result;
}

void memory_free(void *memory_p) {
    void *memory;
    memcpy(&memory, memory_p, sizeof memory);
    free(memory);
}

struct arena_block {
    struct arena_block *before;
    max_align_t entries[];
};

void *arena_get(struct arena *arena, size_t n, size_t entry_bytes) {
    struct arena_block *block = NULL;
    if (n < (SIZE_MAX - sizeof *block) / entry_bytes)
        block = calloc(1, sizeof *block + n * entry_bytes);
    if (block == NULL) {
        arena->failed = true;
        return NULL;
    }
    block->before = arena->newest;
    arena->newest = block;
    return block->entries;
}

enum collet_result arena_check(const struct arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    enum collet_result result = arena->failed ? no_memory(format, args) : COLLET_SUCCESS;
    va_end(args);
    return result;
}

void arena_free(struct arena *arena) {
    for (struct arena_block *block = arena->newest, *before; block != NULL; block = before) {
        before = block->before;
        free(block);
    }
    *arena = (struct arena){.newest = NULL};
}
