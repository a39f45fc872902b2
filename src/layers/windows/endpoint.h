/* SPDX-License-Identifier: Apache-2.0
 *
 * An RMA engine's endpoint: all that it has to do with one peer. Two connections lead there, one each way, and only the holder of the RMA
 * engine's lock touches them.
 *
 *    send.c       operations of this rank, replies and answers ─▶ hold ─▶ slots of `out` ─▶ the peer
 *    receive.c    windows, fetches, notes of this rank ◀── slots of `in` ◀── the peer
 *
 *    what              by the rank that asks            by the rank that answers
 *    gets              fetches: where bytes go          replies: where bytes lie        both in the order in which they were asked for
 *    flushes           flushes, flushed                 owed
 */
#ifndef COLLET_LAYERS_WINDOWS_ENDPOINT_H
#define COLLET_LAYERS_WINDOWS_ENDPOINT_H

#include "layers/windows/op.h"
#include "layers/windows/packet.h"
#include "transport/transport.h"

#define ENDPOINT_FETCHES 256 /* maximum number of gets of one rank that another one has not answered */

/* A get that was asked for: where its next byte goes, and how many have not come. */
struct fetch {
    char *to;
    uint64_t missing;
    struct rma_op *op; /* NULL: it was taken back, and its bytes are thrown away */
};

/* A get of the peer: where its next byte lies, and how many have not been sent. */
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
    struct endpoint *next; /* next one of the RMA engine */
    int peer;
    struct conn *out, *in;
    bool ready;         /* both connections are */
    uint64_t broken_ns; /* time at which a connection broke; 0: none has */
    char broken_text[ERR_TEXT_BYTES];
    uint64_t moves; /* number of turns in which something moved */

    struct packets hold; /* the slot of `out` that is being filled; its slot NULL: none */
    struct rma_op *first, **last;
    int nops;

    struct fetch fetches[ENDPOINT_FETCHES]; /* [number % ENDPOINT_FETCHES], of fetches_done … fetches_made */
    uint64_t fetches_made, fetches_done;
    struct reply replies[ENDPOINT_FETCHES]; /* likewise */
    uint64_t replies_made, replies_done;
    uint64_t flushes, flushed,
        owed;   /* number of flushes asked for, and answered; number that this rank has to answer */
    bool dirty; /* something was put since the last flush */

    struct note *first_note, **last_note;
};

#endif
