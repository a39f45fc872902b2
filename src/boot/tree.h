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
    struct door door; /* for children */
    struct dial dial; /* to the parent, while it is not connected */
    struct places places;
    int parent;         /* the place that we dial, or are connected to, upwards; −1: we are the root */
    uint64_t orphan_ns; /* since when it has not been connected; 0: it is, or never was */
    struct edge *edges; /* all, also those whose other end has not said HELLO */
    struct courier courier;
    struct shortcuts shortcuts;
    struct table table;            /* of all ranks; freed when init is complete */
    bool known;                    /* all its cards have come */
    bool running;                  /* init is complete: nodes are known, a lost process is a death, not a failed init */
    struct watch_timer lost_early; /* the parent was, before the table was known, and why */
    char why_lost_early[ERR_TEXT_BYTES];
    struct watch_timer beat;
    uint64_t beat_ns, silence_ns; /* COLLET_HEARTBEAT, COLLET_HEARTBEAT_TIMEOUT (0: never, as on one host) */
    uint64_t beaten_ns;           /* the last beat */
};

/* Any thread: listens for children. family and ifname as for door_open(). */
enum collet_result tree_open(struct tree *tree, struct hub *hub, int family, const char *ifname);
/* Begins to connect. */
enum collet_result tree_link(struct tree *tree, const struct seat *seat);
/* A part of the table, from the meeting point or from the parent. It goes on to the children. False: nonsense. With the last
 * part the hub is ready. */
bool tree_take_table(struct tree *tree, const struct frame *frame);
bool tree_linked(
    const struct tree *tree); /* the cards have come, and the edges to the parent and to all children stand */
bool tree_is_heard(const struct tree *tree);   /* by a parent, unless it is the root */
int tree_parent_rank(const struct tree *tree); /* the lowest of the process that is being dialled */
/* Ends all connections; what is queued in them is sent. */
void tree_close(struct tree *tree);

/* Carries a letter of this process where it belongs. Takes it. */
void tree_post(struct tree *tree, struct letter *letter);
/* Tells the communicator's failure to all. */
void tree_spread_failure(struct tree *tree);

#endif
