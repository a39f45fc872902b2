/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/probe/text.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/os.h"
#include "layers/outlet/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_NS 2000000000u
/* Maximum time for the whole file: an automounter may have to mount its file system first. */
#define ANSWER_NS 10000000000ull

static bool has_more(int fd, uint64_t end_ns) {
    struct pollfd pipe = {.fd = fd, .events = POLLIN};
    const uint64_t now_ns = os_now_ns();
    return now_ns < end_ns && poll(&pipe, 1, (int)((end_ns - now_ns) / 1000000) + 1) != 0;
}

static bool is_pipe(int fd) {
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode);
}

/* Reads up to the end of the file. Returns NULL after success, or a text that says why not. */
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

/* A file that is read in a thread of its own, because its file system may be a server that does not answer. */
struct reading {
    struct apart apart;
    char path[PATH_MAX];
    char *text;
    size_t bytes;
    char why[80]; /* Why the file cannot be read. "": it was read. */
};

static void read_file(struct apart *job) {
    struct reading *reading = (struct reading *)job;
    const int fd = os_high(open(reading->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    const char *why = fd < 0 ? strerror(errno) : read_all(fd, reading->text, &reading->bytes);
    snprintf(reading->why, sizeof reading->why, "%s", why != NULL ? why : "");
    if (fd >= 0)
        close(fd);
}

static void free_reading(struct apart *job) {
    struct reading *reading = (struct reading *)job;
    free(reading->text);
    free(reading);
}

static enum collet_result prepare(const char *path, struct reading **reading_p) {
    struct reading *reading;
    COLLET_TRY(memory_get(&reading, 1, sizeof *reading, "%.200s: no memory to read it", path));
    reading->apart = (struct apart){.name = "collet-read", .act = read_file, .free_job = free_reading};
    snprintf(reading->path, sizeof reading->path, "%s", path);
    enum collet_result result = memory_get(&reading->text, TEXT_BYTES_MAX + 2, 1, "%.200s: no memory to read it", path);
    if (result != COLLET_SUCCESS)
        free(reading);
    *reading_p = reading;
    return result;
}

enum collet_result text_load(const char *knob, const char *path, enum collet_result bad, char **text_p,
                             size_t *bytes_p) {
    struct reading *reading;
    char why[sizeof reading->why] = "its file system does not answer";
    *text_p = NULL;
    COLLET_TRY(prepare(path, &reading));
    if (apart_call(&reading->apart, ANSWER_NS, APART_BUSY * ANSWER_NS)) {
        memcpy(why, reading->why, sizeof why);
        if (why[0] == '\0') {
            *text_p = reading->text;
            *bytes_p = reading->bytes;
            reading->text = NULL;
        }
        apart_free(&reading->apart);
    }
    if (*text_p == NULL)
        return err_set(bad, "%s%s%.200s: cannot be read: %s", knob, knob[0] != '\0' ? ": " : "", path, why);
    return COLLET_SUCCESS;
}
