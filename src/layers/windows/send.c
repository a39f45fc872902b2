/* SPDX-License-Identifier: Apache-2.0
 *
 * An endpoint fills slots with packets for its peer.
 */
#include "layers/windows/send.h"

#include "kernels/reduce_host.h"

#include <string.h>

/* Number of bytes that an operation moves before the next operation has its turn. */
#define QUOTA_BYTES (512u << 10)

/* ---- the slot that is being filled ---- */

static void publish(struct endpoint *endpoint) {
    struct fifo_slot_header *header = fifo_header(&endpoint->out->end);
    header->word = fifo_word(PROTOCOL_SIMPLE, (uint32_t)endpoint->hold.at);
    header->signature = 0;
    header->sequence = 0;
    header->place.roams = 0;
    fifo_publish(&endpoint->out->end);
    endpoint->hold.slot = NULL;
}

/* Returns the room for data of the next packet: at least `least` bytes. 0: no slot is free. */
static size_t room(struct endpoint *endpoint, size_t least) {
    if (!endpoint->ready)
        return 0;
    if (endpoint->hold.slot != NULL && packet_room(&endpoint->hold) < least)
        publish(endpoint);
    if (endpoint->hold.slot == NULL) {
        struct fifo_end *end = &endpoint->out->end;
        if (!fifo_has_credit(end))
            return 0;
        endpoint->hold = (struct packets){.slot = fifo_slot_at(end, PROTOCOL_SIMPLE, end->position),
                                          .bytes = fifo_payload_bytes(conn_layout(endpoint->out), PROTOCOL_SIMPLE)};
    }
    return packet_room(&endpoint->hold);
}

static char *add(struct endpoint *endpoint, enum packet_kind kind, uint32_t window, uint64_t offset, uint64_t bytes) {
    return packet_add(&endpoint->hold,
                      &(struct packet){.kind = kind, .window = window, .offset = offset, .bytes = bytes});
}

/* ---- what the peer has asked for ---- */

static bool answer_flushes(struct endpoint *endpoint) {
    if (endpoint->owed == 0 || room(endpoint, 1) == 0)
        return false;
    add(endpoint, PACKET_DONE, 0, 0, endpoint->owed);
    endpoint->owed = 0;
    return true;
}

static bool reply(struct endpoint *endpoint) {
    size_t quota = QUOTA_BYTES;
    while (endpoint->replies_done != endpoint->replies_made && quota > 0) {
        struct reply *first = &endpoint->replies[endpoint->replies_done % ENDPOINT_FETCHES];
        size_t bytes = room(endpoint, 1);
        if (bytes == 0)
            break;
        bytes = bytes < first->missing ? bytes : (size_t)first->missing;
        memcpy(add(endpoint, PACKET_REPLY, 0, 0, bytes), first->from, bytes);
        first->from += bytes;
        first->missing -= bytes;
        endpoint->replies_done += first->missing == 0;
        quota -= bytes < quota ? bytes : quota;
    }
    return quota < QUOTA_BYTES;
}

/* ---- ops ---- */

/* These functions move bytes of a piece, or ask for them, and return their number. A copy or a put moves at most `most`. 0: not now. */

static size_t copy_piece(const struct rma_op *op, const struct piece *piece, size_t most) {
    char *here = piece->here + op->at, *there = piece->there + op->at;
    void *(*copy)(void *to, const void *from, size_t bytes) =
        op->past_caches ? reduce_host_copy_past_caches : memmove; /* in this rank's own window the two may overlap */
    copy(op->gets ? here : there, op->gets ? there : here, most);
    return most;
}

static size_t put_piece(struct endpoint *endpoint, const struct rma_op *op, const struct piece *piece, size_t most) {
    size_t bytes = room(endpoint, 1);
    bytes = bytes < most ? bytes : most;
    if (bytes == 0)
        return 0;
    memcpy(add(endpoint, PACKET_PUT, piece->window, piece->offset + op->at, bytes), piece->here + op->at, bytes);
    endpoint->dirty = true;
    return bytes;
}

