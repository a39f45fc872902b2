/* SPDX-License-Identifier: Apache-2.0
 *
 * Lost processes. When one is lost, its neighbours notice and spread the news, each in its part of the broken tree; and each of its
 * children dials the next living ancestor instead (or, if there is none, the lowest living process, which is thereby the
 * new root). Both ends of a new edge tell each other all they know; so news reaches everyone whatever happens between:
 *
 *            0                 0
 *            │               ┌─┴─┐
 *            1     ─▶        9   10     1 was lost; 9 and 10 have come to 0
 *          ┌─┴─┐
 *          9   10
 *
 * A process that is silent may live: it is stopped, or cut off. Who is lost to one is lost to all: they leave it, and tell it so. When it
 * goes on, it hears that, says so itself, and its calls fail.
 *
 * The heartbeat: from when the table is known, each process sends one to its neighbours every COLLET_HEARTBEAT, and looks who is silent.
 *
 *    a neighbour            silent for COLLET_HEARTBEAT_TIMEOUT: it is lost. For half of it: its whole host is asked (link.h)
 *    the parent             may be silent because the network is dead that the edge goes by. So after half of that time its child comes
 *                           to it again, by whichever of its addresses answers
 *    children of the lost   should come here. If they do not, they were lost, too
 *    this process           if it slept for that long, the others have lost it
 *
 * If all ranks are on one host, nobody is lost by silence. Belongs to the watch thread.
 */
#ifndef COLLET_BOOT_LOSSES_H
#define COLLET_BOOT_LOSSES_H

#include "boot/tree.h"

/* A process cannot be reached any more: its remaining ranks are dead, or lost. */
void losses_add(struct tree *tree, int number, enum peer_state state, const char *why);
/* News of a rank, from a neighbour. False: it is nonsense. */
bool losses_take_news(struct tree *tree, const struct edge *from, const struct frame *frame);
/* Dials the process that should be the parent now, if that is not connected. */
void losses_find_parent(struct tree *tree);
/* Should this process connect to us, as our child, or as a child of a lost process? */
bool losses_awaits(const struct tree *tree, int number);
void losses_begin(struct tree *tree); /* the table is known: begins to send heartbeats. tree_close() stops that */

#endif
