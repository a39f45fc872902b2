/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/dial.h"

#include "base/log.h"
#include "base/os.h"
#include "base/remedy.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_DEADLINE_NS 500000000ull /* for one attempt; doubles in each round */
#define DEADLINE_DOUBLINGS 3           /* maximum number of doublings */
#define FIRST_PAUSE_NS 10000000ull     /* between rounds; doubles too */
#define PAUSE_DOUBLINGS 5
/* A crowded door removes only those that have stood there for longer (door.c). A door without descriptors may be quicker. */
#define QUICK_NS 250000000ull

static void try_next(struct dial *dial);

static uint64_t doubled(uint64_t first_ns, int round, int doublings) {
    return first_ns << (round < doublings ? round : doublings);
}

/* The times for a random number `chance`. */
static uint64_t dial_first_ns(uint64_t spread_ns, uint64_t chance) { return spread_ns > 0 ? chance % spread_ns : 0; }

static uint64_t dial_pause_ns(int round, uint64_t chance) {
    const uint64_t pause_ns = doubled(FIRST_PAUSE_NS, round, PAUSE_DOUBLINGS);
    return pause_ns / 2 + chance % pause_ns;
}

static uint64_t chance(void) {
    uint64_t number;
    os_random(&number, sizeof number);
    return number;
}

static void attempt_failed(struct dial *dial, const char *why, bool refused) {
    char where[ADDRESS_TEXT_BYTES];
    const bool greeted = dial->wire != NULL && dial->auth.greeted;
    address_text(&dial->set.addresses[dial->attempt], dial->set.port, where);
    log_trace(BOOT, "dialling %s: %s", where, why);
    if (greeted || !dial->was_greeted)
        snprintf(dial->trouble, sizeof dial->trouble, "%s: %s", where, why);
    dial->was_greeted |= greeted;
    wire_destroy(dial->wire);
    dial->wire = NULL;
    dial->all_refused = dial->all_refused && refused;
    dial->attempt++;
    /* Uses the timer: attempts that fail at once must not become nested calls. */
    watch_timer_set(&dial->timer, os_now_ns());
}

static void end_round(struct dial *dial) {
    uint64_t now_ns = os_now_ns();
    if (!dial->all_refused)
        dial->refused_since_ns = 0;
    else if (dial->refused_since_ns == 0)
        dial->refused_since_ns = now_ns;
    dial->attempt = 0;
    dial->all_refused = true;
    watch_timer_set(&dial->timer, now_ns + dial_pause_ns(dial->round++, chance()));
    dial->round_failed(dial);
}

static void on_dial_timer(struct watch_timer *timer) {
    struct dial *dial = WATCH_OWNER(timer, struct dial, timer);
    if (dial->wire != NULL)
        attempt_failed(dial, dial->auth.greeted ? "it did not finish the handshake" : "it does not answer", false);
    else if (dial->attempt == dial->set.count)
        end_round(dial);
    else
        try_next(dial);
}

static void on_dial_ready(struct wire *wire) {
    struct dial *dial = wire->owner;
    switch (auth_try(&dial->auth, wire)) {
    case AUTH_WAITING: break;
    case AUTH_PROVEN:
        dial->wire = NULL;
        dial_stop(dial);
        dial->proven(dial, wire);
        break;
    case AUTH_REFUSED: attempt_failed(dial, "what listens there is not of this job", true); break;
    case AUTH_STRANGE: attempt_failed(dial, "another version of collet listens there", true); break;
    case AUTH_LOST:
        if (wire->error != 0)
            attempt_failed(dial, strerror(wire->error), wire->error == ECONNREFUSED);
        else if (dial->auth.greeted) /* An answer at once comes from another job, which got a freed port. */
            attempt_failed(dial, "it refuses this id's secret", os_now_ns() - dial->attempt_ns < QUICK_NS);
        else
            attempt_failed(dial, "it closed the connection", false);
        break;
    }
}

/* If no process listens on a port of this host, connect() may choose the same port for its own end, and so connect to itself. */
static bool meets_itself(int fd) {
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 && here_bytes == there_bytes &&
           memcmp(&here, &there, here_bytes) == 0;
}

static void try_next(struct dial *dial) {
    struct sockaddr_storage to;
    socklen_t bytes = address_to_sockaddr(&dial->set.addresses[dial->attempt], dial->set.port, &to);
    int fd;
    dial->attempt_ns = os_now_ns();
    OS_DESCRIPTOR(fd, socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    dial->exhausted = fd < 0 && errno == EMFILE;
    int error = fd < 0 || (connect(fd, (struct sockaddr *)&to, bytes) != 0 && errno != EINPROGRESS) ? errno : 0;
    if (error == 0 && meets_itself(fd))
        error = ECONNREFUSED;
    if (error != 0) {
        char why[DIAL_TROUBLE_BYTES];
        if (fd >= 0)
            close(fd);
        errno = error;
        snprintf(why, sizeof why, "%s%s", strerror(error), os_remedy());
        attempt_failed(dial, why, error == ECONNREFUSED);
        return;
    }
    if (wire_create(fd, on_dial_ready, dial, &dial->wire) != COLLET_SUCCESS) {
        dial->wire = NULL;
        attempt_failed(dial, "no resources for a connection", false);
        return;
    }
    auth_start(&dial->auth, false, dial->key, dial->set.port, dial->wire);
    watch_timer_set(&dial->timer, os_now_ns() + doubled(FIRST_DEADLINE_NS, dial->round, DEADLINE_DOUBLINGS));
}

void dial_start(struct dial *dial, const struct address_set *set, const uint8_t key[SECRET_BYTES], uint64_t spread_ns,
                void (*proven)(struct dial *dial, struct wire *wire), void (*round_failed)(struct dial *dial)) {
    *dial = (struct dial){.set = *set, .proven = proven, .round_failed = round_failed, .active = true};
    memcpy(dial->key, key, SECRET_BYTES);
    snprintf(dial->trouble, sizeof dial->trouble, "nothing was tried yet");
    dial->all_refused = true;
    dial->started_ns = os_now_ns();
    dial->timer.fire = on_dial_timer;
    watch_timer_set(&dial->timer, dial->started_ns + dial_first_ns(spread_ns, chance()));
}

void dial_stop(struct dial *dial) {
    if (!dial->active)
        return;
    dial->active = false;
    sodium_memzero(dial->key, sizeof dial->key);
    auth_stop(&dial->auth);
    watch_timer_stop(&dial->timer);
    wire_destroy(dial->wire);
    dial->wire = NULL;
}

uint64_t dial_refused_ns(const struct dial *dial) {
    return dial->refused_since_ns != 0 ? os_now_ns() - dial->refused_since_ns : 0;
}
