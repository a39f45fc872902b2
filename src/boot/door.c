/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/door.h"

#include "base/err.h"
#include "base/log.h"
#include "base/os.h"
#include "base/remedy.h"
#include "boot/interfaces.h"
#include "boot/patience.h"
#include "boot/process.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define UNPROVEN_NS 5000000000ull
#define UNPROVEN_MAX 256
#define YOUNG_NS 500000000ull    /* minimum time before a new connection may be removed: it may be honest */
#define ACCEPTS_PER_TURN 32      /* maximum, so that handshakes go on between bursts of connections */
#define BREATHER_NS 100000000ull /* pause if no descriptor is free */

struct pending {
    struct door *door;
    struct wire *wire;
    struct auth auth;
    uint64_t deadline_ns;
    struct pending *next, **link;
};

/* The list of pending connections at all doors of this process, oldest first. Only the watch thread uses it, so it needs no lock. */
static struct pending **oldest(void) { return &process_without_lock()->pending; }

/* Have unproven connections used up their share of this process's descriptors? */
static bool is_crowded(void) {
    struct rlimit limit;
    rlim_t count = 0;
    for (const struct pending *pending = *oldest(); pending != NULL; pending = pending->next)
        count++;
    return count >= UNPROVEN_MAX || (count > 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 && count >= limit.rlim_cur / 4);
}

