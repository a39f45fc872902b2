/* SPDX-License-Identifier: Apache-2.0
 *
 * A minimal network plugin: messages over TCP sockets, one socket per connection. It works with collet and with NCCL, which
 * accept version 8 of the interface.
 *
 *     cc -shared -fPIC -I src examples/net_plugin/sockets.c -o libnccl-net-sockets.so
 *     COLLET_NET_PLUGIN=$PWD/libnccl-net-sockets.so program          (or sockets, where the loader finds the file)
 *
 *      receiver                                        sender
 *      listen: a handle with address and port ───────▶ connect: the socket and its state are kept in the handle
 *      accept
 *      irecv: puts a request into the queue            isend: puts a request into the queue
 *      test: moves what is at the head of the queue ◀─ length, bytes ── test: moves what is at the head of the queue
 *
 * No function blocks, and data moves only in calls of test.
 */
#define _GNU_SOURCE /* for accept4 */
#include "layers/nccl/plug_abi.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------------------- devices */

#define DEVICES_MAX 16

/* A device is an interface that is up and has an IPv4 address. */
static struct device {
    char name[IF_NAMESIZE], path[64];
    struct sockaddr_in address;
} devices[DEVICES_MAX];
static int ndevices;

static void find_devices(const struct ifaddrs *list, bool loopback) {
    for (const struct ifaddrs *i = list; i != NULL && ndevices < DEVICES_MAX; i = i->ifa_next) {
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_RUNNING) ||
            loopback != ((i->ifa_flags & IFF_LOOPBACK) != 0))
            continue;
        struct device *device = &devices[ndevices++];
        snprintf(device->name, sizeof device->name, "%s", i->ifa_name);
        snprintf(device->path, sizeof device->path, "/sys/class/net/%s/device", i->ifa_name);
        memcpy(&device->address, i->ifa_addr, sizeof device->address);
    }
}

static int sockets_init(plug_log *log) {
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return PLUG_SYSTEM_ERROR;
    ndevices = 0;
    find_devices(list, false);
    if (ndevices == 0)
        find_devices(list, true);
    freeifaddrs(list);
    log(3, 0, __FILE__, __LINE__, "sockets: %d interface(s)", ndevices);
    return ndevices > 0 ? PLUG_SUCCESS : PLUG_SYSTEM_ERROR;
}

static int sockets_devices(int *count) {
    *count = ndevices;
    return PLUG_SUCCESS;
}

static int sockets_properties(int device, void *properties) {
    struct device *d = &devices[device];
    *(struct plug_properties_v8 *)properties = (struct plug_properties_v8){
        .name = d->name,
        .path = access(d->path, F_OK) == 0 ? d->path : NULL,
        .guid = (uint64_t)device,
        .pointers = PLUG_HOST,
        .mbits = 10000,
        .connections = 65536,
        .receives = 1,
    };
    return PLUG_SUCCESS;
}

/* ---------------------------------------------------------------------------------------------------------- connections */

/* A sender finds a receiver by the receiver's handle. In its copy of the handle the sender keeps its socket between calls of connect. */
struct handle {
    struct sockaddr_in address;
    int connecting; /* 1 + the sender's socket; 0: there is none yet */
};
_Static_assert(sizeof(struct handle) <= PLUG_HANDLE_BYTES, "a handle");

struct request {
    struct line *line; /* NULL: the place is free */
    bool receives;
    char *data;
    uint64_t length; /* Length of the data. It is sent before the data */
    size_t room;     /* Receiver: size of the buffer */
    size_t moved;    /* Number of bytes of length and data that have moved */
};

/* One end of a connection. Requests first … next−1 are in the queue, modulo the number of requests. */
struct line {
    int fd;
    unsigned first, next;
    struct request requests[PLUG_REQUESTS_MAX];
};

/* Closes a socket that cannot be used. */
static int give_up(int fd, int error) {
    if (fd >= 0)
        close(fd);
    return error;
}

/* The new line owns the socket. If no line can be created, the socket is closed. */
static int line_create(int fd, void **line_p) {
    const int on = 1;
    struct line *line = calloc(1, sizeof *line);
    if (line == NULL)
        return give_up(fd, PLUG_SYSTEM_ERROR);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    line->fd = fd;
    *line_p = line;
    return PLUG_SUCCESS;
}

static int line_close(void *line) {
    close(((struct line *)line)->fd);
    free(line);
    return PLUG_SUCCESS;
}

static int sockets_listen(int device, void *handle, void **listener) {
    struct handle *h = handle;
    int *fd = malloc(sizeof *fd);
    socklen_t length = sizeof h->address;
    memset(h, 0, sizeof *h);
    h->address = devices[device].address;
    h->address.sin_port = 0;
    if (fd == NULL)
        return PLUG_SYSTEM_ERROR;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, (struct sockaddr *)&h->address, length) != 0 || listen(*fd, 1) != 0 ||
        getsockname(*fd, (struct sockaddr *)&h->address, &length) != 0) {
        int result = give_up(*fd, PLUG_SYSTEM_ERROR);
        free(fd);
        return result;
    }
    *listener = fd;
    return PLUG_SUCCESS;
}

static int sockets_close_listen(void *listener) {
    close(*(int *)listener);
    free(listener);
    return PLUG_SUCCESS;
}

