/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a communicator takes.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_MEMORY_H
#define COLLET_LAYERS_NCCL_NCCL_MEMORY_H

#include "api/comm.h"

/* *bytes_p: bytes of the slots of this rank's connections, which are nearly all of the communicator's memory. For a rank
 * on a GPU: slots in GPU memory; for a rank on the host: slots in host memory. */
enum collet_result nccl_memory_of(struct collet_comm *comm, uint64_t *bytes_p);

#endif
