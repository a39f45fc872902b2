/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "elastic": communicators that are made of another one, verdicts of ranks of which some may die, and
 * meeting points that are one of several. Without the layer a communicator is made by init alone, and all ranks meet at one point.
 */
#ifndef COLLET_SEAMS_ELASTIC_H
#define COLLET_SEAMS_ELASTIC_H

#include "boot/hub.h"

struct collet_comm;

/* ---- communicators that are made of another one, the parent: comm->split is not NULL ---- */

/* Moves comm toward its place among the ranks. SUCCESS: it has begun to join them, and nothing in its parent stops it; or comm->nranks
 * is 0, because this rank is in no new communicator. *settles: it has joined them, and only asks whether all have. */
enum collet_result split_try(struct collet_comm *comm, bool *settles);

/* The rank has joined the others with this result, or could not. What is the result of all? IN_PROGRESS: not known yet, or they begin
 * again. Harmless, as what follows, on a communicator that is made of no other one. */
enum collet_result split_settle(struct collet_comm *comm, enum collet_result result);

/* comm no longer needs its parent: it is complete. Or it could not be made (result), for the thread's last error: that becomes its
 * parent's as well, so that a parent that is aborted then says why. */
void split_end(struct collet_comm *comm, enum collet_result result);

/* comm is given up for want of memory (code), with the thread's last error: the others, which make it too, hear of it. */
void split_refuse(struct collet_comm *comm, enum collet_result code);

/* Moves what a non-blocking parent is being made into. IN_PROGRESS while it is; its failure, once; else SUCCESS. */
enum collet_result split_poll(struct collet_comm *parent);

/* comm ends: gives that up, and what comm itself is made of. */
void split_discard(struct collet_comm *comm);

/* ---- verdicts ---- */

/* Makes a letter with the verdict that the receiver of this vote has had before (consent.h); NULL: it has not, or there is no
 * memory. */
struct letter *hub_recall(struct hub *hub, const struct letter *vote);
void hub_forget_consents(struct hub *hub);
/* Sees to it that this rank can say no when there is no memory. */
enum collet_result hub_stock_consent(struct boot *boot);

/* ---- meeting points that are one of several ---- */

struct failure;
struct frame;
struct rendezvous;
struct relay;

/* By a TABLE_VIA, this meeting becomes a relay: meeting->relay. Not if the frame names no id, or there is no memory. */
void relay_create(struct rendezvous *meeting, const struct frame *frame);
void relay_destroy(struct relay *relay); /* NULL is fine, as for relay_fail() */
/* Does it lead to the meeting point that this TABLE_VIA names? */
bool relay_leads_to(const struct relay *relay, const struct frame *frame);

/* A rank's card is in the meeting's table. */
void relay_announce(struct relay *relay, int rank);
/* A guest's frame goes on as it is. */
void relay_pass_up(struct relay *relay, const struct frame *frame);
/* Init has failed here. */
void relay_fail(struct relay *relay, const struct failure *failure);

#endif
