/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of GPU communicators: they are in their streams when this returns.
 */
#ifndef COLLET_LAYERS_GPU_LAUNCH_H
#define COLLET_LAYERS_GPU_LAUNCH_H

#include "api/comm.h"

/* Launches those of the posts that are of GPU communicators; the others it leaves alone. On a failure every communicator of
 * the posts fails, those on host memory too: the calls of a group are made together. */
enum collet_result launch_run(struct post *posts, int nposts);

#endif
