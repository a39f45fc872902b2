/* SPDX-License-Identifier: Apache-2.0
 *
 * Simple: large slots, one counter each way.
 *
 *    producer                                       consumer
 *    credit? step − head < nslots                   data? tail − step > 0
 *    write header and data of slot step mod nslots
 *    tail := step + 1   ───── release/acquire ────▶ read header and data
 *    may overwrite      ◀──── release/acquire ───── head := step + 1
 *
 * Two cache lines travel before the data does (tail there, and the data itself), which is why LL exists; in return the
 * data is plain memory, so reductions read slots and write slots at full speed, without a copy in between.
 */
#ifndef COLLET_KERNELS_PROTO_SIMPLE_H
#define COLLET_KERNELS_PROTO_SIMPLE_H

#include "kernels/proto_ll.h"

/* Most payloads are shorter than a slot. Where they may roam, they move on in it from lap to lap round the FIFO, by a power
 * of two: what is overwritten then was read so long ago that it has left the small cache of the CPU that read it, and of
 * the larger one which CPUs share it is got much faster. Whether they do is the producer's choice, told by the header; the
 * consumer assumes what it was told last, so that it need not have the header to begin with the data. */
#define SIMPLE_ROAM_BYTES 8192u

PORT_FN size_t simple_roamed(const struct fifo_end *end, uint32_t bytes) {
    uint32_t piece = SIMPLE_ROAM_BYTES;
    if (!end->roams || bytes <= SIMPLE_ROAM_BYTES / 2)
        return 0;
    while (piece < bytes)
        piece *= 2;
    return piece < end->roam_bytes ? end->step / end->nslots % (end->roam_bytes / piece) * piece : 0;
}

PORT_FN const char *simple_operand(const struct fifo_end *end, uint32_t bytes) {
    return fifo_slot_at(end, PROTOCOL_SIMPLE, end->step) + simple_roamed(end, bytes);
}

PORT_FN char *simple_place(struct fifo_end *end, uint32_t bytes) {
    end->roams = end->roam_bytes > 0 && !fifo_streams(end);
    return fifo_slot_at(end, PROTOCOL_SIMPLE, end->step) + simple_roamed(end, bytes);
}

/* Every operand has arrived, every place has credit, and what arrived belongs to this very call? */
PORT_FN enum interp_result simple_ready(struct interp_worker *w, const struct prog_step *step, uint32_t bytes) {
    const struct interp_op *op = w->op;
    w->blocked_sending = 0;
    for (int k = 0; k < step->recv_count; k++) {
        struct fifo_end *end = op->recv_ends[step->recv_first + k];
        w->blocked_on = (uint32_t)(step->recv_first + k);
        if (!fifo_has_data(end))
            return INTERP_BUSY;
        const struct fifo_slot_header *header = &end->headers[fifo_slot(end)];
        if (header->signature != op->signature || header->word != fifo_word(PROTOCOL_SIMPLE, bytes))
            return INTERP_MISMATCH;
        if (header->roams != end->roams) { /* seldom: look again, knowing better */
            end->roams = header->roams;
            return INTERP_BUSY;
        }
    }
    return worker_has_credit(w, step) ? INTERP_STEPPED : INTERP_BUSY;
}

/* After the last byte of a step was stored. */
PORT_FN void simple_publish(struct fifo_end *end, const struct interp_op *op, uint32_t bytes) {
    struct fifo_slot_header *header = &end->headers[fifo_slot(end)];
    header->word = fifo_word(PROTOCOL_SIMPLE, bytes);
    header->roams = end->roams;
    header->signature = op->signature;
    header->sequence = op->sequence;
    fifo_publish(end);
}

PORT_FN void simple_done(struct interp_worker *w, const struct prog_step *step, uint32_t bytes) {
    const struct interp_op *op = w->op;
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = op->send_ends[step->send_first + k];
        ll_refresh(end, 0, 1, op->signature);
        simple_publish(end, op, bytes);
    }
    for (int k = 0; k < step->recv_count; k++)
        fifo_consumed(op->recv_ends[step->recv_first + k]);
}

#endif
