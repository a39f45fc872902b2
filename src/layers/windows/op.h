/* SPDX-License-Identifier: Apache-2.0
 *
 * The work of an RMA engine (rma.h). One call gives one operation to the RMA engine: pieces to be moved between this rank and one peer, and
 * an end.
 *
 *    pieces ── all moved ─▶ its end: a signal, a note or nothing ──▶ a flush, if it is wanted ──▶ done
 *
 * If this process reaches the other end of a piece by address, the piece is copied there. Other pieces go through slots. Operations with
 * one peer take turns, so a small operation does not wait for a large one.
 */
#ifndef COLLET_LAYERS_WINDOWS_OP_H
#define COLLET_LAYERS_WINDOWS_OP_H

#include "layers/windows/packet.h"

#include <stdbool.h>

/* A window of this rank. Packets of other ranks name it by its number. */
struct rma_window {
    struct rma_window *next;
    uint32_t number;
    char *buff;
    uint64_t bytes;
    uint64_t *signals; /* [nranks] */
};

/* Bytes of this rank's memory, and as many of the peer's. */
struct piece {
    char *here;
    char *there;     /* the peer's bytes, if this process reaches them; NULL: the fields below say where they are */
    uint32_t window; /* the window's number at the peer */
    uint64_t offset, bytes;
};

enum op_end { OP_ENDS, OP_SIGNALS, OP_NOTES };

struct rma_op {
    struct rma_op *next;
    bool gets;        /* the bytes come from the peer */
    bool by_messages; /* some part goes through slots */
    bool past_caches; /* copies are stored past the caches: the operation is larger than this rank's share of them */
    bool flushes;     /* the operation is done only when the peer has worked it off */
    enum op_end end;
    uint32_t signal_window; /* OP_SIGNALS: number of the window at the peer */
    size_t note_bytes;      /* OP_NOTES */
    char note[PACKET_NOTE_BYTES];
    const struct piece *pieces;
    size_t npieces;

    /* The progress of the operation: */
    size_t piece;     /* the piece that is being moved */
    uint64_t at;      /* bytes of this piece that are moved, or asked for */
    uint64_t missing; /* bytes that were asked for and have not come */
    bool ended;       /* the signal or note at the end is on its way */
    uint64_t flush;   /* number of the operation's flush; 0: not asked for yet */
    int done;         /* stored with release, as the last access to the operation; pairs with op_is_done() */
};

static inline bool op_is_done(const struct rma_op *op) { return __atomic_load_n(&op->done, __ATOMIC_ACQUIRE) != 0; }

#endif
