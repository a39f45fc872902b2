/* SPDX-License-Identifier: Apache-2.0
 *
 * Times allreduces. All ranks are in this process, and are dealt to the GPUs that it sees. The calls of a sample stand in the GPUs' streams
 * one behind another. The time of a sample lasts from the first launch to the end of the last call.
 *
 *      one group       one thread makes the calls of all ranks: one grid for those of a GPU
 *      in threads      each rank has a thread and a stream: a grid for each, and all of them run side by side
 */
#ifndef COLLET_LAYERS_TOOLS_TUNE_GPU_CALLS_H
#define COLLET_LAYERS_TOOLS_TUNE_GPU_CALLS_H

#include "layers/gpu/gpu.h"
#include "layers/tools/tune/lab.h"

struct gpu_calls {
    const struct gpu_driver *driver;
    int nranks;
    bool threads;
    bool failed; /* A call has failed. No further calls are made then. Atomic. */
    int devices[LAB_RANKS_MAX], ordinals[LAB_RANKS_MAX];
    struct collet_comm *comms[LAB_RANKS_MAX];
    void *in[LAB_RANKS_MAX], *out[LAB_RANKS_MAX], *event[LAB_RANKS_MAX];
};

/* Opens `count` GPUs, and makes buffers of `bytes` bytes for all ranks. A failure ends the process with a message; only
 * calls may fail without. */
void gpu_calls_create(struct gpu_calls *calls, int count, uint64_t bytes);
void gpu_calls_destroy(struct gpu_calls *calls);

/* Creates communicators whose calls run as this candidate. False: the candidate is not possible here, or the creation has failed. */
bool gpu_calls_open(struct gpu_calls *calls, const struct plan_choice *candidate);
void gpu_calls_close(struct gpu_calls *calls);

/* Returns the time of a call in ns, as the mean of `times` calls. 0: the candidate cannot do this call, or the call has failed. */
double gpu_calls_time(struct gpu_calls *calls, uint64_t bytes, int times);

#endif
