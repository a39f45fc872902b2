/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes a meeting point one of several: it passes on what its guests say, to the meeting point of the first id.
 */
#ifndef COLLET_LAYERS_ELASTIC_RELAY_H
#define COLLET_LAYERS_ELASTIC_RELAY_H

#include "boot/table.h"

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
