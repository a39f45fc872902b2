/* SPDX-License-Identifier: Apache-2.0
 *
 * Links: letters go from process to process over a TCP connection of their own. They pass nobody else, whatever the tree looks like:
 *
 *            0                      The tree (tree.h) is for the table, news of ends and heartbeats.
 *        ┌───┴───┐
 *        1       2
 *        │       │
 *        9 ═════ 17                 9 had a letter for 17: it dialled the door of 17, and proved the secret as a child does
 *
 *               a letter         there is room         it answers, or its LINK comes
 *      closed ──────────▶ waits ──────────────▶ dials ───────────────────────────────▶ stands
 *         ▲                 ▲                                                          │    │
 *         │                 └──────────────── broke, and letters are kept ─────────────┘    │
 *         └──── no letter is kept, and: it broke, was idle for two heartbeats, or makes room ┘
 *
 * The sender keeps each letter until the receiver says that it has it. A connection that takes over sends anew what is kept:
 *
 *      #7 #8 #9 kept ─────── #7, #8, #9 ───────▶  #7 is the next: delivers it; one that it had before: drops it
 *      forgets #7    ◀─── has all before #8 ───   says so for each that comes
 *
 * TCP orders and resends. It does not help if an interface dies while both ends live. So a link that stands still for half of
 * COLLET_HEARTBEAT_TIMEOUT is dialled again, at all addresses of the other end. Both ends may dial at once. So each connection has a
 * number, one more than that of the connection before: the higher one stays, and of two equal ones the one that the lower place dialled.
 *
 * All communicators' links together get a share of this process's descriptors. If there are more, the one that was used least recently is
 * closed first. No process is dead because a link is. But one that answers lives: so a process of which nothing is heard is asked by
 * dialling it. All of this belongs to the watch thread.
 */
#ifndef COLLET_BOOT_LINK_H
#define COLLET_BOOT_LINK_H

#include "boot/tree.h"

/* Sets a descriptor aside for a link. So letters come even if the program takes all others. */
void links_open(void);
/* Sends a letter of this process to its destination in another process. Takes ownership. */
void link_post(struct tree *tree, struct letter *letter);
/* Have all letters come to the other ends? */
bool links_clear(const struct tree *tree);
/* Dials for letters that wait, of any communicator, as far as there is room. */
void links_go_on(void);
/* Frees a descriptor. False: no link is idle. */
bool links_make_room(void);
/* Closes links that were idle for idle_ns, and dials again where letters stood still for still_ns. */
void links_tidy(struct tree *tree, uint64_t idle_ns, uint64_t still_ns);
void links_close(struct tree *tree); /* queued frames are sent first */

/* Takes over an edge that another process has made to be a link. False: it is nonsense, or another connection stays. */
bool link_take(struct tree *tree, struct edge *edge, const struct frame *frame);
void link_read(struct tree *tree, int number);   /* reads what has come of a process: news of its end follows */
void link_forget(struct tree *tree, int number); /* it will not answer any more */

/* Asks a process whether it lives. It has time until deadline_ns. */
void link_ask(struct tree *tree, int number, uint64_t deadline_ns);
/* What did asking find? ALIVE: nothing was asked, or it answered, or may still do so. Else *why says how that was found. */
enum peer_state link_verdict(const struct tree *tree, int number, const char **why);

#endif
