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

/* As os_shared_create() and os_shared_open(), for a file that is much longer than what will be used of it. The creator may touch
 * what it opens by os_memory_open(), other processes all of it. Not even mlockall() fills what nobody has touched. */
enum collet_result os_sparse_create(const char *name, size_t bytes, void **memory_p, int *fd_p);
enum collet_result os_sparse_open(int pid, int fd, size_t bytes, void **memory_p);
void os_sparse_drop(void *memory, size_t bytes); /* zeroes a part, whose pages go back to the system */
/* A forked child: what it writes there from now on is its own. Closes fd. */
void os_sparse_copy(int fd, void *memory, size_t bytes);
/* May this process touch a part of its memory, in whole pages? */
void os_memory_open(void *memory, size_t bytes, bool open);
/* Of the machine; less, if this process may not make such long files. */
size_t os_memory_bytes(void);

/* Touches every page of private memory (os_memory_create()), or of a part that begins with a page: so it lies near the calling
 * thread's CPU. Asks for huge pages where they fit. NO_MEMORY: the machine has less. */
#define OS_HUGE_PAGE_BYTES (2u << 20)
enum collet_result os_memory_touch(void *memory, size_t bytes);

#endif
