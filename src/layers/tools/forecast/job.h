/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of equal hosts, as forecasts know it: its machine, its rings, and what its configuration allows.
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_JOB_H
#define COLLET_LAYERS_TOOLS_FORECAST_JOB_H

#include "base/config_read.h"
#include "layers/tuner/tuner.h"

/* Maximum number of steps that one forecast may simulate. */
#define FORECAST_STEPS_MAX 60000000.0

struct forecast_job {
    struct config config;
    struct topo_rings *rings;
    struct net *net;
    struct prog_shape *shapes; /* [ring]: all ranks along the ring. */
    double *crowd;             /* [rank]: ranks per CPU. NULL: as far as is known, ranks do not share CPUs. */
    struct tuner_limits limits;
    struct cost_table costs;     /* Constants for GPUs of this generation. */
    struct cost_machine machine; /* The machine with all ranks. */
    int nhosts, nlocal, nranks;
    uint32_t elem_bytes; /* Bytes of one element of the calls. Choices depend on bytes alone. */
    double steps_max;
};

/* Makes a job of nhosts hosts. `topo` is a finished graph of one host, or of two or more equal hosts if the job has several;
 * it must outlive the job. per_host: as in topo_place_ranks(). The configuration is read as communicators read it. Errors:
 * INVALID_ARGUMENT if hosts differ, and those of config_read() and tuner_limits_read(). */
enum collet_result forecast_open(const struct topo *topo, int nhosts, int per_host, struct forecast_job **job_p);
void forecast_close(struct forecast_job *job);

#endif
