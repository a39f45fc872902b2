/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a tcp connection that sends slots. See tcp.c.
 */
#include "transport/tcp_end.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Maximum size of a slot that is copied behind its frame: that costs less than a second piece in the system call. */
#define SMALL_BYTES 4096u

/* Maximum size of a batch, before its last slot. Between two system calls the receiver's acknowledgements are processed; the memory that
 * they free is used again while it is in a cache. */
#define BATCH_BYTES (512u << 10)

/* The arguments of one system call, which sends all published slots of a socket: the kernel need not end a packet at each slot. */
struct send_batch {
    struct wire_frame frames[FIFO_MAX_SLOTS];
    struct iovec parts[2 * FIFO_MAX_SLOTS]; /* frame, payload, frame, payload … */
    int nslots;
    size_t bytes;
};

static const struct fifo_slot_header *header_of(const struct conn *conn, uint64_t step) {
    return &conn->end.headers[step & (conn->end.nslots - 1)];
}

/* Assigns sockets to the published slots before tail. */
static void assign_slots(struct conn *conn, uint64_t tail) {
    struct tcp_end *end = conn->impl;
    for (; end->assigned != tail; end->assigned++) {
        end->assignments[end->assigned & (conn->end.nslots - 1)] = (uint8_t)end->next;
        tcp_pass_slot(end, end->assigned, fifo_word_bytes(header_of(conn, end->assigned)->word));
    }
}

/* The first step, from `step` on, that uses this socket; `assigned`: no published step does. */
static uint64_t first_on_socket(const struct conn *conn, const struct tcp_socket *socket, uint64_t step) {
    const struct tcp_end *end = conn->impl;
    while (step != end->assigned && &end->sockets[end->assignments[step & (conn->end.nslots - 1)]] != socket)
        step++;
    return step;
}

static size_t wire_bytes(const struct conn *conn, const struct fifo_slot_header *header) {
    return sizeof(struct wire_frame) + fifo_word_bytes(header->word) + 2 * tcp_seal_bytes(conn->impl);
}

/* The address of the payload: its slot, or lent memory, which the executor keeps unchanged until the call is over. */
static char *payload_of(const struct conn *conn, const struct wire_frame *frame) {
    const struct fifo_slot_header *header = header_of(conn, frame->step);
    return direct_is_lent(header) ? (char *)(uintptr_t)header->loan.address : wire_payload_at(conn, frame);
}

static char *sealed_at(const struct conn *conn, uint64_t step) {
    const struct tcp_end *end = conn->impl;
    return end->sealed + (step & (conn->end.nslots - 1)) * tcp_sealed_stride(conn_layout(conn));
}

static void add_slot(const struct conn *conn, uint64_t step, struct send_batch *batch) {
    const struct fifo_slot_header *header = header_of(conn, step);
    const struct tcp_end *end = conn->impl;
    struct wire_frame *frame = &batch->frames[batch->nslots];
    struct iovec *parts = &batch->parts[2 * batch->nslots++];
    size_t bytes = wire_bytes(conn, header);
    batch->bytes += bytes;
    if (end->key != NULL) {
        parts[0] = (struct iovec){sealed_at(conn, step), bytes};
        parts[1] = (struct iovec){sealed_at(conn, step), 0};
        return;
    }
    *frame = wire_frame_of(conn, step, end->crcs[step & (conn->end.nslots - 1)]);
    parts[0] = (struct iovec){frame, sizeof(*frame)};
    parts[1] = (struct iovec){payload_of(conn, frame), fifo_word_bytes(header->word)};
}

/* Removes the first `sent` bytes from the batch, because they are sent. */
static void leave_out(struct send_batch *batch, size_t sent) {
    batch->bytes -= sent;
    for (struct iovec *part = batch->parts; sent > 0; part++) {
        size_t n = sent < part->iov_len ? sent : part->iov_len;
        part->iov_base = (char *)part->iov_base + n;
        part->iov_len -= n;
        sent -= n;
    }
}

