/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/auth.h"

#include "base/os.h"

#include <sodium.h>
#include <string.h>

#define GREETING_MAGIC "collet\0\1"
#define MAGIC_BYTES 8

struct greeting {
    char magic[MAGIC_BYTES];
    uint8_t nonce[AUTH_NONCE_BYTES];
};

struct answer {
    uint8_t nonce[AUTH_NONCE_BYTES];
    uint8_t mac[AUTH_MAC_BYTES];
};

struct proof {
    uint8_t mac[AUTH_MAC_BYTES];
};

static void mac_of(const struct auth *auth, const char *role, uint8_t mac[AUTH_MAC_BYTES]) {
    crypto_generichash_state state;
    crypto_generichash_init(&state, auth->key, SECRET_BYTES, AUTH_MAC_BYTES);
    crypto_generichash_update(&state, (const uint8_t *)role, strlen(role) + 1);
    crypto_generichash_update(&state, auth->nonces[0], sizeof auth->nonces);
    crypto_generichash_final(&state, mac, AUTH_MAC_BYTES);
}

static bool mac_is(const struct auth *auth, const char *role, const uint8_t mac[AUTH_MAC_BYTES]) {
    uint8_t expected[AUTH_MAC_BYTES];
    mac_of(auth, role, expected);
    return sodium_memcmp(mac, expected, AUTH_MAC_BYTES) == 0; /* in constant time */
}

void auth_start(struct auth *auth, bool server, const uint8_t key[SECRET_BYTES], struct wire *wire) {
    *auth = (struct auth){.server = server};
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
    struct proof proof;
    mac_of(auth, "server", proof.mac);
    wire_put(wire, &proof, sizeof proof);
    return AUTH_PROVEN;
}

static enum auth_state answer_greeting(struct auth *auth, struct wire *wire) {
    bool open = wire_fill(wire, sizeof(struct greeting));
    if (!wire_starts_with(wire, GREETING_MAGIC, MAGIC_BYTES))
        return AUTH_REFUSED;
    const struct greeting *greeting = wire_take(wire, sizeof *greeting);
    if (greeting == NULL)
        return open ? AUTH_WAITING : AUTH_LOST;
    memcpy(auth->nonces[0], greeting->nonce, AUTH_NONCE_BYTES);
    auth->greeted = true;
    struct answer answer;
    memcpy(answer.nonce, auth->nonces[1], AUTH_NONCE_BYTES);
    mac_of(auth, "client", answer.mac);
    wire_put(wire, &answer, sizeof answer);
    return AUTH_WAITING;
}

enum auth_state auth_try(struct auth *auth, struct wire *wire) {
    if (auth->server)
        return serve(auth, wire);
    if (!auth->greeted)
        return answer_greeting(auth, wire); /* the proof cannot have come yet */
    bool open = wire_fill(wire, sizeof(struct proof));
    const struct proof *proof = wire_take(wire, sizeof *proof);
    if (proof == NULL)
        return open ? AUTH_WAITING : AUTH_LOST;
    return mac_is(auth, "server", proof->mac) ? AUTH_PROVEN : AUTH_REFUSED;
}
