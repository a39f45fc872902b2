/* SPDX-License-Identifier: Apache-2.0
 *
 * LL128: long lines that carry their own arrival notice.
 *
 *    line (128 bytes):   │ data 120 bytes                                  │ flag 64 bit │
 *
 *    producer                                       consumer
 *    for each line: write data, then the flag ────▶ for each line: poll its flag; then its data is there
 *    may overwrite                      ◀────────── head := step + 1
 *
 * One flag for 120 bytes, where LL has one for 4: nearly the bandwidth of Simple with the latency of LL, since there is no
 * counter to fetch before the data. It needs a link that does not let a flag overtake the data of its own line. Between
 * CPUs a release store of the flag and an acquire load of it say just that.
 *
 *    flag   │ upper half of the call's signature, 16 bits │ 1 │ step mod 2^47 │
 *
 * Memory that was never written (0) matches nothing, and the step does not come round in the life of a connection, so no
 * old line is ever taken for a new one.
 */
#ifndef COLLET_KERNELS_PROTO_LL128_H
#define COLLET_KERNELS_PROTO_LL128_H

#include "kernels/worker.h"

#include <string.h>

#define LL128_DATA_BYTES 120u
#define LL128_LINE_BYTES 128u

PORT_FN uint64_t ll128_flag(const struct fifo_end *end, uint32_t signature) {
    const uint64_t written = 1ull << 47;
    return (uint64_t)(signature >> 16) << 48 | written | (end->step & (written - 1));
}

PORT_FN char *ll128_lines(const struct fifo_end *end) { return fifo_slot_at(end, PROTOCOL_LL128, end->step); }

PORT_FN uint64_t *ll128_flag_of(char *line) { return (uint64_t *)(void *)(line + LL128_DATA_BYTES); }

/* Copies the data of one slot to `to`, if all of it is there. */
PORT_FN int ll128_unpack(const struct fifo_end *end, char *to, uint32_t bytes, uint32_t signature) {
    uint64_t flag = ll128_flag(end, signature);
    char *line = ll128_lines(end);
    for (; bytes >= LL128_DATA_BYTES; bytes -= LL128_DATA_BYTES) {
        if (port_load_acquire(ll128_flag_of(line)) != flag) /* pairs with ll128_pack() */
            return 0;
        memcpy(to, line, LL128_DATA_BYTES);
        to += LL128_DATA_BYTES;
        line += LL128_LINE_BYTES;
    }
    if (bytes == 0)
        return 1;
    if (port_load_acquire(ll128_flag_of(line)) != flag)
        return 0;
    memcpy(to, line, bytes);
    return 1;
}

PORT_FN void ll128_pack(const struct fifo_end *end, const char *from, uint32_t bytes, uint32_t signature) {
    uint64_t flag = ll128_flag(end, signature);
    char *line = ll128_lines(end);
    for (; bytes >= LL128_DATA_BYTES; bytes -= LL128_DATA_BYTES) {
        memcpy(line, from, LL128_DATA_BYTES);
        port_store_release(ll128_flag_of(line), flag); /* pairs with ll128_unpack() */
        from += LL128_DATA_BYTES;
        line += LL128_LINE_BYTES;
    }
    if (bytes == 0)
        return;
    memcpy(line, from, bytes);
    port_store_release(ll128_flag_of(line), flag);
}

#endif
