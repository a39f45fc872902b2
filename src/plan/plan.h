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
#include "plan/cost.h"
#include "plan/limits.h"
#include "plan/map.h"

struct planner;

/* Who chooses in place of tuner_choose(), for communicators with COLLET_TUNER_PLUGIN: a library over this one may let
 * plugins do it. `choose` has to come to the same choice on every rank. */
struct plan_adviser {
    enum collet_result (*open)(const char *plugin, int nranks, int nnodes, void **context_p);
    enum collet_result (*choose)(void *context, const struct cost_machine *machine, const struct tuner_limits *limits,
                                 enum prog_collective collective, uint64_t count, uint32_t elem_bytes,
                                 struct plan_choice *choice);
    void (*close)(void *context);
};
void plan_take_adviser(const struct plan_adviser *adviser);

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