enum collet_result door_open(struct door *door, int family, int port, const char *ifname) {
    *door = (struct door){.listener.fd = -1};
    snprintf(door->ifname, sizeof door->ifname, "%s", ifname);
    if (family != AF_INET) /* an IPv6 socket takes both kinds */
        door->listener.fd = address_listen(AF_INET6, port);
    door->v6 = door->listener.fd >= 0;
    if (door->listener.fd < 0 && family != AF_INET6 && (family == AF_INET || errno != EADDRINUSE))
        door->listener.fd = address_listen(AF_INET, port);
    if (door->listener.fd < 0 && errno == EADDRINUSE && port != 0)
        return err_set(
            COLLET_ERR_SYSTEM,
            "cannot listen on port %d, where the ranks are to meet: %m. Is another process rank 0 of this job "
            "as well, or does an older job still run? Else name a free port in COLLET_COMM_ID (or, two less, "
            "in MASTER_PORT)",
            port);
    if (door->listener.fd < 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot listen on port %d (0: any): %m%s", port, os_remedy());
    door->port = address_port(door->listener.fd);
    return COLLET_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------- pending connections */

/* Removes the connection from the list. Returns its wire. */
static struct wire *pending_leave(struct pending *pending) {
    struct wire *wire = pending->wire;
    *pending->link = pending->next;
    if (pending->next != NULL)
        pending->next->link = pending->link;
    pending->door->npending--;
    if (pending->door->full)
        watch_change(&pending->door->listener, EPOLLIN);
    pending->door->full = false;
    auth_stop(&pending->auth);
    free(pending);
    return wire;
}

/* Are there many pending connections, all of them new? Then others must wait outside. Otherwise the oldest one may be removed. */
static bool is_full(struct door *door) {
    const uint64_t old_ns = is_crowded() ? (*oldest())->deadline_ns - UNPROVEN_NS + YOUNG_NS : 0;
    door->full = os_now_ns() < old_ns;
    if (door->full) {
        watch_change(&door->listener, 0);
        watch_timer_set(&door->timer, old_ns);
    } else if (old_ns != 0)
        wire_destroy(pending_leave(*oldest()));
    return door->full;
}

static void pending_ready(struct wire *wire) {
    struct pending *pending = wire->owner;
    struct door *door = pending->door;
    switch (auth_try(&pending->auth, wire)) {
    case AUTH_WAITING: break;
    case AUTH_PROVEN: door->proven(door, pending_leave(pending)); break;
    case AUTH_REFUSED:
        door->has_refused = true;
        log_info(BOOT, "port %d: refused a connection that does not know the secret", door->port);
        wire_destroy(pending_leave(pending));
        break;
    case AUTH_STRANGE:
    case AUTH_LOST: wire_destroy(pending_leave(pending)); break;
    }
}

static void pending_create(struct door *door, int fd) {
    struct pending *pending = patient_malloc(sizeof *pending);
    if (pending == NULL) {
        close(fd);
        return;
    }
    *pending = (struct pending){.door = door};
    if (wire_create(fd, pending_ready, pending, &pending->wire) != COLLET_SUCCESS) {
        free(pending);
        return;
    }
    pending->deadline_ns = os_now_ns() + UNPROVEN_NS;
    for (pending->link = oldest(); *pending->link != NULL;)
        pending->link = &(*pending->link)->next;
    *pending->link = pending;
    door->npending++;
    auth_start(&pending->auth, true, door->key, door->port, pending->wire);
    if (door->timer.link == NULL)
        watch_timer_set(&door->timer, pending->deadline_ns);
}

/* Removes pending connections whose time is over. Listens again after a pause. */
static void door_timer(struct watch_timer *timer) {
    struct door *door = WATCH_OWNER(timer, struct door, timer);
    while (*oldest() != NULL && (*oldest())->deadline_ns <= os_now_ns())
        wire_destroy(pending_leave(*oldest()));
    door->full = false;
    watch_change(&door->listener, EPOLLIN);
    if (door->npending > 0)
        watch_timer_set(timer, (*oldest())->deadline_ns);
}

/* A connection waits, but no descriptor is free. Removes the oldest unproven connection. If there is none, this process itself
 * uses too many descriptors. False: do not try again now. */
static bool make_room_for_next(struct door *door) {
    struct pollfd outside = {.fd = door->listener.fd, .events = POLLIN};
    if (poll(&outside, 1, 0) == 0) /* accept() takes a descriptor even if nobody waits */
        return false;
    if (os_more_descriptors())
        return true;
    if (*oldest() != NULL) {
        wire_destroy(pending_leave(*oldest()));
        return true;
    }
    const bool own_limit = errno == EMFILE;
    char text[ERR_TEXT_BYTES];
    snprintf(text, sizeof text, "process %d cannot take the connection of another one: %s%s", os_pid(), strerror(errno),
             os_remedy());
    watch_change(&door->listener, 0);
    watch_timer_set(&door->timer, os_now_ns() + BREATHER_NS);
    if (own_limit)
        door->exhausted(door, text);
    return false;
}

static void door_ready(struct watch_fd *listener, uint32_t events) {
    struct door *door = WATCH_OWNER(listener, struct door, listener);
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN && !is_full(door); i++) {
        int fd = os_high(accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd >= 0 && !address_came_to(fd, door->ifname))
            close(fd);
        else if (fd >= 0)
            pending_create(door, fd);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
        else if ((errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) &&
                 !make_room_for_next(door))
            return;
    }
}

enum collet_result door_serve(struct door *door, const uint8_t key[SECRET_BYTES],
                              void (*proven)(struct door *door, struct wire *wire),
                              void (*exhausted)(struct door *door, const char *text)) {
    memcpy(door->key, key, SECRET_BYTES);
    door->proven = proven;
    door->exhausted = exhausted;
    door->timer.fire = door_timer;
    door->listener.ready = door_ready;
    COLLET_TRY(watch_add(&door->listener, EPOLLIN));
    door->serving = true;
    return COLLET_SUCCESS;
}

void door_close(struct door *door) {
    if (door->listener.fd < 0)
        return;
    if (door->serving) {
        for (struct pending *pending = *oldest(), *next; pending != NULL; pending = next) {
            next = pending->next;
            if (pending->door == door)
                wire_destroy(pending_leave(pending));
        }
        watch_timer_stop(&door->timer);
        watch_remove(&door->listener);
        shutdown(door->listener.fd, SHUT_RDWR); /* a forked child may hold it too */
    }
    close(door->listener.fd);
    door->listener.fd = -1;
    sodium_memzero(door->key, sizeof door->key);
}
