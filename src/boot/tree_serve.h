/* SPDX-License-Identifier: Apache-2.0
 *
 * A process in the tree: opens its door to children, connects to its parent, and takes what comes over all its edges.
 *
 * The table of all ranks (table.h) comes down the tree: place 0 gets it from the meeting point, every other process from its
 * parent. So nobody sends it more than 8 times, however many processes there are. Belongs to the watch thread.
 */
#ifndef COLLET_BOOT_TREE_SERVE_H
#define COLLET_BOOT_TREE_SERVE_H

#include "boot/tree.h"

/* Listens for children; any thread may call it. family, ifname: see door_open(). */
enum collet_result tree_open(struct tree *tree, struct hub *hub, int family, const char *ifname);
/* Starts to connect to the parent. */
enum collet_result tree_link(struct tree *tree, const struct seat *seat);
/* Takes a part of the table, from the meeting point or the parent, and passes it on to the children. False: it is nonsense. With the last
 * part, the hub is ready. */
bool tree_take_table(struct tree *tree, const struct frame *frame);
/* Have the cards come, and do the edges to the parent and to all children stand? */
bool tree_linked(const struct tree *tree);
bool tree_is_heard(const struct tree *tree); /* does a parent hear us? True for the root */
/* Ends all connections; queued frames are sent first. */
void tree_close(struct tree *tree);

#endif
