/* SPDX-License-Identifier: Apache-2.0
 *
 * An endpoint of an RMA engine: all of the engine's work with one peer. Two connections lead to the peer, one each way. Only the holder of
 * the RMA engine's lock touches them.
 *
 *    send.c       operations of this rank, replies and answers ─▶ hold ─▶ slots of `out` ─▶ the peer
 *    receive.c    windows, fetches, notes of this rank ◀── slots of `in` ◀── the peer
 *
 *    what              by the rank that asks            by the rank that answers
 *    gets              fetches: where bytes go          replies: where bytes lie        both in the order of the requests
 *    flushes           flushes, flushed                 owed
 */
#ifndef COLLET_LAYERS_WINDOWS_ENDPOINT_H
#define COLLET_LAYERS_WINDOWS_ENDPOINT_H

#include "layers/windows/op.h"
#include "layers/windows/packet.h"
#include "transport/transport.h"

#define ENDPOINT_FETCHES 256 /* maximum number of gets of one rank that the peer has not answered */

/* A get that this rank has asked for: the address for its next byte, and the number of bytes that have not come. */
struct fetch {
    char *to;
    uint64_t missing;
    struct rma_op *op; /* NULL: the operation was cancelled, and its bytes are thrown away */
};

/* A get of the peer: the address of its next byte, and the number of bytes that have not been sent. */
struct reply {
    const char *from;
    uint64_t missing;
};

struct note {
    struct note *next;
    size_t bytes;
    char data[PACKET_NOTE_BYTES];
};

struct endpoint {
    struct endpoint *next; /* next endpoint of the RMA engine */
    int peer;
    struct conn *out, *in;
    bool ready;         /* both connections are ready */
    uint64_t broken_ns; /* time at which a connection broke; 0: both work */
    char broken_text[ERR_TEXT_BYTES];
    uint64_t moves; /* number of turns in which something moved */

    struct packets hold; /* the slot of `out` that is being filled; hold.slot NULL: there is none */
    struct rma_op *first, **last;
    int nops;

    struct fetch fetches[ENDPOINT_FETCHES]; /* [number % ENDPOINT_FETCHES], of fetches_done … fetches_made */
    uint64_t fetches_made, fetches_done;
    struct reply replies[ENDPOINT_FETCHES]; /* likewise, of replies_done … replies_made */
    uint64_t replies_made, replies_done;
    uint64_t flushes, flushed, owed; /* numbers of flushes: requested, answered; of the peer, not yet answered */
    bool dirty;                      /* something was put since the last flush */

    struct note *first_note, **last_note;
};

#endif
