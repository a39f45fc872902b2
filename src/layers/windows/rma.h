/* SPDX-License-Identifier: Apache-2.0
 *
 * The RMA engine of a communicator carries the bytes of puts and gets on windows, between ranks that cannot reach each other's memory:
 *
 *    rank 0                                                                 rank 1
 *    collet_put ─▶ op ─▶ endpoint 1 ─▶ packets in slots ── any transport ─▶ endpoint 0 ─▶ its window
 *    collet_get ─▶ op ─▶     "      ─▶ asks …                               endpoint 0 ◀─ its window
 *                            "      ◀───────────────── replies ────────────     "
 *
 * It has connections like a collective's, on a channel of its own. So all that a transport does (encryption, checks, failover between rails)
 * works here, too. Connections are made at first use: the rank that needs them calls its peer, and each rank listens for such calls.
 *
 * Who moves it? The thread that holds its lock: a thread that waits in a call on a window, or else the thread collet-rma, one per process.
 * collet-rma moves all RMA engines of the process. It runs while something moves, and then ever more slowly.
 *
 *    order               packets from one rank to another arrive in order: a thread's puts arrive before its later signal
 *    local completion    the bytes are in slots: the caller may use its memory again
 *    remote visibility   the answer to a flush has come
 */
#ifndef COLLET_LAYERS_WINDOWS_RMA_H
#define COLLET_LAYERS_WINDOWS_RMA_H

#include "api/comm.h"
#include "layers/windows/op.h"

struct rma;

enum collet_result rma_open(struct collet_comm *comm, struct rma **rma_p);
void rma_close(struct rma *rma); /* NULL is fine */

/* rma_attach() gives the window a number. Other ranks may name the window, and use its memory, until rma_detach(). */
void rma_attach(struct rma *rma, struct rma_window *window);
void rma_detach(struct rma *rma, const struct rma_window *window);

/* Hands an operation over, and moves it at once as far as possible. The RMA engine owns it until it is done or cancelled. NO_MEMORY. */
enum collet_result rma_post(struct rma *rma, int peer, struct rma_op *op);
/* From now on the RMA engine does not touch the operation, nor the memory that it names. Bytes that it has already put may have arrived. */
void rma_cancel(struct rma *rma, struct rma_op *op, int peer);

/* Moves everything on, if no other thread does. True: something moved. */
bool rma_progress(struct rma *rma);

/* Number of turns in which something moved between this rank and the peer. */
uint64_t rma_moves(struct rma *rma, int peer);
/* Has a connection with the peer been broken for so long that no other cause will be found? Then the connection's text is the last error. */
enum collet_result rma_check(struct rma *rma, int peer);

/* Takes the next note of a rank. SUCCESS: *bytes ≤ PACKET_NOTE_BYTES. IN_PROGRESS: none has come. */
enum collet_result rma_take_note(struct rma *rma, int peer, char note[PACKET_NOTE_BYTES], size_t *bytes);

/* Was something put for this rank since the last flush? */
bool rma_is_dirty(struct rma *rma, int peer);

#endif
