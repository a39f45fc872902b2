/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory from Linux, beyond base/os.h: files in memory whose pages are taken when they are first touched, and private memory whose pages
 * are touched before a program gets it.
 */
#ifndef COLLET_LAYERS_MEMORY_OS_MEMORY_H
#define COLLET_LAYERS_MEMORY_OS_MEMORY_H

#include "collet.h"

#include <stdbool.h>
#include <stddef.h>

/* Like os_shared_create() and os_shared_open(), for a file that is much longer than its used part. The creator may touch only the parts
 * that it opens by os_memory_open(). Other processes may touch all parts. Even mlockall() does not fill untouched pages. */
enum collet_result os_sparse_create(const char *name, size_t bytes, void **memory_p, int *fd_p);
enum collet_result os_sparse_open(int pid, int fd, size_t bytes, void **memory_p);
void os_sparse_drop(void *memory, size_t bytes); /* Zeroes a part, and gives its pages back to the system */
/* Called in a forked child: from now on its writes to the memory are private. Closes fd. */
void os_sparse_copy(int fd, void *memory, size_t bytes);
/* Allows this process to touch a part of its memory, or forbids it. The part has whole pages. */
void os_memory_open(void *memory, size_t bytes, bool open);
/* The size of the machine's memory, or the largest file that this process may create if that is smaller. */
size_t os_memory_bytes(void);

/* Touches every page of private memory (os_memory_create()), or of a part that starts at a page. So the pages come from memory near the
 * calling thread's CPU. Uses huge pages if they fit. NO_MEMORY: the machine has less memory. */
#define OS_HUGE_PAGE_BYTES (2u << 20)
enum collet_result os_memory_touch(void *memory, size_t bytes);

#endif
