/* SPDX-License-Identifier: Apache-2.0
 *
 * Letters between processes arrive once and in order, although a process that passes them on may vanish with those it
 * holds. The sender numbers and keeps them until the receiver has said how far it has come. In the tree as it was made nothing
 * gets lost, since its edges are TCP connections. A shortcut (shortcut.h) may break: then what is kept is sent anew at once, the
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

/* Goes through the tree; `data` of a letter follows. */
struct parcel {
    int32_t to_place, from_place; /* processes, as the tree numbers them */
    int32_t to, from;             /* ranks; to < 0: no letter, only `next` */
    uint64_t key;
    uint64_t number; /* of the letter in its lane, from 0 */
    uint64_t next;   /* the sender of the parcel has all letters of this lane's other direction before this */
    uint32_t hops, zero;
};

struct lane; /* between this process and another one, both directions */

struct courier {
    int self, nplaces;
    struct lane *lanes; /* by place */
    bool changed;       /* the tree is not as it was made */
    struct watch_timer timer;
    /* Sends a parcel a step toward parcel->to_place; what cannot be sent at the moment is dropped. */
    void (*carry)(struct courier *courier, struct parcel *parcel, const void *data, size_t bytes);
    /* Gets each letter for this process, once. Takes it. */
    void (*deliver)(struct courier *courier, struct letter *letter);
};

enum collet_result courier_init(struct courier *courier, int self, int nplaces);
void courier_fini(struct courier *courier); /* harmless on a zeroed one */

void courier_send(struct courier *courier, int place, struct letter *letter); /* takes the letter */
/* A parcel for this process. False if there is no memory. */
bool courier_receive(struct courier *courier, const struct parcel *parcel, const void *data, size_t bytes);
void courier_again(struct courier *courier, int place);  /* the way there is another one: sends anew */
void courier_hurry(struct courier *courier);             /* the tree has changed: sends anew */
void courier_forget(struct courier *courier, int place); /* it will not answer any more */

#endif