static size_t ask_for_piece(struct endpoint *endpoint, struct rma_op *op, const struct piece *piece) {
    if (endpoint->fetches_made - endpoint->fetches_done == ENDPOINT_FETCHES || room(endpoint, 1) == 0)
        return 0;
    add(endpoint, PACKET_GET, piece->window, piece->offset, piece->bytes);
    endpoint->fetches[endpoint->fetches_made++ % ENDPOINT_FETCHES] = (struct fetch){piece->here, piece->bytes, op};
    op->missing += piece->bytes;
    return (size_t)piece->bytes;
}

static bool move_pieces(struct endpoint *endpoint, struct rma_op *op) {
    size_t quota = QUOTA_BYTES;
    while (op->piece < op->npieces && quota > 0) {
        const struct piece *piece = &op->pieces[op->piece];
        const uint64_t left = piece->bytes - op->at;
        const size_t most = left < quota ? (size_t)left : quota;
        const size_t moved = piece->there != NULL ? copy_piece(op, piece, most)
                             : op->gets           ? ask_for_piece(endpoint, op, piece)
                                                  : put_piece(endpoint, op, piece, most);
        if (moved == 0)
            break;
        op->at += moved;
        quota -= moved < quota ? moved : quota;
        if (op->at == piece->bytes) {
            op->piece++;
            op->at = 0;
        }
    }
    return quota < QUOTA_BYTES;
}

/* Sends the signal or note at the end of an operation. True: it is on its way, or there is none. */
static bool send_end(struct endpoint *endpoint, struct rma_op *op) {
    if (op->end == OP_ENDS || op->ended)
        return true;
    if (room(endpoint, op->note_bytes + 1) == 0)
        return false;
    if (op->end == OP_SIGNALS)
        add(endpoint, PACKET_SIGNAL, op->signal_window, 0, 1);
    else
        memcpy(add(endpoint, PACKET_NOTE, 0, 0, op->note_bytes), op->note, op->note_bytes);
    endpoint->dirty = true;
    return op->ended = true;
}

/* Asks for a flush, if the operation wants one. True: the peer has worked off all packets before it, or no flush is wanted. */
static bool flush(struct endpoint *endpoint, struct rma_op *op) {
    if (!op->flushes || !op->by_messages)
        return true;
    if (op->flush == 0) {
        if (room(endpoint, 1) == 0)
            return false;
        add(endpoint, PACKET_FLUSH, 0, 0, 0);
        op->flush = ++endpoint->flushes;
        endpoint->dirty = false;
    }
    return endpoint->flushed >= op->flush;
}

static bool is_through(struct endpoint *endpoint, struct rma_op *op) {
    return op->piece == op->npieces && op->missing == 0 && send_end(endpoint, op) && flush(endpoint, op);
}

/* Gives each operation a turn. Operations that are not done go to the end of the queue, so another operation gets the next free slot. */
static bool move_ops(struct endpoint *endpoint) {
    bool moved = false;
    for (int n = endpoint->nops; n > 0; n--) {
        struct rma_op *op = endpoint->first;
        moved |= move_pieces(endpoint, op);
        const bool through = is_through(endpoint, op);
        endpoint->first = op->next;
        if (endpoint->first == NULL)
            endpoint->last = &endpoint->first;
        op->next = NULL;
        moved |= through;
        if (!through) {
            *endpoint->last = op;
            endpoint->last = &op->next;
            continue;
        }
        endpoint->nops--;
        __atomic_store_n(&op->done, 1, __ATOMIC_RELEASE); /* pairs with op_is_done(); its owner has it again */
    }
    return moved;
}

bool endpoint_send(struct endpoint *endpoint) {
    bool moved = answer_flushes(endpoint);
    moved |= reply(endpoint);
    moved |= move_ops(endpoint);
    if (endpoint->hold.slot != NULL && endpoint->hold.at > 0) {
        publish(endpoint);
        moved = true;
    }
    return moved;
}
