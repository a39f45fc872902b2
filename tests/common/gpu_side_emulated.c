/* SPDX-License-Identifier: Apache-2.0 */
#include "common/gpu_side.h"

#include "base/os.h"
#include "common/emulated_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int count(char *name, size_t room) {
    snprintf(name, room, "emulated GPU");
    return 1;
}

static void use(int gpu) { emulated_gpu_driver.enter(gpu); }

static int current(void) {
    int gpu;
    emulated_gpu_driver.current(&gpu);
    return gpu;
}

static int multiprocessors(void) { return 16; }

static void *memory(size_t bytes, enum gpu_side_memory kind) {
    void *got = aligned_alloc(256, (bytes + 255) / 256 * 256);
    (void)kind;
    if (got == NULL)
        abort();
    return got;
}

static void memory_free(void *memory, enum gpu_side_memory kind) {
    (void)kind;
    free(memory);
}

static void copy(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

static void *graph_make(void *captured) { return captured; }

static bool stream_wait_for(void *stream, int ms) {
    uint64_t end = os_now_ns() + (uint64_t)ms * 1000000u;
    while (!emulated_stream_is_idle(stream) && os_now_ns() < end)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    return emulated_stream_is_idle(stream);
}

const struct gpu_side gpu_side_emulated = {
    .count = count,
    .use = use,
    .current = current,
    .multiprocessors = multiprocessors,
    .memory = memory,
    .memory_free = memory_free,
    .copy = copy,
    .stream = emulated_stream_create,
    .stream_free = emulated_stream_destroy,
    .stream_wait = emulated_stream_wait,
    .stream_wait_for = stream_wait_for,
    .capture_begin = emulated_capture_begin,
    .capture_end = emulated_capture_end,
    .graph_make = graph_make,
    .graph_run = emulated_graph_run,
    .graph_free = emulated_graph_destroy,
};
