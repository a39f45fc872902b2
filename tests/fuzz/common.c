/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int fuzz_file(const void *data, size_t size, char path[64]) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

int fuzz_connect(int listener) {
    struct sockaddr_un name;
    socklen_t bytes = sizeof name;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || getsockname(listener, (void *)&name, &bytes) != 0 || connect(fd, (const void *)&name, bytes) != 0)
        abort();
    return fd;
}
