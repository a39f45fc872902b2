/* SPDX-License-Identifier: Apache-2.0
 *
 * With COLLET_ENCRYPT, what a tcp connection carries is sealed: nobody on the way reads it, and what was changed, repeated, left
 * out or put elsewhere is noticed.
 *
 *    │ frame, encrypted │ MAC │ payload, encrypted │ MAC │       ChaCha20-Poly1305 (RFC 8439), two seals per slot
 *      nonce (step, 0)          nonce (step, 1)
 *
 * The key is of one direction of one link. Both ends compute it from the secret of their communicator and from the link's token,
 * which is fresh; the key never travels. A step is sent once, so no nonce is used twice with a key.
 */
#ifndef COLLET_TRANSPORT_TCP_SEAL_H
#define COLLET_TRANSPORT_TCP_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TCP_SEAL_KEY_BYTES 32
#define TCP_SEAL_BYTES 16 /* bytes that a seal adds */
#define TCP_SEALED_SO "its seal does not fit (COLLET_ENCRYPT)"

enum tcp_seal_part { TCP_SEAL_FRAME, TCP_SEAL_PAYLOAD };

/* Encrypts `bytes` of plain text. Writes bytes + TCP_SEAL_BYTES to `sealed`. */
void tcp_seal(const uint8_t key[TCP_SEAL_KEY_BYTES], uint64_t step, enum tcp_seal_part part, const void *plain,
              size_t bytes, char *sealed);

/* Decrypts in place. False: this is not what was sent, and data is undefined. */
bool tcp_unseal(const uint8_t key[TCP_SEAL_KEY_BYTES], uint64_t step, enum tcp_seal_part part, void *data, size_t bytes,
                const uint8_t seal[TCP_SEAL_BYTES]);

#endif
