/* SPDX-License-Identifier: Apache-2.0
 *
 * Mapped memory, which processes of a host share, or which is private. Also copies between the memories of two processes.
 */
#ifndef COLLET_BASE_MAPPING_H
#define COLLET_BASE_MAPPING_H

#include "collet.h"

#include <stdbool.h>
#include <stdint.h>

/* Creates anonymous shared memory: a memfd of sealed size and mode 0600, mapped read-write. *fd_p stays open, so that other processes can
 * use os_shared_open(). */
enum collet_result os_shared_create(const char *name, size_t bytes, void **memory_p, int *fd_p);
/* Maps memory that another process has created by os_shared_create(). fd: its descriptor in this process. Checks the size. */
enum collet_result os_shared_map(int fd, size_t bytes, void **memory_p);
/* Maps such memory. fd: its descriptor in the process pid (through /proc/<pid>/fd). */
enum collet_result os_shared_open(int pid, int fd, size_t bytes, void **memory_p);
/* These two create and find shared memory without mapping it. *fd_p is its descriptor in this process. */
enum collet_result os_shared_file(const char *name, size_t bytes, int *fd_p);
enum collet_result os_shared_find(int pid, int fd, size_t bytes, int *fd_p);
/* These copy from, or to, the memory of another process. The kernel may forbid it. False: not all was copied, and errno says why. */
bool os_process_read(int pid, void *to, uint64_t from, size_t bytes);
bool os_process_write(int pid, uint64_t to, const void *from, size_t bytes);
/* Maps private zeroed memory, which starts at a page. Pages that are never touched use no memory. */
enum collet_result os_memory_create(size_t bytes, void **memory_p);
void os_memory_destroy(void *memory, size_t bytes); /* Unmaps memory of all functions above; NULL is fine */

#endif
