/* SPDX-License-Identifier: Apache-2.0
 *
 * A dial: tries the addresses of a set in turn, again and again, until one answers and proves to know the key. Each
 * attempt has a short deadline, which grows from round to round: an address may lead nowhere, or to somebody else's server
 * that never says a word. Belongs to the watch thread.
 */
#ifndef COLLET_BOOT_DIAL_H
#define COLLET_BOOT_DIAL_H

#include "boot/auth.h"

#define DIAL_TROUBLE_BYTES 256

struct dial {
    struct address_set set;
    uint8_t key[SECRET_BYTES];
    /* Gets the wire of the one that answered; must set its ready and owner, or destroy it. The dial is then over. */
    void (*proven)(struct dial *dial, struct wire *wire);
    void (*round_failed)(struct dial *dial); /* nobody answered; may dial_stop(); else it goes on after a pause */

    bool active;
    int attempt, round; /* attempt: the address of this round that is tried */
    bool all_refused;   /* in this round */
    bool exhausted;     /* this process has no file descriptor left */
    uint64_t started_ns;
    uint64_t refused_since_ns; /* end of the first of the unbroken rounds in which all refused; 0: not so */
    struct wire *wire;
    struct auth auth;
    struct watch_timer timer;
    bool was_greeted;                 /* the attempt that `trouble` is about reached somebody who speaks as we do */
    char trouble[DIAL_TROUBLE_BYTES]; /* how the last attempt ended; of a round, one that reached somebody */
};

/* The first attempt begins at a random time within spread_ns, and the pauses between rounds are random too: others may dial
 * the same address at the same time. */
void dial_start(struct dial *dial, const struct address_set *set, const uint8_t key[SECRET_BYTES], uint64_t spread_ns,
                void (*proven)(struct dial *dial, struct wire *wire), void (*round_failed)(struct dial *dial));
void dial_stop(struct dial *dial); /* harmless if not active */

/* These times, for any number that chance gives. */
uint64_t dial_first_ns(uint64_t spread_ns, uint64_t chance);
uint64_t dial_pause_ns(int round, uint64_t chance);

/* How long all attempts have ended because nobody listens there; 0: the last round was different. */
uint64_t dial_refused_ns(const struct dial *dial);
/* Refusals of this duration mean that a process that listened there is no more. */
#define DIAL_GONE_NS 500000000ull
/* The same of a meeting point. It is longer: if its process has died, the control plane of a parent is to name that rank first. */
#define MEETING_GONE_NS 2000000000ull

#endif
