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
#include "boot/id.h"
#include "boot/message.h"
#include "boot/peer.h"
#include "boot/watch.h"

#include <pthread.h>

struct card;
struct failure;

/* ---- letters: messages between ranks, on their way and in mailboxes ---- */

/* A message to a rank, or a notice to all ranks. */
struct letter {
    struct letter *next;
    int32_t to; /* LETTER_TO_ALL: `key` is the new state of rank `from` */
    int32_t from;
    uint64_t key;
    uint64_t number; /* set by the link. Of a notice: the time until which it waits for the letters before it */
    uint32_t bytes;
    char data[];
};
#define LETTER_TO_ALL (-1)

struct letter_queue {
    struct letter *first, **end;
};
void letter_queue_init(struct letter_queue *queue);
void letter_queue_clear(struct letter_queue *queue); /* frees all of them */
void letter_append(struct letter_queue *queue, struct letter *letter);
struct letter *letter_take(struct letter_queue *queue); /* takes the first one; NULL: empty */
/* Creates a letter; NULL: no memory. data NULL: the caller writes the data. */
struct letter *letter_create(int to, int from, uint64_t key, const void *data, size_t bytes);
void letter_free(struct letter *letter); /* wipes it first: it may contain another communicator's id. NULL is fine */
#define SCOPED_LETTER __attribute__((cleanup(letter_free_at)))
void letter_free_at(struct letter **letter);

/* ---- ranks ---- */

/* The difference between rank 0's clock and this host's (clock.c). */
struct boot_clock {
    int rounds;                  /* number of completed rounds */
    uint64_t question, asked_ns; /* number and time of the current round of questions; 0: none */
    uint64_t round_trip_ns;      /* shortest round trip so far */
    int64_t add_ns;              /* the difference, measured by that round trip */
};

/* One rank of this process: the handle of boot.h. */
#define MAILBOX_COUNT 64
struct boot {
    struct hub *hub;
    int rank;
    struct boot_self self;
    unsigned generation; /* number of the process that made it */
    struct config *config;
    struct config own_config; /* copy made by boot_join(), for the watch, which must not read the caller's */
    bool announced;           /* the meeting point knows it; only the watch uses this */
    bool adopted;             /* *config has rank 0's agreed values; only the caller uses this */
    uint64_t deadline_ns;     /* deadline of init */
    struct late late;         /* a wait for other ranks, after init */
    int32_t *end_word;        /* boot_end_word(); NULL: none */
    enum collet_result rejected;
    char rejected_text[ERR_TEXT_BYTES];
    struct letter_queue mailboxes[MAILBOX_COUNT]; /* by hash of (from, key); in order of arrival */
    struct boot_clock clock;
    struct agreement_memory *spare_memory; /* agreement.c */

    /* Protected by the process's lock: */
    const uint64_t *calls; /* number of its collectives so far; NULL: unknown */
};

enum hub_phase { HUB_GATHERS, HUB_LINKS, HUB_READY };

struct hub {
    pthread_mutex_t lock;
    pthread_cond_t flushed;
    int references; /* one per boot, and one of the watch */
    int nranks;
    enum hub_phase phase;
    struct watch *watch;     /* NULL: all ranks are in this process, so there is nothing to watch */
    struct watch_task *work; /* wakes the watch's side */

    struct arena arena;  /* owns the arrays */
    struct boot **local; /* [rank] NULL: in another process, or has left */
    int nlocal;
    struct peer_info *peers;
    enum peer_state *states;
    uint64_t *since_ns;
    uint64_t *last_calls; /* [rank] number of collectives that it had begun, if it has said so; else 0 */
    int missing_count;    /* stored after the state that it counts; pairs with boot_missing_count() */

    uint64_t awake_until_ns; /* this process has slept: after this time others may call it lost; 0: it has not slept */

    int failed_rank; /* rank that found the failure; −1: none in particular */
    int failed_word; /* stored last, with release: a reader that sees it may read the text */
    char failed_text[ERR_TEXT_BYTES];

    struct agreement_memory *agreements;   /* agreements of ranks of this process */
    struct letter_queue outbox;            /* letters for the watch's side */
    uint64_t flushes_wanted, flushes_done; /* boot_destroy() waits until the kernel has its goodbye */

    struct config agreed; /* configuration of rank 0 */
    struct id id;
    uint8_t secret[SECRET_BYTES]; /* The secret of this communicator alone. Until the seat comes, it is the id's. */
    struct hub *next;             /* next one in the process's list of gathering hubs */

    /* Used only by the watch (status_query.c, status_socket.c): */
    struct status_query *queries;
    uint64_t status_query_count;
    struct hub *next_received;
};

uint64_t hub_tag(const struct hub *hub); /* boot_tag() */

void hub_release(struct hub *hub); /* drops one reference; the last one frees */

/* Takes a rank out again, with its reference to the hub. */
void hub_remove(struct boot *boot);

/* Adds a rank to this process's gathering hub of the id. If there is none, makes one. equip() gives a new hub its work task and the
 * watch's reference; without a watch there is none. */
enum collet_result hub_join(const struct id *id, int nranks, int rank, const struct boot_self *self,
                            struct config *config, struct watch *watch, enum collet_result (*equip)(struct hub *hub),
                            struct boot **boot_p);
/* Hides the hub from hub_join(). */
void hub_unlist(struct hub *hub);

/* Makes this process's gathering hub with this secret fail, if there is one. */
void hub_fail_gathering(const uint8_t secret[SECRET_BYTES], enum collet_result code, const char *text);

/* The first failure wins; false: there was one before. rank: which rank found it; −1: none in particular. */
bool hub_fail(struct hub *hub, enum collet_result code, int rank, const char *text);
enum collet_result hub_failed(const struct hub *hub);
/* Like hub_fail(), for the watch's side: logs the failure, and lets the work task tell the others. If this process lacks a resource, its
 * lowest rank is named. */
void hub_give_up(struct hub *hub, enum collet_result code, const char *text);
/* The first failure, as it travels. */
struct failure hub_failure(const struct hub *hub);

/* Changes ALIVE to LEFT or DEAD, once. False: it was not ALIVE. */
bool hub_set_state(struct hub *hub, int rank, enum peer_state state, uint64_t calls);
enum peer_state hub_state(struct hub *hub, int rank, uint64_t *since_ns); /* since_ns may be NULL */

/* Sends a letter to a rank: directly if it is in this process, else through the watch. Takes ownership. */
void hub_send(struct hub *hub, struct letter *letter);
/* Puts a letter into the mailbox of a rank of this process; drops it if the rank has left. Answers questions, and votes that come too
 * late. Takes ownership. */
void hub_deliver(struct hub *hub, struct letter *letter);
/* The next letter for boot's rank; NULL: none. The caller frees it. */
struct letter *hub_collect(struct boot *boot, int from, uint64_t key);

/* Does the table show exactly this process's ranks in this process, as they described themselves? */
bool hub_knows_itself(struct hub *hub, const struct card *cards);
/* Stores the facts on a card. The caller holds the hub's lock. */
void hub_set_peer(struct hub *hub, const struct card *card);
/* Stores the cards of all ranks. The ranks of this process then find their nodes. */
enum collet_result hub_set_peers(struct hub *hub, const struct card *cards);
/* Ends init: stores the nodes. */
void hub_complete(struct hub *hub, const int32_t *nodes);

/* Writes "rank 3 (host n1, pid 77)", as far as known. */
#define HUB_NAME_BYTES 112
void hub_name_rank(const struct hub *hub, int rank, char text[HUB_NAME_BYTES]);

#endif
