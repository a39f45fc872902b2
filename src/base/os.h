/* SPDX-License-Identifier: Apache-2.0
 *
 * What collet asks of Linux, each under a name that says what for. Nothing here knows about ranks.
 */
#ifndef COLLET_BASE_OS_H
#define COLLET_BASE_OS_H

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

#endif
