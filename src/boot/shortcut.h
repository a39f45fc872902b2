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
    struct edge like;                 /* template of every shortcut: the functions for its frames and for its end */
    void (*greet)(struct edge *edge); /* tells the other end of a new one who we are */
    struct edge *edges;
    int count; /* number of shortcuts, also of those being dialled; the process counts those of all communicators */
};

/* Would a letter through the tree pass more than one other process, and is one more shortcut allowed? */
bool shortcut_pays(const struct shortcuts *all, int place);
void shortcut_seek(struct shortcuts *all, int place, const uint8_t key[SECRET_BYTES]); /* key: of that process's door */
/* Makes a shortcut of an edge by which a process has come to our door. False: there are too many; the edge stays as it was. */
bool shortcut_take(struct shortcuts *all, struct edge *edge, int place);
void shortcut_lost(struct shortcuts *all, struct edge *edge);
void shortcuts_tidy(struct shortcuts *all, uint64_t idle_ns); /* closes shortcuts that were idle for this long */
void shortcuts_close(struct shortcuts *all);                  /* queued frames are sent first */

#endif
