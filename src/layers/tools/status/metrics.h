/* SPDX-License-Identifier: Apache-2.0
 *
 * What collet-status knows, in the text format of Prometheus: for its textfile collector, or over HTTP. One exporter serves all
 * processes of a host; with COLLET_METRICS each process serves its own ranks (layers/observe/exporter.h).
 */
#ifndef COLLET_LAYERS_TOOLS_STATUS_METRICS_H
#define COLLET_LAYERS_TOOLS_STATUS_METRICS_H

#include "layers/tools/status/ask.h"

#include <stdio.h>

/* Of jobs for which blame_find() has been called. */
void status_print_metrics(const struct status_jobs *jobs, FILE *out);

/* Answers HTTP on this port of 127.0.0.1 (0: any that is free, which is printed), one request after the other; get() asks
 * anew for each. Returns what to exit with if it cannot. */
int status_serve_metrics(int port, void (*get)(struct status_jobs *jobs));

#endif
