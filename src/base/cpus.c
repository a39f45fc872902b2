/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpus.h"

#include "base/os.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void fold(struct os_cpu_set *set, const cpu_set_t *cpus, size_t ncpus) {
    for (size_t cpu = 0; cpu < ncpus; cpu++)
        if (CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(ncpus), cpus))
            set->word[cpu % OS_CPUS / 64] |= 1ull << cpu % 64;
}

/* The kernel refuses a set that is too small for the machine, so this tries larger sets until one is accepted. */
void os_cpu_set_get(struct os_cpu_set *set) {
    bool refused = true;
    *set = (struct os_cpu_set){{0}};
    for (size_t room = CPU_SETSIZE; refused && room <= 1 << 20; room *= 2) {
        cpu_set_t *cpus = CPU_ALLOC(room);
        if (cpus == NULL)
            break;
        refused = sched_getaffinity(0, CPU_ALLOC_SIZE(room), cpus) != 0;
        if (!refused)
            fold(set, cpus, room);
        CPU_FREE(cpus);
    }
    if (os_cpu_set_count(set) == 0)
        set->word[0] = 1;
}

int os_cpu_set_count(const struct os_cpu_set *set) {
    int count = 0;
    for (int k = 0; k < OS_CPUS / 64; k++)
        count += __builtin_popcountll(set->word[k]);
    return count;
}

void os_cpu_set_add(struct os_cpu_set *set, const struct os_cpu_set *more) {
    for (int k = 0; k < OS_CPUS / 64; k++)
        set->word[k] |= more->word[k];
}

bool os_cpu_set_within(const struct os_cpu_set *inner, const struct os_cpu_set *outer) {
    uint64_t beyond = 0;
    for (int k = 0; k < OS_CPUS / 64; k++)
        beyond |= inner->word[k] & ~outer->word[k];
    return beyond == 0;
}

void os_cpu_set_read(const char *path, struct os_cpu_set *set) {
    FILE *file = os_fopen(path, "re");
    int first, last, n;
    *set = (struct os_cpu_set){{0}};
    while (file != NULL && (n = fscanf(file, "%5d-%5d", &first, &last)) >= 1) {
        for (int cpu = first; first >= 0 && cpu <= (n == 2 ? last : first); cpu++)
            set->word[cpu % OS_CPUS / 64] |= 1ull << cpu % 64;
        if (fgetc(file) != ',')
            break;
    }
    if (file != NULL)
        fclose(file);
}

/* Makes the path of a file that describes a cache of a CPU. Linux numbers the caches of a CPU from the innermost to the outermost. */
static void cache_file(char path[96], int cpu, int index, const char *name) {
    snprintf(path, 96, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, name);
}

/* Returns the size of the cache in KiB; 0: there is no such cache. */
static uint64_t cache_kib(int cpu, int index) {
    char path[96];
    unsigned long long kib;
    cache_file(path, cpu, index, "size");
    FILE *file = os_fopen(path, "re");
    if (file == NULL)
        return 0;
    const bool is_number = fscanf(file, "%10llu", &kib) == 1;
    fclose(file);
    return is_number ? kib : 0;
}

static void cache_sharers(int cpu, int index, struct os_cpu_set *set) {
    char path[96];
    cache_file(path, cpu, index, "shared_cpu_list");
    os_cpu_set_read(path, set);
}

/* The index of the last cache of a CPU; -1: Linux does not tell. */
static int last_cache(int cpu) {
    int index = 0;
    while (cpu >= 0 && cache_kib(cpu, index) > 0)
        index++;
    return index - 1;
}

void os_last_cache_get(struct os_cache *cache) {
    struct os_cpu_set sharers;
    const int cpu = sched_getcpu(), index = last_cache(cpu);
    *cache = (struct os_cache){OS_CACHE_BYTES, 1};
    if (index < 0)
        return;
    cache_sharers(cpu, index, &sharers);
    cache->bytes = cache_kib(cpu, index) << 10;
    cache->cpus = os_cpu_set_count(&sharers);
}

/* ---- another CPU ---- */

/* /proc/loadavg has for example "0.20 0.18 0.12 2/402 1234". Here 2 of 402 threads run or are ready to run. */
bool os_some_cpu_is_idle(void) {
    long ready = 0;
    FILE *file = os_fopen("/proc/loadavg", "re");
    if (file == NULL)
        return true; /* It is unknown, and a move may help */
    const bool is_known = fscanf(file, "%*s %*s %*s %9ld/", &ready) == 1;
    fclose(file);
    return !is_known || ready <= sysconf(_SC_NPROCESSORS_ONLN);
}

static void keep_sharers(cpu_set_t *cpus, int cpu) {
    struct os_cpu_set sharers = {{0}};
    const int index = last_cache(cpu);
    if (index >= 0)
        cache_sharers(cpu, index, &sharers);
    for (int k = 0; k < CPU_SETSIZE; k++)
        if (k >= OS_CPUS || !(sharers.word[k / 64] >> k % 64 & 1))
            CPU_CLR(k, cpus);
}

void os_cpu_leave(bool anywhere) {
    cpu_set_t all, others;
    const int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2)
        return;
    others = all;
    if (!anywhere)
        keep_sharers(&others, cpu);
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
        sched_setaffinity(0, sizeof all, &all);
}
