/* SPDX-License-Identifier: Apache-2.0
 *
 * The control plane of one communicator, as one of its ranks sees it: who the ranks are, whether they live, small
 * messages between any two of them, and the news of a failure. Bulk data never passes here.
 *
 *   get_unique_id ─▶ meeting point (rendezvous.c): every rank proves that it knows the id's secret, says who it is, and
 *                    gets the table of all ranks
 *   table ─────────▶ a tree over processes (tree.c): one TCP connection per edge, served by the process's watch thread
 *                    (watch.c), which sends heartbeats, passes on news and looks at pidfds of processes on this host
 *   messages ──────▶ links between any two processes (link.c), dialled at first use
 *
 * Ranks of one process share a hub and reach each other through memory. An id that is for the ranks of one process names no
 * meeting point: the hub itself is where they meet, without a socket and without a watch.
 *
 * Every function may be called from any thread unless it says otherwise; none blocks.
 */
#ifndef COLLET_BOOT_BOOT_H
#define COLLET_BOOT_BOOT_H

#include "base/config.h"
#include "boot/message.h"
#include "boot/peer.h"

struct boot;
struct late;

/* Makes a new id, with a meeting point: see collet_get_unique_id(). */
enum collet_result boot_unique_id(struct collet_unique_id *id);

/* Makes a new id whose meeting point is in this process, even if COLLET_COMM_ID is set. one_process: only for ranks of this
 * process. */
enum collet_result boot_unique_id_fresh(bool one_process, struct collet_unique_id *id);

/* Cancels an id, if this process made it. Ranks that come to its meeting point within COLLET_INIT_TIMEOUT are told why. Then the
 * meeting point is closed. */
void boot_cancel_id(const struct collet_unique_id *id, enum collet_result code, const char *text);

/* Tells the meeting point of the id that this rank will not come (−1: the text names it), because of the thread's last error, which is
 * kept. The other ranks are told. Takes at most a second. */
void boot_excuse(const struct collet_unique_id *id, int rank, enum collet_result code);

/* INVALID_ARGUMENT: this is no id, is of another version, or is damaged. */
enum collet_result boot_check_id(const struct collet_unique_id *id);

/* INVALID_ARGUMENT: nranks is not a valid number of ranks, or has no such rank. */
enum collet_result boot_check_ranks(int nranks, int rank);

/* Starts to join, without waiting. *config has this rank's configuration; before boot_try_init() succeeds, its AGREED knobs get rank
 * 0's values. On failure *boot_p is not written. */
enum collet_result boot_join(const struct collet_unique_id *id, int nranks, int rank, const struct boot_self *self,
                             struct config *config, struct boot **boot_p);

/* Makes progress with init. IN_PROGRESS: call again after a pause. SUCCESS: peers and messages may be used. Else it failed; err_last()
 * has the cause. After COLLET_WARN_AFTER it logs the missing ranks. TIMEOUT after config.init_timeout. */
enum collet_result boot_try_init(struct boot *boot);

const struct peer_info *boot_peers(const struct boot *boot); /* [nranks], valid until boot_destroy() */

/* Sends up to BOOT_MESSAGE_BYTES bytes to rank `to` (also to itself), with a key for which the receiver asks. Messages with one sender and
 * key arrive in order. Queues the message, never blocks. */
enum collet_result boot_send(struct boot *boot, int to, uint64_t key, const void *data, size_t bytes);

/* Takes the next message from rank `from` with this key. SUCCESS: *bytes ≤ room. IN_PROGRESS: none has come yet. */
enum collet_result boot_try_recv(struct boot *boot, int from, uint64_t key, void *data, size_t room, size_t *bytes);

/* Computes a key that only ranks of the communicator can compute: for one use of its secret (`what`, for `whom`). The caller must
 * wipe it. */
#define BOOT_KEY_BYTES 32
void boot_derive_key(const struct boot *boot, const char *what, const void *whom, size_t whom_bytes,
                     uint8_t key[BOOT_KEY_BYTES]);

