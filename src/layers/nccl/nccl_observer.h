/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiler plugins of NCCL (include/compat/nccl_profiler.h) as observers of collet's operations.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_OBSERVER_H
#define COLLET_LAYERS_NCCL_NCCL_OBSERVER_H

#include "layers/observe/observer.h"

extern const struct observer nccl_profiler;

#endif
