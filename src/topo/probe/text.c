/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/probe/text.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_NS 2000000000u

static bool has_more(int fd, uint64_t end_ns) {
    struct pollfd pipe = {.fd = fd, .events = POLLIN};
    const uint64_t now_ns = os_now_ns();
    return now_ns < end_ns && poll(&pipe, 1, (int)((end_ns - now_ns) / 1000000) + 1) != 0;
}

static bool is_pipe(int fd) {
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode);
}

/* NULL: all was read. */
static const char *read_all(int fd, char *text, size_t *bytes) {
    const uint64_t end_ns = os_now_ns() + PIPE_NS;
    ssize_t got = 1;
    *bytes = 0;
    while (got != 0) {
        got = read(fd, text + *bytes, TEXT_BYTES_MAX + 1 - *bytes);
        if (got < 0 && errno == EAGAIN && !has_more(fd, end_ns))
            return "no end came through this pipe within 2 s";
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return strerror(errno);
        *bytes += got > 0 ? (size_t)got : 0;
        if (*bytes > TEXT_BYTES_MAX)
            return "it has more than 4 MiB";
    }
    return *bytes > 0 ? NULL : is_pipe(fd) ? "nobody writes into this pipe" : "it is empty";
}

enum collet_result text_load(const char *knob, const char *path, enum collet_result bad, char **text_p,
                             size_t *bytes_p) {
    SCOPED_FREE char *text = NULL;
    COLLET_TRY(memory_get(&text, TEXT_BYTES_MAX + 2, 1, "%.200s: no memory to read it", path));
    const int fd = os_high(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    const char *why = fd < 0 ? strerror(errno) : read_all(fd, text, bytes_p);
    if (fd >= 0)
        close(fd);
    if (why != NULL)
        return err_set(bad, "%s%s%.200s: cannot be read: %s", knob, knob[0] != '\0' ? ": " : "", path, why);
    *text_p = text;
    text = NULL;
    return COLLET_SUCCESS;
}
