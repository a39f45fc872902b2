/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators that are made of another one, the parent: by collet_comm_split(), _shrink() and _grow().
 */
#ifndef COLLET_API_SPLIT_H
#define COLLET_API_SPLIT_H

#include "api/comm.h"

/* Moves comm, which is made of another one, toward its place among the ranks. SUCCESS: it has begun to join them, and its
 * parent is well; or comm->nranks is 0, because this rank is in no new communicator. */
enum collet_result split_try(struct collet_comm *comm);

/* comm no longer needs its parent: it is complete, or is given up. Harmless on a communicator that has none. */
void split_end(struct collet_comm *comm);

/* comm could not be made, for the thread's last error: that becomes its parent's as well, so that a parent that is aborted then
 * says why. Harmless on a communicator that has no parent. */
void split_keep_error(const struct collet_comm *comm, enum collet_result result);

/* Moves what a non-blocking parent is being made into. IN_PROGRESS while it is; its failure, once; else SUCCESS. */
enum collet_result split_poll(struct collet_comm *parent);

/* Gives that up. */
void split_give_up(struct collet_comm *parent);

#endif
