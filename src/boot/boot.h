/* SPDX-License-Identifier: Apache-2.0
 *
 * The control plane of one communicator, as one of its ranks sees it: who the ranks are, whether they live, small
 * messages between any two of them, and the news of a failure. Bulk data never passes here.
 *
 *   get_unique_id ─▶ meeting point (rendezvous.c): every rank proves that it knows the id's secret, says who it is, and
 *                    gets the table of all ranks
 *   table ─────────▶ a tree over processes (tree.c): one TCP connection per edge, served by the process's watch thread
 *                    (watch.c), which routes messages, sends heartbeats and looks at pidfds of processes on this host
 *
 * Ranks of one process share a hub and reach each other through memory. An id that is for the ranks of one process names no
 * meeting point: the hub itself is where they meet, without a socket and without a watch.
 *
 * Every function may be called from any thread unless it says otherwise; none blocks.
 */
#ifndef COLLET_BOOT_BOOT_H
#define COLLET_BOOT_BOOT_H

#include "base/config.h"
#include "base/os.h"
#include "collet.h"

#include <stdbool.h>
#include <stdint.h>

#define BOOT_CARDS 8

/* What every rank knows of every rank; equal everywhere after init. */
struct peer_info {
    int32_t rank;
    int32_t node; /* the lowest rank that was found, by trying, to share memory with this one: same node, same host */
    int32_t pid;
    int32_t device;
    uint64_t cards[BOOT_CARDS]; /* as its boot_self had them */
    uint64_t process[2];        /* random identity of the process: equal means the same address space */
    char host[64];              /* for messages */
    struct os_cpu_set cpus;     /* that it could run on when it joined */
};

/* What a rank says of itself when it joins. Boot only carries the cards: what is on card k, the transport with number k knows
 * (transport/transport.h). 0: nothing. */
struct boot_self {
    int32_t device; /* as in collet.h */
    uint64_t cards[BOOT_CARDS];
};

enum peer_state {
    PEER_ALIVE,
    PEER_LEFT,  /* said goodbye: what it sent is there, nothing more will come */
    PEER_DEAD,  /* its process ended without a word */
    PEER_ENDED, /* its process has said that it ends in order, without a goodbye of this rank */
    PEER_LOST,  /* out of reach for too long: it counts as dead, though it may live */
};
static inline bool peer_is_gone(enum peer_state state) { return state >= PEER_DEAD; }

struct boot;
struct late;

/* The meeting point for a new id; see collet_get_unique_id(). */
enum collet_result boot_unique_id(struct collet_unique_id *id);

/* A new id whose meeting point is nowhere but here, whatever COLLET_COMM_ID says. one_process: only for ranks of this
 * process. */
enum collet_result boot_unique_id_fresh(bool one_process, struct collet_unique_id *id);

/* No communicator will be created with an id that this process has made. Whoever comes to its meeting point within
 * COLLET_INIT_TIMEOUT hears why; then the meeting point is closed. */
void boot_cancel_id(const struct collet_unique_id *id, enum collet_result code, const char *text);

/* This rank (−1: the text names it) will not come to the meeting point of the id, because of the thread's last error, which stays.
 * The others hear it. Takes a second at most. */
void boot_excuse(const struct collet_unique_id *id, int rank, enum collet_result code);

/* INVALID_ARGUMENT if it is no id, of another version, or damaged. */
enum collet_result boot_check_id(const struct collet_unique_id *id);

#define BOOT_RANKS_MAX (1 << 20) /* of a communicator */

/* INVALID_ARGUMENT if there can be no communicator of nranks ranks, or no such rank in it. */
enum collet_result boot_check_ranks(int nranks, int rank);

/* An id that all ranks can compute for themselves: rank 0 will listen on host:port, with a
 * secret derived from the text. For COLLET_COMM_ID and MASTER_ADDR. */
enum collet_result boot_unique_id_at(const char *host, int port, const char *secret_text, struct collet_unique_id *id);
/* Adds to a name what only those can compute who know this secret text; to no text, nothing. */
enum collet_result boot_hide_name(const char *secret_text, char *name, size_t room);

/* Starts to join: never waits. *config holds this rank's configuration; its AGREED knobs become rank 0's before
 * boot_try_init() succeeds. On failure *boot_p is unwritten. */
