/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a communicator takes.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_MEMORY_H
#define COLLET_LAYERS_NCCL_NCCL_MEMORY_H

#include "api/comm.h"

/* The slots of the rank's connections, which are nearly all of it: on GPUs those that lie there, else those of the host. */
enum collet_result nccl_memory_of(struct collet_comm *comm, uint64_t *bytes_p);

#endif
