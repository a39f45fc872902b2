/* SPDX-License-Identifier: Apache-2.0
 *
 * The device executor as the host sees it: puts calls of GPU communicators into streams.
 *
 *    calls of a group ──▶ connect ──▶ programs to the GPU ──▶ meet ──▶ launches, fused for ranks of one GPU ──▶ streams
 *
 * Ranks of one communicator that share a GPU, in one group or in threads of one process, are launched as one grid all of whose blocks
 * are on the GPU at the same time, so they always make progress together. If all channels do not fit at once, the launches go channel by
 * channel, in the same order on every rank.
 */
#ifndef COLLET_LAYERS_GPU_EXEC_GPU_H
#define COLLET_LAYERS_GPU_EXEC_GPU_H

#include "exec/exec.h"
#include "layers/gpu/windows.h"
#include "kernels/work.h"

/* Puts calls of GPU communicators into their streams. On a failure, every communicator that has a call here fails.
 * UNSUPPORTED, with the numbers: the ranks of one GPU do not fit on it. */
enum collet_result exec_gpu_run(struct exec_call *calls, int ncalls);

/* Returns what a rank's blocks have found out about their calls: SUCCESS, or MISMATCH with a text. */
enum collet_result exec_gpu_check(const struct chan *chan);
/* Ends every launch of the rank, also launches that still wait in its streams. */
void exec_gpu_end(const struct chan *chan);

/* From now on a thread of the process watches this rank (gpu_watch.c): a failure elsewhere ends this rank's launches, and a failure here
 * is told to the other ranks. Also, other threads wait for this rank's part in launches (gpu_company.h). */
enum collet_result exec_gpu_watch(struct chan *chan);
/* Ends what exec_gpu_watch() began. */
void exec_gpu_unwatch(struct chan *chan);

#endif
