/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUDirect RDMA: the Simple slots of an end lie in memory of its rank's GPU, where NICs read and write them. The rest of
 * the FIFO, which the CPU reads, stays in pinned host memory.
 *
 *    memory of the GPU          │ slot 0 │ slot 1 │ …                            conn->end.slots[PROTOCOL_SIMPLE]
 *    pinned memory of the host  tail │ head │ headers │ short slots │ … │ frames     all else
 *
 * When is data visible? A NIC reports a write by a completion in host memory. This does not mean that the write has reached
 * the GPU's memory, which is behind other buses and bridges. Before the consumer's tail moves past such a slot, one of
 * these is needed:
 *
 *    the GPU orders    nothing has to be done: its kernels see all that was written before the completion
 *    a read            the same NIC reads some bytes of that memory, through a queue pair that leads back to itself. A PCIe read
 *                      may not pass a posted write (PCI Express Base Specification, "Transaction Ordering"). So when the read
 *                      is complete, all earlier writes have arrived
 *    the driver        the driver's own flush, if the NIC can make no such queue pair. It is the last choice, because the driver
 *                      may answer slowly while other threads use it
 *
 * A rail has one read in progress at a time. The read covers all slots that came by the rail before it was posted. Nobody
 * waits: slots that no read has covered yet are delivered in a later turn, and other connections go on.
 *
 * This has not been run on hardware.
 */
#ifndef COLLET_TRANSPORT_VERBS_VERBS_DIRECT_H
#define COLLET_TRANSPORT_VERBS_VERBS_DIRECT_H

#include "transport/verbs/verbs_end.h"

/* Creates and registers slots in GPU memory, once an end's rails are known, if every rail that is not in reserve can use it. Otherwise
 * direct->memory stays NULL, and the log says why. */
void verbs_direct_create(struct conn *conn, size_t bytes);
/* Registers these slots, if there are any, for one rail that was in reserve, unless they are registered already. */
enum collet_result verbs_direct_register(struct conn *conn, int rail);
void verbs_direct_destroy(struct conn *conn);

/* Consumer: a slot has come by this rail. (Short slots are in host memory.) */
void verbs_direct_landed(struct verbs_end *end, uint32_t slot, int rail, bool in_gpu);
/* Is the slot visible to the GPU, so that the tail may move past it? */
bool verbs_direct_visible(const struct verbs_end *end, uint32_t slot);
/* Consumer: posts reads and takes their completions, or calls the driver. True: more slots are visible now. */
bool verbs_direct_progress(struct conn *conn);
/* The rail is lost: are all slots that came by it visible? A slot that will never be visible counts as not received. */
bool verbs_direct_settled(struct verbs_end *end, int rail);
/* Prepares a rail for its next use. False: the device cannot make a queue pair to itself any more. */
bool verbs_direct_renew(struct conn *conn, int rail);

#endif
