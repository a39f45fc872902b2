/* SPDX-License-Identifier: Apache-2.0
 *
 * How all ranks of a new communicator come to the same map (map.h), over the control plane:
 *
 *      every rank                lowest rank of a node              rank 0
 *      where am I?  ───────────▶ looks at the machine, finds        collects the reports of all nodes,
 *                                its ranks on it, measures
 *                                how far CPUs are  ───────────────▶ makes the atlas of them
 *      makes the map ◀────────── passes on              ◀──────────
 *
 * So only one process of each node looks at the machine, and that once (topo_here()).
 */
#ifndef COLLET_TOPO_PROBE_SURVEY_H
#define COLLET_TOPO_PROBE_SURVEY_H

#include "topo/probe/chart.h"

struct survey;

/* Begins a survey. `boot` must be ready. `boot` and `config` must outlive the survey. */
enum collet_result survey_create(struct boot *boot, const struct config *config, int nranks, int rank,
                                 struct survey **survey_p);
void survey_destroy(struct survey *survey); /* `survey` may be NULL. */

/* Advances the survey without waiting. IN_PROGRESS: call again. SUCCESS: the caller owns *map_p. Errors: the failure of the
 * communicator, REMOTE if a rank that is waited for is gone, TIMEOUT after COLLET_INIT_TIMEOUT. */
enum collet_result survey_try(struct survey *survey, struct map **map_p);

#endif
