/* SPDX-License-Identifier: Apache-2.0
 *
 * Shortcuts: connections between processes that are far apart in the tree, for letters about connections of their ranks.
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
#ifndef COLLET_BOOT_SHORTCUT_H
#define COLLET_BOOT_SHORTCUT_H

#include "boot/courier.h"
#include "boot/edge.h"
#include "boot/places.h"

struct shortcuts {
    struct places *places;
    struct courier *courier;
    struct edge like;                 /* what every shortcut begins as: its handlers of frames and of its end */
    void (*greet)(struct edge *edge); /* says at the other end of a new one who we are */
    struct edge *edges;
    int count; /* also those that are being dialled. The process counts all communicators' */
};

/* Would a letter pass more than one process on its way through the tree, and may there be one more shortcut? */
bool shortcut_pays(const struct shortcuts *all, int place);
void shortcut_seek(struct shortcuts *all, int place, const uint8_t key[SECRET_BYTES]); /* key: of its door */
/* The process of this place has come to our door with this edge. False: there are too many, the edge is as it was. */
bool shortcut_take(struct shortcuts *all, struct edge *edge, int place);
void shortcut_lost(struct shortcuts *all, struct edge *edge);
void shortcuts_tidy(struct shortcuts *all, uint64_t idle_ns); /* closes those that have been idle for so long */
void shortcuts_close(struct shortcuts *all);                  /* what is queued in them is sent */

#endif
