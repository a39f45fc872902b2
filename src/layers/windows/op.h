/* SPDX-License-Identifier: Apache-2.0
 *
 * What an RMA engine carries (rma.h), and where it puts it. An operation is what one call gives to the RMA engine, to be moved between this
 * rank and one peer.
 *
 *    pieces ── all moved ─▶ its end: a signal, a note or nothing ──▶ flush, if it asks for one ──▶ done
 *
 * A piece whose other end this process reaches by address is copied there. Others go through slots. Operations of one peer take turns, so a
 * small one does not wait for a large one.
 */
#ifndef COLLET_LAYERS_WINDOWS_OP_H
#define COLLET_LAYERS_WINDOWS_OP_H

#include "layers/windows/packet.h"

#include <stdbool.h>

/* A window of this rank, as other ranks' packets name it. */
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
    char *there; /* the peer's, if this process reaches them; else NULL, and the following fields say where they are */
    uint32_t window; /* its number at the peer */
    uint64_t offset, bytes;
};

enum op_end { OP_ENDS, OP_SIGNALS, OP_NOTES };

struct rma_op {
    struct rma_op *next;
    bool gets;        /* the bytes come from the peer */
    bool by_messages; /* something of it goes through slots */
    bool flushes;     /* it is not done before the peer has worked it off */
    enum op_end end;
    uint32_t signal_window; /* OP_SIGNALS: number of the window at the peer */
    size_t note_bytes;      /* OP_NOTES */
    char note[PACKET_NOTE_BYTES];
    const struct piece *pieces;
    size_t npieces;

    /* How far it has come: */
    size_t piece;     /* the piece that is being moved */
    uint64_t at;      /* bytes of it that are moved, or asked for */
    uint64_t missing; /* bytes that were asked for and have not come */
    bool ended;       /* its signal or note is on its way */
    uint64_t flush;   /* number of its flush; 0: not asked for yet */
    int done;         /* stored with release, as the last access to the operation; pairs with op_is_done() */
};

static inline bool op_is_done(const struct rma_op *op) { return __atomic_load_n(&op->done, __ATOMIC_ACQUIRE) != 0; }

#endif
