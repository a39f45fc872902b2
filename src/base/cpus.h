/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPUs on which threads may run, and the caches that they share.
 */
#ifndef COLLET_BASE_CPUS_H
#define COLLET_BASE_CPUS_H

#include <stdbool.h>
#include <stdint.h>

/* The CPUs on which a thread may run: bit k is CPU k. On machines with more CPUs, CPU k is bit k mod OS_CPUS. */
#define OS_CPUS 1024
struct os_cpu_set {
    uint64_t word[OS_CPUS / 64];
};

void os_cpu_set_get(struct os_cpu_set *set); /* Gets the set of the calling thread, which is never empty */
int os_cpu_set_count(const struct os_cpu_set *set);
void os_cpu_set_add(struct os_cpu_set *set, const struct os_cpu_set *more);
bool os_cpu_set_within(const struct os_cpu_set *inner, const struct os_cpu_set *outer);
/* Reads a list of CPUs such as 0-3,8 from a file of the kernel. If there is no such file, the set is empty. */
void os_cpu_set_read(const char *path, struct os_cpu_set *set);

/* Moves the calling thread to another CPU of its set. anywhere: to any CPU; else to one with the same last-level cache. The set itself does
 * not change. */
void os_cpu_leave(bool anywhere);

/* Is any CPU idle? It is assumed to be so if at most as many threads run, or are ready to run, as there are CPUs. */
bool os_some_cpu_is_idle(void);

/* Gets the last-level cache of the CPU on which the calling thread runs. If Linux does not tell, it is OS_CACHE_BYTES for one CPU. */
#define OS_CACHE_BYTES (32u << 20)
struct os_cache {
    uint64_t bytes;
    int cpus; /* Number of CPUs that share the cache */
};
void os_last_cache_get(struct os_cache *cache);

#endif
