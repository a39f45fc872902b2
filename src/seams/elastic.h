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

/* Makes progress with joining, like comm_join_alone(). SUCCESS: all ranks have joined; or comm->nranks is 0, because this rank is in no new
 * communicator. A failure is also recorded in the parent, which can then say why it was aborted. */
enum collet_result split_join(struct collet_comm *comm);

/* Makes progress with the communicator that a non-blocking parent is making. IN_PROGRESS: not ready. A failure is returned once. */
enum collet_result split_poll(struct collet_comm *parent);

/* Called at the end of comm: gives up the communicator that it is making, and its own making. */
void split_discard(struct collet_comm *comm);

/* ---- meeting points that are one of several ---- */

struct failure;
struct frame;
struct rendezvous;
struct relay;

/* A TABLE_VIA frame has come. A meeting that nobody has joined yet becomes a relay (meeting->relay), unless the frame has no valid id,
 * or there is no memory. True: the relay leads to the meeting point in the frame. */
bool relay_via(struct rendezvous *meeting, const struct frame *frame);
void relay_destroy(struct relay *relay); /* NULL is fine, also for relay_fail() */

/* Passes a guest's frame on, unchanged. */
void relay_pass_up(struct relay *relay, const struct frame *frame);
/* Init has failed here: tells the other meeting point. */
void relay_fail(struct relay *relay, const struct failure *failure);

#endif
