/* SPDX-License-Identifier: Apache-2.0 */
#include "base/output.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What "%letter" stands for; NULL: nothing, it stays as it is. */
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

/* In a folder that all may write to, somebody may have put a link where the file is to be. /dev/stderr is one, too. */
static int no_link(const char *path) { return strncmp(path, "/dev/", 5) == 0 ? 0 : O_NOFOLLOW; }

int output_open(const char *pattern, int rank, int flags) {
    char path[PATH_MAX];
    if (!output_path(pattern, rank, path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return os_high(open(path, O_WRONLY | O_CREAT | O_CLOEXEC | no_link(path) | flags, 0600));
}

bool output_write(int fd, const char *text, unsigned long bytes) {
    while (bytes > 0) {
        ssize_t written = write(fd, text, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        text += written;
        bytes -= (unsigned long)written;
    }
    return true;
}
