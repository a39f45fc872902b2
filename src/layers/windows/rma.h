/* SPDX-License-Identifier: Apache-2.0
 *
 * The RMA engine of a communicator carries what is put into windows, or got from them, between ranks that cannot reach each other's memory:
 *
 *    rank 0                                                                 rank 1
 *    collet_put ─▶ op ─▶ endpoint 1 ─▶ packets in slots ── any transport ─▶ endpoint 0 ─▶ its window
 *    collet_get ─▶ op ─▶     "      ─▶ asks …                               endpoint 0 ◀─ its window
 *                            "      ◀───────────────── replies ────────────     "
 *
 * It has connections like those of collectives, on a channel of its own: so whatever a transport can do (encrypt, check, go on by another
 * rail) it does here, too. They are made at first use. The rank that wants them tells the other one, which looks for such calls now and then.
 *
 * Who moves it? Whoever holds its lock: a thread that waits in a call on a window, or else the thread collet-rma, one per process. That one
 * turns all RMA engines of the process as long as something moves, and then ever more slowly.
 *
 *    packets of one rank to another arrive in order;  what one thread puts before its signal is there before the signal
 *    local completion    the bytes are in slots: the caller's memory is its own again
 *    remote visibility   the answer to a flush
 */
#ifndef COLLET_LAYERS_WINDOWS_RMA_H
#define COLLET_LAYERS_WINDOWS_RMA_H

#include "api/comm.h"
#include "layers/windows/op.h"

struct rma;

enum collet_result rma_open(struct collet_comm *comm, struct rma **rma_p);
void rma_close(struct rma *rma); /* NULL is fine */

/* From now on other ranks may name the window; its number is written. Between these two its memory is in use. */
void rma_attach(struct rma *rma, struct rma_window *window);
void rma_detach(struct rma *rma, const struct rma_window *window);

/* Hands an operation over, and moves it at once as far as it goes. It stays the RMA engine's until it is done, or taken back. NO_MEMORY. */
enum collet_result rma_post(struct rma *rma, int peer, struct rma_op *op);
/* From now on the RMA engine does not touch the operation, nor the memory that it names. What it put so far may have come. */
void rma_cancel(struct rma *rma, struct rma_op *op, int peer);

/* Moves everything on, if no other thread does. True: something moved. */
bool rma_progress(struct rma *rma);

/* Number of turns in which something moved between this rank and the peer. */
uint64_t rma_moves(struct rma *rma, int peer);
/* Has a connection with the peer been broken for so long that no other cause will be known? Then its text is the last error. */
enum collet_result rma_check(struct rma *rma, int peer);

bool rma_has_note(struct rma *rma, int peer);
/* Takes the next note of a rank. SUCCESS: *bytes ≤ PACKET_NOTE_BYTES. IN_PROGRESS: none has come. */
enum collet_result rma_take_note(struct rma *rma, int peer, char note[PACKET_NOTE_BYTES], size_t *bytes);

/* Was something put for this rank since the last flush? */
bool rma_is_dirty(struct rma *rma, int peer);

#endif