/* A number that only ranks of this communicator have. It reveals nothing about the secret. */
uint64_t boot_tag(const struct boot *boot);

/* The code of the communicator's first failure, or SUCCESS. It is one load, cheap in a wait loop. The watch, boot_fail() and local
 * peers set it. */
enum collet_result boot_failed(const struct boot *boot);
/* The text of that failure; "": none. Valid until boot_destroy(). */
const char *boot_failed_text(const struct boot *boot);
/* Like boot_failed(). The text, and the rank from which it came, become the calling thread's last error. */
enum collet_result boot_check(const struct boot *boot);

/* Makes the communicator fail on all ranks: at once on this one, later on the others, as the news spreads. The first failure wins.
 * Waits until the news is sent, at most BOOT_TELL_NS: the process may end next. ABORTED is ABORTED on the other ranks too. May be
 * called at any time after boot_join(), also during init. */
void boot_fail(struct boot *boot, enum collet_result code, const char *text);

/* What is known of a rank now? A death alone does not make the communicator fail: a rank that waits for the dead rank's data
 * decides that, and calls boot_fail(). *since_ns: os_now_ns() of the news; may be NULL. */
enum peer_state boot_peer_state(const struct boot *boot, int rank, uint64_t *since_ns);

/* Says what happened to a rank that is not alive, with its last call if known: "left … after its call 6". The text is the thread's. */
const char *boot_fate(const struct boot *boot, int rank);

/* How long may a rank's last messages still be on their way: over a network (far), or in memory? */
uint64_t boot_grace_ns(bool far);
/* What is known of a rank; ALIVE until that time has passed since the news. */
enum peer_state boot_peer_settled(const struct boot *boot, int rank, bool far);

/* Does this host's kernel know that the rank's process has ended? The news of a death passes other processes, which may have no CPU
 * for long. False for ranks on other hosts. */
bool boot_has_ended_here(const struct boot *boot, int rank);

/* Waits for a message of this rank, which must do `what`: may it still come? IN_PROGRESS: yes. Else why not: the communicator failed, the
 * rank is gone, or deadline_ns has passed. Logs once if the wait is long. late: the caller's state, zero at first; NULL: during
 * init. */
enum collet_result boot_check_wait(struct boot *boot, struct late *late, int rank, uint64_t deadline_ns,
                                   const char *what);

/* When a connection breaks, the cause may be elsewhere: the other rank died, or failed because of a third one. The news of it may take
 * this long. */
#define BOOT_NEWS_WAIT_NS 1500000000u
/* Looks for the cause of `result` (< 0), found on a connection; its text is the last error. look(whom) is called during that time: if it
 * returns a failure (< 0), that is the cause, with its text. Else result and its text stay. Other kinds of failure return at once. */
enum collet_result boot_explain(enum collet_result result, enum collet_result (*look)(const void *whom),
                                const void *whom);

/* The rank that died, or was lost, before all others; −1: none. */
int boot_first_gone(const struct boot *boot);

/* The number of ranks that are dead or have left; one load, cheap in a wait loop. */
int boot_missing_count(const struct boot *boot);

/* Tells the other ranks that this rank has left, or that its process ends. They hear it when the letters of this process have come, or
 * after BOOT_LETTERS_NS: a rank may be stopped. Waits until that is sent. */
void boot_say_end(struct boot *boot, enum peer_state state);

/* Says goodbye to the other ranks (unless the communicator failed) and frees boot. NULL is fine. The hub goes on passing news to other
 * processes, until they have left or this process exits. The last rank of a process waits until the kernel has its goodbye, so the
 * process may then exit: at most BOOT_TELL_NS if the communicator has failed, else BOOT_LETTERS_NS longer. */
#define BOOT_TELL_NS 200000000
void boot_destroy(struct boot *boot);

#endif
