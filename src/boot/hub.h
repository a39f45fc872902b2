/* SPDX-License-Identifier: Apache-2.0
 *
 * The hub: what the ranks of one communicator that live in one process share. Their letters, what they know of every
 * rank, and the failure of the communicator. One lock, held briefly; the failure word can be read without it.
 *
 *      rank 0 ─┐            ┌─────────── hub ───────────┐        watch thread
 *      rank 1 ─┼─ boot.h ─▶ │ mailboxes, states, outbox │ ◀────▶ member.c
 *      rank 4 ─┘            └───────────────────────────┘
 */
#ifndef COLLET_BOOT_HUB_H
#define COLLET_BOOT_HUB_H

#include "base/config.h"
#include "base/memory.h"
#include "base/wait.h"
#include "boot/boot.h"
#include "boot/id.h"
#include "boot/watch.h"

#include <pthread.h>

/* A message on its way, or a notice to all ranks. */
struct letter {
    struct letter *next;
    int32_t to; /* LETTER_TO_ALL: the state `key` of rank `from` */
    int32_t from;
    uint64_t key;
    uint64_t number; /* the courier's */
    uint32_t bytes;
    char data[];
};
#define LETTER_TO_ALL (-1)

struct letter_queue {
    struct letter *first, **end;
};
void letter_queue_init(struct letter_queue *queue);
void letter_append(struct letter_queue *queue, struct letter *letter);
struct letter *letter_take(struct letter_queue *queue); /* the first; NULL if none */
/* NULL if there is no memory. data NULL: the caller writes it. */
struct letter *letter_create(int to, int from, uint64_t key, const void *data, size_t bytes);
void letter_free(struct letter *letter); /* wiped: it may have brought the id of another communicator. NULL is fine */
#define SCOPED_LETTER __attribute__((cleanup(letter_free_at)))
void letter_free_at(struct letter **letter);

/* How rank 0's clock differs from that of this host (clock.c). */
struct boot_clock {
    int rounds;                  /* done */
    uint64_t question, asked_ns; /* of the round that is under way; 0: none is */
    uint64_t round_trip_ns;      /* the shortest so far */
    int64_t add_ns;              /* as that round trip has it */
};

/* A rank of this process. The handle of boot.h. */
#define MAILBOX_COUNT 64
struct boot {
    struct hub *hub;
    int rank;
    struct boot_self self;
    unsigned generation; /* of the process that made it */
    struct config *config;
    struct config own_config; /* as it was at boot_join(): for the watch, which must not read the caller's */
    bool announced;           /* to the meeting point; the watch's own */
    bool adopted;             /* *config has rank 0's agreed values; the caller's own */
    uint64_t deadline_ns;     /* of init */
    struct late late;         /* for other ranks, behind init */
    int32_t *end_word;        /* boot_end_word(); NULL: none */
    enum collet_result rejected;
    char rejected_text[ERR_TEXT_BYTES];
    struct letter_queue mailboxes[MAILBOX_COUNT]; /* by hash of (from, key); in order of arrival */
    struct boot_clock clock;
    struct consent_memory *spare_memory; /* consent.c */

    /* With the process's lock (ask.c): */
    const uint64_t *calls; /* the number of collectives so far; NULL: not known */
    uint64_t questions;    /* asked so far; the rank's own */
    struct boot_reporter reporter;
    size_t said_bytes; /* of what it waits in; 0: it does not wait */
    char said[BOOT_STATUS_BYTES];
    struct boot *next_sayer, **sayer_link; /* in the process's list of those that wait */
};

/* Makes the answer of a rank of this process to a question; NULL if it has left, or there is no memory. */
struct letter *hub_answer(struct hub *hub, const struct letter *question);

enum hub_phase { HUB_GATHERS, HUB_LINKS, HUB_READY };

struct hub {
    pthread_mutex_t lock;
    pthread_cond_t flushed;
    int references; /* one per boot, one of the watch's side */
    int nranks;
    enum hub_phase phase;
    struct watch *watch;     /* NULL: all ranks are in this process, nothing is to be watched */
    struct watch_task *work; /* tells the watch's side that there is something to do */

