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
#define YOUNG_NS 500000000u /* so long a visitor that is silent makes no room: its question may be on the way */

static void visitor_leave(struct visitor *visitor) {
    *visitor->link = visitor->next;
    if (visitor->next != NULL)
        visitor->next->link = visitor->link;
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

/* The oldest one for which nothing is under way: it says nothing, or takes nothing. NULL: there is none. */
static struct visitor *oldest_silent(const struct desk *desk) {
    struct visitor *visitor = desk->oldest;
    while (visitor != NULL && visitor->under_way > 0)
        visitor = visitor->next;
    return visitor;
}

static void rest(struct desk *desk, uint64_t until_ns) {
    watch_change(&desk->listener, 0);
    watch_timer_set(&desk->breather, until_ns);
}

/* Where all places are taken, the next one waits outside until somebody leaves, or makes room. */
static bool is_full(struct desk *desk) {
    if (desk->visitors < DESK_VISITORS_MAX)
        return false;
    const struct visitor *silent = oldest_silent(desk);
    const uint64_t now_ns = os_now_ns(), old_ns = silent != NULL ? silent->since_ns + YOUNG_NS : now_ns + BREATHER_NS;
    if (old_ns <= now_ns)
        return false;
    rest(desk, old_ns);
    return true;
}

static void visitor_enter(struct desk *desk, int fd) {
    if (desk->visitors >= DESK_VISITORS_MAX)
        visitor_leave(oldest_silent(desk));
    struct visitor *visitor = calloc(1, sizeof *visitor);
    if (visitor != NULL) {
        visitor->desk = desk;
        visitor->watched = (struct watch_fd){.fd = fd, .ready = receive_some};
        visitor->deadline.fire = on_deadline;
        visitor->since_ns = os_now_ns();
    }
    if (visitor == NULL || watch_add(&visitor->watched, EPOLLIN) != COLLET_SUCCESS) {
        close(fd);
        free(visitor);
        return;
    }
    for (visitor->link = &desk->oldest; *visitor->link != NULL;)
        visitor->link = &(*visitor->link)->next;
    *visitor->link = visitor;
    desk->visitors++;
    watch_timer_set(&visitor->deadline, visitor->since_ns + DESK_VISIT_NS);
}

static void on_breather_over(struct watch_timer *timer) {
    watch_change(&WATCH_OWNER(timer, struct desk, breather)->listener, EPOLLIN);
}

static void on_visitor(struct watch_fd *listener, uint32_t events) {
    struct desk *desk = WATCH_OWNER(listener, struct desk, listener);
    (void)events;
    if (is_full(desk))
        return;
    const int fd = os_high(accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && !os_more_descriptors())
        rest(desk, os_now_ns() + BREATHER_NS);
    if (fd >= 0 && desk->admits != NULL && !desk->admits(fd))
        close(fd);
    else if (fd >= 0)
        visitor_enter(desk, fd);
}

enum collet_result desk_open(struct desk *desk, int fd) {
    desk->listener = (struct watch_fd){.fd = fd, .ready = on_visitor};
    desk->breather.fire = on_breather_over;
    return watch_add(&desk->listener, EPOLLIN);
}
