/* SPDX-License-Identifier: Apache-2.0
 *
 * What transports over a wire have in common: FIFO memory that the executor and progress() both touch, and the counter that
 * the executor moves, perhaps on a GPU or in another thread while progress() looks at it. The other counter is
 * progress()'s own.
 */
#ifndef COLLET_TRANSPORT_WIRE_H
#define COLLET_TRANSPORT_WIRE_H

#include "transport/conn.h"

/* Zeroed memory of the host; of a rank on a GPU, pinned, so that the GPU reaches it. */
enum collet_result wire_memory_create(const struct conn_owner *owner, size_t bytes, void **memory_p);
void wire_memory_destroy(const struct conn_owner *owner, void *memory, size_t bytes);

/* At a producer: what has been published. */
static inline uint64_t wire_tail(const struct conn *conn) {
    return port_load_acquire(conn->end.tail); /* pairs with fifo_publish() */
}

/* At a consumer: what has been consumed, and may be overwritten. */
static inline uint64_t wire_head(const struct conn *conn) {
    return port_load_acquire(conn->end.head); /* pairs with fifo_consumed() */
}

#endif
