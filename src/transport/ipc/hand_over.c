/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ipc/hand_over.h"

#include "base/err.h"
#include "base/os.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NAME_PREFIX "collet-"

/* The socket is in the abstract namespace, where no file is left over: the name begins behind a zero. */
static socklen_t abstract_address(const char name[HAND_OVER_NAME_BYTES], struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strnlen(name, HAND_OVER_NAME_BYTES - 1);
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static void name_make(char name[HAND_OVER_NAME_BYTES]) {
    uint64_t random[2];
    os_random(random, sizeof(random));
    snprintf(name, HAND_OVER_NAME_BYTES, NAME_PREFIX "%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
}

enum collet_result hand_over_listen(char name[HAND_OVER_NAME_BYTES], int *listener_p) {
    struct sockaddr_un address;
    name_make(name);
    socklen_t length = abstract_address(name, &address);
    int fd = os_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, SOMAXCONN) == 0) {
        *listener_p = fd;
        return COLLET_SUCCESS;
    }
    enum collet_result result = err_set(COLLET_ERR_SYSTEM, "cannot listen at a Unix socket: %m");
    if (fd >= 0)
        close(fd);
    return result;
}

/* Accepts the next connection of a process of the same user; −1: there is none. */
static int taker_of(int listener) {
    int taker;
    while ((taker = os_high(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK))) >= 0) {
        struct ucred who;
        socklen_t length = sizeof(who);
        if (getsockopt(taker, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid())
            return taker;
        close(taker);
    }
    return -1;
}

/* A message of one byte, with room for one descriptor. */
struct fd_message {
    char byte;
    struct iovec part;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct msghdr message;
};

static struct msghdr *fd_message_init(struct fd_message *fd_message) {
    memset(fd_message, 0, sizeof(*fd_message));
    fd_message->part = (struct iovec){&fd_message->byte, 1};
    fd_message->message = (struct msghdr){.msg_iov = &fd_message->part,
                                          .msg_iovlen = 1,
                                          .msg_control = fd_message->control,
                                          .msg_controllen = sizeof(fd_message->control)};
    return &fd_message->message;
}

enum collet_result hand_over_give(int listener, int fd) {
    struct fd_message fd_message;
    int taker = taker_of(listener);
    if (taker < 0)
        return COLLET_IN_PROGRESS;
    struct msghdr *message = fd_message_init(&fd_message);
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    ssize_t sent = sendmsg(taker, message, MSG_NOSIGNAL);
    enum collet_result result =
        sent == 1 ? COLLET_SUCCESS : err_set(COLLET_ERR_SYSTEM, "cannot pass a descriptor on: %m");
    close(taker); /* the taker still receives what was sent */
    return result;
}

enum collet_result hand_over_connect(const char name[HAND_OVER_NAME_BYTES], int *socket_p) {
    struct sockaddr_un address;
    socklen_t length = abstract_address(name, &address);
    int fd = os_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, length) == 0) {
        *socket_p = fd;
        return COLLET_SUCCESS;
    }
    enum collet_result result =
        err_set(COLLET_ERR_SYSTEM,
                "cannot connect to a Unix socket of another rank: %m; processes of one host that share memory "
                "of GPUs have to be in one network namespace");
    if (fd >= 0)
        close(fd);
    return result;
}

/* Returns the descriptor that has come. If more than one has come, all are closed. */
static int only_descriptor(struct msghdr *message) {
    const struct cmsghdr *header = CMSG_FIRSTHDR(message);
    int fds[(CMSG_SPACE(sizeof(int)) - CMSG_LEN(0)) / sizeof(int)]; /* the kernel rounds the room for one up */
    size_t n = 0;
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    if (n > 0)
        memcpy(fds, CMSG_DATA(header), n * sizeof(int));
    if (n == 1)
        return os_high(fds[0]);
    while (n > 0)
        close(fds[--n]);
    return -1;
}

enum collet_result hand_over_take(int socket, int *fd_p) {
    struct fd_message fd_message;
    struct msghdr *message = fd_message_init(&fd_message);
    ssize_t n = recvmsg(socket, message, MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return COLLET_IN_PROGRESS;
    const int fd = n == 1 ? only_descriptor(message) : -1;
    if (fd < 0)
        return err_set(COLLET_ERR_REMOTE, "a rank that was to pass a descriptor on has gone");
    *fd_p = fd;
    return COLLET_SUCCESS;
}
