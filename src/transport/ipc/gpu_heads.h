/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of connections between GPUs. A producer polls the head; a consumer only writes it. So if the slots lie on the
 * consumer's GPU, and the consumer's GPU reaches the producer's GPU, the head lies on the producer's GPU. Otherwise the head
 * lies with the slots.
 *
 * Within one process, the head may lie in any memory of that GPU (ipc/self_gpu.c). This file is for different processes:
 *
 *    the producer's block    │ head │ head │ head │ free …        FIFO_LINE_BYTES each
 *                               ▲
 *    a consumer attaches the block by its name, and writes at an offset
 *
 * When is the block freed? A producer is done when it has sent its last slot, but the head of that slot is still to be
 * written. So all heads must have come first. If the heads do not come, or the communicator has failed, the block is kept until
 * the process ends.
 */
#ifndef COLLET_TRANSPORT_IPC_GPU_HEADS_H
#define COLLET_TRANSPORT_IPC_GPU_HEADS_H

#include "layers/gpu/gpu.h"
#include "transport/conn.h"

/* How another process reaches a head. */
struct gpu_head_place {
    struct gpu_name name; /* name of the block. The block owns the name's descriptor, or this process was given it */
    uint64_t offset;
};

/* Creates the set of heads on the rank's GPU. At first it has no heads. */
enum collet_result gpu_heads_create(int nranks, struct gpu_heads **heads_p);
/* Call it when no work of the rank runs any more, and the rank's connections still exist. NULL is fine. */
void gpu_heads_destroy(const struct conn_owner *owner);

/* Producer, with its GPU entered: from now on the head of conn->end is here. False: there is no room, or no memory; the head stays
 * where it is. */
bool gpu_heads_take(struct conn *conn, struct gpu_head_place *place);
/* Consumer, with its GPU entered: from now on the head of conn->end is at that place. A rank's block is attached only once. */
enum collet_result gpu_heads_reach(struct conn *conn, const struct gpu_head_place *place);

#endif
