/* SPDX-License-Identifier: Apache-2.0
 *
 * Letters between processes arrive once and in order, although a process that passes them on may vanish with those it
 * holds. The sender numbers and keeps them until the receiver has said how far it has come. In the tree as it was made nothing
 * gets lost, since its edges are TCP connections. A shortcut (route.h) may break: then what is kept is sent anew at once, the
 * other way. Once the tree itself has changed, it is sent anew at once, and then whenever the receiver takes long. Belongs to the
 * watch thread.
 *
 *      sender's lane to receiver              tree                receiver's lane from sender
 *      #7 #8 #9 kept ─────────── #7, #8, #9 ─────────▶ …  #7 is the next: deliver; #9: not yet
 *      forgets #7    ◀────────── up to #8 ─────────────── says so for each that comes
 */
#ifndef COLLET_BOOT_COURIER_H
#define COLLET_BOOT_COURIER_H

#include "boot/hub.h"

/* Header of a letter on its way through the tree; the letter's data follow. */
struct parcel {
    int32_t to_place, from_place; /* numbers of processes in the tree */
    int32_t to, from;             /* ranks; to < 0: there is no letter, only `next` */
    uint64_t key;
    uint64_t number; /* number of the letter in its lane, from 0 */
    uint64_t next;   /* acknowledgement: the sender has all letters of the opposite direction before this one */
    uint32_t hops, zero;
};

struct courier_lane; /* both directions between this process and another one */

struct courier {
    int self, nplaces;
    struct courier_lane *lanes; /* [place] */
    bool changed;               /* the tree is not the original one any more */
    struct watch_timer timer;
    /* Sends a parcel one hop toward parcel->to_place; drops it if that is not possible now. */
    void (*carry)(struct courier *courier, struct parcel *parcel, const void *data, size_t bytes);
    /* Called once per letter for this process. Takes ownership. */
    void (*deliver)(struct courier *courier, struct letter *letter);
};

enum collet_result courier_init(struct courier *courier, int self, int nplaces);
void courier_fini(struct courier *courier); /* does nothing if zeroed */

void courier_send(struct courier *courier, int place, struct letter *letter); /* takes ownership */
/* Handles a parcel for this process. False: no memory. */
bool courier_receive(struct courier *courier, const struct parcel *parcel, const void *data, size_t bytes);
void courier_again(struct courier *courier, int place);  /* the way to it has changed: sends again */
void courier_hurry(struct courier *courier);             /* the tree has changed: sends again */
void courier_forget(struct courier *courier, int place); /* it will not answer any more */

#endif
