/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "elastic": communicators that are made of another one, and
 * meeting points that are one of several. Without the layer a communicator is made by init alone, and all ranks meet at one point.
 */
#ifndef COLLET_SEAMS_ELASTIC_H
#define COLLET_SEAMS_ELASTIC_H

#include "boot/hub.h"

struct collet_comm;

/* ---- communicators that are made of another one, the parent: comm->split is not NULL ---- */

/* Moves comm toward the others, as comm_join_alone() does. SUCCESS: all have come; or comm->nranks is 0, because this rank is in no new
 * communicator. A failure is its parent's as well, so that a parent that is aborted then says why. */
enum collet_result split_join(struct collet_comm *comm);

/* Moves what a non-blocking parent is being made into. IN_PROGRESS while it is; its failure, once; else SUCCESS. */
enum collet_result split_poll(struct collet_comm *parent);

/* comm ends: gives that up, and what comm itself is made of. */
void split_discard(struct collet_comm *comm);

/* ---- meeting points that are one of several ---- */

struct failure;
struct frame;
struct rendezvous;
struct relay;

/* A TABLE_VIA has come. A meeting that nobody has joined yet becomes a relay: meeting->relay; not if the frame names no id, or there is
 * no memory. Does it lead to the meeting point that the frame names? */
bool relay_via(struct rendezvous *meeting, const struct frame *frame);
void relay_destroy(struct relay *relay); /* NULL is fine, as for relay_fail() */

/* A guest's frame goes on as it is. */
void relay_pass_up(struct relay *relay, const struct frame *frame);
/* Init has failed here. */
void relay_fail(struct relay *relay, const struct failure *failure);

#endif
