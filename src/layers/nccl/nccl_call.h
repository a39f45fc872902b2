/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of one call: ncclCollConfig_t of NCCL 2.31 and later.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_CALL_H
#define COLLET_LAYERS_NCCL_NCCL_CALL_H

#include "collet.h"

struct call_options;

/* config: an ncclCollConfig_t of any version, or NULL. *options: what coll_options may be while the call is made; NULL: nothing is asked
 * for. INVALID_ARGUMENT names the field that is wrong. UNSUPPORTED: the call insists on an algorithm that collet has not. */
enum collet_result nccl_call_read(const void *config, const struct call_options **options);

#endif
