/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated call as a timeline that chrome://tracing and ui.perfetto.dev open: a process per rank, a row per worker, a bar per
 * step, an arrow per message.
 */
#ifndef COLLET_LAYERS_TOOLS_SIM_TIMELINE_H
#define COLLET_LAYERS_TOOLS_SIM_TIMELINE_H

#include "layers/tools/forecast/simulated.h"

#include <stdio.h>

/* Writes the timeline of a choice for a call of this size. All ranks are simulated. Errors: INVALID_ARGUMENT if there are more
 * than COST_RANKS_MAX ranks, and those of simulated_run(). */
enum collet_result timeline_write(const struct forecast_job *job, const struct plan_choice *choice, uint64_t bytes,
                                  FILE *out);

#endif