/* Sends a batch. A single small slot is first copied behind its frame. */
static ssize_t send_batch(int fd, const struct send_batch *batch) {
    const struct iovec *parts = batch->parts;
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = 2 * (size_t)batch->nslots};
    char copy[sizeof(struct wire_frame) + SMALL_BYTES];
    if (batch->nslots > 1 || batch->bytes > sizeof(copy))
        return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    memcpy(copy, parts[0].iov_base, parts[0].iov_len);
    memcpy(copy + parts[0].iov_len, parts[1].iov_base, parts[1].iov_len);
    return send(fd, copy, batch->bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Counts `bytes` more as sent on this socket. While some belong to a slot, that slot is published, so its header may be read. The
 * executor may be writing the header after the last published slot. */
static void count_sent(const struct conn *conn, struct tcp_socket *socket, size_t bytes) {
    size_t whole;
    socket->sent += bytes;
    for (; socket->sent > 0 && socket->sent >= (whole = wire_bytes(conn, header_of(conn, socket->step)));
         socket->sent -= whole)
        socket->step = first_on_socket(conn, socket, socket->step + 1);
}

/* Sends published slots before tail, as many bytes as the socket takes. */
static bool send_slots(struct conn *conn, struct tcp_socket *socket, uint64_t tail) {
    struct send_batch batch;
    socket->step = first_on_socket(conn, socket, socket->step);
    if (socket->step == tail)
        return false;
    batch.nslots = 0;
    batch.bytes = 0;
    for (uint64_t step = socket->step; step != tail && batch.bytes < BATCH_BYTES;
         step = first_on_socket(conn, socket, step + 1))
        add_slot(conn, step, &batch);
    leave_out(&batch, socket->sent);
    ssize_t n = send_batch(socket->fd, &batch);
    if (n < 0 && !tcp_would_block())
        tcp_set_broken(conn->impl, strerror(errno));
    if (n > 0)
        count_sent(conn, socket, (size_t)n);
    return n > 0;
}

/* Computes the CRC of each payload once, even if the kernel takes it in several parts. */
static void sum_slots(struct conn *conn, uint64_t tail) {
    struct tcp_end *end = conn->impl;
    for (; end->summed != tail; end->summed++) {
        uint32_t word = wire_word(header_of(conn, end->summed));
        struct wire_frame frame = {.word = word, .step = end->summed};
        end->crcs[end->summed & (conn->end.nslots - 1)] = crc32c(0, payload_of(conn, &frame), fifo_word_bytes(word));
    }
}

/* Seals each step once, even if the kernel takes it in several parts. */
static void seal_slots(struct conn *conn, uint64_t tail) {
    struct tcp_end *end = conn->impl;
    for (; end->sealed_to != tail; end->sealed_to++) {
        const uint32_t crc = end->crcs[end->sealed_to & (conn->end.nslots - 1)];
        struct wire_frame frame = wire_frame_of(conn, end->sealed_to, crc);
        char *sealed = sealed_at(conn, end->sealed_to);
        tcp_seal(end->key, end->sealed_to, TCP_SEAL_FRAME, &frame, sizeof(frame), sealed);
        tcp_seal(end->key, end->sealed_to, TCP_SEAL_PAYLOAD, payload_of(conn, &frame), fifo_word_bytes(frame.word),
                 sealed + sizeof(frame) + TCP_SEAL_BYTES);
    }
}

/* Gives slots back to the executor: all slots before the oldest one that the kernel has not taken completely. */
static void give_back(struct conn *conn) {
    const struct tcp_end *end = conn->impl;
    uint64_t oldest = end->sockets[0].step;
    for (uint32_t k = 1; k < end->nsockets; k++)
        if ((int64_t)(end->sockets[k].step - oldest) < 0)
            oldest = end->sockets[k].step;
    port_store_release(conn->end.head, oldest); /* Pairs with fifo_has_credit(). */
}

enum collet_result tcp_producer_progress(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    uint64_t tail = wire_tail(conn);
    bool moved = false;
    if (end->broken != NULL)
        return tcp_err_broken(conn);
    assign_slots(conn, tail);
    if (conn->owner->config->checksum)
        sum_slots(conn, tail);
    if (end->key != NULL)
        seal_slots(conn, tail);
    for (uint32_t k = 0; k < end->nsockets; k++)
        moved |= send_slots(conn, &end->sockets[k], tail);
    if (moved)
        give_back(conn);
    else if (end->broken != NULL)
        return tcp_err_broken(conn);
    return moved ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}
