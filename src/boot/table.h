/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks and the meeting point tell each other: the frames of init, and what is computed from them.
 */
#ifndef COLLET_BOOT_TABLE_H
#define COLLET_BOOT_TABLE_H

#include "base/config.h"
#include "base/err.h"
#include "boot/address.h"
#include "boot/id.h"
#include "boot/peer.h"
#include "boot/process.h"
#include "boot/wire.h"

#define HOST_KEY_BYTES 16

#define CARD_TEXT_BYTES 112
#define NONCE_BYTES 16

/* A rank, as it describes itself. */
struct card {
    int32_t rank, nranks, pid;
    uint64_t process[2];
    char host[64];
    struct os_cpu_set cpus;
    uint8_t host_key[HOST_KEY_BYTES]; /* equal: perhaps the same host. Different: never the same host */
    struct probe probe;
    struct boot_self self;
    struct address_set listener; /* addresses on which its process accepts connections of the tree */
};
_Static_assert(sizeof(struct card) == 424, "travels as it is");

enum table_frame {
    /* From a guest to the meeting point: */
    TABLE_JOIN = 1, /* struct card; rank 0 adds a struct config with its agreed knobs, all else zero */
    TABLE_READY,    /* struct node_report[]: all its ranks, when its tree edges are connected */
    TABLE_ASK,      /* nothing: asks for NEWS */
    TABLE_ABSENT,   /* struct failure: why this rank will not come */
    /* From the meeting point to its guests: */
    TABLE_NEWS,   /* text: the missing ranks, for a guest that asked */
    TABLE_REJECT, /* struct rejection: one rank is rejected */
    TABLE_SEAT,   /* struct seat: all ranks have come */
    TABLE_DONE,   /* nothing: all guests are ready, and TABLE_NODES comes down the tree */
    TABLE_OVER,   /* nothing: the communicator is complete without you; another may meet here soon */
    /* In both directions: */
    TABLE_FAIL, /* struct failure: init has failed */
    /* From the meeting point to the root of the tree, and from each process of the tree to its children: a struct table, in
     * this order: */
    TABLE_KNOBS = 32, /* struct config: rank 0's agreed knobs */
    TABLE_CARDS,      /* struct card[]: the next ranks, from 0 */
    TABLE_NODES,      /* int32_t[]: the next ranks, from 0; with the last one, init is complete */
};

/* The position of a process in the tree (tree.h). */
struct seat {
    int32_t rank;                  /* lowest rank of the process */
    int32_t place, nplaces;        /* number of the process, and number of processes */
    struct card parent;            /* card of the parent's lowest rank; zero for place 0 */
    char meeting[CARD_TEXT_BYTES]; /* lowest rank of the process with the meeting point, for texts */
    uint8_t nonce[NONCE_BYTES];    /* random, the same in all seats of one communicator (seat_secret()) */
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
    int32_t rank; /* rank that found it; −1: none in particular */
    char text[ERR_TEXT_BYTES];
};

/* The table that every process gets. It travels in parts of one frame each, so no buffer must hold all of it. */
struct table {
    int nranks;
    struct config agreed; /* agreed knobs of rank 0, all else zero */
    struct card *cards;   /* [rank] */
    int32_t *nodes;       /* [rank] */
    int ncards, nnodes;   /* number of entries that have come */
};
#define TABLE_PART_BYTES (24u << 10)
_Static_assert(sizeof(struct config) <= TABLE_PART_BYTES, "the knobs are one part");

enum collet_result table_create(struct table *table, int nranks);
void table_free(struct table *table); /* does nothing if zeroed; may be called twice */

enum table_step {
    TABLE_NONSENSE, /* not a part of a table, or not the next one */
    TABLE_PART,
    TABLE_KNOWN,   /* the last card has come: all cards are valid */
    TABLE_COMPLETE /* the last node has come */
};
enum table_step table_take(struct table *table, const struct frame *frame);
void table_send_cards(const struct table *table, struct wire *wire); /* with the knobs */
void table_send_nodes(const struct table *table, struct wire *wire);

/* Fills in the card of a rank of this process, all but the listener. */
void card_fill(struct card *card, int nranks, int rank, const struct boot_self *self, const struct config *config);
void card_text(const struct card *card, char text[CARD_TEXT_BYTES]); /* "rank 3 (host n1, pid 77)" */

/* Finds, by trying, the lowest rank that shares memory with this one; if none does, the rank itself. Errors: no descriptor, no memory. */
enum collet_result card_find_node(const struct card *cards, int rank, int32_t *node);

/* Computes the secret of one communicator, from its id's secret and its nonce. Two communicators may have one listed id, one after the
 * other. A connection of the first that comes late to the second has another key, so it is refused. */
void seat_secret(const struct seat *seat, const uint8_t id_secret[SECRET_BYTES], uint8_t secret[SECRET_BYTES]);

/* Writes "2, 3, 7": the ranks whose byte in `have` is 0; cut if there are many. */
void ranks_text(const uint8_t *have, int nranks, char *text, size_t room);

/* Only these functions and table_take() read data of other processes. They copy it from the frame, where it is not aligned. False: a
 * rank, count, length or code is not possible. */
bool card_read(const void *data, struct card *card); /* sizeof *card bytes: a rank within its nranks, a listener */
bool seat_read(const void *data, size_t bytes, int nranks, struct seat *seat);
bool failure_read(const void *data, size_t bytes, struct failure *failure);
bool rejection_read(const void *data, size_t bytes, struct rejection *rejection);

#endif
