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

/* A counter that is cheaper to read than a clock. All CPUs of a host agree on it, and its rate is constant. */
static inline uint64_t os_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return os_now_ns();
#endif
}

const char *os_host_name(void); /* static, never NULL; up to the first dot */
const char *os_boot_id(void);   /* random id of this boot of the kernel; "": unknown */
int os_pid(void);
int os_tid(void);
bool os_process_stopped(int pid);           /* by a signal or a debugger; false if this host has no such process */
void os_random(void *bytes, size_t length); /* cryptographic; aborts the process if the kernel cannot do it */

/* The CPUs on which a thread may run: bit k is CPU k. On larger machines, bit k mod OS_CPUS. */
#define OS_CPUS 1024
struct os_cpu_set {
    uint64_t word[OS_CPUS / 64];
};

void os_cpu_set_get(struct os_cpu_set *set); /* set of the calling thread; never empty */
int os_cpu_set_count(const struct os_cpu_set *set);
void os_cpu_set_add(struct os_cpu_set *set, const struct os_cpu_set *more);
bool os_cpu_set_within(const struct os_cpu_set *inner, const struct os_cpu_set *outer);
/* Reads a list of CPUs such as 0-3,8 from a file of the kernel. No such file: the set is empty. */
void os_cpu_set_read(const char *path, struct os_cpu_set *set);

/* Moves the calling thread to another CPU of its set: one with the same last-level cache, or any. The set itself does not change. */
void os_cpu_leave(bool anywhere);

/* Is any CPU idle? Yes, if no more threads run, or are ready to run, than there are CPUs. */
bool os_some_cpu_is_idle(void);

/* The last-level cache of the CPU on which the calling thread runs. Default, if Linux does not tell: OS_CACHE_BYTES, for one
 * CPU. */
#define OS_CACHE_BYTES (32u << 20)
struct os_cache {
    uint64_t bytes;
    int cpus; /* number of CPUs that share it */
};
void os_last_cache_get(struct os_cache *cache);

/* Blocks the signals of the program, for a thread that will be started. Signals of a fault in the thread itself stay unblocked, for crash
 * handlers. *before: restore it with pthread_sigmask(). */
void os_signals_block(sigset_t *before);
/* Starts a thread of collet with these signals blocked. name: for debuggers and top. */
enum collet_result os_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *argument);

static inline void os_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A call failed because no descriptor was free (errno EMFILE): raises this process's soft limit to the hard limit. True: the limit is
 * higher now, so try again. Keeps errno. */
bool os_more_descriptors(void);
/* Replaces a new descriptor by one above 2; a negative result is returned unchanged, with its errno. Descriptors 0, 1 and 2 belong to the
 * terminal: if a program has closed them, its error output must not go into a socket of collet. */
int os_high(int fd);
/* fd = make, where `make` creates a descriptor. The result is above 2. It tries again while os_more_descriptors() helps. */
#define OS_DESCRIPTOR(fd, make)                                                                                        \
    do                                                                                                                 \
        (fd) = os_high(make);                                                                                          \
    while ((fd) < 0 && os_more_descriptors())
/* fopen() with such a descriptor, to read ("r") or to write a new file ("w"). */
FILE *os_fopen(const char *path, const char *mode);
/* The setting that caused errno, and what to do about it, as text to append to %m; "": nothing to say. */
const char *os_remedy(void);
#define OS_THREAD_REMEDY "; is there a limit of threads (ulimit -u, pids.max of the cgroup) or of memory (ulimit -v)?"
/* Does errno mean that memory or descriptors are short at the moment? Then the question itself has no answer. */
bool os_is_short(void);
enum collet_result os_memory_code(void); /* the code for errno, after an allocation */

/* Creates anonymous shared memory: a memfd of sealed size and mode 0600, mapped read-write. *fd_p stays open for os_shared_open(). */
enum collet_result os_shared_create(const char *name, size_t bytes, void **memory_p, int *fd_p);
/* Maps memory that another process created in this way; fd is a descriptor in this process. Checks the size. */
enum collet_result os_shared_map(int fd, size_t bytes, void **memory_p);
/* Maps it by its descriptor in the other process (through /proc/<pid>/fd). */
enum collet_result os_shared_open(int pid, int fd, size_t bytes, void **memory_p);
/* The same two without the mapping: *fd_p is a descriptor of the memory in this process. */
enum collet_result os_shared_file(const char *name, size_t bytes, int *fd_p);
enum collet_result os_shared_find(int pid, int fd, size_t bytes, int *fd_p);
/* Copy from, or to, the memory of another process. The kernel may forbid it. False: not all was copied, errno says why. */
bool os_process_read(int pid, void *to, uint64_t from, size_t bytes);
bool os_process_write(int pid, uint64_t to, const void *from, size_t bytes);
/* Private zeroed memory, page aligned. Only touched pages use memory. */
enum collet_result os_memory_create(size_t bytes, void **memory_p);
void os_memory_destroy(void *memory, size_t bytes); /* frees memory of all functions above; NULL is fine */

#endif
