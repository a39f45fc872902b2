/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of connections between GPUs. A producer polls its head, and a consumer only writes it. So where slots lie on the consumer's
 * GPU, the head lies on the producer's, if the consumer's GPU reaches that; else with the slots.
 *
 * In one process any memory of that GPU will do (self.c). This is for other processes:
 *
 *    the producer's block    │ head │ head │ head │ free …        FIFO_LINE_BYTES each
 *                               ▲
 *    a consumer attaches the block by its name, and writes at an offset
 *
 * When is the block given back? A producer that has sent its last slot is done, but the head of that slot is still to come. So all
 * heads must have come first. If they do not, or the communicator has failed, the block stays as it is until the process ends.
 */
#ifndef COLLET_TRANSPORT_IPC_GPU_HEADS_H
#define COLLET_TRANSPORT_IPC_GPU_HEADS_H

#include "layers/gpu/gpu.h"
#include "transport/conn.h"

/* How another process reaches a head. */
struct gpu_head_place {
    struct gpu_name name; /* of the block; its descriptor stays the block's, or is what this process was given */
    uint64_t offset;
};

/* On the rank's GPU: none so far. */
enum collet_result gpu_heads_create(int nranks, struct gpu_heads **heads_p);
/* Nothing that belongs to the rank runs any more, and its connections are still there. NULL is fine. */
void gpu_heads_destroy(const struct conn_owner *owner);

/* Producer, whose GPU is entered: from now on conn->end has its head here. False: there is no room any more, or no memory; then it
 * stays where it is. */
bool gpu_heads_take(struct conn *conn, struct gpu_head_place *place);
/* Consumer, whose GPU is entered: from now on conn->end has its head there. A rank's block is attached once. */
enum collet_result gpu_heads_reach(struct conn *conn, const struct gpu_head_place *place);

#endif
