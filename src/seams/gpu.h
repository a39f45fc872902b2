/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "gpu", which runs calls of ranks on GPUs. Without it gpu_find() refuses every GPU. So no rank is on
 * one, and nothing else here has anything to do.
 */
#ifndef COLLET_SEAMS_GPU_H
#define COLLET_SEAMS_GPU_H

#include "collet.h"

#include <stdbool.h>
#include <stdint.h>

struct chan;
struct exec_request;
struct gpu_rank;
struct gpu_window;
struct post;

/* A place in a window of this rank. Calls keep it for copy engines. */
struct gpu_window_place {
    const struct gpu_window *window; /* valid while the window is */
    uint32_t number;                 /* 1 … LOAN_WINDOWS − 1; equal on all ranks */
    uint64_t offset;
};

/* COLLET_DEVICE_CUDA(ordinal) or COLLET_DEVICE_CUDA_CURRENT to an ordinal that exists here. UNSUPPORTED without driver or
 * GPU, INVALID_ARGUMENT for one that is not there; `argument` is named. */
enum collet_result gpu_find(int device, const char *argument, int *ordinal_p);

/* What a rank has on its GPU: made before its connections, ended after them. */
enum collet_result gpu_rank_create(int ordinal, struct gpu_rank **rank_p);
void gpu_rank_destroy(struct gpu_rank *rank); /* its operations are done; NULL is fine */

/* What the connections of a rank share on its GPU: made before the first of them. close: after the work has ended, before they are
 * closed; also after a failed open. Both do nothing for a rank on host memory. */
enum collet_result gpu_chan_open(struct chan *chan);
void gpu_chan_close(struct chan *chan);

/* From now on a thread of the process sees to it that a failure elsewhere ends this rank's launches, and that one here is
 * told to the others (gpu_watch.c), and other threads wait for this rank's part in launches (gpu_company.h); until gpu_end(). */
enum collet_result exec_gpu_watch(struct chan *chan);

/* The communicator ends. What runs on the GPU ends by itself, or is told to if the communicator has failed; then the rank's proxy
 * ends, too, also that of a rank on host memory. False: work on the GPU does not end, although told. Then nothing that it uses may be
 * freed. */
bool gpu_end(struct chan *chan);

/* Launches those of the posts that are of GPU communicators; the others it leaves alone. On a failure every communicator of
 * the posts fails, those on host memory too: the calls of a group are made together. */
enum collet_result launch_run(struct post *posts, int nposts);

/* A sum that switches make, if the call's buffers lie in windows that have teams? All ranks answer alike: by the call, and by whether
 * the communicator has had such a window. */
bool exec_gpu_may_switch(const struct chan *chan, const struct exec_request *request);

#endif
