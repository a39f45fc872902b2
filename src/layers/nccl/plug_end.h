/* SPDX-License-Identifier: Apache-2.0
 *
 * One end of a connection that uses a network plugin. Its files:
 *
 *    plug.c            how ends come to be and go
 *    plug_producer.c   slots out
 *    plug_consumer.c   slots in
 *    plug_memory.c     where slots lie: in host memory; Simple slots perhaps in GPU memory
 *    plug_lib.c        the plugin; it knows nothing of connections
 */
#ifndef COLLET_LAYERS_NCCL_PLUG_END_H
#define COLLET_LAYERS_NCCL_PLUG_END_H

#include "base/crc32c.h"
#include "base/err.h"
#include "layers/nccl/plug_lib.h"
#include "transport/transport.h"
#include "transport/wire.h"

/* A payload of at most this many bytes goes in one message with its frame, because copying it costs less than a second
 * message. LL and LL128 payloads always do, whatever their length: so a payload with a message of its own can only
 * belong in a Simple slot. */
#define PLUG_SHORT_BYTES 4096u

/* Progress of one slot. */
struct plug_slot {
    /* Request for the frame. NULL: it is done, or was never made. A consumer's request may cover the payload too
     * (plug_end.together). */
    void *frame_request;
    void *payload_request;
    void *flush_request;
    bool flushed;            /* consumer: no flush is needed, or the flush is done */
    struct wire_frame frame; /* consumer: copy of the frame that came */
};

struct plug_end {
    const struct plug_host *host;
    int device;
    uint8_t handle[PLUG_HANDLE_BYTES]; /* producer: address of its consumer's listener */
    void *listener;                    /* consumer: listener; NULL once the receiver is there */
    void *line;                        /* the plugin's sender or receiver; NULL: not connected yet */

    void *memory; /* host memory: the FIFO, followed by one frame per slot */
    size_t bytes;
    void *registration; /* registration of `memory`; some plugins return NULL */
    bool registered;
    char *gpu_slots; /* Simple slots in GPU memory; NULL: they are in host memory */
    void *gpu_registration;
    bool flush; /* consumer: data that came into GPU memory must be flushed */

    struct plug_slot slots[FIFO_MAX_SLOTS];
    bool together;   /* equal at both ends: the consumer asks for frame and payload in one request */
    uint64_t asked;  /* producer: the next step to send; consumer: the next step whose frame has not come */
    uint64_t wanted; /* consumer: the next step whose frame is not asked for yet */
    /* Producer: bytes of the frame's message of step `asked`, which is filled in and not taken by the plugin yet. 0: it
     * is not filled in. */
    size_t frame_bytes;
    bool frame_sent; /* producer: the frame of step `asked` is sent, its payload is not */
    bool frame_here; /* consumer: the frame of step `asked` has come, its payload is not asked for yet */

    bool stuck;                  /* consumer: the oldest slot that has come can never be delivered */
    uint32_t failures;           /* number of failures, of all kinds */
    uint64_t broken_ns;          /* time of the first failure */
    char broken[ERR_TEXT_BYTES]; /* why the connection is over; only valid if failures > 0 */
};

extern const struct transport transport_plugin;

static inline bool plug_is_broken(const struct plug_end *end) { return end->failures > 0; }

static inline struct plug_slot *plug_slot_of(const struct conn *conn, uint64_t step) {
    struct plug_end *end = conn->impl;
    return &end->slots[step & (conn->end.nslots - 1)];
}

/* Bytes of a frame and the longest payload that may follow it in the same message. */
static inline size_t plug_frame_room(const struct conn *conn) {
    size_t behind = PLUG_SHORT_BYTES;
    for (uint32_t protocol = 0; protocol < PROTOCOL_COUNT; protocol++)
        if (protocol != PROTOCOL_SIMPLE && fifo_payload_bytes(conn_layout(conn), protocol) > behind)
            behind = fifo_payload_bytes(conn_layout(conn), protocol);
    return sizeof(struct wire_frame) + (behind + 7) / 8 * 8;
}

/* The address of a step's frame. A short payload follows it. */
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

/* Does the payload of such a slot follow its frame, in the same message? Both ends must get the same answer, although
 * only one of them may have its Simple slots in GPU memory. */
static inline bool plug_is_short(const struct conn *conn, uint32_t word) {
    return fifo_word_protocol(word) != PROTOCOL_SIMPLE ||
           fifo_word_bytes(word) <= (conn->owner->gpu == NULL ? PLUG_SHORT_BYTES : 0);
}

/* The registration of payloads that have a message of their own. */
static inline void *plug_payload_registration(const struct plug_end *end) {
    return end->gpu_slots != NULL ? end->gpu_registration : end->registration;
}

/* Implements transport.link_text(). */
void plug_link_text(const struct conn *conn, uint64_t step, char text[CONN_LINK_BYTES]);

/* Marks the connection as broken: nothing more is asked of the plugin for it. Only the first text counts. */
void plug_set_broken(struct conn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Marks the connection as broken because a call of the plugin failed. The text names the call. */
void plug_call_failed(struct conn *conn, const char *call, int result);
/* Is the request done? If it is, *request becomes NULL. bytes: NULL, or an array that gets the length of the request's
 * one or two messages. */
bool plug_test(struct conn *conn, void **request, int *bytes);

/* Return true if something moved. */
bool plug_producer_move(struct conn *conn);
bool plug_consumer_move(struct conn *conn);

/* plug_memory.c: registers the memory of an end that is connected, and undoes it. */
enum collet_result plug_memory_register(struct conn *conn);
void plug_memory_forget(struct conn *conn);

#endif
