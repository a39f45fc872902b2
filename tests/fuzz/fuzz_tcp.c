/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets of the tcp transport, with somebody at the other end that sends anything, or changes what another rank has sent:
 *
 *      hellos    strangers ── hello, whole or in parts ──▶ listener      without the token nobody gets in
 *      acks      whoever took the port ── ack ──▶ dialer                 nor passes for the listener
 *      frames    producer ── │ frame │ payload │ … ── changed ──▶ consumer. With COLLET_ENCRYPT it delivers what was sent, or
 *                nothing more
 */
#include "transport/tcp_socket.c"

#include "base/config_read.h"
#include "fuzz.h"
#include "transport/tcp_end.h"

#include <stdlib.h>
#include <sys/un.h>

#define SOCKETS 2

/* ---- hellos ---- */

/* True: it proves that it knows the token. */
static bool say_hello(int fd, const struct tcp_listener *listener, struct fuzz_input *input) {
    const uint8_t kind = fuzz_byte(input);
    struct tcp_hello hello = {.magic = HELLO_MAGIC, .attempt = kind & 3, .index = kind >> 2 & 3};
    tcp_proof(listener->token, "hello", hello.attempt, hello.index, hello.proof);
    const struct tcp_hello right = hello;
    fuzz_patch(input, &hello, sizeof hello);
    const size_t bytes = kind & 0x80 ? fuzz_byte(input) % sizeof hello : sizeof hello;
    if (send(fd, &hello, bytes, MSG_NOSIGNAL) < 0)
        abort();
    return bytes == sizeof hello && memcmp(&hello, &right, sizeof hello) == 0;
}

static void with_strangers(struct fuzz_input *input) {
    const struct sockaddr_un unnamed = {.sun_family = AF_UNIX}; /* the kernel gives it a name */
    struct tcp_listener listener = {.nsockets = SOCKETS, .ifname = "", .token = {1, 2, 3}};
    int fds[TCP_SOCKETS_MAX], clients[8], n = 0, proven = 0, taken = 0;
    memset(listener.fds, 0xff, sizeof listener.fds);
    for (int k = 0; k < TCP_STRANGERS_MAX; k++)
        listener.strangers[k].fd = -1;
    listener.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(listener.fd, (const void *)&unnamed, sizeof unnamed.sun_family) != 0 || listen(listener.fd, 8) != 0)
        abort();
    enum collet_result result = COLLET_IN_PROGRESS;
    while (n < 8 && input->size > 0 && result == COLLET_IN_PROGRESS) {
        proven += say_hello(clients[n++] = fuzz_connect(listener.fd), &listener, input);
        result = tcp_listen_try(&listener, fds);
    }
    for (int k = 0; k < SOCKETS; k++)
        taken += result == COLLET_SUCCESS || listener.fds[k] >= 0;
    if (taken > proven)
        abort();
    if (result == COLLET_SUCCESS)
        close_all(fds, SOCKETS);
    tcp_listen_stop(&listener);
    close_all(clients, n);
}

/* ---- acks ---- */

static void with_acks(struct fuzz_input *input) {
    struct tcp_dialer dialer = {.offer.token = {1, 2, 3}, .nsockets = 1, .states = {TCP_GREETED}};
    uint8_t ack[TCP_PROOF_BYTES], right[TCP_PROOF_BYTES];
    size_t bytes;
    int pair[2];
    bool goes_on = true;
    tcp_proof(dialer.offer.token, "ack", 0, 0, right);
    memcpy(ack, right, sizeof ack);
    fuzz_patch(input, ack, sizeof ack);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    dialer.fds[0] = pair[0];
    for (size_t at = 0; at < sizeof ack && goes_on; at += bytes) {
        bytes = 1 + fuzz_byte(input) % (sizeof ack - at);
        if (send(pair[1], ack + at, bytes, MSG_NOSIGNAL) < 0)
            abort();
        goes_on = take_ack(&dialer, 0);
    }
    if (goes_on != (memcmp(ack, right, sizeof ack) == 0))
        abort();
    close_all(pair, 2);
}

/* ---- frames ---- */

#define SLOTS 4
#define SLOT_BYTES 256

struct sent {
    char bytes[8 * (sizeof(struct wire_frame) + SLOT_BYTES + 2 * TCP_SEAL_BYTES)];
    size_t size;
};

static uint32_t length_of(uint64_t step, uint8_t kind) { return (uint32_t)(kind * 7 + step) % (SLOT_BYTES + 1); }

