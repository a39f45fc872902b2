/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/reception.h"

#include "base/log.h"
#include "base/os.h"
#include "boot/process.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define VISITORS_MAX 16
#define VISIT_NS 10000000000u /* longest visit */

/* Somebody who asks: first the request comes, then censuses are under way, then their results go out. */
struct visitor {
    struct watch_fd watched;
    struct watch_timer deadline;
    struct reception *reception;
    struct reception_request request;
    size_t received;
    int censuses; /* under way */
    char *text;   /* the answer, grown as results come */
    size_t bytes, sent;
};

struct reception {
    struct watch_fd listener;
    struct hub *hubs;
    int visitors;
};

/* ---- the answer ---- */

static void visitor_leave(struct visitor *visitor) {
    watch_remove(&visitor->watched);
    watch_timer_stop(&visitor->deadline);
    close(visitor->watched.fd);
    visitor->reception->visitors--;
    free(visitor->text);
    free(visitor);
}

static void send_some(struct watch_fd *watched, uint32_t events) {
    struct visitor *visitor = WATCH_OWNER(watched, struct visitor, watched);
    (void)events;
    while (visitor->sent < visitor->bytes) {
        const ssize_t sent = send(watched->fd, visitor->text + visitor->sent, visitor->bytes - visitor->sent,
                                  MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (sent < 0)
            break;
        visitor->sent += (size_t)sent;
    }
    visitor_leave(visitor);
}

static void put(struct visitor *visitor, const void *data, size_t bytes) {
    char *text = realloc(visitor->text, visitor->bytes + bytes);
    if (text == NULL)
        return; /* the answer is short then, which shows */
    memcpy(text + visitor->bytes, data, bytes);
    visitor->text = text;
    visitor->bytes += bytes;
}

static void census_over(struct visitor *visitor) {
    if (--visitor->censuses > 0)
        return;
    visitor->watched.ready = send_some;
    if (watch_add(&visitor->watched, EPOLLOUT) != COLLET_SUCCESS)
        visitor_leave(visitor);
}

static void on_census(struct census *census) {
    struct reception_head head = {.version = COLLET_VERSION,
                                  .rank_bytes = sizeof(struct census_rank),
                                  .tag = hub_tag(census->hub),
                                  .nranks = census->hub->nranks};
    while (head.asked < head.nranks - 1 && !census->ranks[head.asked].local)
        head.asked++;
    put(census->owner, &head, sizeof head);
    put(census->owner, census->ranks, (size_t)head.nranks * sizeof *census->ranks);
    census_over(census->owner);
}

/* ---- the request ---- */

static void begin_censuses(struct visitor *visitor) {
    const struct reception_request *request = &visitor->request;
    watch_remove(&visitor->watched); /* a visitor that hangs up stays until its censuses are over */
    visitor->censuses = 1;
    for (struct hub *hub = visitor->reception->hubs, *next; hub != NULL; hub = next) {
        next = hub->next_received;
        if (request->tag != 0 && request->tag != hub_tag(hub))
            continue;
        visitor->censuses++;
        if (census_begin(hub, request->all != 0, on_census, visitor) != COLLET_SUCCESS)
            visitor->censuses--;
    }
    census_over(visitor);
}

static void receive_request(struct watch_fd *watched, uint32_t events) {
    struct visitor *visitor = WATCH_OWNER(watched, struct visitor, watched);
    (void)events;
    const ssize_t bytes = recv(watched->fd, (char *)&visitor->request + visitor->received,
                               sizeof visitor->request - visitor->received, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    visitor->received += bytes > 0 ? (size_t)bytes : 0;
    if (bytes > 0 && visitor->received < sizeof visitor->request)
        return;
    if (bytes <= 0 || visitor->request.version != COLLET_VERSION)
        visitor_leave(visitor);
    else
        begin_censuses(visitor);
}

/* A visitor that sends nothing, or takes nothing. While censuses are under way it stays: they end by themselves. */
static void on_deadline(struct watch_timer *timer) {
    struct visitor *visitor = WATCH_OWNER(timer, struct visitor, deadline);
    if (visitor->censuses > 0)
        watch_timer_set(timer, os_now_ns() + VISIT_NS);
    else
        visitor_leave(visitor);
}

static bool may_enter(int fd) {
    struct ucred credentials;
    socklen_t bytes = sizeof credentials;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 &&
           (credentials.uid == geteuid() || credentials.uid == 0);
}

static void on_visitor(struct watch_fd *listener, uint32_t events) {
    struct reception *reception = WATCH_OWNER(listener, struct reception, listener);
    (void)events;
    const int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct visitor *visitor = reception->visitors < VISITORS_MAX && may_enter(fd) ? calloc(1, sizeof *visitor) : NULL;
    if (visitor != NULL) {
        visitor->reception = reception;
        visitor->watched = (struct watch_fd){.fd = fd, .ready = receive_request};
        visitor->deadline.fire = on_deadline;
    }
    if (visitor == NULL || watch_add(&visitor->watched, EPOLLIN) != COLLET_SUCCESS) {
        close(fd);
        free(visitor);
        return;
    }
    reception->visitors++;
    watch_timer_set(&visitor->deadline, os_now_ns() + VISIT_NS);
}

/* ---- coming and going ---- */

static int listen_at(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strlen(name);
    memcpy(address.sun_path + 1, name, length);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, VISITORS_MAX) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* NULL: the process does without one; collet-status will not find it. */
static struct reception *reception_open(void) {
    char name[64];
    uint64_t random;
    os_random(&random, sizeof random);
    snprintf(name, sizeof name, RECEPTION_NAME "%d.%016llx", os_pid(), (unsigned long long)random);
    struct reception *reception = calloc(1, sizeof *reception);
    if (reception == NULL)
        return NULL;
    reception->listener = (struct watch_fd){.fd = listen_at(name), .ready = on_visitor};
    if (reception->listener.fd >= 0 && watch_add(&reception->listener, EPOLLIN) == COLLET_SUCCESS)
        return reception;
    log_warn(BOOT, "collet-status cannot ask this process: no socket @%s: %m", name);
    free(reception);
    return NULL;
}

void reception_add(struct hub *hub) {
    struct process *process = process_lock();
    struct reception *reception = process->reception;
    process_unlock();
    if (reception == NULL)
        reception = reception_open();
    if (reception == NULL)
        return;
    process_lock()->reception = reception;
    process_unlock();
    hub->next_received = reception->hubs;
    reception->hubs = hub;
}

void reception_remove(struct hub *hub) {
    struct reception *reception = process_lock()->reception;
    process_unlock();
    census_end_all(hub);
    if (reception == NULL)
        return;
    struct hub **link = &reception->hubs;
    while (*link != NULL && *link != hub)
        link = &(*link)->next_received;
    if (*link != NULL)
        *link = hub->next_received;
}
