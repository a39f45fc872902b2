/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/edge.h"

#include "base/log.h"
#include "base/os.h"
#include "boot/patience.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READ_BYTES (64u << 10)

static void on_wire(struct wire *wire) { edge_read(wire->owner); }

static void put_in_list(struct edge *edge, struct edge **list) {
    edge->next = *list;
    edge->link = list;
    if (edge->next != NULL)
        edge->next->link = &edge->next;
    *list = edge;
}

static void take_from_list(struct edge *edge) {
    *edge->link = edge->next;
    if (edge->next != NULL)
        edge->next->link = edge->link;
}

struct edge *edge_create(struct wire *wire, const struct edge *like, struct edge **list) {
    struct edge *edge = patient_malloc(sizeof *edge);
    if (edge == NULL) {
        wire_destroy(wire);
        return NULL;
    }
    *edge = *like;
    edge->wire = wire;
    edge->pid = 0;
    edge->pidfd.fd = -1;
    edge->heard_ns = os_now_ns();
    put_in_list(edge, list);
    wire->ready = on_wire;
    wire->owner = edge;
    return edge;
}

void edge_become(struct edge *edge, const struct edge *like, struct edge **list) {
    take_from_list(edge);
    edge->place = like->place;
    edge->frame = like->frame;
    edge->lost = like->lost;
    edge->owner = like->owner;
    put_in_list(edge, list);
}

/* Frees the edge, but not the wire, which it returns. */
static struct wire *edge_leave(struct edge *edge) {
    struct wire *wire = edge->wire;
    take_from_list(edge);
    if (edge->pidfd.fd >= 0) {
        watch_remove(&edge->pidfd);
        close(edge->pidfd.fd);
    }
    free(edge);
    return wire;
}

void edge_destroy(struct edge *edge) { wire_destroy(edge_leave(edge)); }
void edge_finish(struct edge *edge) { wire_finish(edge_leave(edge)); }

/* The connection has ended. If the other host's kernel ended it, the process ended. Any other error may come from the network. */
static void edge_ended(struct edge *edge) {
    const int error = edge->wire->error;
    edge->lost(edge, error == 0 || error == ECONNRESET || error == EPIPE ? PEER_DEAD : PEER_LOST,
               error != 0 ? strerror(error) : "its connection ended");
}

/* Reads once. False: this ended the edge. */
static bool read_once(struct edge *edge) {
    const size_t longest = wire_room(edge->max_bytes);
    bool open = wire_fill(edge->wire, longest > READ_BYTES ? longest : READ_BYTES);
    struct frame frame;
    int got;
    while ((got = wire_next(edge->wire, edge->max_bytes, &frame)) > 0) {
        edge->heard_ns = os_now_ns();
        if (frame.type != EDGE_HEARTBEAT && !edge->frame(edge, &frame))
            got = -1;
        if (got < 0)
            break;
    }
    if (got < 0)
        edge->lost(edge, PEER_LOST, "it sent what is no message of collet");
    else if (!open)
        edge_ended(edge);
    return got >= 0 && open;
}

bool edge_read_all(struct edge *edge) {
    bool dry = false;
    while (!dry) {
        struct wire *wire = edge->wire;
        if (!read_once(edge))
            return false;
        dry = wire->dry;
    }
    return true;
}

void edge_read(struct edge *edge) { read_once(edge); }

static void on_pidfd(struct watch_fd *pidfd, uint32_t events) {
    struct edge *edge = WATCH_OWNER(pidfd, struct edge, pidfd);
    (void)events;
    if (edge_read_all(edge))
        edge->lost(edge, PEER_DEAD, "its process ended");
}

void edge_watch_process(struct edge *edge, pid_t pid) {
    edge->pid = pid;
    edge->pidfd = (struct watch_fd){.fd = os_high((int)syscall(SYS_pidfd_open, pid, 0)), .ready = on_pidfd};
    if (edge->pidfd.fd >= 0) {
        if (watch_add(&edge->pidfd, EPOLLIN) == COLLET_SUCCESS)
            return;
        close(edge->pidfd.fd);
        edge->pidfd.fd = -1;
    }
    log_info(BOOT, "no pidfd for process %d: polling instead", (int)pid); /* also if it has just ended */
}

bool edge_process_ended(pid_t pid) {
    struct pollfd ended = {.fd = os_high((int)syscall(SYS_pidfd_open, pid, 0)), .events = POLLIN};
    if (ended.fd < 0)
        return kill(pid, 0) != 0 && errno == ESRCH;
    bool yes = poll(&ended, 1, 0) == 1;
    close(ended.fd);
    return yes;
}

uint64_t edge_silence_ns(const struct edge *edge) { return os_now_ns() - edge->heard_ns; }

void edge_beat(struct edge *edge, uint64_t silence_ns) {
    wire_send(edge->wire, EDGE_HEARTBEAT, NULL, 0, NULL, 0);
    const bool ended = edge->pid != 0 && edge->pidfd.fd < 0 && kill(edge->pid, 0) != 0 && errno == ESRCH;
    const bool silent = silence_ns != 0 && edge_silence_ns(edge) > silence_ns;
    /* Decides after reading: a dead process may have said goodbye, or this process may have slept. */
    if ((!ended && !silent) || !edge_read_all(edge))
        return;
    if (ended)
        edge->lost(edge, PEER_DEAD, "its process ended");
    else if (edge_silence_ns(edge) > silence_ns)
        edge->lost(edge, PEER_LOST, "it was silent for too long");
}