    struct arena arena;  /* has the arrays */
    struct boot **local; /* by rank; NULL: lives elsewhere, or has left */
    int nlocal;
    struct peer_info *peers;
    enum peer_state *states;
    uint64_t *since_ns;
    uint64_t *last_calls; /* of those that have said so: the number of collectives that they had begun; else 0 */
    int missing_count;    /* grows behind the state that it counts; pairs with boot_missing_count() */
    int silent_rank;      /* on another host, of a neighbour in the tree that has missed heartbeats; −1: none */

    uint64_t awake_until_ns; /* later, this process may be lost to the others, since it slept; 0: nobody is lost so */

    int failed_rank; /* that found the failure; −1: none in particular */
    int failed_word; /* written last, with release: a reader that sees it may read the text */
    char failed_text[ERR_TEXT_BYTES];

    struct consent_memory *consents;       /* what ranks of this process have agreed on */
    struct letter_queue outbox;            /* for the watch's side */
    uint64_t flushes_wanted, flushes_done; /* boot_destroy() waits briefly for its goodbye to be handed to the kernel */

    struct config agreed; /* rank 0's configuration */
    struct id id;
    struct id via;    /* whose meeting point its ranks go to; another one than id's passes them on */
    struct hub *next; /* in the process's list of those that gather */

    /* The watch's own (census.c, reception.c): */
    struct census *censuses;
    uint64_t census_count;
    struct hub *next_received;
};

uint64_t hub_tag(const struct hub *hub); /* boot_tag() */

enum collet_result hub_create(int nranks, struct watch *watch, struct hub **hub_p);
void hub_release(struct hub *hub); /* one reference; the last frees */

/* Makes rank's boot, a reference to the hub and a place in hub->local. */
enum collet_result hub_add(struct hub *hub, int rank, const struct boot_self *self, struct config *config,
                           struct boot **boot_p);
/* Undoes it, reference included. */
void hub_remove(struct boot *boot);

/* Adds a rank to the gathering hub of the id in this process, or to a new one, which goes to the meeting point of via.
 * equip() gives a new hub its work task and the reference of the watch's side; without a watch there is none. */
enum collet_result hub_join(const struct id *id, const struct id *via, int nranks, int rank,
                            const struct boot_self *self, struct config *config, struct watch *watch,
                            enum collet_result (*equip)(struct hub *hub), struct boot **boot_p);
/* No longer to be found by hub_join(). */
void hub_unlist(struct hub *hub);

/* Fails the hub of the id with this secret in this process, if there is one that gathers. */
void hub_fail_gathering(const uint8_t secret[SECRET_BYTES], enum collet_result code, const char *text);

/* The first failure wins; false if there was one before. rank: that found it; −1: none in particular. */
bool hub_fail(struct hub *hub, enum collet_result code, int rank, const char *text);
enum collet_result hub_failed(const struct hub *hub);
/* In whose name a process fails that lacks something of its own: its lowest rank's. −1: of another failure its text tells. */
int hub_rank_to_blame(struct hub *hub, enum collet_result code);

/* ALIVE → LEFT or DEAD, once; false if it was not alive. */
bool hub_set_state(struct hub *hub, int rank, enum peer_state state, uint64_t calls);
enum peer_state hub_state(struct hub *hub, int rank, uint64_t *since_ns); /* since_ns may be NULL */

/* To a rank of this process, or through the watch to another one. Takes the letter. */
void hub_send(struct hub *hub, struct letter *letter);
/* To the mailbox of a rank of this process; dropped if it has left. A question is answered, and so is a vote that
 * comes too late. Takes the letter. */
void hub_deliver(struct hub *hub, struct letter *letter);
/* The next one for boot's rank; NULL if none. The caller frees it. */
struct letter *hub_collect(struct boot *boot, int from, uint64_t key);

/* Does the table have the ranks of this process, and only them, in this process and as they described themselves? */
struct card;
bool hub_knows_itself(struct hub *hub, const struct card *cards);
/* What a card says of its rank. With the hub's lock. */
void hub_set_peer(struct hub *hub, const struct card *card);
/* The cards of all ranks. The ranks of this process find out which nodes they are of. */
enum collet_result hub_set_peers(struct hub *hub, const struct card *cards);
/* Init is complete. */
void hub_complete(struct hub *hub, const int32_t *nodes);

/* "rank 3 (host n1, pid 77)", as far as known. */
#define HUB_NAME_BYTES 112
void hub_name_rank(const struct hub *hub, int rank, char text[HUB_NAME_BYTES]);

#endif
