/* SPDX-License-Identifier: Apache-2.0
 *
 * An endpoint works off the packets of its peer, in their order.
 */
#include "layers/windows/receive.h"

#include "base/memory.h"

#include <string.h>

/* Each function take_…() works off a packet. It returns NULL, or a text that says what the peer did wrong. */

static struct rma_window *find_window(struct rma_window *windows, const struct packet *packet) {
    while (windows != NULL && windows->number != packet->window)
        windows = windows->next;
    return windows;
}

/* Returns the address of the window's bytes that the packet names. NULL: no window has these bytes. */
static char *bytes_in_window(struct rma_window *windows, const struct packet *packet) {
    const struct rma_window *window = find_window(windows, packet);
    if (window == NULL || packet->offset > window->bytes || packet->bytes > window->bytes - packet->offset)
        return NULL;
    return window->buff + packet->offset;
}

#define OUTSIDE "for bytes that are in no window of this rank"

static const char *take_put(struct rma_window *windows, const struct packet *packet, const char *data) {
    char *to = bytes_in_window(windows, packet);
    if (to == NULL)
        return OUTSIDE;
    memcpy(to, data, (size_t)packet->bytes);
    return NULL;
}

static const char *take_get(struct endpoint *endpoint, struct rma_window *windows, const struct packet *packet) {
    const char *from = bytes_in_window(windows, packet);
    if (from == NULL || packet->bytes == 0)
        return OUTSIDE;
    if (endpoint->replies_made - endpoint->replies_done == ENDPOINT_FETCHES)
        return "that asks for more than may be asked for at a time";
    endpoint->replies[endpoint->replies_made++ % ENDPOINT_FETCHES] = (struct reply){from, packet->bytes};
    return NULL;
}

static const char *take_reply(struct endpoint *endpoint, const struct packet *packet, const char *data) {
    struct fetch *fetch = &endpoint->fetches[endpoint->fetches_done % ENDPOINT_FETCHES];
    if (endpoint->fetches_done == endpoint->fetches_made || packet->bytes > fetch->missing)
        return "with bytes that nobody asked for";
    fetch->missing -= packet->bytes;
    if (fetch->op != NULL) {
        memcpy(fetch->to, data, (size_t)packet->bytes);
        fetch->to += packet->bytes;
        fetch->op->missing -= packet->bytes;
    }
    endpoint->fetches_done += fetch->missing == 0;
    return NULL;
}

static const char *take_signal(const struct endpoint *endpoint, struct rma_window *windows,
                               const struct packet *packet) {
    const struct rma_window *window = find_window(windows, packet);
    if (window == NULL)
        return "for a window that there is not";
    __atomic_fetch_add(&window->signals[endpoint->peer], 1, __ATOMIC_RELEASE); /* pairs with has_signals() */
    return NULL;
}

static const char *take_done(struct endpoint *endpoint, const struct packet *packet) {
    if (packet->bytes > endpoint->flushes - endpoint->flushed)
        return "that answers what nobody asked";
    endpoint->flushed += packet->bytes;
    return NULL;
}

static enum collet_result take_note(struct endpoint *endpoint, const struct packet *packet, const char *data) {
    struct note *note;
    COLLET_TRY(memory_get(&note, 1, sizeof *note, "no memory for a note of rank %d", endpoint->peer));
    note->bytes = (size_t)packet->bytes;
    memcpy(note->data, data, note->bytes);
    *endpoint->last_note = note;
    endpoint->last_note = &note->next;
    return COLLET_SUCCESS;
}

static enum collet_result work_off(struct endpoint *endpoint, struct rma_window *windows, const struct packet *packet,
                                   const char *data) {
    const char *fault = NULL;
    switch ((enum packet_kind)packet->kind) {
    case PACKET_PUT: fault = take_put(windows, packet, data); break;
    case PACKET_GET: fault = take_get(endpoint, windows, packet); break;
    case PACKET_REPLY: fault = take_reply(endpoint, packet, data); break;
    case PACKET_SIGNAL: fault = take_signal(endpoint, windows, packet); break;
    case PACKET_NOTE: return take_note(endpoint, packet, data);
    case PACKET_FLUSH: endpoint->owed++; break;
    case PACKET_DONE: fault = take_done(endpoint, packet); break;
    case PACKET_KIND_COUNT: break;
    }
    return fault == NULL ? COLLET_SUCCESS
                         : err_set(COLLET_ERR_INTERNAL, "rank %d sent a packet for windows %s", endpoint->peer, fault);
}

static enum collet_result unload_slot(struct endpoint *endpoint, struct rma_window *windows, struct packets slot) {
    struct packet packet;
    const char *data;
    while (packet_is_left(&slot)) {
        const char *fault = packet_take(&slot, &packet, &data);
        if (fault != NULL)
            return err_set(COLLET_ERR_INTERNAL, "rank %d sent %s for windows", endpoint->peer, fault);
        COLLET_TRY(work_off(endpoint, windows, &packet, data));
    }
    return COLLET_SUCCESS;
}

enum collet_result endpoint_receive(struct endpoint *endpoint, struct rma_window *windows, bool *moved) {
    struct fifo_end *end = &endpoint->in->end;
    for (uint32_t n = 0; n < end->nslots && fifo_has_data(end); n++) {
        const uint32_t word = fifo_header(end)->word;
        if (fifo_word_protocol(word) != PROTOCOL_SIMPLE || !fifo_header_fits(conn_layout(endpoint->in), word))
            return err_set(COLLET_ERR_INTERNAL, "rank %d sent a slot for windows that is none", endpoint->peer);
        struct packets slot = {.slot = fifo_slot_at(end, PROTOCOL_SIMPLE, end->position),
                               .bytes = fifo_word_bytes(word)};
        COLLET_TRY(unload_slot(endpoint, windows, slot));
        fifo_consumed(end);
        *moved = true;
    }
    return COLLET_SUCCESS;
}
