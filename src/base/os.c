/* SPDX-License-Identifier: Apache-2.0 */
#include "base/os.h"

#include "base/config.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* ----------------------------------------------------------------------------------------------------- who and when */

uint64_t os_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int os_pid(void) { return (int)getpid(); }

bool os_process_stopped(int pid) {
    char path[32], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = os_high(open(path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return false;
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    const char *name_end = bytes > 0 ? strrchr(text, ')') : NULL; /* "pid (name) state …"; the name may be anything */
    return name_end != NULL && (name_end[2] == 'T' || name_end[2] == 't');
}

int os_tid(void) { return (int)syscall(SYS_gettid); }

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

static char host_name[64];
static char boot_id[64];

static void read_identity(void) {
    if (gethostname(host_name, sizeof host_name - 1) != 0 || host_name[0] == '\0')
        snprintf(host_name, sizeof host_name, "localhost");
    host_name[strcspn(host_name, ".")] = '\0';

    FILE *file = os_fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL)
        return;
    if (fgets(boot_id, sizeof boot_id, file) != NULL)
        boot_id[strcspn(boot_id, "\n")] = '\0';
    fclose(file);
}

static pthread_once_t identity_read = PTHREAD_ONCE_INIT;

const char *os_host_name(void) {
    pthread_once(&identity_read, read_identity);
    return host_name;
}

const char *os_boot_id(void) {
    pthread_once(&identity_read, read_identity);
    return boot_id;
}

void os_random(void *bytes, size_t length) {
    char *at = bytes;
    while (length > 0) {
        ssize_t got = getrandom(at, length, 0);
        if (got < 0 && errno != EINTR) {
            perror("collet: getrandom"); /* needed for secrets: to stop is better than to go on without */
            abort();
        }
        if (got > 0) {
            at += got;
            length -= (size_t)got;
        }
    }
}

/* Linux numbers the caches of a CPU from the inside to the outside. */
static void cache_file(char path[96], int cpu, int index, const char *name) {
    snprintf(path, 96, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, name);
}

/* The size in KiB; 0: there is no such cache. */
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

/* /proc/loadavg: "0.20 0.18 0.12 2/402 1234", of which 2 are ready to run. */
bool os_some_cpu_is_idle(void) {
    long ready = 0;
    FILE *file = os_fopen("/proc/loadavg", "re");
    if (file == NULL)
        return true; /* unknown: a move may help */
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

/* ------------------------------------------------------------------------------------------------------ descriptors */

bool os_more_descriptors(void) {
    const int error = errno;
    struct rlimit limit;
    bool raised = error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max;
    if (raised) {
        limit.rlim_cur = limit.rlim_max;
        raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
    }
    errno = error;
    return raised;
}

int os_high(int fd) {
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return high;
}

FILE *os_fopen(const char *path, const char *mode) {
    const int flags = mode[0] == 'w' ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY;
    const int fd = os_high(open(path, flags | O_CLOEXEC, 0666));
    FILE *file = fd >= 0 ? fdopen(fd, mode) : NULL;
    if (file == NULL && fd >= 0)
        close(fd);
    return file;
}

const char *os_remedy(void) {
    static _Thread_local char text[CONFIG_TEXT_BYTES + 112];
    const int error = errno;
    const char *range = config_process()->port_range;
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    if (error == EMFILE || error == ENOMEM)
        getrlimit(error == EMFILE ? RLIMIT_NOFILE : RLIMIT_AS, &limit);
    snprintf(text, sizeof text, "%s", error == ENOMEM ? "; does its container have enough memory (memory.max)?" : "");
    if (limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, sizeof text, "; this process may have %llu %s: raise the limit (ulimit -%c)",
                 (unsigned long long)limit.rlim_cur, error == EMFILE ? "file descriptors" : "bytes",
                 error == EMFILE ? 'n' : 'v');
    if (error == EADDRINUSE)
        snprintf(text, sizeof text,
                 "; no port of %s%s is free, and each process and each connection takes one: widen it",
                 range[0] ? "COLLET_PORT_RANGE=" : "net.ipv4.ip_local_port_range", range);
    errno = error;
    return text;
}

/* ----------------------------------------------------------------------------------------------------------- memory */

static bool is_short_of_memory(void) { return errno == ENOMEM || errno == ENOSPC; }

bool os_is_short(void) { return is_short_of_memory() || errno == EMFILE || errno == ENFILE; }

enum collet_result os_memory_code(void) { return is_short_of_memory() ? COLLET_ERR_NO_MEMORY : COLLET_ERR_SYSTEM; }

static enum collet_result map_shared(int fd, size_t bytes, void **memory_p) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return err_set(os_memory_code(), "cannot map %zu bytes of shared memory: %m%s", bytes, os_remedy());
    *memory_p = memory;
    return COLLET_SUCCESS;
}

/* An old kernel refuses the flag MFD_NOEXEC_SEAL. A kernel that is set to require it refuses everything else. */
static int create_memfd(const char *name) {
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd;
    OS_DESCRIPTOR(fd, memfd_create(name, flags | MFD_NOEXEC_SEAL));
    return fd < 0 && errno == EINVAL ? os_high(memfd_create(name, flags)) : fd;
}

enum collet_result os_shared_file(const char *name, size_t bytes, int *fd_p) {
    int fd = create_memfd(name);
    if (fd < 0)
        return err_set(os_memory_code(), "cannot create shared memory (memfd %s): %m%s", name, os_remedy());
    enum collet_result result = COLLET_SUCCESS;
    struct rlimit limit; /* beyond this limit, ftruncate() would end the process by a signal */
    const bool fits = getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur;
    errno = EFBIG;
    if (!fits || fchmod(fd, 0600) != 0 || ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        result = err_set(os_memory_code(), "cannot size %zu bytes of shared memory (memfd %s): %m%s", bytes, name,
                         fits ? os_remedy() : "; it counts as a file: raise that limit (ulimit -f)");
    if (result == COLLET_SUCCESS)
        *fd_p = fd;
    else
        close(fd);
    return result;
}

enum collet_result os_shared_create(const char *name, size_t bytes, void **memory_p, int *fd_p) {
    int fd;
    COLLET_TRY(os_shared_file(name, bytes, &fd));
    enum collet_result result = map_shared(fd, bytes, memory_p);
    if (result == COLLET_SUCCESS)
        *fd_p = fd;
    else
        close(fd);
    return result;
}

/* Checks the size that another process told. Access beyond the end of a file, or of a file that shrinks later, would kill this
 * process. */
static enum collet_result check_shared(int fd, size_t bytes) {
    struct stat status;
    if (fstat(fd, &status) != 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot look at shared memory of another process: %m");
    if (!S_ISREG(status.st_mode) || status.st_size < 0 || (size_t)status.st_size != bytes)
        return err_set(COLLET_ERR_SYSTEM,
                       "what another process shares is not the memory of %zu bytes that it announced", bytes);
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return err_set(COLLET_ERR_SYSTEM, "shared memory of another process may shrink and is therefore not mapped");
    return COLLET_SUCCESS;
}

enum collet_result os_shared_map(int fd, size_t bytes, void **memory_p) {
    COLLET_TRY(check_shared(fd, bytes));
    return map_shared(fd, bytes, memory_p);
}

enum collet_result os_shared_find(int pid, int fd, size_t bytes, int *fd_p) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    int own_fd;
    OS_DESCRIPTOR(own_fd, open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (own_fd < 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot open shared memory of process %d (%s): %m%s", pid, path, os_remedy());
    enum collet_result result = check_shared(own_fd, bytes);
    if (result == COLLET_SUCCESS)
        *fd_p = own_fd;
    else
        close(own_fd);
    return result;
}

enum collet_result os_shared_open(int pid, int fd, size_t bytes, void **memory_p) {
    int own_fd;
    COLLET_TRY(os_shared_find(pid, fd, bytes, &own_fd));
    enum collet_result result = map_shared(own_fd, bytes, memory_p);
    close(own_fd); /* the mapping remains */
    return result;
}

/* Copies in several steps: the kernel copies at most 2 GiB at once, and stops where a mapping ends. */
static bool process_copy(int pid, void *here, uint64_t there, size_t bytes, bool reads) {
    ssize_t moved = 1;
    for (size_t at = 0; at < bytes && moved > 0; at += (size_t)moved) {
        struct iovec local = {(char *)here + at, bytes - at}, remote = {(void *)(uintptr_t)(there + at), bytes - at};
        moved =
            reads ? process_vm_readv(pid, &local, 1, &remote, 1, 0) : process_vm_writev(pid, &local, 1, &remote, 1, 0);
    }
    return moved > 0;
}

bool os_process_read(int pid, void *to, uint64_t from, size_t bytes) {
    return process_copy(pid, to, from, bytes, true);
}

bool os_process_write(int pid, uint64_t to, const void *from, size_t bytes) {
    return process_copy(pid, (void *)(uintptr_t)from, to, bytes, false);
}

enum collet_result os_memory_create(size_t bytes, void **memory_p) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return err_set(os_memory_code(), "cannot map %zu bytes of memory: %m%s", bytes, os_remedy());
    *memory_p = memory;
    return COLLET_SUCCESS;
}

void os_memory_destroy(void *memory, size_t bytes) {
    if (memory != NULL)
        munmap(memory, bytes);
}

void os_signals_block(sigset_t *before) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++)
        sigdelset(&blocked, faults[k]);
    pthread_sigmask(SIG_SETMASK, &blocked, before);
}

enum collet_result os_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *argument) {
    sigset_t before;
    os_signals_block(&before);
    errno = pthread_create(thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errno != 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot start the thread %s: %m" OS_THREAD_REMEDY, name);
    pthread_setname_np(*thread, name);
    return COLLET_SUCCESS;
}
