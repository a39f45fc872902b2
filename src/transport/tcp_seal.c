/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp_seal.h"

#include <sodium.h>
#include <string.h>

_Static_assert(TCP_SEAL_KEY_BYTES == crypto_aead_chacha20poly1305_ietf_KEYBYTES, "the key of RFC 8439");
_Static_assert(TCP_SEAL_BYTES == crypto_aead_chacha20poly1305_ietf_ABYTES, "its MAC");

struct nonce {
    uint8_t bytes[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
};

static struct nonce nonce_of(uint64_t step, enum tcp_seal_part part) {
    struct nonce nonce = {{0}};
    memcpy(nonce.bytes, &step, sizeof(step));
    nonce.bytes[sizeof(step)] = (uint8_t)part;
    return nonce;
}

void tcp_seal(const uint8_t key[TCP_SEAL_KEY_BYTES], uint64_t step, enum tcp_seal_part part, const void *plain,
              size_t bytes, char *sealed) {
    struct nonce nonce = nonce_of(step, part);
    crypto_aead_chacha20poly1305_ietf_encrypt_detached((uint8_t *)sealed, (uint8_t *)sealed + bytes, NULL, plain, bytes,
                                                       NULL, 0, NULL, nonce.bytes, key);
}

bool tcp_unseal(const uint8_t key[TCP_SEAL_KEY_BYTES], uint64_t step, enum tcp_seal_part part, void *data, size_t bytes,
                const uint8_t seal[TCP_SEAL_BYTES]) {
    struct nonce nonce = nonce_of(step, part);
    return crypto_aead_chacha20poly1305_ietf_decrypt_detached(data, NULL, data, bytes, seal, NULL, 0, nonce.bytes,
                                                              key) == 0;
}
