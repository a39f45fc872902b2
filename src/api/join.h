/* SPDX-License-Identifier: Apache-2.0
 *
 * How a communicator begins and ends: handle ─▶ joining ─▶ ready ─▶ finalized or failed ─▶ the handle is used again.
 */
#ifndef COLLET_API_JOIN_H
#define COLLET_API_JOIN_H

#include "api/comm.h"

/* comm_create(): makes a communicator that is joining. comm_show(): from now on, other threads accept the handle. Before, only the
 * caller may use the communicator, so the caller can set its fields undisturbed. */
enum collet_result comm_create(int nranks, int rank, struct collet_comm **comm_p);
void comm_show(struct collet_comm *comm);

/* Starts to join the other ranks. The caller has set nranks, rank and the configuration of comm. */
enum collet_result comm_join(struct collet_comm *comm, const struct collet_unique_id *ids, int nids);

/* Does collet_comm_init_rank_scalable(), whose caller has checked ids and nids. believed: says in error texts who gave the number of
 * ranks ("by the argument nranks"). */
enum collet_result comm_init_rank(struct collet_comm **comm_p, int nranks, const struct collet_unique_id *ids, int nids,
                                  int rank, const struct collet_config *config, const char *believed);

/* Makes progress with joining the other ranks, for a communicator that is not made from another one. */
enum collet_result comm_join_alone(struct collet_comm *comm);

/* Makes progress with joining, for any communicator. IN_PROGRESS: call again. SUCCESS: comm is ready. Failure: its phase is COMM_FAILED. */
enum collet_result comm_try_join(struct collet_comm *comm);

/* Ends joining. The caller holds comm's lock, which this function releases. *comm->to becomes comm. If joining has failed, or if a split
 * leaves this rank in no communicator, *comm->to becomes NULL and comm is discarded. */
void comm_hand_over(struct collet_comm *comm, enum collet_result result);

/* Ends joining with the result of the whole group of calls. On a failure, it tells the other ranks the thread's last error, and discards
 * comm. */
void comm_end_join(struct collet_comm *comm, enum collet_result result);

/* Blocks until every comms[k] is ready and handed over. On failure it gives up all of them. */
enum collet_result comm_join_all(struct collet_comm *const *comms, int ncomms);

/* Finishes the calls of comm and frees comm, in any phase. The caller holds comm's lock, which is released, or no other thread knows
 * comm. NULL is fine. */
void comm_discard(struct collet_comm *comm);

/* Closes everything that was opened for comm. comm could then join again. No other thread may use comm. */
void comm_close(struct collet_comm *comm);

#endif
