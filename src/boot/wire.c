/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/wire.h"

#include "base/err.h"
#include "base/os.h"
#include "boot/patience.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FINISH_NS 2000000000ull
#define DISCARD_BYTES (64u << 10)

/* The stream adds a byte in front of the payload, which has no meaning here, and the MAC behind it. */
#define SEAL_BYTES crypto_secretstream_xchacha20poly1305_ABYTES

struct frame_head {
    uint32_t type, bytes; /* bytes of the payload, as it is before the stream adds to it */
};

/* ------------------------------------------------------------------------------------------------------------ buffers */

static size_t content(const struct wire_buffer *buffer) { return buffer->end - buffer->begin; }

/* Frees a buffer. It is wiped first: a frame may contain the id of another communicator. */
static void wipe(struct wire_buffer *buffer) {
    if (buffer->data != NULL)
        sodium_memzero(buffer->data, buffer->room);
    free(buffer->data);
}

/* Makes room for `bytes` more after the content. */
static bool reserve(struct wire_buffer *buffer, size_t bytes) {
    if (buffer->room - buffer->end >= bytes)
        return true;
    if (buffer->begin > 0) {
        memmove(buffer->data, buffer->data + buffer->begin, content(buffer));
        buffer->end -= buffer->begin;
        buffer->begin = 0;
    }
    if (buffer->room - buffer->end >= bytes)
        return true;
    size_t room = 2 * buffer->room > buffer->end + bytes ? 2 * buffer->room : buffer->end + bytes;
    char *data = patient_malloc(room);
    if (data == NULL)
        return false;
    if (buffer->end > 0)
        memcpy(data, buffer->data, buffer->end);
    wipe(buffer);
    buffer->data = data;
    buffer->room = room;
    return true;
}

static bool append(struct wire_buffer *buffer, const void *data, size_t bytes) {
    if (bytes == 0)
        return true;
    if (!reserve(buffer, bytes))
        return false;
    memcpy(buffer->data + buffer->end, data, bytes);
    buffer->end += bytes;
    return true;
}

/* --------------------------------------------------------------------------------------------------------------- life */

/* Frees an empty buffer: most connections are silent most of the time. */
static void release(struct wire_buffer *buffer) {
    if (content(buffer) > 0)
        return;
    wipe(buffer);
    *buffer = (struct wire_buffer){.data = NULL};
}