enum collet_result boot_join(const struct collet_unique_id *id, int nranks, int rank, const struct boot_self *self,
                             struct config *config, struct boot **boot_p);

/* The same with several ids, equal on all ranks. Each meeting point gathers a part of the ranks; they meet at the first. */
enum collet_result boot_join_by(const struct collet_unique_id *ids, int nids, int nranks, int rank,
                                const struct boot_self *self, struct config *config, struct boot **boot_p);

/* Advances init. IN_PROGRESS: call again (after a pause); SUCCESS: peers and messages are usable; else it failed, with
 * the cause in err_last(). Names the ranks that have not come after COLLET_WARN_AFTER; TIMEOUT after config.init_timeout. */
enum collet_result boot_try_init(struct boot *boot);

const struct peer_info *boot_peers(const struct boot *boot); /* nranks entries; valid until boot_destroy() */

/* What a message is about. Its key begins with that, so that no room takes a message for its own that is another's; the rest
 * of the key is up to the sender and the receiver. */
enum boot_subject {
    BOOT_OFFER = 1,   /* chan: a consumer's offer to its producer */
    BOOT_TRANSPORT,   /* a transport's own (transport_key()) */
    BOOT_GPU_MEETING, /* kernels: a rank has a program on its GPU */
    BOOT_PLACE,       /* plan: where a rank is */
    BOOT_GRAPH,       /* plan: the graph of a node */
    BOOT_ATLAS,       /* plan: the places of all ranks and the graphs of all nodes */
    BOOT_SPLIT,       /* api: a communicator is made of this one */
    BOOT_QUESTION,    /* boot: what is a rank waiting in? */
    BOOT_ANSWER,      /* boot: the answer */
    BOOT_VOTE,        /* boot: to the judge of a consent */
    BOOT_JUDGE,       /* boot: from it: it waits for votes now */
    BOOT_VERDICT,     /* boot: from it */
    BOOT_CENSUS,      /* boot: what is a rank doing? Somebody outside wants to know */
    BOOT_REPORT,      /* boot: the answer */
    BOOT_TESTED,      /* chan: a consumer to its producer: the test data came as they were sent */
    BOOT_WINDOW,      /* chan: a window begins or ends */
    BOOT_COPIES       /* exec: where the words of copy engines are */
};
#define BOOT_KEY_REST ((1ull << 56) - 1)
static inline uint64_t boot_key(enum boot_subject subject, uint64_t rest) { return (uint64_t)subject << 56 | rest; }

/* Sends bytes (≤ BOOT_MESSAGE_BYTES) to rank `to`, itself included, under a key that the receiver asks for. Messages of
 * one (sender, key) arrive in order. Queued, never blocks. */
#define BOOT_MESSAGE_BYTES 1024
enum collet_result boot_send(struct boot *boot, int to, uint64_t key, const void *data, size_t bytes);

/* Takes the next message from rank `from` under key: SUCCESS and *bytes ≤ room, or IN_PROGRESS if there is none yet. */
enum collet_result boot_try_recv(struct boot *boot, int from, uint64_t key, void *data, size_t room, size_t *bytes);

/* What a rank waits in, for others to ask. Boot only carries the bytes. The asked rank's watch answers, so the rank itself may
 * be computing, or in a call of another communicator. */
#define BOOT_STATUS_BYTES 128
struct boot_answer {
    uint64_t question;
    uint64_t now_ns;    /* os_now_ns() where the answer was made */
    uint64_t calls;     /* collectives that the rank has begun */
    uint32_t bytes;     /* of status; 0: it waits in no call */
    uint32_t elsewhere; /* 1: status is of another communicator of its process */
    char status[BOOT_STATUS_BYTES];
};
void boot_say(struct boot *boot, const void *status, size_t bytes); /* bytes 0: it waits no more */
/* Where this rank counts its collectives; NULL: nowhere any more. */
void boot_count_at(struct boot *boot, const uint64_t *calls);
enum collet_result boot_ask(struct boot *boot, int rank, uint64_t *question);
/* IN_PROGRESS: it has not come. A process that is stopped does not answer. */
enum collet_result boot_try_answer(struct boot *boot, int rank, uint64_t question, struct boot_answer *answer);

/* What a rank is doing, for collet-status (census.h). Boot only carries the bytes. The watch calls the reporter, with locks of
 * this room held. */
