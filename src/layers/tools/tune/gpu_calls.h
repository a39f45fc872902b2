/* SPDX-License-Identifier: Apache-2.0
 *
 * Allreduces of ranks that are all in this process, dealt to the GPUs it sees, and how long they take. Calls of a sample stand in the
 * GPUs' streams one behind another; what is timed is from the first launch to the end of the last.
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
    bool failed; /* atomic: a call has. From then on there are none */
    int devices[LAB_RANKS_MAX], ordinals[LAB_RANKS_MAX];
    struct collet_comm *comms[LAB_RANKS_MAX];
    void *in[LAB_RANKS_MAX], *out[LAB_RANKS_MAX], *event[LAB_RANKS_MAX];
};

/* Failures end the process with a message, but for those of calls. Buffers of so many bytes, on `count` GPUs. */
void gpu_calls_create(struct gpu_calls *calls, int count, uint64_t bytes);
void gpu_calls_destroy(struct gpu_calls *calls);

/* Communicators whose calls are this candidate. False: there cannot be such, or that has failed. */
bool gpu_calls_open(struct gpu_calls *calls, const struct plan_choice *candidate);
void gpu_calls_close(struct gpu_calls *calls);

/* ns a call, of so many; 0: there cannot be such a call, or it has failed. */
double gpu_calls_time(struct gpu_calls *calls, uint64_t bytes, int times);

#endif
