/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/buffers.h"

#include "base/config.h"
#include "base/log.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

PROCESS_LOCK(buffers_lock);
static struct gpu_buffer *buffers;

enum collet_result gpu_shared_create(int64_t cumem_enable, size_t bytes, void **memory_p, struct gpu_name *name) {
    const struct gpu_sharing *sharing = gpu_driver()->sharing;
    enum collet_result result = sharing->create(bytes, cumem_enable == 1, memory_p, name);
    if (result == COLLET_SUCCESS || cumem_enable >= 0)
        return result;
    log_info(CONN, "memory of the GPU will be shared by descriptors, since: %s", err_last());
    return sharing->create(bytes, true, memory_p, name);
}

/* A team of GPUs binds memory that has a descriptor. */
static bool is_for_teams(int64_t cumem_enable, int ordinal) {
    return cumem_enable < 0 && gpu_can_team(gpu_driver(), ordinal);
}

/* If memory that others can attach fails, plain memory is better than none. */
static enum collet_result buffer_fill(struct gpu_buffer *buffer) {
    void *memory;
    GPU_ENTERED(gpu_driver(), buffer->ordinal);
    const int64_t cumem_enable = config_process()->cumem_enable;
    buffer->is_named = (is_for_teams(cumem_enable, buffer->ordinal) &&
                        gpu_driver()->sharing->create(buffer->bytes, true, &memory, &buffer->name) == COLLET_SUCCESS) ||
                       gpu_shared_create(cumem_enable, buffer->bytes, &memory, &buffer->name) == COLLET_SUCCESS;
    if (!buffer->is_named) {
        log_info(CONN, "a buffer on GPU %d is for this process alone: %s", buffer->ordinal, err_last());
        COLLET_TRY(gpu_driver()->memory->create(buffer->bytes, &memory));
    }
    buffer->memory = memory;
    return COLLET_SUCCESS;
}

enum collet_result gpu_buffer_create(int ordinal, size_t bytes, void **memory_p) {
    struct gpu_buffer *buffer;
    COLLET_TRY(memory_get(&buffer, 1, sizeof *buffer, "no memory to note a buffer on GPU %d", ordinal));
    *buffer = (struct gpu_buffer){.bytes = bytes, .ordinal = ordinal};
    enum collet_result result = buffer_fill(buffer);
    if (result != COLLET_SUCCESS) {
        free(buffer);
        return result;
    }
    SCOPED_LOCK(&buffers_lock);
    buffer->next = buffers;
    buffers = buffer;
    *memory_p = buffer->memory;
    return COLLET_SUCCESS;
}

static void buffer_free(struct gpu_buffer *buffer, bool now) {
    const struct gpu_driver *driver = gpu_driver();
    GPU_ENTERED(driver, buffer->ordinal);
    if (buffer->may_be_open || !now)
        driver->sharing->destroy(buffer->memory, &buffer->name);
    else
        driver->memory->destroy_now(buffer->memory);
    if (buffer->is_named && buffer->name.fd >= 0)
        close(buffer->name.fd);
    free(buffer);
}

/* Finds the buffer that begins there. If nothing holds it, takes it off the list. NULL: no buffer begins there. */
static struct gpu_buffer *buffer_unlist(const void *memory, bool *held_p) {
    SCOPED_LOCK(&buffers_lock);
    struct gpu_buffer **link = &buffers;
    while (*link != NULL && (*link)->memory != memory)
        link = &(*link)->next;
    struct gpu_buffer *found = *link;
    *held_p = found != NULL && found->holders > 0;
    if (found != NULL && !*held_p)
        *link = found->next;
    return found;
}

bool gpu_buffer_destroy(void *memory, enum collet_result *result) {
    bool held;
    struct gpu_buffer *found = buffer_unlist(memory, &held);
    *result = COLLET_SUCCESS;
    if (held)
        *result = err_set(COLLET_ERR_INVALID_USAGE,
                          "memory is %p, which a window has: call collet_win_deregister() first", memory);
    else if (found != NULL)
        buffer_free(found, true);
    return found != NULL;
}

void gpu_buffer_give_back(void *memory) {
    bool held;
    struct gpu_buffer *found = buffer_unlist(memory, &held);
    if (found != NULL && !held)
        buffer_free(found, false);
}

/* The caller holds the lock. */
static struct gpu_buffer *buffer_with(int ordinal, const void *address, size_t bytes) {
    struct gpu_buffer *buffer = buffers;
    for (; buffer != NULL; buffer = buffer->next) {
        const size_t at = (uintptr_t)address - (uintptr_t)buffer->memory;
        if (buffer->ordinal == ordinal && at < buffer->bytes && bytes <= buffer->bytes - at)
            break;
    }
    return buffer;
}

bool gpu_buffer_has(int ordinal, const void *address) {
    SCOPED_LOCK(&buffers_lock);
    return buffer_with(ordinal, address, 1) != NULL;
}

struct gpu_buffer *gpu_buffer_hold(int ordinal, const void *address, size_t bytes) {
    SCOPED_LOCK(&buffers_lock);
    struct gpu_buffer *buffer = buffer_with(ordinal, address, bytes);
    if (buffer != NULL)
        buffer->holders++;
    return buffer;
}

void gpu_buffer_release(struct gpu_buffer *buffer, bool closed) {
    SCOPED_LOCK(&buffers_lock);
    buffer->holders--;
    buffer->may_be_open |= !closed && buffer->is_named && buffer->name.fd < 0;
}
