/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the flight recorder as JSON: the dump and the record have the same members.
 */
#ifndef COLLET_LAYERS_OBSERVE_OPERATION_H
#define COLLET_LAYERS_OBSERVE_OPERATION_H

#include "layers/observe/json.h"
#include "seams/observe.h"

/* Returns "done", "begun", "failed" or "on GPU". */
const char *operation_state(const struct event_calls *calls, bool under_way);

/* Returns the bytes of the call's larger buffer: of the blocks of all ranks together. */
uint64_t operation_bytes(const struct event_calls *calls, int nranks);

/* Writes the communicator and this rank. */
void operation_put_owner(struct json *json, const struct chan *chan);
void operation_put(struct json *json, const struct event_calls *calls, bool under_way, int nranks);
/* Writes times in ns of rank 0's clock, so that times of all ranks can be compared. */
void operation_put_times(struct json *json, const struct event_calls *calls, const struct chan *chan);

#endif
