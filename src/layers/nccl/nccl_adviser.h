/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuner plugins of NCCL (include/compat/nccl_tuner.h) as advisers of collet's plans.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_ADVISER_H
#define COLLET_LAYERS_NCCL_NCCL_ADVISER_H

#include "layers/tuner/advice.h"

extern const struct plan_adviser nccl_tuner;

#endif