/* Sends what the socket takes; the rest waits for EPOLLOUT. Reading will report an error. */
static void flush(struct wire *wire) {
    while (content(&wire->out) > 0) {
        ssize_t sent =
            send(wire->watched.fd, wire->out.data + wire->out.begin, content(&wire->out), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            break;
        wire->out.begin += (size_t)sent;
    }
    release(&wire->out);
    const bool jammed = content(&wire->out) > 0;
    if (jammed != wire->jammed)
        watch_change(&wire->watched, EPOLLIN | (jammed ? (uint32_t)EPOLLOUT : 0));
    wire->jammed = jammed;
}

static void on_wire_ready(struct watch_fd *watched, uint32_t events) {
    struct wire *wire = WATCH_OWNER(watched, struct wire, watched);
    if (events & EPOLLOUT)
        flush(wire);
    wire->ready(wire);
}

enum collet_result wire_create(int fd, void (*ready)(struct wire *), void *owner, struct wire **wire_p) {
    const int on = 1;
    struct wire *wire = patient_malloc(sizeof *wire);
    if (wire == NULL) {
        close(fd);
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a connection of the control plane");
    }
    *wire = (struct wire){.dry = false};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    wire->watched = (struct watch_fd){.fd = fd, .ready = on_wire_ready};
    wire->ready = ready;
    wire->owner = owner;
    enum collet_result result = watch_add(&wire->watched, EPOLLIN);
    if (result != COLLET_SUCCESS) {
        close(fd);
        free(wire);
        return result;
    }
    *wire_p = wire;
    return COLLET_SUCCESS;
}

void wire_destroy(struct wire *wire) {
    if (wire == NULL)
        return;
    watch_timer_stop(&wire->timer);
    watch_remove(&wire->watched);
    shutdown(wire->watched.fd, SHUT_RDWR); /* close() alone has no effect while a forked child holds the socket */
    close(wire->watched.fd);
    wipe(&wire->in);
    wipe(&wire->out);
    sodium_memzero(wire, sizeof *wire); /* wipes the keys */
    free(wire);
}

static void finish_late(struct watch_timer *timer) { wire_destroy(WATCH_OWNER(timer, struct wire, timer)); }

/* Reads and drops what still comes: closing a socket with unread bytes resets the connection, and might lose the last bytes sent. */
static void finish_ready(struct wire *wire) {
    if (content(&wire->out) == 0)
        shutdown(wire->watched.fd, SHUT_WR);
    wire->in.begin = wire->in.end;
    if (!wire_fill(wire, DISCARD_BYTES))
        wire_destroy(wire);
}

void wire_finish(struct wire *wire) {
    if (wire == NULL)
        return;
    wire->timer.fire = finish_late;
    watch_timer_set(&wire->timer, os_now_ns() + FINISH_NS);
    wire->ready = finish_ready;
    wire->owner = NULL;
    finish_ready(wire);
}

/* ------------------------------------------------------------------------------------------------------------ reading */

size_t wire_room(size_t max_bytes) { return sizeof(struct frame_head) + max_bytes + SEAL_BYTES; }

bool wire_fill(struct wire *wire, size_t limit) {
    const size_t had = content(&wire->in);
    wire->dry = false;
    if (had >= limit)
        return true;
    if (!reserve(&wire->in, limit - had)) {
        wire->error = ENOMEM;
        return false;
    }
    while (content(&wire->in) < limit) {
        ssize_t got = recv(wire->watched.fd, wire->in.data + wire->in.end, limit - content(&wire->in), MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            wire->dry = true;
            return true;
        }
        if (got <= 0) {
            if (wire->error == 0)
                wire->error = got < 0 ? errno : 0;
            return false;
        }
        wire->in.end += (size_t)got;
    }
    return true;
}

const void *wire_take(struct wire *wire, size_t bytes) {
    if (content(&wire->in) < bytes)
        return NULL;
    const void *taken = wire->in.data + wire->in.begin;
    wire->in.begin += bytes;
    return taken;
}

bool wire_starts_with(const struct wire *wire, const void *expected, size_t bytes) {
    size_t here = content(&wire->in) < bytes ? content(&wire->in) : bytes;
    return here == 0 || memcmp(wire->in.data + wire->in.begin, expected, here) == 0;
}

void wire_put(struct wire *wire, const void *data, size_t bytes) {
    if (append(&wire->out, data, bytes))
        flush(wire);
    else
        shutdown(wire->watched.fd, SHUT_RDWR);
}

/* ------------------------------------------------------------------------------------------------------------- frames */

void wire_open_sending(struct wire *wire, const uint8_t key[WIRE_KEY_BYTES], uint8_t opening[WIRE_OPENING_BYTES]) {
    crypto_secretstream_xchacha20poly1305_init_push(&wire->sends, opening, key);
}

void wire_open_receiving(struct wire *wire, const uint8_t key[WIRE_KEY_BYTES],
                         const uint8_t opening[WIRE_OPENING_BYTES]) {
    crypto_secretstream_xchacha20poly1305_init_pull(&wire->receives, opening, key);
}

int wire_next(struct wire *wire, size_t max_bytes, struct frame *frame) {
    struct frame_head head;
    release(&wire->in);
    if (content(&wire->in) < sizeof head)
        return 0;
    memcpy(&head, wire->in.data + wire->in.begin, sizeof head);
    if (head.bytes > max_bytes)
        return -1;
    if (content(&wire->in) < sizeof head + head.bytes + SEAL_BYTES)
        return 0;
    uint8_t *sealed = (uint8_t *)wire->in.data + wire->in.begin + sizeof head, *payload = sealed + 1, tag;
    wire->in.begin += sizeof head + head.bytes + SEAL_BYTES;
    if (crypto_secretstream_xchacha20poly1305_pull(&wire->receives, payload, NULL, &tag, sealed,
                                                   head.bytes + SEAL_BYTES, (const uint8_t *)&head, sizeof head) != 0)
        return -1;
    *frame = (struct frame){.type = head.type, .bytes = head.bytes, .data = (const char *)payload};
    return 1;
}

void wire_send(struct wire *wire, uint32_t type, const void *head, size_t head_bytes, const void *data, size_t bytes) {
    const struct frame_head frame = {.type = type, .bytes = (uint32_t)(head_bytes + bytes)};
    if (!reserve(&wire->out, sizeof frame + frame.bytes + SEAL_BYTES)) {
        wire->error = ENOMEM;
        shutdown(wire->watched.fd, SHUT_RDWR);
        return;
    }
    append(&wire->out, &frame, sizeof frame);
    uint8_t *sealed = (uint8_t *)wire->out.data + wire->out.end, *payload = sealed + 1;
    wire->out.end++;
    append(&wire->out, head, head_bytes);
    append(&wire->out, data, bytes);
    crypto_secretstream_xchacha20poly1305_push(&wire->sends, sealed, NULL, payload, frame.bytes,
                                               (const uint8_t *)&frame, sizeof frame,
                                               crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
    wire->out.end += SEAL_BYTES - 1;
    flush(wire);
}
