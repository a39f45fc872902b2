/* SPDX-License-Identifier: Apache-2.0
 *
 * What both ends of a connection within a process share: its memory, in host memory or in memory of GPUs.
 *
 *    consumer   makes it ─▶ offers it ─────────────────────────────▶ leaves
 *    producer                          takes it up (or never comes) ─▶ leaves         the last one frees it
 */
#ifndef COLLET_TRANSPORT_SELF_H
#define COLLET_TRANSPORT_SELF_H

#include "transport/transport.h"

struct self_memory {
    int users;
    enum loan_way borrows; /* how the consumer borrows payloads; LOAN_NONE: it does not */
    void *fifo;
    void *head;               /* head, if it lies outside the FIFO; NULL: it is in the FIFO */
    struct self_memory *next; /* next memory on the list of offers */
};

/* Consumer: offers the memory of its end, which is complete, to the producer. */
void self_offer_memory(struct conn *conn, struct self_memory *memory, struct conn_blob *offer);
/* Called by each end when it closes, in any order. Returns the memory if no end uses it any more; else NULL. */
struct self_memory *self_leave(struct conn *conn);

/* offer() and close() of this transport for ranks on GPUs, from the layer "ipc" (transport/ipc/self_gpu.c). */
extern const struct transport transport_self_on_gpus;

#endif
