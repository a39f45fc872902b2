/* SPDX-License-Identifier: Apache-2.0
 *
 * The handshake, then frames, with somebody in between who changes bytes:
 *
 *      server ◀──▶ socket pair ◀── relay ──▶ socket pair ◀──▶ client        or, without a relay, noise for either end
 */
#include "boot/auth.h"
#include "fuzz.h"
#include "watch_none.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_BYTES 4096

static void nothing(struct wire *wire) { (void)wire; }

struct end {
    struct wire *wire;
    struct auth auth;
    enum auth_state state;
    int relay; /* the other end of its socket */
};

static void end_create(struct end *end, bool server) {
    const uint8_t key[SECRET_BYTES] = {1, 2, 3};
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 ||
        wire_create(pair[0], nothing, NULL, &end->wire) != COLLET_SUCCESS)
        abort();
    end->relay = pair[1];
    end->state = AUTH_WAITING;
    auth_start(&end->auth, server, key, 4711, end->wire);
}

/* Frames, once proven. False: the connection is over. */
static bool end_try(struct end *end) {
    struct frame frame;
    int got;
    if (end->state == AUTH_WAITING) {
        end->state = auth_try(&end->auth, end->wire);
        if (end->state == AUTH_PROVEN)
            wire_send(end->wire, 7, "head", 4, "and data", 8);
        return end->state <= AUTH_PROVEN;
    }
    bool open = wire_fill(end->wire, wire_room(MOST_BYTES));
    while ((got = wire_next(end->wire, MOST_BYTES, &frame)) > 0)
        if (frame.bytes != 12 || memcmp(frame.data, "headand data", 12) != 0)
            abort(); /* a changed frame has passed */
    return open && got == 0;
}

static void carry(struct end *from, struct end *to, struct fuzz_input *input) {
    uint8_t bytes[MOST_BYTES];
    ssize_t n = recv(from->relay, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n <= 0)
        return;
    fuzz_patch(input, bytes, (size_t)n);
    if (send(to->relay, bytes, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;
}

static void end_destroy(struct end *end) {
    wire_destroy(end->wire);
    close(end->relay);
}

static void with_relay(struct fuzz_input *input) {
    struct end server, client;
    end_create(&server, true);
    end_create(&client, false);
    for (int k = 0; k < 8; k++) {
        carry(&server, &client, input);
        if (!end_try(&client))
            break;
        carry(&client, &server, input);
        if (!end_try(&server))
            break;
    }
    end_destroy(&server);
    end_destroy(&client);
}

static void with_noise(struct fuzz_input *input, bool server) {
    struct end end;
    size_t size;
    end_create(&end, server);
    do {
        const uint8_t *bytes = fuzz_bytes(input, 1 + fuzz_byte(input), &size);
        if (send(end.relay, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
    } while (end_try(&end) && input->size > 0);
    if (end.state == AUTH_PROVEN)
        abort(); /* without the key */
    end_destroy(&end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    uint8_t kind = fuzz_byte(&input) % 4;
    if (kind < 2)
        with_noise(&input, kind == 0);
    else
        with_relay(&input);
    return 0;
}
