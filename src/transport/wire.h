/* SPDX-License-Identifier: Apache-2.0
 *
 * A wire carries slots between two ends that share no memory. Transports over a wire have in common:
 *
 *    memory     one FIFO at each end, which the executor and progress() both touch
 *    counters   the executor moves one, perhaps on a GPU or in another thread; progress() moves the other
 *    credit     where the wire itself does not hold a producer up, heads are sent back (verbs/verbs_end.h)
 */
#ifndef COLLET_TRANSPORT_WIRE_H
#define COLLET_TRANSPORT_WIRE_H

#include "transport/conn.h"

/* Allocates zeroed host memory. For a rank on a GPU it is pinned, so the GPU can access it. */
enum collet_result wire_memory_create(const struct conn_owner *owner, size_t bytes, void **memory_p);
void wire_memory_destroy(const struct conn_owner *owner, void *memory, size_t bytes);

/* Allows loans on a connection over a wire. Its ends then send from the rank's memory and receive into it, if COLLET_DIRECT has "wire"
 * and no proxy works beside the executor. `only`: may these bytes be lent? NULL: yes. */
static inline void wire_allow_loans(struct conn *conn, int (*only)(uint64_t address, uint32_t bytes)) {
    if (conn->owner->config->proxy || !conn_is_direct(conn->owner, "wire"))
        return;
    conn_allow_loans(conn, LOAN_WIRE, LOAN_WIRE_BYTES);
    conn->end.loans.only = only;
}

/* Producer: the position behind the published slots. */
static inline uint64_t wire_tail(const struct conn *conn) {
    return port_load_acquire(conn->end.tail); /* pairs with fifo_publish() */
}

/* Consumer: the position behind the consumed slots. */
static inline uint64_t wire_head(const struct conn *conn) {
    return port_load_acquire(conn->end.head); /* pairs with fifo_consumed() */
}

/* An error text for a slot that came over a wire. */
#define WIRE_TOO_LONG "it sent more than a slot holds"

/* Consumer: the next slot's payload has come. Publishes the slot to the executor. landed: address of the payload; NULL: in the slot. */
static inline void wire_deliver(struct conn *conn, uint32_t word, uint32_t signature, uint64_t sequence,
                                const char *landed) {
    uint64_t step = *conn->end.tail;
    struct fifo_slot_header *header = &conn->end.headers[step & (conn->end.nslots - 1)];
    header->word = word;
    header->signature = signature;
    header->sequence = sequence;
    header->loan.address = (uintptr_t)landed;
    port_store_release(conn->end.tail, step + 1); /* pairs with fifo_has_data() */
}

#endif
