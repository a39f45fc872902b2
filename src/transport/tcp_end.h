/* SPDX-License-Identifier: Apache-2.0
 *
 * One end of a tcp connection, as its files share it:
 *
 *    tcp.c            how ends come to be and go
 *    tcp_producer.c   slots out
 *    tcp_consumer.c   slots in
 */
#ifndef COLLET_TRANSPORT_TCP_END_H
#define COLLET_TRANSPORT_TCP_END_H

#include "base/crc32c.h"
#include "base/err.h"
#include "transport/tcp_link.h"
#include "transport/wire.h"

#include <errno.h>

/* What one read takes in that the consumer did not know of: a small slot with its frame, or several. No more than a FIFO has. */
#define TCP_AHEAD_BYTES (8192u + 128u)

struct tcp_frame {
    uint32_t word, signature;
    uint64_t sequence;
    uint64_t step;
    /* With COLLET_CHECKSUM, else 0. The frame has a CRC of its own: what it says of lengths must not be trusted before. */
    uint32_t payload_crc;
    uint32_t frame_crc; /* of all before it */
};

static inline uint32_t tcp_frame_crc(const struct tcp_frame *frame) {
    return crc32c(0, frame, offsetof(struct tcp_frame, frame_crc));
}

/* A socket that carries slots. */
struct tcp_socket {
    int fd;
    uint64_t ended_ns; /* consumer: since when nothing more can come here; 0: it can */
    /* Producer: what is sent next, and how much of its frame and payload is gone. */
    uint64_t step;
    size_t sent;
    /* Consumer: bytes received beyond the current payload, ahead[ahead_begin … ahead_end). */
    uint32_t ahead_begin, ahead_end;
    char *ahead;
};

struct tcp_end {
    struct tcp_link *link; /* the sockets, shared with the connection the other way */
    void *memory;
    size_t bytes;
    uint32_t ahead_room; /* consumer: of each socket's bytes ahead */
    bool connected;
    uint32_t nsockets;
    uint32_t first; /* the socket of the first slot */
    uint32_t next;  /* that of the slot that is assigned, or received, next: see tcp_pass_slot() */
    bool stays;     /* both ends are on one host */
    bool few, many; /* bytes has the slot before it */
    struct tcp_socket sockets[TCP_SOCKETS_MAX];

    uint8_t assignments[FIFO_MAX_SLOTS]; /* by slot: the socket that its step goes by, or came by */
    uint64_t assigned;                   /* producer: the steps before it have one */

    /* With COLLET_ENCRYPT, else NULL. */
    const uint8_t *key;
    char *sealed; /* producer: by slot, what is sent of the steps before `sealed_to` */
    uint64_t sealed_to;

    /* Producer, with COLLET_CHECKSUM: by slot, the CRCs of the payloads of the steps before `summed`. */
    uint64_t summed;
    uint32_t crcs[FIFO_MAX_SLOTS];

    /* Consumer: the slot that is being received, where `tail` is. */
    bool receiving;
    struct tcp_frame frame;
    uint32_t received; /* bytes of its payload */
    char *payload;     /* where they go: into the slot, or where the executor wants them (layers/memory/loan.h) */

    const char *broken;           /* why the connection is over; NULL: it is not */
    char changed[ERR_TEXT_BYTES]; /* it is, because data changed on the way: what is to be said */
};

/* SUCCESS if something moved, IN_PROGRESS if not; REMOTE once the connection is broken and nothing moves any more. */
enum collet_result tcp_producer_progress(struct conn *conn);
enum collet_result tcp_consumer_progress(struct conn *conn);
bool tcp_producer_is_idle(const struct conn *conn);

enum collet_result tcp_err_broken(const struct conn *conn); /* says why the connection is over */

static inline void tcp_set_broken(struct tcp_end *end, const char *why) {
    if (end->broken == NULL)
        end->broken = why;
}

/* Bytes for what is sent of one slot. */
static inline size_t tcp_sealed_stride(const struct fifo_layout *layout) {
    uint32_t most =
        layout->sizes.long_bytes > layout->sizes.short_bytes ? layout->sizes.long_bytes : layout->sizes.short_bytes;
    return sizeof(struct tcp_frame) + most + 2 * TCP_SEAL_BYTES;
}

/* What a seal adds to a frame, and to a payload. */
static inline uint32_t tcp_seal_bytes(const struct tcp_end *end) { return end->key != NULL ? TCP_SEAL_BYTES : 0; }

static inline bool tcp_would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/* A slot of a step has so many bytes: by which socket does the next one go? Both ends know the bytes when they ask. Between hosts,
 * slots take turns through all sockets, which may use several interfaces. On one host, what was measured decides
 * (docs/performance.md):
 *
 *    the slot had     the next one goes by
 *    few bytes        socket 0, in both directions: what goes one way acknowledges what came the other way
 *    more             all sockets in turn, in the other direction the others: neither holds one that the other wants
 *    many             the first socket of its direction: the receiver goes on reading where it reads already
 *
 * A single slot of few bytes, such as of a barrier, changes nothing. */
#define TCP_FEW_BYTES 256u
#define TCP_MANY_BYTES (64u << 10)
static inline void tcp_pass_slot(struct tcp_end *end, uint64_t step, uint32_t bytes) {
    bool few = end->stays && bytes < TCP_FEW_BYTES;
    uint32_t turn = (uint32_t)(step + 1 + end->first) % end->nsockets;
    end->many = end->stays && (few ? end->many : bytes >= TCP_MANY_BYTES);
    end->next = few && end->few ? 0 : end->many ? end->first : turn;
    end->few = few;
}

/* Where the payload of a slot is, unless it is elsewhere. */
static inline char *tcp_payload_at(const struct conn *conn, const struct tcp_frame *frame) {
    return fifo_slot_at(&conn->end, fifo_word_protocol(frame->word), frame->step);
}

#endif
