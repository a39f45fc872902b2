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

/* Bytes that a read may take beyond the known payload: a small slot with its frame, or several. At most the size of a FIFO. */
#define TCP_AHEAD_BYTES (8192u + 128u)

/* A socket that carries slots. */
struct tcp_socket {
    int fd;
    uint64_t ended_ns; /* consumer: time since which no more can come on this socket; 0: more can come */
    /* Producer: the step that is sent next, and how many bytes of its frame and payload are sent. */
    uint64_t step;
    size_t sent;
    /* Consumer: bytes received beyond the current payload, ahead[ahead_begin … ahead_end). */
    uint32_t ahead_begin, ahead_end;
    char *ahead;
};

struct tcp_end {
    struct tcp_link *link; /* the sockets; the connection in the other direction uses them too */
    void *memory;
    size_t bytes;
    uint32_t ahead_room; /* consumer: size of each socket's `ahead` */
    bool connected;
    uint32_t nsockets;
    uint32_t first; /* socket of the first slot */
    uint32_t next;  /* socket of the next slot to assign, or to receive: see tcp_pass_slot() */
    bool stays;     /* both ends are on one host */
    bool few, many; /* the previous slot had few, or many, bytes */
    struct tcp_socket sockets[TCP_SOCKETS_MAX];

    uint8_t assignments[FIFO_MAX_SLOTS]; /* [slot] socket of its step */
    uint64_t assigned;                   /* producer: all steps before this one have a socket */

    /* Used only with COLLET_ENCRYPT; otherwise NULL: */
    const uint8_t *key;
    char *sealed; /* producer: [slot] encrypted bytes of each step before `sealed_to` */
    uint64_t sealed_to;

    /* Producer: crcs[slot] has the CRC of each payload of the steps before `summed`; without COLLET_CHECKSUM 0. */
    uint64_t summed;
    uint32_t crcs[FIFO_MAX_SLOTS];

    /* Consumer: the slot at `tail` is being received. */
    bool receiving;
    struct wire_frame frame;
    uint32_t received; /* bytes of its payload that have come */
    char *payload;     /* destination: the slot, or the place that the executor wants (layers/memory/loan.h) */

    const char *broken;           /* why the connection is over; NULL: it is not */
    char changed[ERR_TEXT_BYTES]; /* text of the error, if data changed on the way */
};

/* Moves slots. SUCCESS: something moved. IN_PROGRESS: nothing did. REMOTE: the connection is broken, and nothing is left to move. */
enum collet_result tcp_producer_progress(struct conn *conn);
enum collet_result tcp_consumer_progress(struct conn *conn);

static inline void tcp_set_broken(struct tcp_end *end, const char *why) {
    if (end->broken == NULL)
        end->broken = why;
}

/* Says why the connection is over. */
static inline enum collet_result tcp_err_broken(const struct conn *conn) {
    const struct tcp_end *end = conn->impl;
    if (end->broken == end->changed)
        return err_set(COLLET_ERR_REMOTE, "%s", end->changed);
    return err_set(COLLET_ERR_REMOTE, "the connection %s rank %d (host %s, %s) broke: %s",
                   conn->side == CONN_PRODUCER ? "to" : "from", conn->peer, conn->owner->peers[conn->peer].host,
                   end->link->peers[0], end->broken);
}

/* Maximum bytes that are sent for one slot. */
static inline size_t tcp_sealed_stride(const struct fifo_layout *layout) {
    uint32_t most =
        layout->sizes.long_bytes > layout->sizes.short_bytes ? layout->sizes.long_bytes : layout->sizes.short_bytes;
    return sizeof(struct wire_frame) + most + 2 * TCP_SEAL_BYTES;
}

/* Bytes that a seal adds to a frame, and to a payload. */
static inline uint32_t tcp_seal_bytes(const struct tcp_end *end) { return end->key != NULL ? TCP_SEAL_BYTES : 0; }

static inline bool tcp_would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/* The slot of this step has `bytes` of payload: which socket has the next slot? Both ends know `bytes` when they ask. Between hosts,
 * slots use all sockets in turn, because these may use several interfaces. On one host, measurements decide
 * (docs/performance.md):
 *
 *    this slot has    the next slot uses
 *    few bytes        socket 0, in both directions: data in one direction acknowledges data of the other direction
 *    more             all sockets in turn. The other direction uses the others, so neither blocks the other
 *    many             the first socket of its direction: the receiver continues to read where it is
 *
 * A single slot of few bytes, of a barrier for example, changes nothing. */
#define TCP_FEW_BYTES 256u
#define TCP_MANY_BYTES (64u << 10)
static inline void tcp_pass_slot(struct tcp_end *end, uint64_t step, uint32_t bytes) {
    bool few = end->stays && bytes < TCP_FEW_BYTES;
    uint32_t turn = (uint32_t)(step + 1 + end->first) % end->nsockets;
    end->many = end->stays && (few ? end->many : bytes >= TCP_MANY_BYTES);
    end->next = few && end->few ? 0 : end->many ? end->first : turn;
    end->few = few;
}

#endif
