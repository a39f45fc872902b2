/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is mapped: shared by processes of a host, or private. And copies between the memories of two processes.
 */
#ifndef COLLET_BASE_MAPPING_H
#define COLLET_BASE_MAPPING_H

#include "collet.h"

#include <stdbool.h>
#include <stdint.h>

/* Creates anonymous shared memory: a memfd of sealed size and mode 0600, mapped read-write. *fd_p stays open for os_shared_open(). */
enum collet_result os_shared_create(const char *name, size_t bytes, void **memory_p, int *fd_p);
/* Maps memory that another process created in this way; fd is a descriptor in this process. Checks the size. */
enum collet_result os_shared_map(int fd, size_t bytes, void **memory_p);
/* Maps it by its descriptor in the other process (through /proc/<pid>/fd). */
enum collet_result os_shared_open(int pid, int fd, size_t bytes, void **memory_p);
/* These two create and find shared memory without mapping it. *fd_p is its descriptor in this process. */
enum collet_result os_shared_file(const char *name, size_t bytes, int *fd_p);
enum collet_result os_shared_find(int pid, int fd, size_t bytes, int *fd_p);
/* Copy from, or to, the memory of another process. The kernel may forbid it. False: not all was copied, errno says why. */
bool os_process_read(int pid, void *to, uint64_t from, size_t bytes);
bool os_process_write(int pid, uint64_t to, const void *from, size_t bytes);
/* Private zeroed memory, page aligned. Only touched pages use memory. */
enum collet_result os_memory_create(size_t bytes, void **memory_p);
void os_memory_destroy(void *memory, size_t bytes); /* frees memory of all functions above; NULL is fine */

#endif
