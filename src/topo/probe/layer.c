/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer "topology": ranks that join come to the same map of their machines.
 */
#include "seams/layer.h"

#include "api/comm.h"
#include "base/log.h"
#include "topo/probe/survey.h"

static enum collet_result make_map(struct collet_comm *comm) {
    if (comm->map != NULL)
        return COLLET_SUCCESS;
    if (comm->survey == NULL)
        COLLET_TRY(survey_create(comm->boot, &comm->config, comm->nranks, comm->rank, &comm->survey));
    COLLET_TRY(survey_try(comm->survey, &comm->map));
    survey_destroy(comm->survey);
    comm->survey = NULL;
    chart_log(comm->map, comm->rank, comm->rank == 0 && log_wanted(LOG_INFO, LOG_GRAPH));
    return COLLET_SUCCESS;
}

static void forget_map(struct collet_comm *comm) {
    chart_destroy(comm->map);
    survey_destroy(comm->survey);
    comm->map = NULL;
    comm->survey = NULL;
}

const struct layer layer_topology = {.comm_join = make_map, .comm_free = forget_map};
