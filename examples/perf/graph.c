/* SPDX-License-Identifier: Apache-2.0
 *
 * -G: calls are captured into CUDA graphs, one for each stream of a team, and launched. Between begin and end nothing may
 * wait for a stream. Capture is of mode thread-local: other threads may allocate memory meanwhile.
 */
#include "perf.h"

#include <stdlib.h>

static const struct perf_graphs *use_gpu_of(const struct perf_team *team, int i) {
    perf_device->use(device_of(team->first_rank + i));
    return perf_device->graphs;
}

void graph_begin(const struct perf_team *team) {
    for (int i = 0; i < team->count; i++)
        use_gpu_of(team, i)->begin(team->streams[i]);
}

void **graph_end(const struct perf_team *team) {
    void **graphs = perf_allocate((size_t)team->count * sizeof(*graphs));
    for (int i = 0; i < team->count; i++)
        graphs[i] = use_gpu_of(team, i)->end(team->streams[i]);
    return graphs;
}

void graph_launch(const struct perf_team *team, void *const *graphs) {
    for (int i = 0; i < team->count; i++)
        use_gpu_of(team, i)->launch(graphs[i], team->streams[i]);
}

void graph_free(const struct perf_team *team, void **graphs) {
    for (int i = 0; i < team->count; i++)
        use_gpu_of(team, i)->release(graphs[i]);
    free(graphs);
}
