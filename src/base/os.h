/* SPDX-License-Identifier: Apache-2.0
 *
 * What collet asks of Linux, each under a name that says what for. Nothing here knows about ranks.
 */
#ifndef COLLET_BASE_OS_H
#define COLLET_BASE_OS_H

#include "collet.h"

#include <stdint.h>

uint64_t os_now_ns(void);       /* CLOCK_MONOTONIC */
int os_cpu_count(void);         /* CPUs this process may run on, ≥ 1 */
void os_cpu_set(uint32_t *words, int nwords); /* which ones, least significant first; none if that is not known */
const char *os_host_name(void); /* static, never NULL; up to the first dot */
const char *os_boot_id(void);   /* random identity of this boot of this kernel, "" if unknown */
int os_pid(void);
int os_tid(void);
void os_random(void *bytes, size_t length); /* cryptographic; aborts the process if the kernel has none */

static inline void os_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Anonymous shared memory: a sealed-size, mode 0600 memfd, mapped read-write; *fd_p stays open for os_shared_open(). */
enum collet_result os_shared_create(const char *name, size_t bytes, void **memory_p, int *fd_p);
/* Maps descriptor fd of process pid (through /proc/<pid>/fd). The size is checked against bytes. */
enum collet_result os_shared_open(int pid, int fd, size_t bytes, void **memory_p);
/* Private zeroed memory, page aligned, touched pages only. */
enum collet_result os_memory_create(size_t bytes, void **memory_p);
void os_memory_destroy(void *memory, size_t bytes); /* for all three; NULL is fine */

#endif
