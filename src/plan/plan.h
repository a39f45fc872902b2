/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: one call → algorithm, protocol, channels, chunk, and the bound program that runs it.
 *
 * A plan is a pure function of what is equal on all ranks (the call's collective, count, type, op, root; the table of
 * ranks; their map; rank 0's configuration), so all ranks come to the same one without a word.
 */
#ifndef COLLET_PLAN_PLAN_H
#define COLLET_PLAN_PLAN_H

#include "exec/exec.h"
#include "plan/choice.h"
#include "plan/limits.h"
#include "plan/map.h"

struct planner;

/* For one rank. Errors: INVALID_USAGE naming COLLET_ALGO or COLLET_PROTO if they hold an unknown name. The chan, config
 * and map must outlive the planner. */
enum collet_result planner_create(struct chan *chan, const struct config *config, const struct map *map,
                                  struct planner **planner_p);
void planner_destroy(struct planner *planner); /* NULL is fine */

/* The ranks in the order of each ring that channels use, as text. */
void plan_dump(const struct planner *planner, FILE *out);

/* What a call would be run with: the table's entry for its size, made when it is first asked for. */
enum collet_result plan_choose(struct planner *planner, const struct exec_request *request,
                               struct plan_choice *choice_p);

/* Makes *call the request's, CONNECTING, but for the buffers and the sequence number. Before, *call is zero or an earlier
 * call of this planner: often the same one, and then little is to be done. */
enum collet_result plan_get(struct planner *planner, const struct exec_request *request, struct exec_call *call);

#endif
