/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree over a communicator's processes: routes letters, spreads news, notices deaths. Belongs to the watch thread.
 */
#ifndef COLLET_BOOT_TREE_H
#define COLLET_BOOT_TREE_H

#include "boot/courier.h"
#include "boot/dial.h"
#include "boot/door.h"
#include "boot/hub.h"
#include "boot/places.h"
#include "boot/shortcut.h"

struct tree {
    struct hub *hub;
    struct door door; /* accepts children */
    struct dial dial; /* dials the parent, while it is not connected */
    struct places places;
    int parent;         /* place of the parent, connected or dialled; −1: this is the root */
    uint64_t orphan_ns; /* time since which the parent is not connected; 0: it is, or never was */
    struct edge *edges; /* all edges, also before their HELLO */
    struct courier courier;
    struct shortcuts shortcuts;
    struct table table;            /* all ranks; freed when init is complete */
    bool known;                    /* all its cards have come */
    bool running;                  /* init is complete: from now on a lost process is a death, not a failed init */
    struct watch_timer lost_early; /* the parent was lost before the table was known; and why */
    char why_lost_early[ERR_TEXT_BYTES];
    struct watch_timer beat;
    uint64_t beat_ns, silence_ns; /* COLLET_HEARTBEAT, COLLET_HEARTBEAT_TIMEOUT (0: never, as on one host) */
    uint64_t beaten_ns;           /* time of the last beat */
};

/* Listens for children; any thread may call it. family, ifname: see door_open(). */
enum collet_result tree_open(struct tree *tree, struct hub *hub, int family, const char *ifname);
/* Starts to connect to the parent. */
enum collet_result tree_link(struct tree *tree, const struct seat *seat);
/* Takes a part of the table, from the meeting point or the parent, and passes it on to the children. False: it is nonsense. With the last
 * part, the hub is ready. */
bool tree_take_table(struct tree *tree, const struct frame *frame);
bool tree_linked(
    const struct tree *tree); /* the cards have come, and the edges to the parent and to all children stand */
bool tree_is_heard(const struct tree *tree);   /* does a parent hear us? True for the root */
int tree_parent_rank(const struct tree *tree); /* lowest rank of the process that is being dialled */
/* Ends all connections; queued frames are sent first. */
void tree_close(struct tree *tree);

/* Sends a letter of this process to its destination. Takes ownership. */
void tree_post(struct tree *tree, struct letter *letter);
/* Tells all processes that the communicator has failed. */
void tree_spread_failure(struct tree *tree);

#endif
