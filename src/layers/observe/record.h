/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLET_RECORD: a line of JSON per call.
 */
#ifndef COLLET_LAYERS_OBSERVE_RECORD_H
#define COLLET_LAYERS_OBSERVE_RECORD_H

#include "seams/observe.h"

struct record;

enum collet_result record_open(const struct chan *chan, struct record **record_p);
void record_close(struct record *record); /* writes the lines that are left */

/* Adds the line of a call that has ended. */
void record_add(struct record *record, const struct event_calls *calls);

#endif
