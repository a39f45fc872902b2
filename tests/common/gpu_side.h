/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program that uses collet on GPUs calls besides collet: CUDA, or the emulation of it. A failure ends the program.
 */
#ifndef COLLET_TESTS_GPU_SIDE_H
#define COLLET_TESTS_GPU_SIDE_H

#include <stdbool.h>
#include <stddef.h>

enum gpu_side_memory { MEMORY_PLAIN, MEMORY_POOL, MEMORY_MANAGED, MEMORY_PINNED, MEMORY_KINDS };

struct gpu_side {
    int (*count)(char *name, size_t room); /* GPUs, and the name of the first; −1: why they cannot be used */
    void (*use)(int gpu);                  /* becomes current in this thread */
    int (*current)(void);
    int (*multiprocessors)(void); /* of the current one */
    void *(*memory)(size_t bytes, enum gpu_side_memory kind);
    void (*memory_free)(void *memory, enum gpu_side_memory kind);
    void (*copy)(void *to, const void *from, size_t bytes); /* from or to the GPU; complete on return */
    void *(*stream)(void);
    void (*stream_free)(void *stream);
    void (*stream_wait)(void *stream);
    bool (*stream_wait_for)(void *stream, int ms); /* until its work is done, or so long; is it done? */
    void (*capture_begin)(void *stream);
    void *(*capture_end)(void *stream);  /* what was captured … */
    void *(*graph_make)(void *captured); /* … as a graph that runs; not while a stream is captured */
    void (*graph_run)(void *graph, void *stream);
    void (*graph_free)(void *graph);
};

extern const struct gpu_side gpu_side_cuda; /* in builds with CUDA */
extern const struct gpu_side gpu_side_emulated;

#endif
