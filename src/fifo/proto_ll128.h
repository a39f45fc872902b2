/* SPDX-License-Identifier: Apache-2.0
 *
 * LL128: long lines that carry their own arrival notice.
 *
 *    line (128 bytes):   │ data 120 bytes                                  │ flag 64 bit │
 *
 *    producer                                       consumer
 *    for each line: write data, then the flag ────▶ for each line: poll its flag; then its data is there
 *    may overwrite                      ◀────────── head := position + 1
 *
 * One flag for 120 bytes, where LL has one for 4: nearly the bandwidth of Simple with the latency of LL, since there is no
 * counter to fetch before the data. It needs a link that does not let a flag overtake the data of its own line. Between
 * CPUs a release store of the flag and an acquire load of it say just that. The flag is
 *
 *    │ upper half of the call's signature, 16 bits │ 1 │ position mod 2^47 │
 *
 * Memory that was never written (0) matches nothing, and positions do not come round in the life of a connection, so no old
 * line is ever taken for a new one.
 *
 * On a GPU a line belongs to a group of 8 neighbouring lanes:
 *
 *    lane          0        1        2        3        4        5        6        7
 *    line     │   16   │   16   │   16   │   16   │   16   │   16   │   16   │ 8 │ flag │
 *
 * They are of one warp, all of which stores together, so a line leaves the multiprocessor as one access of 128 bytes; the warp
 * loads together too, and votes whether all its flags were there. That a reader of the flag sees the rest is a
 * property of the way between them, which the memory model does not promise: memory of a GPU has it for its own blocks
 * and over NVLink.
 */
#ifndef COLLET_FIFO_PROTO_LL128_H
#define COLLET_FIFO_PROTO_LL128_H

#include "fifo/call.h"
#include "fifo/fifo.h"
#include "fifo/lanes.h"

#include <string.h>

#define LL128_DATA_BYTES 120u
#define LL128_LINE_BYTES 128u

PORT_FN uint64_t ll128_flag(const struct work_args *args, const struct fifo_end *end) {
    const uint64_t written = 1ull << 47;
    return (uint64_t)(args->signature >> 16) << 48 | written | (end->position & (written - 1));
}

/* The line of the payload's byte `at`. */
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
        if (port_load_acquire(ll128_flag_of(line)) != flag) /* keeps reads of the line behind; pairs with ll128_put() */
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

/* A result cannot be made in lines: it is put into them. */
PORT_FN char *ll128_place(const struct work_args *args, const struct fifo_end *end, uint32_t bytes) {
    (void)args, (void)end, (void)bytes;
    return NULL;
}

PORT_FN void ll128_put(const struct work_args *args, const struct fifo_end *end, const char *from, uint32_t bytes) {
    uint64_t flag = ll128_flag(args, end);
    char *line = ll128_line(end, 0);
    for (; bytes >= LL128_DATA_BYTES; bytes -= LL128_DATA_BYTES) {
        memcpy(line, from, LL128_DATA_BYTES);
        port_store_release(ll128_flag_of(line), flag); /* makes the line visible before; pairs with ll128_ready() */
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

/* The lines themselves have told the consumer. */
PORT_FN void ll128_publish(const struct work_args *args, struct fifo_end *end, uint32_t bytes) {
    (void)args, (void)bytes;
    end->position++;
}

/* ---- lanes: 8 of them move a line, two words each; the last one has the flag instead of its second ---- */

enum { LL128_LANES = PORT_GROUP, LL128_WORDS = 2 };

PORT_FN int ll128_has_flag(void) { return port_lane() % PORT_GROUP == PORT_GROUP - 1; }

PORT_FN void ll128_load(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                        uint64_t *words) {
    (void)args;
    port_line128_load(part->present, ll128_line(end, part->at), &words[0], &words[1]);
}

/* Only the lane with the flag can say that the line has not come. The warp votes when all its lanes have looked. */
PORT_FN int ll128_look(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                       uint64_t *words) {
    return !(part->present && ll128_has_flag() && words[1] != ll128_flag(args, end));
}

PORT_FN enum lane_finding ll128_find(const struct work_args *args, const struct fifo_end *end,
                                     const struct lane_part *part) {
    uint64_t flag = ll128_flag(args, end), seen = port_line_load(ll128_flag_of(ll128_line(end, part->at)));
    return seen == flag ? LANE_HERE : seen << 16 == flag << 16 ? LANE_FOREIGN : LANE_MISSING;
}

PORT_FN void ll128_send(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                        const uint64_t *words) {
    port_line128_store(part->present, ll128_line(end, part->at), words[0],
                       ll128_has_flag() ? ll128_flag(args, end) : words[1]);
}

#endif
