/* SPDX-License-Identifier: Apache-2.0
 *
 * A wire carries slots between two ends that share no memory. All transports over a wire have:
 *
 *    memory     one FIFO at each end, which the executor and progress() both touch
 *    counters   the executor moves one, perhaps on a GPU or in another thread; progress() moves the other
 *    credit     where the wire itself does not hold a producer up, heads are sent back (verbs/verbs_end.h)
 */
#ifndef COLLET_TRANSPORT_WIRE_H
#define COLLET_TRANSPORT_WIRE_H

#include "base/crc32c.h"
#include "fifo/proto_direct.h"
#include "transport/conn.h"

#include <stddef.h>

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

/* The frame of a slot, which is sent before its payload. Both ends are machines of one byte order. RDMA has a shorter
 * frame, because the rest is in an immediate (verbs/verbs_end.h).
 *
 *    field                  the consumer checks that
 *    step                   this is the next step
 *    word                   protocol and length are those of a slot
 *    signature, sequence    nothing: they become the slot's header
 *    payload_crc            this is the payload's CRC, with COLLET_CHECKSUM; otherwise 0
 *    frame_crc              this is the CRC of the fields above. It is checked first: until then no length can be trusted */
struct wire_frame {
    uint32_t word, signature;
    uint64_t sequence, step;
    uint32_t payload_crc, frame_crc;
};

static inline uint32_t wire_frame_crc(const struct wire_frame *frame) {
    return crc32c(0, frame, offsetof(struct wire_frame, frame_crc));
}

/* Producer: the word of a published slot, for the other end. Where this rank has the payload does not matter there. */
static inline uint32_t wire_word(const struct fifo_slot_header *header) {
    return direct_is_lent(header) ? fifo_word(PROTOCOL_SIMPLE, fifo_word_bytes(header->word)) : header->word;
}

/* Producer: the frame of a published slot. */
static inline struct wire_frame wire_frame_of(const struct conn *conn, uint64_t step, uint32_t payload_crc) {
    const struct fifo_slot_header *header = &conn->end.headers[step & (conn->end.nslots - 1)];
    struct wire_frame frame = {wire_word(header), header->signature, header->sequence, step, payload_crc, 0};
    if (conn->owner->config->checksum)
        frame.frame_crc = wire_frame_crc(&frame);
    return frame;
}

#define WIRE_TOO_LONG "it sent more than a slot holds"

/* The consumer's checks: did the frame come unchanged, and the payload? Is the frame the next one (NULL: yes; otherwise
 * why not)? */
static inline bool wire_frame_is_intact(const struct conn *conn, const struct wire_frame *frame) {
    return !conn->owner->config->checksum || wire_frame_crc(frame) == frame->frame_crc;
}
static inline bool wire_payload_is_intact(const struct conn *conn, const struct wire_frame *frame,
                                          const char *payload) {
    return !conn->owner->config->checksum || crc32c(0, payload, fifo_word_bytes(frame->word)) == frame->payload_crc;
}
static inline const char *wire_frame_fault(const struct conn *conn, const struct wire_frame *frame, uint64_t next) {
    if (frame->step != next)
        return "it sent another step than the next one";
    return fifo_header_fits(conn_layout(conn), frame->word) ? NULL : WIRE_TOO_LONG;
}

/* The address of the payload in its slot. (The executor may want it elsewhere.) */
static inline char *wire_payload_at(const struct conn *conn, const struct wire_frame *frame) {
    return fifo_slot_at(&conn->end, fifo_word_protocol(frame->word), frame->step);
}

/* Producer: the position behind the published slots. */
static inline uint64_t wire_tail(const struct conn *conn) {
    return port_load_acquire(conn->end.tail); /* Pairs with fifo_publish(). */
}

/* Consumer: the position behind the consumed slots. */
static inline uint64_t wire_head(const struct conn *conn) {
    return port_load_acquire(conn->end.head); /* Pairs with fifo_consumed(). */
}

/* Consumer: the next slot's payload has come. Publishes the slot to the executor. landed: address of the payload; NULL: in the slot. */
static inline void wire_deliver(struct conn *conn, uint32_t word, uint32_t signature, uint64_t sequence,
                                const char *landed) {
    uint64_t step = *conn->end.tail;
    struct fifo_slot_header *header = &conn->end.headers[step & (conn->end.nslots - 1)];
    header->word = landed != NULL ? fifo_word(PROTOCOL_DIRECT, fifo_word_bytes(word)) : word;
    header->signature = signature;
    header->sequence = sequence;
    header->loan.address = (uintptr_t)landed;
    port_store_release(conn->end.tail, step + 1); /* Pairs with fifo_has_data(). */
}

#endif
