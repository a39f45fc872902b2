/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUDirect RDMA: an end whose Simple slots lie in memory of its rank's GPU, where NICs read and write them. All else of the
 * FIFO, which the CPU looks at, stays in pinned host memory.
 *
 *    memory of the GPU          │ slot 0 │ slot 1 │ …                            conn->end.slots[PROTOCOL_SIMPLE]
 *    pinned memory of the host  tail │ head │ headers │ short slots │ … │ frames     all else
 *
 * Seeing what came. A NIC reports a write by a completion in host memory; that does not say that the write has reached the
 * GPU's memory, which is behind other buses and bridges. Before the consumer's tail moves past a slot there, one of these:
 *
 *    the GPU orders    nothing has to be done: its kernels see all that was written before the completion
 *    a read            the same NIC reads some bytes of that memory, through a queue pair that leads back to itself. A PCIe
 *                      read pushes the writes before it on its way ahead of it (PCI Express Base Specification, "Transaction
 *                      Ordering": a read may not pass a posted write); so its completion says that they are there
 *    the driver        its own flush, where the NIC makes no such queue pair. That one asks the driver, whose answer may be
 *                      slow while other threads do; so it comes last
 *
 * A rail has one read under way at a time, which covers all slots that came by it before the read was posted. Nobody waits:
 * slots that are not covered yet are delivered by a later turn, and other connections go on.
 *
 * Not run on hardware.
 */
#ifndef COLLET_TRANSPORT_VERBS_VERBS_DIRECT_H
#define COLLET_TRANSPORT_VERBS_VERBS_DIRECT_H

#include "transport/transport.h"
#include "transport/verbs/verbs_qp.h"

#define VERBS_RAILS_MAX 4

enum verbs_flush { VERBS_FLUSH_NONE, VERBS_FLUSH_READ, VERBS_FLUSH_DRIVER };

struct verbs_direct_rail {
    struct ibv_mr *slots;
    /* Consumer with VERBS_FLUSH_READ. */
    struct ibv_mr *target; /* where the bytes go that nobody wants */
    struct ibv_cq *cq;
    struct verbs_qp loop;
    /* How many slots have come by this rail; how many of them the newest read covers, or the newest that is done. */
    uint32_t landed, asked, flushed;
};

struct verbs_direct {
    char *memory; /* of the GPU; NULL: slots are in host memory, with all else */
    size_t bytes;
    void *scratch; /* pinned, for the reads */
    enum verbs_flush flush;
    struct verbs_direct_rail rails[VERBS_RAILS_MAX];
    uint32_t landed[FIFO_MAX_SLOTS]; /* by slot: its number among those of its rail … */
    int8_t rail[FIFO_MAX_SLOTS];     /* … which is this one; −1: it needs no flush */
};

struct verbs_end;

/* An end's rails are known. Makes and registers slots in GPU memory if every rail can that is not in reserve; else direct->memory
 * stays NULL, and the log says why. */
void verbs_direct_create(struct conn *conn, size_t bytes);
/* The same of one rail, which was in reserve, if there are such slots and it has not been done. */
enum collet_result verbs_direct_register(struct conn *conn, int rail);
void verbs_direct_destroy(struct conn *conn);

/* Consumer: a slot has come by a rail. Short slots are in host memory. */
void verbs_direct_landed(struct verbs_end *end, uint32_t slot, int rail, bool in_gpu);
/* May the tail move past it? */
bool verbs_direct_visible(const struct verbs_end *end, uint32_t slot);
/* Consumer: posts and completes reads, or calls the driver. True if more slots are visible now. */
bool verbs_direct_progress(struct conn *conn);
/* The rail is lost: is what has come by it visible? Where that will never be, it has not come. */
bool verbs_direct_settled(struct verbs_end *end, int rail);
/* It is about to be used again. False: the device makes no queue pair to itself any more. */
bool verbs_direct_renew(struct conn *conn, int rail);

#endif
