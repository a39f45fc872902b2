/* SPDX-License-Identifier: Apache-2.0 */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ----------------------------------------------------------------------------------------------------- who and when */

uint64_t os_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int os_pid(void) { return (int)getpid(); }

bool os_process_is(int pid, const char *states) {
    char path[32], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = os_high(open(path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return false;
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    const char *name_end = bytes > 0 ? strrchr(text, ')') : NULL; /* "pid (name) state …"; the name may be anything */
    return name_end != NULL && strchr(states, name_end[2]) != NULL;
}

int os_tid(void) { return (int)syscall(SYS_gettid); }

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
            perror("collet: getrandom"); /* Secrets need random bytes: to stop is better than to go on without */
            abort();
        }
        if (got > 0) {
            at += got;
            length -= (size_t)got;
        }
    }
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
