/* SPDX-License-Identifier: Apache-2.0
 *
 * -G: the calls of a team are captured into one CUDA graph, which is launched in its first stream:
 *
 *    stream 0    ──┬── its calls ──┬──▶
 *    stream 1      └── its calls ──┘
 *
 * Why not a graph for each stream? Ranks that share a GPU wait for each other, but graphs that are launched one by one may stand behind
 * each other in the GPU's queues. Between begin and end no call may wait for a stream. The capture mode is thread-local, so other threads
 * may allocate memory at the same time.
 */
#include "perf.h"

static const struct perf_graphs *use_gpu_of(const struct perf_team *team, int i) {
    perf_device->use(device_of(team->first_rank + i));
    return perf_device->graphs;
}

void graph_begin(const struct perf_team *team) {
    const struct perf_graphs *graphs = use_gpu_of(team, 0);
    graphs->begin(team->streams[0]);
    for (int i = 1; i < team->count; i++)
        graphs->order(team->streams[0], team->streams[i]);
}

void *graph_end(const struct perf_team *team) {
    for (int i = 1; i < team->count; i++)
        use_gpu_of(team, i)->order(team->streams[i], team->streams[0]);
    return use_gpu_of(team, 0)->end(team->streams[0]);
}

void graph_launch(const struct perf_team *team, void *graph) { use_gpu_of(team, 0)->launch(graph, team->streams[0]); }

void graph_free(const struct perf_team *team, void *graph) { use_gpu_of(team, 0)->release(graph); }
