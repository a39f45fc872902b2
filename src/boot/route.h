/* SPDX-License-Identifier: Apache-2.0
 *
 * Letters on their way. A letter goes to the neighbour in whose part of the tree its receiver is:
 *
 *          0
 *        ┌─┴─┐
 *        1   2        from 9 to 2: up to 1, up to 0, down to 2
 *        │
 *        9
 *
 * Letters that a lost process had taken and not passed on are sent anew by their senders (courier.h): all processes hear when one
 * has come to another parent.
 *
 * Shortcuts are connections between processes that are far apart in the tree, for letters about connections of their ranks:
 *
 *            0                      Each rank may connect to each other one. Of n² such letters, most would pass the root.
 *        ┌───┴───┐                  By a shortcut, a letter passes nobody.
 *        1       2
 *        │       │
 *        9 ═════ 17                 9 had a letter for 17: it dialled the door of 17, and proved the secret as a child does
 *
 * While a process dials, letters for the other one wait with their courier, for three seconds at most. If nobody answers, the other
 * one has too many shortcuts, or a shortcut breaks, they go through the tree. Whenever their way changes, all that are not
 * confirmed are sent anew. So none is lost, and they arrive in order (courier.h). A shortcut carries letters alone: news and
 * heartbeats are the tree's, and no process is dead because a shortcut is. One that nothing has come by for some heartbeats is
 * closed. Belongs to the watch thread.
 */
#ifndef COLLET_BOOT_ROUTE_H
#define COLLET_BOOT_ROUTE_H

#include "boot/tree.h"

enum collet_result route_open(struct tree *tree);     /* the seat of this process is known */
void route_close(struct tree *tree);                  /* queued frames of shortcuts are sent first */
void route_tidy(struct tree *tree, uint64_t idle_ns); /* closes shortcuts that were idle for this long */

/* Sends a letter of this process to its destination. Takes ownership. */
void route_post(struct tree *tree, struct letter *letter);
/* Says that this process has a new parent: letters may be lost. */
void route_say_moved(struct tree *tree);

/* What came over an edge. False: it is nonsense. */
bool route_take(struct tree *tree, const struct frame *frame);
bool route_take_moved(struct tree *tree, const struct edge *from, const struct frame *frame);
/* An edge that somebody has made to be a shortcut. */
bool route_take_shortcut(struct tree *tree, struct edge *edge, const struct frame *frame);

#endif
