/* SPDX-License-Identifier: Apache-2.0 */
#include "base/output.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The replacement for "%letter"; NULL: it stays unchanged. */
static const char *word_of(char letter, int rank, char number[16]) {
    switch (letter) {
    case 'h': return os_host_name();
    case 'p': snprintf(number, 16, "%d", os_pid()); return number;
    case 'r': snprintf(number, 16, "%d", rank); return number;
    case '%': return "%";
    default: return NULL;
    }
}

bool output_path(const char *pattern, int rank, char path[PATH_MAX]) {
    size_t used = 0;
    for (const char *at = pattern; *at != '\0' && used < PATH_MAX; at++) {
        char number[16];
        const char *word = *at == '%' ? word_of(at[1], rank, number) : NULL;
        used += (size_t)snprintf(path + used, PATH_MAX - used, "%.*s", word != NULL ? PATH_MAX : 1,
                                 word != NULL ? word : at);
        at += word != NULL;
    }
    return used < PATH_MAX;
}

/* Is this a device, or a descriptor's name such as /dev/stderr, which is a link? Only /dev/shm there holds plain files. */
static bool is_device(const char *path) { return strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0; }

/* Does the file belong to this user alone? In a public directory another user may have created the file or a link, to read or destroy
 * data. */
static bool is_own(int fd) {
    struct stat about;
    return fstat(fd, &about) == 0 && about.st_uid == geteuid() && about.st_nlink == 1;
}

int output_open(const char *pattern, int rank, int flags) {
    char path[PATH_MAX];
    if (!output_path(pattern, rank, path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    flags = O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (is_device(path) ? O_APPEND : flags | O_NOFOLLOW);
    int fd = os_high(open(path, flags | O_CREAT | O_EXCL, 0600));
    if (fd >= 0 || errno != EEXIST || (fd = os_high(open(path, flags))) < 0 || is_device(path) || is_own(fd))
        return fd;
    close(fd);
    errno = EACCES; /* The kernel's fs.protected_regular gives this error, too */
    return -1;
}

const char *output_why(void) {
    return errno == ENXIO       ? "nobody reads this pipe"
           : errno == ETIMEDOUT ? "its file system does not answer"
                                : strerror(errno);
}

/* Waits at most wait_ms for room, and writes. A pipe or a terminal is opened again, because O_NONBLOCK on the given descriptor would also
 * change the program's own descriptor. If that fails, at most PIPE_BUF bytes are written: a pipe with room takes so many at once. Signals
 * are blocked at that time: the kernel raises SIGPIPE without a reader, or SIGXFSZ beyond the size limit of files. */
static ssize_t write_some(int fd, const char *text, size_t bytes, int wait_ms) {
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    sigset_t deadly, before;
    char path[32];
    errno = EAGAIN;
    if (poll(&room, 1, wait_ms) == 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const bool is_file = lseek(fd, 0, SEEK_CUR) >= 0;
    const int again = is_file ? -1 : os_high(open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    sigemptyset(&deadly);
    sigaddset(&deadly, SIGPIPE);
    sigaddset(&deadly, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &deadly, &before);
    const ssize_t written = write(again >= 0 ? again : fd, text, is_file || bytes < PIPE_BUF ? bytes : PIPE_BUF);
    if (written < 0 && (errno == EPIPE || errno == EFBIG))
        sigtimedwait(&deadly, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (again >= 0)
        close(again);
    return written;
}

bool output_write(int fd, const char *text, unsigned long bytes, int wait_ms) {
    const uint64_t end_ns = os_now_ns() + (uint64_t)wait_ms * 1000000;
    while (bytes > 0) { /* Another writer may have taken the free room */
        ssize_t written = write_some(fd, text, bytes, wait_ms);
        const uint64_t now_ns = os_now_ns();
        if (wait_ms > 0)
            wait_ms = now_ns < end_ns ? (int)((end_ns - now_ns) / 1000000) : 0;
        if (written < 0 && (errno == EINTR || (errno == EAGAIN && wait_ms != 0)))
            continue;
        if (written <= 0)
            return false;
        text += written;
        bytes -= (unsigned long)written;
    }
    return true;
}
