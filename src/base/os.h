/* SPDX-License-Identifier: Apache-2.0
 *
 * Services of Linux that collet needs, under names that say their purpose. This file knows nothing about ranks.
 */
#ifndef COLLET_BASE_OS_H
#define COLLET_BASE_OS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

uint64_t os_now_ns(void); /* Nanoseconds of CLOCK_MONOTONIC */

/* A counter that is cheaper to read than a clock. All CPUs of a host agree on it, and its rate is constant. */
static inline uint64_t os_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return os_now_ns();
#endif
}

const char *os_host_name(void); /* The name up to the first dot. Static memory, never NULL */
const char *os_boot_id(void);   /* The random id of this boot of the kernel; "": it is unknown */
int os_pid(void);
int os_tid(void);
#define OS_STOPPED "Tt" /* States: stopped by a signal or a debugger */
#define OS_RUNS "R"     /* State: has a CPU, or waits for one */
/* Is a process, or a thread, in one of these states? False: no, or this host has none with this number. */
bool os_process_is(int pid, const char *states);
void os_random(void *bytes, size_t length); /* Cryptographic random bytes. Aborts the process if the kernel has none */

static inline void os_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Call this after a system call has failed. If no descriptor was free (errno EMFILE), it raises this process's soft limit to the hard
 * limit. True: the limit is higher now, so try again. Keeps errno. */
bool os_more_descriptors(void);
/* Replaces a new descriptor by one above 2; a negative result is returned unchanged, with its errno. Descriptors 0, 1 and 2 belong to the
 * terminal: if a program has closed them, its error output must not go into a socket of collet. */
int os_high(int fd);
/* fd = make, for an expression `make` that creates a descriptor. The descriptor is above 2. The macro tries again while
 * os_more_descriptors() helps. */
#define OS_DESCRIPTOR(fd, make)                                                                                        \
    do                                                                                                                 \
        (fd) = os_high(make);                                                                                          \
    while ((fd) < 0 && os_more_descriptors())
/* Like fopen(), with a descriptor above 2. mode: "r" to read, or "w" to write a new file. */
FILE *os_fopen(const char *path, const char *mode);

#endif
