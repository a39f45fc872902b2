/* SPDX-License-Identifier: Apache-2.0
 *
 * The answers to collet-status in the text format of Prometheus: for its textfile collector, or over HTTP. One exporter serves all
 * processes of a host. With COLLET_METRICS, each process serves its own ranks instead (layers/metrics/exporter.h).
 */
#ifndef COLLET_LAYERS_TOOLS_STATUS_METRICS_H
#define COLLET_LAYERS_TOOLS_STATUS_METRICS_H

#include "layers/tools/status/ask.h"

#include <stdio.h>

/* Prints the metrics of jobs. blame_find() must have been called for each of them. */
void status_print_metrics(const struct status_jobs *jobs, FILE *out);

/* Answers HTTP on this port of 127.0.0.1, one request after the other. port 0: any free port, which is printed. get() asks
 * the jobs anew for each request. Returns the exit status if the port cannot be used. */
int status_serve_metrics(int port, void (*get)(struct status_jobs *jobs));

#endif
