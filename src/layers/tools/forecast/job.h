/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of equal hosts, as forecasts know it: its machine, its rings, and what its configuration allows.
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_JOB_H
#define COLLET_LAYERS_TOOLS_FORECAST_JOB_H

#include "base/config_read.h"
#include "layers/tuner/tuner.h"

/* Steps that one forecast may simulate. */
#define FORECAST_STEPS_MAX 60000000.0

struct forecast_job {
    struct config config;
    struct topo_rings *rings;
    struct net *net;
    struct prog_shape *shapes; /* along each ring */
    double *crowd;             /* ranks per CPU; NULL: as far as is known, no ranks share a CPU */
    struct tuner_limits limits;
    struct cost_table costs;     /* of the GPUs' generation */
    struct cost_machine machine; /* of all ranks */
    int nhosts, nlocal, nranks;
    uint32_t elem_bytes; /* bytes of one element of the calls; choices depend on bytes alone */
    double steps_max;
};

/* topo: a finished graph of one host, or of two or more equal ones where the job has several; nhosts is the number of
 * hosts of the job. per_host as in topo_place_ranks(). Configuration is read as communicators do. topo must outlive the job.
 * Errors: INVALID_ARGUMENT if hosts differ, those of config_read() and tuner_limits_read(). */
enum collet_result forecast_open(const struct topo *topo, int nhosts, int per_host, struct forecast_job **job_p);
void forecast_close(struct forecast_job *job);

#endif
