/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of one call: ncclCollConfig_t of NCCL 2.31 and later.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_CALL_H
#define COLLET_LAYERS_NCCL_NCCL_CALL_H

#include "collet.h"

/* config: an ncclCollConfig_t of any version, or NULL. INVALID_ARGUMENT names the field that is wrong. UNSUPPORTED: it insists
 * on an algorithm. */
enum collet_result nccl_call_check(const void *config);

#endif
