/* SPDX-License-Identifier: Apache-2.0
 *
 * A wire: a non-blocking TCP connection with buffers on both sides, served by the watch. First it carries the fixed-size
 * words of the handshake (auth.h). The handshake opens an encrypted stream in each direction; afterwards the wire carries frames:
 *
 *      │ type, bytes │ payload, encrypted, with its MAC │        libsodium's secretstream (XChaCha20-Poly1305)
 *        in clear      the MAC is over type and bytes, too, and over where in the stream the frame stands
 *
 * So a process that sits on the way, or that took over the port, can end the connection. It can neither read a frame nor
 * forge, change, repeat, drop or reorder one: the receiver finds that the MAC does not belong to the next frame of the stream.
 *
 * All functions belong to the watch thread.
 */
#ifndef COLLET_BOOT_WIRE_H
#define COLLET_BOOT_WIRE_H

#include "boot/watch.h"

#include <sodium.h>
#include <stddef.h>

struct wire_buffer {
    char *data;
    size_t begin, end, room; /* content: data[begin … end) */
};

#define WIRE_KEY_BYTES crypto_secretstream_xchacha20poly1305_KEYBYTES
#define WIRE_OPENING_BYTES crypto_secretstream_xchacha20poly1305_HEADERBYTES

struct wire {
    struct watch_fd watched;
    struct watch_timer timer; /* for wire_finish() */
    struct wire_buffer in, out;
    crypto_secretstream_xchacha20poly1305_state receives, sends; /* the stream of each direction, after the handshake */
    bool jammed;                                                 /* the socket did not take all of `out` */
    bool dry;                                                    /* the last wire_fill() read everything there was */
    int error; /* errno that ended the connection; 0: the other end closed it */
    /* Called if wire_fill() can read something. May destroy the wire. */
    void (*ready)(struct wire *wire);
    void *owner;
};

struct frame {
    uint32_t type;
    size_t bytes;
    const char *data; /* valid until the next wire_fill() */
};

/* Takes ownership of fd, also on failure. connect() may be in progress: its failure shows at the first read. */
enum collet_result wire_create(int fd, void (*ready)(struct wire *), void *owner, struct wire **wire_p);
void wire_destroy(struct wire *wire); /* NULL is fine */

/* Gives up the wire: sends what is queued, then ends the connection, within 2 s. NULL is fine. */
void wire_finish(struct wire *wire);

/* Reads until `limit` bytes are in the buffer, or no more have come. False: the connection has ended, see wire->error; the bytes that came
 * before are in the buffer. */
bool wire_fill(struct wire *wire, size_t limit);
/* The limit for a wire whose frames have up to max_bytes. */
size_t wire_room(size_t max_bytes);

/* Takes the next `bytes` bytes of the handshake; NULL: not all have come. */
const void *wire_take(struct wire *wire, size_t bytes);
bool wire_starts_with(const struct wire *wire, const void *expected, size_t bytes); /* compares what has come */
void wire_put(struct wire *wire, const void *data, size_t bytes);

/* Opens the stream of frames that this end sends. The handshake brings `opening` to the other end, which receives with it and the same key.
 * Each direction of each connection has its own key. */
void wire_open_sending(struct wire *wire, const uint8_t key[WIRE_KEY_BYTES], uint8_t opening[WIRE_OPENING_BYTES]);
void wire_open_receiving(struct wire *wire, const uint8_t key[WIRE_KEY_BYTES],
                         const uint8_t opening[WIRE_OPENING_BYTES]);

/* Takes the next frame. 1: taken. 0: none yet. −1: it is longer than max_bytes, or not the one that the other end sent next. */
int wire_next(struct wire *wire, size_t max_bytes, struct frame *frame);
/* Queues a frame of two parts (either may be empty) and sends as much as the socket takes. If that fails, ready() is called soon, and the
 * read reports the error. */
void wire_send(struct wire *wire, uint32_t type, const void *head, size_t head_bytes, const void *data, size_t bytes);

#endif