#define BOOT_REPORT_BYTES 960
struct boot_reporter {
    size_t (*report)(const void *owner, char report[BOOT_REPORT_BYTES]); /* returns the report's bytes */
    const void *owner;
};

/* A key that all ranks of the communicator can compute, and nobody else: of one use of its secret, `what`, for whom. The caller
 * wipes it. */
#define BOOT_KEY_BYTES 32
void boot_derive_key(const struct boot *boot, const char *what, const void *whom, size_t whom_bytes,
                     uint8_t key[BOOT_KEY_BYTES]);

/* A number that all ranks of the communicator have, and no other communicator; it gives nothing away. */
uint64_t boot_tag(const struct boot *boot);

/* The code of the communicator's first failure, or SUCCESS. One load, cheap in a wait loop. The watch, boot_fail() and local
 * peers set it. */
enum collet_result boot_failed(const struct boot *boot);
/* The text of that failure, "" if none; valid until boot_destroy(). */
const char *boot_failed_text(const struct boot *boot);
/* boot_failed(). Its text, with the rank that it was learnt from, becomes the calling thread's last error. */
enum collet_result boot_check(const struct boot *boot);

/* Makes the communicator fail everywhere: the first failure wins, on this rank at once, on the others as the news spreads.
 * A code of ABORTED arrives elsewhere as ABORTED too. Works at any time after boot_join(), also while init is going on. */
void boot_fail(struct boot *boot, enum collet_result code, const char *text);

/* What is known of a rank now. Death alone does not fail the communicator: a rank that waits for the dead one's
 * data decides that (and calls boot_fail). *since_ns (may be NULL): os_now_ns() of the news. */
enum peer_state boot_peer_state(const struct boot *boot, int rank, uint64_t *since_ns);

/* What became of a rank that is not alive, and its last call as far as it said: "left … after its call 6". The thread's own text. */
const char *boot_fate(const struct boot *boot, int rank);

/* How long what a rank sent before its end may be under way: over a network (far), or through memory. */
uint64_t boot_grace_ns(bool far);
/* What is known of a rank, but ALIVE until that time has passed since the news. */
enum peer_state boot_peer_settled(const struct boot *boot, int rank, bool far);

/* Has the process of this rank ended, as the kernel of this host knows? The news of a death passes other processes, and these may have no
 * CPU for long. False for ranks of other hosts. */
bool boot_has_ended_here(const struct boot *boot, int rank);

/* The caller waits for a message of this rank, which is to do `what`. May it still come? IN_PROGRESS, or why not: the
 * communicator failed, the rank is gone, or deadline_ns has passed. Says so once if that takes long. late: the caller's wait, zeroed
 * before; NULL: the communicator is being created. */
enum collet_result boot_check_wait(struct boot *boot, struct late *late, int rank, uint64_t deadline_ns,
                                   const char *what);

/* A wire that broke may be the second thing that happened: the other rank died, or failed because of a third one. That news is
 * on its way, and this is how long it may take. */
#define BOOT_NEWS_WAIT_NS 1500000000u
/* result (< 0), found on a wire, with the last error as its text. look(whom) is asked for news during that time: it returns
 * the failure that is the cause (< 0) and sets the text, else result and its text stay. Other failures than of wires return at once. */
enum collet_result boot_explain(enum collet_result result, enum collet_result (*look)(const void *whom),
                                const void *whom);

/* The rank that died, or was lost, first; −1: none has. */
int boot_first_gone(const struct boot *boot);

/* A rank on another host of which nothing has been heard for some heartbeats, and through which messages may go; −1: none. */
int boot_silent_rank(const struct boot *boot);

/* The number of ranks known dead or gone; one load, to keep wait loops cheap. */
int boot_missing_count(const struct boot *boot);

/* Tells the other ranks that this one has left, or ends with its process, and waits for BOOT_GOODBYE_NS at most until that is said. */
void boot_say_end(struct boot *boot, enum peer_state state);

/* Says goodbye to the other ranks (no effect if the communicator failed) and frees boot. NULL is fine. The hub goes on
 * routing for other processes until they have left too, or this process exits. The last rank of a process waits, for
 * BOOT_GOODBYE_NS at most, until its words are the kernel's, so that the process may exit at once. */
#define BOOT_GOODBYE_NS 200000000
void boot_destroy(struct boot *boot);

#endif
