/* SPDX-License-Identifier: Apache-2.0
 *
 * One end of a connection by a net plugin, as its files share it:
 *
 *    plug.c            how ends come to be and go
 *    plug_producer.c   slots out
 *    plug_consumer.c   slots in
 *    plug_memory.c     where slots lie: in host memory, or those of Simple in memory of a GPU
 *    plug_lib.c        the plugin: knows nothing of connections
 */
#ifndef COLLET_LAYERS_NCCL_PLUG_END_H
#define COLLET_LAYERS_NCCL_PLUG_END_H

#include "base/crc32c.h"
#include "base/err.h"
#include "layers/nccl/plug_lib.h"
#include "transport/transport.h"
#include "transport/wire.h"

/* A short payload goes in one message with its frame: copying it costs less than a second message. So do those of all protocols but
 * Simple, however long they are: there is one place then where the next payload of its own may come. */
#define PLUG_SHORT_BYTES 4096u

/* The part of a slot that is under way. */
struct plug_slot {
    void *frame_request; /* NULL: done, or never asked for. A consumer's may be that of the payload, too */
    void *payload_request;
    void *flush_request;
    bool flushed;            /* consumer: it needs no flush any more */
    struct wire_frame frame; /* consumer: as it came */
};

struct plug_end {
    const struct plug_host *host;
    int device;
    uint8_t handle[PLUG_HANDLE_BYTES]; /* producer: of its consumer */
    void *listener;                    /* consumer, until it has its receiver */
    void *line;                        /* the plugin's sender or receiver; NULL: not connected yet */

    void *memory; /* of the host: the FIFO, behind it a frame per slot */
    size_t bytes;
    void *registration; /* registration of that memory; a plugin may give none */
    bool registered;
    char *gpu_slots; /* slots of Simple in memory of the GPU; NULL: they are in host memory */
    void *gpu_registration;
    bool flush; /* consumer: what comes into memory of the GPU must be flushed */

    struct plug_slot slots[FIFO_MAX_SLOTS];
    bool together;      /* the consumer asks for frame and payload in one request. Both ends know */
    uint64_t asked;     /* producer: the next step to send; consumer: the next one whose frame has not come */
    uint64_t wanted;    /* consumer: the next one whose frame is not asked for */
    size_t frame_bytes; /* producer: of its message, which is filled and not taken yet; 0: it is not filled */
    bool frame_sent;    /* producer: and its payload is not */
    bool frame_here;    /* consumer: its frame has come, its payload is not asked for */

    bool stuck;                  /* consumer: of what has come, no more can be delivered */
    uint32_t failures;           /* of all kinds */
    uint64_t broken_ns;          /* when the first was noticed */
    char broken[ERR_TEXT_BYTES]; /* why the connection is over, if it is */
};

extern const struct transport transport_plugin;

static inline bool plug_is_broken(const struct plug_end *end) { return end->failures > 0; }

static inline struct plug_slot *plug_slot_of(const struct conn *conn, uint64_t step) {
    struct plug_end *end = conn->impl;
    return &end->slots[step & (conn->end.nslots - 1)];
}

/* Room for a frame and what goes with it. */
static inline size_t plug_frame_room(const struct conn *conn) {
    size_t behind = PLUG_SHORT_BYTES;
    for (uint32_t protocol = 0; protocol < PROTOCOL_COUNT; protocol++)
        if (protocol != PROTOCOL_SIMPLE && fifo_payload_bytes(conn_layout(conn), protocol) > behind)
            behind = fifo_payload_bytes(conn_layout(conn), protocol);
    return sizeof(struct wire_frame) + (behind + 7) / 8 * 8;
}

/* The address of the frame of a step. A short payload stands behind it. */
static inline struct wire_frame *plug_frame_at(const struct conn *conn, uint64_t step) {
    struct plug_end *end = conn->impl;
    size_t at = conn_layout(conn)->total_bytes + (step & (conn->end.nslots - 1)) * plug_frame_room(conn);
    return (struct wire_frame *)(void *)((char *)end->memory + at);
}

static inline char *plug_payload_at(const struct conn *conn, uint32_t word, uint64_t step) {
    return fifo_slot_at(&conn->end, fifo_word_protocol(word), step);
}

static inline char *plug_long_payload_at(const struct conn *conn, uint64_t step) {
    return fifo_slot_at(&conn->end, PROTOCOL_SIMPLE, step);
}

/* Does the payload of such a slot go behind its frame, in the same message? Both ends must come to the same answer, and either
 * may have slots of Simple in memory of a GPU. */
static inline bool plug_is_short(const struct conn *conn, uint32_t word) {
    return fifo_word_protocol(word) != PROTOCOL_SIMPLE ||
           fifo_word_bytes(word) <= (conn->owner->gpu == NULL ? PLUG_SHORT_BYTES : 0);
}

/* Of payloads that have a message of their own. */
static inline void *plug_payload_registration(const struct plug_end *end) {
    return end->gpu_slots != NULL ? end->gpu_registration : end->registration;
}

/* As transport.link_text(). */
void plug_link_text(const struct conn *conn, uint64_t step, char text[CONN_LINK_BYTES]);

/* From now on the plugin is not asked to move anything more here. */
void plug_set_broken(struct conn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A call of the plugin has failed: the same, with a text that says which. */
void plug_call_failed(struct conn *conn, const char *call, int result);
/* Is a request done? Then it is NULL. bytes: of its messages, one or two; or NULL. */
bool plug_test(struct conn *conn, void **request, int *bytes);

/* True if something moved. */
bool plug_producer_move(struct conn *conn);
bool plug_consumer_move(struct conn *conn);

/* plug_memory.c: of an end whose line is there. */
enum collet_result plug_memory_register(struct conn *conn);
void plug_memory_forget(struct conn *conn);

#endif
