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
#include "boot/wire.h"

#define HOST_KEY_BYTES 16

#define CARD_TEXT_BYTES 112

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
    /* A guest to the meeting point */
    TABLE_JOIN = 1, /* struct card; rank 0's also brings its agreed knobs: a struct config that is zero elsewhere */
    TABLE_READY,    /* struct node_report[]: of all its ranks, when its edges of the tree stand */
    TABLE_ASK,      /* nothing: a question for NEWS */
    TABLE_VIA,      /* struct collet_unique_id: what follows is for the meeting point of this id (relay.h) */
    TABLE_ABSENT,   /* struct failure: why this rank will not come */
    /* The meeting point to its guests */
    TABLE_NEWS,   /* text: which ranks are missing, to a guest that asked */
    TABLE_REJECT, /* struct rejection: one rank is not wanted */
    TABLE_SEAT,   /* struct seat: all ranks have come */
    TABLE_DONE,   /* nothing: all guests are ready. TABLE_NODES is on its way down the tree */
    TABLE_OVER,   /* nothing: the communicator is complete without you; another one may meet here soon */
    /* Either way */
    TABLE_FAIL, /* struct failure: init has failed */
    /* The meeting point to the first process of the tree, and each process of the tree to its children: a struct table,
     * in this order */
    TABLE_KNOBS = 32, /* struct config: rank 0's agreed knobs */
    TABLE_CARDS,      /* struct card[]: of the next ranks, from 0 on */
    TABLE_NODES,      /* int32_t[]: of the next ranks, from 0 on; with the last, init is complete */
};

/* Where a process stands in the tree of processes (tree.h). */
struct seat {
    int32_t rank;                  /* the lowest of the process */
    int32_t place, nplaces;        /* of the process, and how many there are */
    struct card parent;            /* the lowest rank of the parent; zero at place 0 */
    char meeting[CARD_TEXT_BYTES]; /* the lowest rank of the process that has the meeting point, for messages */
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

/* What every process is to know. It travels in parts, each of one frame, so that no buffer has to hold all of it. */
struct table {
    int nranks;
    struct config agreed; /* rank 0's agreed knobs, zero elsewhere */
    struct card *cards;   /* by rank */
    int32_t *nodes;       /* by rank */
    int ncards, nnodes;   /* that have come so far */
};
#define TABLE_PART_BYTES (24u << 10)
_Static_assert(sizeof(struct config) <= TABLE_PART_BYTES, "the knobs are one part");

enum collet_result table_create(struct table *table, int nranks);
void table_free(struct table *table); /* harmless on a zeroed one, and twice */

enum table_step {
    TABLE_NONSENSE, /* no part of a table, or not the next one */
    TABLE_PART,
    TABLE_KNOWN,   /* the last card has come: all cards are there, and they are valid */
    TABLE_COMPLETE /* the last node has come */
};
enum table_step table_take(struct table *table, const struct frame *frame);
void table_send_cards(const struct table *table, struct wire *wire); /* with the knobs */
void table_send_nodes(const struct table *table, struct wire *wire);

/* The process's card for one of its ranks, without the listener. */
void card_fill(struct card *card, int nranks, int rank, const struct boot_self *self, const struct config *config);
void card_text(const struct card *card, char text[CARD_TEXT_BYTES]); /* "rank 3 (host n1, pid 77)" */

/* The lowest rank that shares memory with this one, by trying; itself if none. An error: no descriptor, or no memory, to try. */
enum collet_result card_find_node(const struct card *cards, int rank, int32_t *node);

/* "2, 3, 7" the ranks whose byte in `have` is 0, cut after some. */
void ranks_text(const uint8_t *have, int nranks, char *text, size_t room);

/* What comes from another process is read by these alone, and by table_take(). They copy it from the frame, where it is not
 * aligned, and are false if a rank, count, length or code in it cannot be. */
bool card_read(const void *data, struct card *card); /* sizeof *card bytes: a rank within its nranks, a listener */
bool seat_read(const void *data, size_t bytes, int nranks, struct seat *seat);
bool failure_read(const void *data, size_t bytes, struct failure *failure);
bool rejection_read(const void *data, size_t bytes, struct rejection *rejection);

#endif
