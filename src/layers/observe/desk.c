/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/desk.h"

#include "base/grow.h"
#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BREATHER_NS 100000000u

static void visitor_leave(struct visitor *visitor) {
    watch_remove(&visitor->watched);
    watch_timer_stop(&visitor->deadline);
    close(visitor->watched.fd);
    visitor->desk->visitors--;
    free(visitor->text);
    free(visitor);
}

/* ---- the answer ---- */

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

void visitor_put(struct visitor *visitor, const void *data, size_t bytes) {
    if (!grow(&visitor->text, visitor->bytes, bytes, &visitor->room, 1))
        return;
    memcpy(visitor->text + visitor->bytes, data, bytes);
    visitor->bytes += bytes;
}

void visitor_done(struct visitor *visitor) {
    if (--visitor->under_way > 0)
        return;
    visitor->watched.ready = send_some;
    if (watch_add(&visitor->watched, EPOLLOUT) != COLLET_SUCCESS)
        visitor_leave(visitor);
}

/* ---- the question ---- */

static void receive_some(struct watch_fd *watched, uint32_t events) {
    struct visitor *visitor = WATCH_OWNER(watched, struct visitor, watched);
    const size_t room = sizeof visitor->question - visitor->asked_bytes;
    (void)events;
    const ssize_t bytes = recv(watched->fd, visitor->question + visitor->asked_bytes, room, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    visitor->asked_bytes += bytes > 0 ? (size_t)bytes : 0;
    const enum desk_question question =
        bytes > 0 ? visitor->desk->reads(visitor->question, visitor->asked_bytes) : DESK_NONSENSE;
    if (question == DESK_INCOMPLETE && (size_t)bytes < room)
        return;
    if (question != DESK_COMPLETE) {
        visitor_leave(visitor);
        return;
    }
    watch_remove(&visitor->watched); /* a visitor that hangs up stays until all that is under way for it has ended */
    visitor->under_way = 1;
    visitor->desk->answer(visitor);
    visitor_done(visitor);
}

/* A visitor that says nothing, or takes nothing. What is under way ends by itself. */
static void on_deadline(struct watch_timer *timer) {
    struct visitor *visitor = WATCH_OWNER(timer, struct visitor, deadline);
    if (visitor->under_way > 0)
        watch_timer_set(timer, os_now_ns() + DESK_VISIT_NS);
    else
        visitor_leave(visitor);
}

static bool may_enter(const struct desk *desk, int fd) {
    return desk->visitors < DESK_VISITORS_MAX && (desk->admits == NULL || desk->admits(fd));
}

static void on_breather_over(struct watch_timer *timer) {
    watch_change(&WATCH_OWNER(timer, struct desk, breather)->listener, EPOLLIN);
}

static void on_visitor(struct watch_fd *listener, uint32_t events) {
    struct desk *desk = WATCH_OWNER(listener, struct desk, listener);
    (void)events;
    const int fd = os_high(accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && !os_more_descriptors()) {
        watch_change(listener, 0);
        watch_timer_set(&desk->breather, os_now_ns() + BREATHER_NS);
    }
    if (fd < 0)
        return;
    struct visitor *visitor = may_enter(desk, fd) ? calloc(1, sizeof *visitor) : NULL;
    if (visitor != NULL) {
        visitor->desk = desk;
        visitor->watched = (struct watch_fd){.fd = fd, .ready = receive_some};
        visitor->deadline.fire = on_deadline;
    }
    if (visitor == NULL || watch_add(&visitor->watched, EPOLLIN) != COLLET_SUCCESS) {
        close(fd);
        free(visitor);
        return;
    }
    desk->visitors++;
    watch_timer_set(&visitor->deadline, os_now_ns() + DESK_VISIT_NS);
}

enum collet_result desk_open(struct desk *desk, int fd) {
    desk->listener = (struct watch_fd){.fd = fd, .ready = on_visitor};
    desk->breather.fire = on_breather_over;
    return watch_add(&desk->listener, EPOLLIN);
}