static int sockets_accept(void *listener, void **receiver, void **on_device) {
    (void)on_device;
    *receiver = NULL; /* No sender has connected yet */
    int fd = accept4(*(int *)listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return errno == EAGAIN || errno == EINTR ? PLUG_SUCCESS : PLUG_SYSTEM_ERROR;
    return line_create(fd, receiver);
}

static int sockets_connect(int device, void *handle, void **sender, void **on_device) {
    struct handle *h = handle;
    int error = 0;
    socklen_t length = sizeof error;
    (void)device, (void)on_device;
    *sender = NULL;
    if (h->connecting == 0) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return PLUG_SYSTEM_ERROR;
        h->connecting = 1 + fd;
        if (connect(fd, (struct sockaddr *)&h->address, sizeof h->address) != 0 && errno != EINPROGRESS)
            return give_up(fd, PLUG_REMOTE_ERROR);
    }
    struct pollfd poll_fd = {.fd = h->connecting - 1, .events = POLLOUT};
    if (poll(&poll_fd, 1, 0) <= 0)
        return PLUG_SUCCESS;
    getsockopt(poll_fd.fd, SOL_SOCKET, SO_ERROR, &error, &length);
    return error == 0 ? line_create(poll_fd.fd, sender) : give_up(poll_fd.fd, PLUG_REMOTE_ERROR);
}

/* ------------------------------------------------------------------------------------------------------------- messages */

static int enqueue(struct line *line, struct request request, void **request_p) {
    struct request *place = &line->requests[line->next % PLUG_REQUESTS_MAX];
    *request_p = NULL; /* There is no room now: the caller must call again */
    if (place->line != NULL)
        return PLUG_SUCCESS;
    *place = request;
    place->line = line;
    line->next++;
    *request_p = place;
    return PLUG_SUCCESS;
}

static int sockets_isend(void *sender, void *data, int bytes, int tag, void *registration, void **request) {
    (void)tag, (void)registration;
    return enqueue(sender, (struct request){.data = data, .length = (uint64_t)bytes}, request);
}

static int sockets_irecv(void *receiver, int n, void **data, int *bytes, int *tags, void **registrations,
                         void **request) {
    (void)tags, (void)registrations;
    if (n != 1) /* The plugin's properties allow only one */
        return PLUG_INTERNAL_ERROR;
    return enqueue(receiver, (struct request){.receives = true, .data = data[0], .room = (size_t)bytes[0]}, request);
}

/* Moves what is left of a message's length and data, by one system call. Returns the number of bytes; 0: nothing can move now; −1: the
 * connection broke. */
static ssize_t move(const struct request *r, struct iovec *parts, int nparts) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)nparts};
    ssize_t n = r->receives ? recvmsg(r->line->fd, &message, 0) : sendmsg(r->line->fd, &message, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n == 0 ? -1 : n;
}

static bool is_done(const struct request *r) {
    return r->moved >= sizeof r->length && r->moved == sizeof r->length + r->length;
}

/* Moves what can be moved of a message: its length and, once that is known, its data. */
static int advance(struct request *r) {
    while (!is_done(r)) {
        size_t left = r->moved < sizeof r->length ? sizeof r->length - r->moved : 0;
        size_t at = left > 0 ? 0 : r->moved - sizeof r->length;
        bool known = !r->receives || left == 0;
        if (r->receives && known && r->length > r->room)
            return PLUG_INTERNAL_ERROR; /* The data is longer than the receiver's buffer */
        struct iovec parts[2] = {{(char *)&r->length + sizeof r->length - left, left},
                                 {r->data + at, known ? r->length - at : 0}};
        ssize_t n = move(r, parts, 2);
        if (n <= 0)
            return n == 0 ? PLUG_SUCCESS : PLUG_REMOTE_ERROR;
        r->moved += (size_t)n;
    }
    return PLUG_SUCCESS;
}

static int sockets_test(void *request, int *done, int *bytes) {
    struct request *asked = request;
    struct line *line = asked->line;
    *done = 0;
    while (line->first != line->next) {
        struct request *r = &line->requests[line->first % PLUG_REQUESTS_MAX];
        int result = advance(r);
        if (result != PLUG_SUCCESS && !is_done(asked))
            return result;
        if (!is_done(r))
            break;
        line->first++;
    }
    if (!is_done(asked))
        return PLUG_SUCCESS;
    *done = 1;
    if (bytes != NULL)
        *bytes = (int)asked->length;
    asked->line = NULL;
    return PLUG_SUCCESS;
}

/* --------------------------------------------------------------------------------------------------------------- memory */

/* There is nothing to register: sockets can use any memory of the host. */
static int sockets_reg(void *line, void *data, size_t bytes, int kind, void **registration) {
    (void)line, (void)data, (void)bytes;
    *registration = NULL;
    return kind == PLUG_HOST ? PLUG_SUCCESS : PLUG_INTERNAL_ERROR;
}

static int sockets_dereg(void *line, void *registration) {
    (void)line, (void)registration;
    return PLUG_SUCCESS;
}

static int sockets_flush(void *receiver, int n, void **data, int *bytes, void **registrations, void **request) {
    (void)receiver, (void)n, (void)data, (void)bytes, (void)registrations;
    *request = NULL;
    return PLUG_SUCCESS;
}

__attribute__((visibility("default"))) struct plug_table ncclNetPlugin_v8 = {
    .name = "sockets",
    .init.v8 = sockets_init,
    .devices = sockets_devices,
    .get_properties = sockets_properties,
    .listen.v8 = sockets_listen,
    .connect.v8 = sockets_connect,
    .accept = sockets_accept,
    .reg_mr = sockets_reg,
    .dereg_mr = sockets_dereg,
    .isend.v8 = sockets_isend,
    .irecv.v8 = sockets_irecv,
    .iflush = sockets_flush,
    .test = sockets_test,
    .close_send = line_close,
    .close_recv = line_close,
    .close_listen = sockets_close_listen,
};
