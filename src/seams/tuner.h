/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "tuner", which chooses by a model of the machine. Without it a table chooses: few bytes go by few
 * hops, many bytes round a ring.
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
 * arguments but config must outlive the chooser. Errors: INVALID_USAGE for a plugin that was named, NO_MEMORY. */
enum collet_result chooser_create(const struct chan *chan, const struct config *config, const struct map *map,
                                  const struct prog_shape *shapes, int nshapes, struct tuner_limits *limits,
                                  struct chooser **chooser_p);
void chooser_destroy(struct chooser *chooser); /* NULL is fine */

/* Chooses the best plan for a call like this one, with `bytes`. Every rank gets the same. Errors: INVALID_USAGE if the limits leave
 * nothing; INVALID_ARGUMENT if the call insists on what cannot be; NO_MEMORY; INTERNAL if an algorithm is wrong, with the verifier's text. */
enum collet_result chooser_choose(struct chooser *chooser, struct tuner_limits *limits,
                                  const struct exec_request *request, uint64_t bytes, struct plan_choice *choice);

#endif
