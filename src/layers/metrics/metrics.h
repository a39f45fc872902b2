/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks are doing, in the text format of Prometheus. Two programs output it:
 *
 *      COLLET_METRICS    this process: the ranks that live in it, over HTTP or into a file          no other process is asked
 *      collet-status     --serve, --metrics: all ranks of all jobs of this host's user, and which one holds others up
 */
#ifndef COLLET_LAYERS_METRICS_METRICS_H
#define COLLET_LAYERS_METRICS_METRICS_H

#include "layers/observe/status.h"

#include <stdio.h>

/* A rank of a communicator. */
struct metrics_rank {
    uint64_t communicator; /* boot_tag() */
    const char *name;      /* name of the communicator; may be empty */
    int rank;
    const char *host;
    const struct status *status; /* NULL: the rank has not answered */
    bool is_up, is_stopped;
    int blocks; /* number of ranks that wait for this rank; −1: not known */
};

void metrics_print(const struct metrics_rank *ranks, int nranks, FILE *out);

/* The HTTP header of a page of metrics. */
#define METRICS_HTTP_HEAD                                                                                              \
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %zu\r\n"             \
    "Connection: close\r\n\r\n"

#endif
