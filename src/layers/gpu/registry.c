/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver of this build.
 */
#include "layers/gpu/gpu.h"

#if defined(COLLET_CUDA)
extern const struct gpu_driver gpu_driver_cuda;
static const struct gpu_driver *chosen = &gpu_driver_cuda;
#else
static const struct gpu_driver *chosen;
#endif

const struct gpu_driver *gpu_driver(void) { return chosen; }

void gpu_driver_use(const struct gpu_driver *driver) { chosen = driver; }
