/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks and the meeting point tell each other: the frames of init, and what is computed from them.
 */
#ifndef COLLET_BOOT_TABLE_H
#define COLLET_BOOT_TABLE_H

#include "base/config.h"
#include "base/err.h"
#include "boot/address.h"
#include "boot/boot.h"
#include "boot/process.h"

#define HOST_KEY_BYTES 16

#define NRANKS_MAX (1 << 20)

/* Who a rank is. */
struct card {
    int32_t rank, nranks, pid;
    uint64_t process[2];
    char host[64];
    struct os_cpu_set cpus;
    uint8_t host_key[HOST_KEY_BYTES]; /* equal: perhaps the same host; different: another host, always */
    struct probe probe;
    struct boot_self self;
    struct address_set listener; /* where its process takes connections of the tree */
};
_Static_assert(sizeof(struct card) == 424, "travels as it is");

enum table_frame {
    /* A rank's process to the meeting point */
    TABLE_JOIN = 1, /* struct card; rank 0's also brings its agreed knobs: a struct config that is zero elsewhere */
    TABLE_READY,    /* struct node_report[]: of all its ranks, when its edges of the tree stand */
    /* The meeting point to all */
    TABLE_NEWS,   /* text: which ranks are still missing */
    TABLE_REJECT, /* struct rejection: one rank is not wanted */
    TABLE_ALL,    /* struct table_head, struct card[nranks] */
    TABLE_GO,     /* int32_t node[nranks]: init is complete */
    TABLE_OVER,   /* nothing: the communicator is complete without you; another one may meet here soon */
    /* Either way */
    TABLE_FAIL, /* struct failure: init has failed */
};

/* What travels in front of the cards with TABLE_ALL. */
struct table_head {
    struct config agreed;
    uint64_t process[2]; /* that has the meeting point */
};

struct node_report {
    int32_t rank, node;
};

struct rejection {
    int32_t rank, code;
    char text[ERR_TEXT_BYTES];
};

struct failure {
    int32_t code;
    int32_t rank; /* that found it; −1: none in particular */
    char text[ERR_TEXT_BYTES];
};

/* The process's card for one of its ranks, without the listener. */
void card_fill(struct card *card, int nranks, int rank, const struct boot_self *self, const struct config *config);
#define CARD_TEXT_BYTES 112
void card_text(const struct card *card, char text[CARD_TEXT_BYTES]); /* "rank 3 (host n1, pid 77)" */

/* The lowest rank that shares memory with this one, by trying; itself if none. */
int card_find_node(const struct card *cards, int rank);

/* "2, 3, 7" the ranks whose byte in `have` is 0, cut after some. */
void ranks_text(const uint8_t *have, int nranks, char *text, size_t room);

/* What comes from another process is read by these alone. They copy it from the frame, where it is not aligned, and are
 * false if a rank, count, length or code in it cannot be. */
bool card_read(const void *data, struct card *card); /* sizeof *card bytes: a rank within its nranks, a listener */
bool table_read(const void *data, int nranks, struct card *cards); /* the cards of ranks 0 … nranks−1 in that order */
bool nodes_read(const void *data, size_t bytes, int nranks, int32_t *nodes); /* each is the lowest rank of its node */
bool failure_read(const void *data, size_t bytes, struct failure *failure);
bool rejection_read(const void *data, size_t bytes, struct rejection *rejection);

#endif
