/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks know of each other.
 */
#ifndef COLLET_BOOT_PEER_H
#define COLLET_BOOT_PEER_H

#include "base/cpus.h"
#include "collet.h"

#include <stdbool.h>
#include <stdint.h>

#define BOOT_RANKS_MAX (1 << 20) /* maximum number of ranks of a communicator */

#define BOOT_CARDS 8

/* What every rank knows of every other rank. Equal on all ranks after init. */
struct peer_info {
    int32_t rank;
    int32_t node; /* the lowest rank on the same host: a test found that it shares memory with this rank */
    int32_t pid;
    int32_t device;
    uint64_t cards[BOOT_CARDS]; /* cards of its boot_self */
    uint64_t process[2];        /* random identity of its process; equal: the same address space */
    char host[64];              /* for error texts */
    struct os_cpu_set cpus;     /* CPUs that it could use when it joined */
};

/* What a rank tells others when it joins. Boot only carries the cards: transport number k knows what card k means
 * (transport/transport.h). 0: nothing. */
struct boot_self {
    int32_t device; /* device number, as in collet.h */
    uint64_t cards[BOOT_CARDS];
};

enum peer_state {
    PEER_ALIVE,
    PEER_LEFT,  /* it said goodbye: its messages have come, and no more will follow */
    PEER_DEAD,  /* its process ended without a word */
    PEER_ENDED, /* its process said that it ends in order, without a goodbye of this rank */
    PEER_LOST,  /* out of reach for too long: it counts as dead, though it may be alive */
};
static inline bool peer_is_gone(enum peer_state state) { return state >= PEER_DEAD; }

#endif
