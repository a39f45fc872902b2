/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: for one call, the algorithm, protocol, channels and chunk, and the bound program that runs the call.
 *
 * A plan depends only on facts that are equal on all ranks: the call's collective, count, type, op and root; the table of
 * ranks; their map; rank 0's configuration. So all ranks make the same plan without a message.
 */
#ifndef COLLET_PLAN_PLAN_H
#define COLLET_PLAN_PLAN_H

#include "exec/exec.h"
#include "plan/choice.h"
#include "plan/limits.h"
#include "plan/map.h"

struct planner;

/* Creates the planner of one rank. Errors: INVALID_USAGE if COLLET_ALGO or COLLET_PROTO has an unknown name. The chan, config and map
 * must outlive the planner. */
enum collet_result planner_create(struct chan *chan, const struct config *config, const struct map *map,
                                  struct planner **planner_p);
void planner_destroy(struct planner *planner); /* NULL is fine */

/* Prints, for each ring that channels use, the ranks in its order. */
void plan_dump(const struct planner *planner, FILE *out);

/* Gets the choice for this request from the planner's table, by its size. The first request of a size computes the entry. */
enum collet_result plan_choose(struct planner *planner, const struct exec_request *request,
                               struct plan_choice *choice_p);

/* Prepares *call for the request: sets its state CONNECTING, and all fields but the buffers and the sequence number. Before, *call must be
 * zero or an earlier call of this planner. If its request was equal, there is little to do. */
enum collet_result plan_get(struct planner *planner, const struct exec_request *request, struct exec_call *call);

#endif
