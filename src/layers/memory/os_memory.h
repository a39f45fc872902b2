/* SPDX-License-Identifier: Apache-2.0
 *
 * What this layer asks of Linux about memory, beside base/os.h: memory of the machine that is taken page by page, and memory
 * that is touched before a program has it.
 */
#ifndef COLLET_LAYERS_MEMORY_OS_MEMORY_H
#define COLLET_LAYERS_MEMORY_OS_MEMORY_H

#include "collet.h"

#include <stdbool.h>
#include <stddef.h>

/* Like os_shared_create() and os_shared_open(), for a file that is much longer than its used part. The creator may touch only what it opens
 * by os_memory_open(); other processes may touch all. Even mlockall() does not fill untouched pages. */
enum collet_result os_sparse_create(const char *name, size_t bytes, void **memory_p, int *fd_p);
enum collet_result os_sparse_open(int pid, int fd, size_t bytes, void **memory_p);
void os_sparse_drop(void *memory, size_t bytes); /* zeroes a part, and gives its pages back to the system */
/* In a forked child: its later writes are private. Closes fd. */
void os_sparse_copy(int fd, void *memory, size_t bytes);
/* Allows, or forbids, this process to touch a part of its memory, in whole pages. */
void os_memory_open(void *memory, size_t bytes, bool open);
/* The size of the machine's memory; less, if this process may not create a file of that size. */
size_t os_memory_bytes(void);

/* Touches every page of private memory (os_memory_create()), or of a part that starts at a page. So its pages are near the calling thread's
 * CPU. Uses huge pages if they fit. NO_MEMORY: the machine has less memory. */
#define OS_HUGE_PAGE_BYTES (2u << 20)
enum collet_result os_memory_touch(void *memory, size_t bytes);

#endif
