/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "tuner", which chooses plans with a model of the machine. Without the layer a table chooses: an
 * algorithm with few hops for few bytes, a ring for many bytes.
 */
#ifndef COLLET_SEAMS_TUNER_H
#define COLLET_SEAMS_TUNER_H

#include "chan/chan.h"
#include "plan/choice.h"
#include "plan/limits.h"
#include "plan/map.h"

struct exec_request;
struct chooser;

/* Creates the chooser of a communicator. shapes: one for each ring. If rank 0 has a schedule for these ranks, it is stored in *limits. All
 * arguments but config must outlive the chooser. Errors: INVALID_USAGE if a plugin that a knob names does not work, NO_MEMORY. */
enum collet_result chooser_create(const struct chan *chan, const struct config *config, const struct map *map,
                                  const struct prog_shape *shapes, int nshapes, struct tuner_limits *limits,
                                  struct chooser **chooser_p);
void chooser_destroy(struct chooser *chooser); /* NULL is fine */

/* Chooses the best plan for a call like this request, with `bytes` bytes. Every rank gets the same plan. Errors: INVALID_USAGE if the
 * limits leave no plan; INVALID_ARGUMENT if an option of the call cannot be met; NO_MEMORY; INTERNAL, with the verifier's text, if an
 * algorithm is wrong. */
enum collet_result chooser_choose(struct chooser *chooser, struct tuner_limits *limits,
                                  const struct exec_request *request, uint64_t bytes, struct plan_choice *choice);

#endif
