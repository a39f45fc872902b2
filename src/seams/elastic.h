/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "elastic": it creates communicators from another communicator.
 * Without the layer, only init creates communicators.
 */
#ifndef COLLET_SEAMS_ELASTIC_H
#define COLLET_SEAMS_ELASTIC_H

#include "boot/hub.h"

struct collet_comm;

/* If comm->split is not NULL, the communicator is made from another communicator, its parent. */

/* Makes progress with joining, like comm_join_alone(). SUCCESS: all ranks have joined; or comm->nranks is 0, because this rank is in no new
 * communicator. A failure is also recorded in the parent, so that the parent can say why it was aborted. */
enum collet_result split_join(struct collet_comm *comm);

/* Makes progress with the communicator that a non-blocking parent is creating. IN_PROGRESS: it is not ready. A failure is returned once. */
enum collet_result split_poll(struct collet_comm *parent);

/* Called at the end of comm: gives up the communicator that is being made from comm, and comm's own creation. */
void split_discard(struct collet_comm *comm);

#endif
