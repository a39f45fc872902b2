/* SPDX-License-Identifier: Apache-2.0
 *
 * An edge: a connection between two processes of a tree, and how one end notices that the other has died.
 *
 *    same host     a pidfd tells the moment a process ends (where the kernel refuses one: the process table, polled)
 *    any host      heartbeats; silence for too long counts as a death, if the owner says how long that is
 *    any host      the connection ends
 *
 * The end of a connection alone would not do: a forked child of the dead process may hold its sockets.
 */
#ifndef COLLET_BOOT_EDGE_H
#define COLLET_BOOT_EDGE_H

#include "boot/boot.h"
#include "boot/wire.h"

#include <sys/types.h>

#define EDGE_HEARTBEAT 0u /* frame type; the others are the owner's */

struct edge {
    struct wire *wire;
    int place; /* the owner's number for the other end; −1: the other end has not said HELLO */
    pid_t pid; /* of the other end, if it is on this host; 0: on another, or not known yet */
    struct watch_fd pidfd;
    uint64_t heard_ns;
    size_t max_bytes; /* of a frame */

    bool (*frame)(struct edge *edge, const struct frame *frame); /* false: nonsense. Must not end the edge */
    void (*lost)(struct edge *edge, enum peer_state state, const char *why); /* must end it; PEER_DEAD or PEER_LOST */
    void *owner;
    struct edge *next, **link; /* the owner's list */
};

/* Takes over the wire, destroys it on failure (NULL). Call edge_read() next: frames may have come with the handshake. */
struct edge *edge_create(struct wire *wire, const struct edge *like, struct edge **list);
void edge_read(struct edge *edge);
/* From now on it is for another owner, in that one's list. */
void edge_become(struct edge *edge, const struct edge *like, struct edge **list);
void edge_send(struct edge *edge, uint32_t type, const void *head, size_t head_bytes, const void *data, size_t bytes);

/* Watches the process at the other end. */
void edge_watch_process(struct edge *edge, pid_t pid);
/* Has this process of our host ended? Also true of one whose parent has not waited for it yet. */
bool edge_process_ended(pid_t pid);
/* How long nothing has been heard of the other end. */
uint64_t edge_silence_ns(const struct edge *edge);
/* Sends a heartbeat, and looks whether the other end lives; silence_ns 0: however silent. */
void edge_beat(struct edge *edge, uint64_t silence_ns);

void edge_destroy(struct edge *edge);
void edge_finish(struct edge *edge); /* what is queued is sent */

#endif
