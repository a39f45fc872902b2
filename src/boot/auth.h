/* SPDX-License-Identifier: Apache-2.0
 *
 * The handshake by which two ends of a new connection prove to each other that they know a key, before either looks at
 * any other byte. All words have a fixed size.
 *
 *      server                                                            client
 *      magic, version, nonce S ─────────────────────────────────────────▶ another greeting, or none: it is not us, leave
 *                     ◀─────────── nonce C, MAC(key, "client", P, S, C), opening
 *      compares, or ends the connection
 *      MAC(key, "server", P, S, C), opening ────────────────────────────▶ compares, or ends the connection
 *
 * The server speaks first, so that a client that has hit upon somebody else's server (which typically waits for a
 * request) says nothing to it. MAC is BLAKE2b under the key, of a word, the server's port P and the two nonces:
 *
 *    fresh nonces        make a recorded handshake worthless
 *    "client", "server"  keep an end from being shown its own proof
 *    P                   keeps a relay on another port from passing for the server
 *
 * A relay on the very port can still pass all of it on. It gains nothing: both ends now hold two session keys,
 * MAC(key, "client sends" or "server sends", P, S, C), which have not travelled, and every later byte is a frame under them
 * (wire.h). An opening is where the encrypted stream of that direction begins. Whoever changes it only breaks the first frame.
 */
#ifndef COLLET_BOOT_AUTH_H
#define COLLET_BOOT_AUTH_H

#include "boot/id.h"
#include "boot/wire.h"

#define AUTH_NONCE_BYTES 32
#define AUTH_MAC_BYTES 32

enum auth_state {
    AUTH_WAITING, /* waits for the next word of the other end */
    AUTH_PROVEN,
    AUTH_REFUSED, /* the other end does not know the key, or is not collet */
    AUTH_STRANGE, /* the other end is collet, of a version with another handshake */
    AUTH_LOST,    /* the connection ended (wire->error) */
};

struct auth {
    uint8_t key[SECRET_BYTES];
    bool server, greeted;
    uint16_t port;                       /* the server's port */
    uint8_t nonces[2][AUTH_NONCE_BYTES]; /* [0] of the server, [1] of the client */
};

void auth_start(struct auth *auth, bool server, const uint8_t key[SECRET_BYTES], int port, struct wire *wire);

/* Makes progress when the wire is ready. Reads only the handshake. AUTH_PROVEN: the wire is ready for frames. When the handshake is
 * over, the key is wiped. */
enum auth_state auth_try(struct auth *auth, struct wire *wire);

/* Stops a handshake, at any point. The key is wiped. */
void auth_stop(struct auth *auth);

#endif
