/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuner plugins of NCCL (include/compat/nccl_tuner.h) as advisers of collet's plans.
 */
#ifndef COLLET_COMPAT_NCCL_ADVISER_H
#define COLLET_COMPAT_NCCL_ADVISER_H

#include "plan/advice.h"

extern const struct plan_adviser nccl_tuner;

#endif
