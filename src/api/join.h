/* SPDX-License-Identifier: Apache-2.0
 *
 * How a communicator begins and ends: handle ─▶ joining ─▶ ready ─▶ finalized or failed ─▶ the handle is used again.
 */
#ifndef COLLET_API_JOIN_H
#define COLLET_API_JOIN_H

#include "api/comm.h"

/* comm_create: makes a communicator that is joining. Other threads do not accept the handle before comm_show(), so until then the
 * caller can write to it undisturbed. */
enum collet_result comm_create(int nranks, int rank, struct collet_comm **comm_p);
void comm_show(struct collet_comm *comm);

/* Starts to join the other ranks. nranks, rank and the configuration are set. */
enum collet_result comm_join(struct collet_comm *comm, const struct collet_unique_id *ids, int nids);

/* Does collet_comm_init_rank_scalable(); its arguments are checked. believed: where the number of ranks comes from, for error texts. */
enum collet_result comm_init_rank(struct collet_comm **comm_p, int nranks, const struct collet_unique_id *ids, int nids,
                                  int rank, const struct collet_config *config, const char *believed);

/* Makes progress toward the other ranks, as a communicator without a parent. */
enum collet_result comm_join_alone(struct collet_comm *comm);

/* Makes progress with joining. IN_PROGRESS: call again. SUCCESS: it is ready. On failure it is FAILED. */
enum collet_result comm_try_join(struct collet_comm *comm);

/* Ends joining; the caller holds the lock, which is released. *comm->to becomes comm; or NULL if it failed (then it is discarded), or
 * if the rank is in no communicator. */
void comm_hand_over(struct collet_comm *comm, enum collet_result result);

/* Ends joining, with the result of the whole group. If it is a failure, the other ranks are told the thread's last error, and comm is
 * discarded. */
void comm_end_join(struct collet_comm *comm, enum collet_result result);

/* Blocks until every comms[k] is ready and handed over. On failure it gives up all of them. */
enum collet_result comm_join_all(struct collet_comm *const *comms, int ncomms);

/* Finishes the calls of comm and frees it, in any state. The caller holds the lock, which ends too, or no other thread knows comm.
 * NULL is fine. */
void comm_discard(struct collet_comm *comm);

/* Closes everything that was opened for comm, which could then join again. No other thread may use it. */
void comm_close(struct collet_comm *comm);

#endif
