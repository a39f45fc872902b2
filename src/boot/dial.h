/* SPDX-License-Identifier: Apache-2.0
 *
 * A dial: tries the addresses of a set in turn, again and again, until one answers and proves to know the key. Each
 * attempt has a short deadline, which grows from round to round: an address may lead nowhere, or to somebody else's server
 * that never says a word. Belongs to the watch thread.
 */
#ifndef COLLET_BOOT_DIAL_H
#define COLLET_BOOT_DIAL_H

#include "boot/auth.h"
#include "boot/peer.h"

#define DIAL_TROUBLE_BYTES 256

struct dial {
    struct address_set set;
    uint8_t key[SECRET_BYTES];
    /* Gets the wire of the end that answered. It must set its ready and owner, or destroy it. The dial is then over. */
    void (*proven)(struct dial *dial, struct wire *wire);
    void (*round_failed)(struct dial *dial); /* nobody answered: may dial_stop(); else it goes on after a pause */

    bool active;
    int attempt, round;              /* attempt: index of the address in this round */
    bool all_refused;                /* in this round, every attempt was refused */
    bool exhausted;                  /* this process has no free file descriptor */
    uint64_t started_ns, attempt_ns; /* start of the dial; of the present attempt */
    uint64_t refused_since_ns; /* end of the first of the latest rounds that were all refused; 0: the last was not */
    struct wire *wire;
    struct auth auth;
    struct watch_timer timer;
    bool was_greeted;                 /* the attempt described by `trouble` reached a collet process */
    char trouble[DIAL_TROUBLE_BYTES]; /* how the last attempt ended; prefers one that reached somebody */
};

/* Starts dialling at a random time within spread_ns. Pauses between rounds are random too: other processes may dial the same address
 * at the same time. */
void dial_start(struct dial *dial, const struct address_set *set, const uint8_t key[SECRET_BYTES], uint64_t spread_ns,
                void (*proven)(struct dial *dial, struct wire *wire), void (*round_failed)(struct dial *dial));
void dial_stop(struct dial *dial); /* does nothing if not active */

/* Time since which all attempts are refused: nobody of this job listens; 0: the last round was different. */
uint64_t dial_refused_ns(const struct dial *dial);
/* After refusals for this long, the process that listened there is gone. */
#define DIAL_GONE_NS 500000000ull
/* The same time for a meeting point. It is longer: if its process died, a parent's control plane should name the dead rank first. */
#define MEETING_GONE_NS 2000000000ull

#endif
