/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's tuner plugins (include/compat/nccl_tuner.h) advise collet's tuner when it plans a call.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_ADVISER_H
#define COLLET_LAYERS_NCCL_NCCL_ADVISER_H

#include "layers/tuner/advice.h"

extern const struct plan_adviser nccl_tuner;

#endif
