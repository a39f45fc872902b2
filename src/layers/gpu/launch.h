/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches calls of GPU communicators: on return, the calls are in their streams.
 */
#ifndef COLLET_LAYERS_GPU_LAUNCH_H
#define COLLET_LAYERS_GPU_LAUNCH_H

#include "api/comm.h"
#include "seams/gpu.h"

#endif