/* A slot as a producer sends it: each byte of its payload is its step. */
static void put_slot(struct sent *sent, const struct tcp_end *end, const struct config *config, uint64_t step,
                     uint8_t kind) {
    char payload[SLOT_BYTES];
    const uint32_t bytes = length_of(step, kind);
    struct wire_frame frame = {fifo_word(PROTOCOL_SIMPLE, bytes), 7, step, step, 0, 0};
    memset(payload, (int)step, sizeof payload);
    if (config->checksum) {
        frame.payload_crc = crc32c(0, payload, bytes);
        frame.frame_crc = wire_frame_crc(&frame);
    }
    char *at = sent->bytes + sent->size;
    if (end->key != NULL) {
        tcp_seal(end->key, step, TCP_SEAL_FRAME, &frame, sizeof frame, at);
        tcp_seal(end->key, step, TCP_SEAL_PAYLOAD, payload, bytes, at + sizeof frame + TCP_SEAL_BYTES);
    } else {
        memcpy(at, &frame, sizeof frame);
        memcpy(at + sizeof frame, payload, bytes);
    }
    sent->size += sizeof frame + bytes + 2 * tcp_seal_bytes(end);
}

/* Consumes as an executor does. */
static void consume(struct conn *conn, bool sealed) {
    while (fifo_has_data(&conn->end)) {
        const uint64_t step = conn->end.position;
        const struct fifo_slot_header *header = &conn->end.headers[step & (SLOTS - 1)];
        const uint32_t bytes = fifo_word_bytes(header->word);
        const char *payload = fifo_slot_at(&conn->end, fifo_word_protocol(header->word), step);
        if (!fifo_header_fits(conn_layout(conn), header->word))
            abort();
        for (uint32_t k = 0; k < bytes; k++)
            if (sealed && payload[k] != (char)step)
                abort(); /* it was changed on the way */
        fifo_consumed(&conn->end);
    }
}

static void with_frames(struct fuzz_input *input, bool encrypted) {
    static struct config config;
    static const uint8_t key[TCP_SEAL_KEY_BYTES] = {1};
    static char ahead[TCP_AHEAD_BYTES];
    const uint8_t kind = fuzz_byte(input), slots = fuzz_byte(input) % 8 + 1;
    const struct fifo_layout layout = fifo_layout_of(SLOTS, (struct protocol_sizes){SLOT_BYTES, 64, 64}, 0);
    struct peer_info peers[2] = {{.rank = 0, .host = "a"}, {.rank = 1, .host = "b"}};
    struct conn_owner owner = {.config = &config, .peers = peers, .nranks = 2, .layouts[PROG_TO_FEW] = layout};
    struct tcp_link link = {.users = 1};
    struct tcp_end end = {.link = &link, .connected = true, .nsockets = 1, .key = encrypted ? key : NULL};
    extern const struct transport transport_tcp;
    struct conn conn = {.side = CONN_CONSUMER, .peer = 1, .owner = &owner, .impl = &end, .transport = &transport_tcp};
    struct sent sent = {.size = 0};
    int pair[2];
    if (config_read(&config) != COLLET_SUCCESS ||
        wire_memory_create(&owner, layout.total_bytes, &end.memory) != COLLET_SUCCESS ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    config.checksum = !encrypted && kind & 1;
    fifo_memory_init(end.memory, &layout, &config);
    fifo_end_init(&conn.end, end.memory, &layout, &config);
    end.sockets[0] = (struct tcp_socket){.fd = pair[0], .ahead = ahead};
    for (uint64_t k = 0; k < slots; k++)
        put_slot(&sent, &end, &config, conn.end.position + k, kind);
    fuzz_patch(input, sent.bytes, sent.size);
    enum collet_result result = COLLET_IN_PROGRESS;
    for (size_t at = 0; at < sent.size && result >= 0;) {
        const size_t wanted = 1 + (fuzz_byte(input) | (size_t)(fuzz_byte(input) & 7) << 8);
        const size_t bytes = wanted < sent.size - at ? wanted : sent.size - at;
        if (send(pair[1], sent.bytes + at, bytes, MSG_NOSIGNAL) < 0)
            break;
        at += bytes;
        while ((result = tcp_consumer_progress(&conn)) == COLLET_SUCCESS)
            consume(&conn, encrypted);
    }
    close_all(&pair[1], 1);
    while (tcp_consumer_progress(&conn) == COLLET_SUCCESS)
        consume(&conn, encrypted);
    close_all(pair, 1);
    wire_memory_destroy(&owner, end.memory, layout.total_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    switch (fuzz_byte(&input) % 4) {
    case 0: with_strangers(&input); break;
    case 1: with_acks(&input); break;
    case 2: with_frames(&input, false); break;
    default: with_frames(&input, true);
    }
    return 0;
}
