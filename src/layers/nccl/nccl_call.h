/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of one call: ncclCollConfig_t of NCCL 2.31 and later.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_CALL_H
#define COLLET_LAYERS_NCCL_NCCL_CALL_H

#include "api/comm.h"

/* Reads a call's options. config: an ncclCollConfig_t of any version, or NULL. *options: the packed form that a call
 * carries (layers/tuner/call_options.h). INVALID_ARGUMENT: the error text names the wrong field. */
enum collet_result nccl_call_read(const void *config, enum prog_collective collective, uint64_t *options);

/* If the call insists on its options (forceAlgSelection), checks that some plan obeys them. All ranks get the same
 * answer. INVALID_ARGUMENT: no plan does. */
enum collet_result nccl_call_check(const struct exec_request *request, struct collet_comm *comm);

#endif
