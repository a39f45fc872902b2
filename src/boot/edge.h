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

#include "boot/peer.h"
#include "boot/wire.h"

#include <sys/types.h>

#define EDGE_HEARTBEAT 0u /* frame type; the owner defines all other types */

struct edge {
    struct wire *wire;
    int place; /* the owner's number of the other end; −1: no HELLO has come yet */
    pid_t pid; /* pid of the other end, if it is on this host; 0: not, or not known yet */
    struct watch_fd pidfd;
    uint64_t heard_ns;
    size_t max_bytes; /* maximum size of a frame */

    bool (*frame)(struct edge *edge, const struct frame *frame); /* false: nonsense. Must not end the edge */
    void (*lost)(struct edge *edge, enum peer_state state, const char *why); /* must end it; PEER_DEAD or PEER_LOST */
    void *owner;
    struct edge *next, **link; /* the owner's list */
};

/* Takes ownership of the wire; on failure (NULL) destroys it. Call edge_read() next: frames may have come with the handshake. */
struct edge *edge_create(struct wire *wire, const struct edge *like, struct edge **list);
void edge_read(struct edge *edge);
/* Reads all that has come. A dead process's last messages, perhaps its goodbye, are read before the news of its death. False: the edge
 * has ended. */
bool edge_read_all(struct edge *edge);
/* Moves the edge to another owner and its list. */
void edge_become(struct edge *edge, const struct edge *like, struct edge **list);

/* Watches the process at the other end: edge->lost() is called when it ends. */
void edge_watch_process(struct edge *edge, pid_t pid);
/* Has this process of our host ended? True also for a zombie, for which its parent has not waited yet. */
bool edge_process_ended(pid_t pid);
/* Time since something was heard of the other end. */
uint64_t edge_silence_ns(const struct edge *edge);
/* Sends a heartbeat, and checks that the other end is alive. silence_ns: the silence that counts as a death; 0: none does. */
void edge_beat(struct edge *edge, uint64_t silence_ns);

void edge_destroy(struct edge *edge);
void edge_finish(struct edge *edge); /* queued frames are sent first */

#endif
