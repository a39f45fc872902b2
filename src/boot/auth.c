/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/auth.h"

#include "base/os.h"

#include <sodium.h>
#include <string.h>

#define GREETING_MAGIC "collet\0\7" /* the last byte is the version of the handshake and of the frames */
#define MAGIC_BYTES 8
#define NAME_BYTES 7

struct greeting {
    char magic[MAGIC_BYTES];
    uint8_t nonce[AUTH_NONCE_BYTES];
};

struct answer {
    uint8_t nonce[AUTH_NONCE_BYTES];
    uint8_t mac[AUTH_MAC_BYTES];
    uint8_t opening[WIRE_OPENING_BYTES];
};

struct proof {
    uint8_t mac[AUTH_MAC_BYTES];
    uint8_t opening[WIRE_OPENING_BYTES];
};

_Static_assert(AUTH_MAC_BYTES == WIRE_KEY_BYTES, "session keys are MACs");

static void mac_of(const struct auth *auth, const char *word, uint8_t mac[AUTH_MAC_BYTES]) {
    crypto_generichash_state state;
    crypto_generichash_init(&state, auth->key, SECRET_BYTES, AUTH_MAC_BYTES);
    crypto_generichash_update(&state, (const uint8_t *)word, strlen(word) + 1);
    crypto_generichash_update(&state, (const uint8_t *)&auth->port, sizeof auth->port);
    crypto_generichash_update(&state, auth->nonces[0], sizeof auth->nonces);
    crypto_generichash_final(&state, mac, AUTH_MAC_BYTES);
}

static bool mac_is(const struct auth *auth, const char *word, const uint8_t mac[AUTH_MAC_BYTES]) {
    uint8_t expected[AUTH_MAC_BYTES];
    mac_of(auth, word, expected);
    return sodium_memcmp(mac, expected, AUTH_MAC_BYTES) == 0; /* in constant time */
}

/* Both nonces are known, so are the session keys. */
static void open_sending(const struct auth *auth, struct wire *wire, uint8_t opening[WIRE_OPENING_BYTES]) {
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    mac_of(auth, auth->server ? "server sends" : "client sends", key);
    wire_open_sending(wire, key, opening);
}

static void open_receiving(const struct auth *auth, struct wire *wire, const uint8_t opening[WIRE_OPENING_BYTES]) {
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    mac_of(auth, auth->server ? "client sends" : "server sends", key);
    wire_open_receiving(wire, key, opening);
}

void auth_start(struct auth *auth, bool server, const uint8_t key[SECRET_BYTES], int port, struct wire *wire) {
    *auth = (struct auth){.server = server, .port = (uint16_t)port};
    memcpy(auth->key, key, SECRET_BYTES);
    os_random(auth->nonces[server ? 0 : 1], AUTH_NONCE_BYTES);
    if (!server)
        return;
    struct greeting greeting = {.magic = GREETING_MAGIC};
    memcpy(greeting.nonce, auth->nonces[0], AUTH_NONCE_BYTES);
    wire_put(wire, &greeting, sizeof greeting);
}

static enum auth_state serve(struct auth *auth, struct wire *wire) {
    bool open = wire_fill(wire, sizeof(struct answer));
    const struct answer *answer = wire_take(wire, sizeof *answer);
    if (answer == NULL)
        return open ? AUTH_WAITING : AUTH_LOST;
    memcpy(auth->nonces[1], answer->nonce, AUTH_NONCE_BYTES);
    if (!mac_is(auth, "client", answer->mac))
        return AUTH_REFUSED;
    open_receiving(auth, wire, answer->opening);
    struct proof proof;
    mac_of(auth, "server", proof.mac);
    open_sending(auth, wire, proof.opening);
    wire_put(wire, &proof, sizeof proof);
    return AUTH_PROVEN;
}

static enum auth_state answer_greeting(struct auth *auth, struct wire *wire) {
    bool open = wire_fill(wire, sizeof(struct greeting));
    if (!wire_starts_with(wire, GREETING_MAGIC, MAGIC_BYTES))
        return wire_starts_with(wire, GREETING_MAGIC, NAME_BYTES) ? AUTH_STRANGE : AUTH_REFUSED;
    const struct greeting *greeting = wire_take(wire, sizeof *greeting);
    if (greeting == NULL)
        return open ? AUTH_WAITING : AUTH_LOST;
    memcpy(auth->nonces[0], greeting->nonce, AUTH_NONCE_BYTES);
    auth->greeted = true;
    struct answer answer;
    memcpy(answer.nonce, auth->nonces[1], AUTH_NONCE_BYTES);
    mac_of(auth, "client", answer.mac);
    open_sending(auth, wire, answer.opening);
    wire_put(wire, &answer, sizeof answer);
    return AUTH_WAITING;
}

static enum auth_state await_proof(struct auth *auth, struct wire *wire) {
    bool open = wire_fill(wire, sizeof(struct proof));
    const struct proof *proof = wire_take(wire, sizeof *proof);
    if (proof == NULL)
        return open ? AUTH_WAITING : AUTH_LOST;
    if (!mac_is(auth, "server", proof->mac))
        return AUTH_REFUSED;
    open_receiving(auth, wire, proof->opening);
    return AUTH_PROVEN;
}

enum auth_state auth_try(struct auth *auth, struct wire *wire) {
    enum auth_state state;
    if (auth->server)
        state = serve(auth, wire);
    else
        state = auth->greeted ? await_proof(auth, wire) : answer_greeting(auth, wire);
    if (state != AUTH_WAITING)
        auth_stop(auth);
    return state;
}

void auth_stop(struct auth *auth) { sodium_memzero(auth->key, sizeof auth->key); }
