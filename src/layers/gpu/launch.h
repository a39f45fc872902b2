/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of GPU communicators: they are in their streams when this returns.
 */
#ifndef COLLET_LAYERS_GPU_LAUNCH_H
#define COLLET_LAYERS_GPU_LAUNCH_H

#include "api/comm.h"
#include "seams/gpu.h"

#endif
