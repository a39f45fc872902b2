/* SPDX-License-Identifier: Apache-2.0
 *
 * What both ends of a connection within a process share: its memory, on the host or on GPUs.
 *
 *    consumer   makes it ─▶ offers it ─────────────────────────────▶ leaves
 *    producer                          takes it up (or never comes) ─▶ leaves         the last one frees it
 */
#ifndef COLLET_TRANSPORT_SELF_H
#define COLLET_TRANSPORT_SELF_H

#include "transport/transport.h"

struct self_memory {
    int users;
    bool takes_loans; /* the consumer does */
    void *fifo;
    void *head;               /* elsewhere than in the FIFO; NULL: there */
    struct self_memory *next; /* of those that are offered */
};

/* Consumer: its end is done, and the producer may take the memory up. */
void self_offer_memory(struct conn *conn, struct self_memory *memory, struct conn_blob *offer);
/* Producer: its end is done. REMOTE: the consumer has withdrawn the offer. */
enum collet_result self_take_up(struct conn *conn, const struct conn_blob *offer);
/* Either end, in any order. The memory, if nobody uses it any more; else NULL. */
struct self_memory *self_leave(struct conn *conn);

/* The same transport between ranks on GPUs, of the layer "ipc" (transport/ipc/self_gpu.c): offer() and close(). */
extern const struct transport transport_self_on_gpus;

#endif
