/* SPDX-License-Identifier: Apache-2.0
 *
 * What collet asks of Linux, each under a name that says what for. Nothing here knows about ranks.
 */
#ifndef COLLET_BASE_OS_H
#define COLLET_BASE_OS_H

#include "collet.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

uint64_t os_now_ns(void); /* CLOCK_MONOTONIC */

/* A counter that costs less than a clock. All CPUs of a host agree on it, and it counts at one rate. */
static inline uint64_t os_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return os_now_ns();
#endif
}

const char *os_host_name(void); /* static, never NULL; up to the first dot */
const char *os_boot_id(void);   /* random identity of this boot of this kernel, "" if unknown */
int os_pid(void);
int os_tid(void);
bool os_process_stopped(int pid);           /* by a signal or a debugger; false if there is no such process here */
void os_random(void *bytes, size_t length); /* cryptographic; aborts the process if the kernel has none */

/* The CPUs that a thread may run on, CPU k as bit k; where a machine has more, k modulo OS_CPUS. */
#define OS_CPUS 1024
struct os_cpu_set {
    uint64_t word[OS_CPUS / 64];
};

void os_cpu_set_get(struct os_cpu_set *set); /* of the calling thread; never empty */
int os_cpu_set_count(const struct os_cpu_set *set);
void os_cpu_set_add(struct os_cpu_set *set, const struct os_cpu_set *more);
bool os_cpu_set_within(const struct os_cpu_set *inner, const struct os_cpu_set *outer);
/* Reads a list of CPUs like 0-3,8 from a file of the kernel's. The set is empty if there is none. */
void os_cpu_set_read(const char *path, struct os_cpu_set *set);

/* The calling thread leaves its CPU for another one of its set that has the same last cache; or for any of its set. The set stays. */
void os_cpu_leave(bool anywhere);

/* Where two threads share a CPU: is another one idle? It is if no more threads run, or are ready to, than there are CPUs. */
bool os_some_cpu_is_idle(void);

/* The last cache before memory of the CPU that the calling thread runs on. What Linux does not tell is OS_CACHE_BYTES, and
 * one CPU's. */
#define OS_CACHE_BYTES (32u << 20)
struct os_cache {
    uint64_t bytes;
    int cpus; /* that share it */
};
void os_last_cache_get(struct os_cache *cache);

/* Blocks the signals that are the program's, for a thread that is about to be started; not those that a fault of the thread
 * itself raises, which a crash handler wants to see. *before: to be restored with pthread_sigmask(). */
void os_signals_block(sigset_t *before);
/* Starts a thread of collet, with these signals blocked. The name is for debuggers and top. */
enum collet_result os_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *argument);

static inline void os_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A call failed for want of a file descriptor (errno is EMFILE): raises this process's soft limit of them to the hard one.
 * True: the limit is higher now, so try again. Keeps errno. */
bool os_more_descriptors(void);
/* Takes a new descriptor, and gives one above 2 in its place; < 0 stays, with its errno. Descriptors 0, 1 and 2 are the terminal's: if a
 * program has closed them, what is written to its standard error must not go into a socket of collet. */
int os_high(int fd);
/* fd = make, which makes a descriptor. It is one above 2. It is made again as long as more descriptors can be had. */
#define OS_DESCRIPTOR(fd, make)                                                                                        \
    do                                                                                                                 \
        (fd) = os_high(make);                                                                                          \
    while ((fd) < 0 && os_more_descriptors())
/* fopen() with such a descriptor, to read ("r") or to write anew ("w"). */
FILE *os_fopen(const char *path, const char *mode);
/* The setting behind errno and what to do about it, to be put behind %m; "" if there is nothing to say. */
const char *os_remedy(void);
#define OS_THREAD_REMEDY "; is there a limit of threads (ulimit -u, pids.max of the cgroup) or of memory (ulimit -v)?"
/* Does errno say that there is no memory, or no descriptor, at the moment? Then nothing is known of what was asked for. */
bool os_is_short(void);
enum collet_result os_memory_code(void); /* of errno, where memory was asked for */

/* Anonymous shared memory: a sealed-size, mode 0600 memfd, mapped read-write; *fd_p stays open for os_shared_open(). */
enum collet_result os_shared_create(const char *name, size_t bytes, void **memory_p, int *fd_p);
/* Maps what another process created so, of which fd is a descriptor here. The size is checked against bytes. */
enum collet_result os_shared_map(int fd, size_t bytes, void **memory_p);
/* The same by its descriptor there (through /proc/<pid>/fd). */
enum collet_result os_shared_open(int pid, int fd, size_t bytes, void **memory_p);
/* Both but for the mapping: *fd_p is a descriptor of the memory, in this process. */
enum collet_result os_shared_file(const char *name, size_t bytes, int *fd_p);
enum collet_result os_shared_find(int pid, int fd, size_t bytes, int *fd_p);
/* Copies from, and to, the memory of another process, which the kernel may forbid (errno says why); false: not all of it. */
bool os_process_read(int pid, void *to, uint64_t from, size_t bytes);
bool os_process_write(int pid, uint64_t to, const void *from, size_t bytes);
/* Private zeroed memory, page aligned, touched pages only. */
enum collet_result os_memory_create(size_t bytes, void **memory_p);
void os_memory_destroy(void *memory, size_t bytes); /* for all of these; NULL is fine */

#endif
