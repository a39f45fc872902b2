/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of one call: ncclCollConfig_t of NCCL 2.31 and later.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_CALL_H
#define COLLET_LAYERS_NCCL_NCCL_CALL_H

#include "api/comm.h"

/* config: an ncclCollConfig_t of any version, or NULL. *options: as a call has it (layers/tuner/call_options.h). INVALID_ARGUMENT names the
 * field that is wrong. */
enum collet_result nccl_call_read(const void *config, enum prog_collective collective, uint64_t *options);

/* Can a call insist on what it does? All ranks come to the same answer. INVALID_ARGUMENT: nothing of it takes these ranks. */
enum collet_result nccl_call_check(const struct exec_request *request, struct collet_comm *comm);

#endif
