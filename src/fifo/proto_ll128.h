/* SPDX-License-Identifier: Apache-2.0
 *
 * LL128: each 120 bytes of data travel with a flag, which tells the consumer that they have arrived.
 *
 *    line (128 bytes):   │ data 120 bytes                                  │ flag 64 bit │
 *
 *    producer                                       consumer
 *    for each line: write data, then the flag ────▶ for each line: poll its flag; then its data is there
 *    may overwrite                      ◀────────── head := position + 1
 *
 * LL128 has one flag for 120 bytes, where LL has one for 4. So it has nearly the bandwidth of Simple. It has the latency of LL, since
 * the consumer fetches no counter before the data. LL128 needs a link on which no flag overtakes the data of its own line. Between
 * CPUs a release store and an acquire load of the flag ensure this. The flag is
 *
 *    │ upper half of the call's signature, 16 bits │ 1 │ position mod 2^47 │
 *
 * Memory that was never written (0) matches no flag. Positions do not wrap around in the life of a connection, so no old line is
 * ever taken for a new one.
 *
 * On a GPU 8 lanes share a line (kernels/cuda/parts.h).
 */
#ifndef COLLET_FIFO_PROTO_LL128_H
#define COLLET_FIFO_PROTO_LL128_H

#include "fifo/call.h"
#include "fifo/fifo.h"

#include <string.h>

#define LL128_DATA_BYTES 120u
#define LL128_LINE_BYTES 128u

PORT_FN uint64_t ll128_flag(const struct work_args *args, const struct fifo_end *end) {
    const uint64_t written = 1ull << 47;
    return (uint64_t)(args->signature >> 16) << 48 | written | (end->position & (written - 1));
}

/* The line that holds byte `at` of the payload. */
PORT_FN char *ll128_line(const struct fifo_end *end, uint32_t at) {
    return fifo_slot_at(end, PROTOCOL_LL128, end->position) + (size_t)(at / LL128_DATA_BYTES) * LL128_LINE_BYTES;
}

PORT_FN uint64_t *ll128_flag_of(char *line) { return (uint64_t *)(void *)(line + LL128_DATA_BYTES); }

/* ---- consumer: copies the data of a slot out of its lines ---- */

PORT_FN enum interp_result ll128_ready(const struct work_args *args, struct fifo_end *end, uint32_t bytes,
                                       char *scratch) {
    uint64_t flag = ll128_flag(args, end);
    char *line = ll128_line(end, 0);
    for (; bytes >= LL128_DATA_BYTES; bytes -= LL128_DATA_BYTES) {
        /* Orders reads of the line after it. Pairs with ll128_put(). */
        if (port_load_acquire(ll128_flag_of(line)) != flag)
            return INTERP_BUSY;
        memcpy(scratch, line, LL128_DATA_BYTES);
        scratch += LL128_DATA_BYTES;
        line += LL128_LINE_BYTES;
    }
    if (bytes == 0)
        return INTERP_STEPPED;
    if (port_load_acquire(ll128_flag_of(line)) != flag) /* as above */
        return INTERP_BUSY;
    memcpy(scratch, line, bytes);
    return INTERP_STEPPED;
}

PORT_FN const char *ll128_operand(const struct work_args *args, const struct fifo_end *end, uint32_t bytes,
                                  const char *scratch) {
    (void)args, (void)end, (void)bytes;
    return scratch;
}

PORT_FN void ll128_consume(struct fifo_end *end) { fifo_consumed(end); }

/* ---- producer ---- */

/* A reduction cannot write into lines: ll128_put() copies its result. */
PORT_FN char *ll128_place(const struct work_args *args, const struct fifo_end *end, uint32_t bytes) {
    (void)args, (void)end, (void)bytes;
    return NULL;
}

PORT_FN void ll128_put(const struct work_args *args, const struct fifo_end *end, const char *from, uint32_t bytes) {
    uint64_t flag = ll128_flag(args, end);
    char *line = ll128_line(end, 0);
    for (; bytes >= LL128_DATA_BYTES; bytes -= LL128_DATA_BYTES) {
        memcpy(line, from, LL128_DATA_BYTES);
        /* Makes the line's data visible first. Pairs with ll128_ready(). */
        port_store_release(ll128_flag_of(line), flag);
        from += LL128_DATA_BYTES;
        line += LL128_LINE_BYTES;
    }
    if (bytes == 0)
        return;
    memcpy(line, from, bytes);
    port_store_release(ll128_flag_of(line), flag); /* as above */
}

PORT_FN void ll128_seal(const struct work_args *args, struct fifo_end *end, uint32_t bytes) {
    (void)args, (void)end, (void)bytes;
}

/* Stores no counter: the flags of the lines have already told the consumer. */
PORT_FN void ll128_publish(const struct work_args *args, struct fifo_end *end, uint32_t bytes) {
    (void)args, (void)bytes;
    end->position++;
}

#endif
