/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocols: how a slot's payload lies in memory, and how the consumer learns that the payload has arrived. A protocol is one line
 * of this table, one line of PROTO_CALL (proto.h), and one file, fifo/proto_<name>.h, which explains it. How the lanes of a GPU move its
 * lines is in kernels/cuda/parts.h.
 *
 *    slots   LONG: a large part of COLLET_BUFFSIZE. SHORT: a few KiB, for messages that latency decides. LINES: short on a CPU,
 *            and on a GPU so long that each lane has several lines under way.
 *    unit    bytes of payload that a protocol moves together; each piece of a slot begins at a multiple of the unit
 *    line    bytes of memory that a unit takes, with its flag. line = unit: there are no flags, the payload is plain
 *    costs   the cost model uses the constants of the protocol named here (layers/tuner/costs.h)
 */
#ifndef COLLET_FIFO_PROTOCOL_H
#define COLLET_FIFO_PROTOCOL_H

#include "fifo/port.h"

#define PROTOCOLS(X)                                                                                                   \
    /* NAME, name of its functions, text, slots, unit, line, costs */                                                  \
    X(SIMPLE, simple, "Simple", LONG, 16, 16, SIMPLE)                                                                  \
    X(LL, ll, "LL", SHORT, 8, 16, LL)                                                                                  \
    X(LL128, ll128, "LL128", LINES, 120, 128, LL128)

#define PROTOCOL_ENUM(NAME, name, text, slots, unit, line, costs) PROTOCOL_##NAME,
enum protocol { PROTOCOLS(PROTOCOL_ENUM) PROTOCOL_COUNT };

/* No protocol of calls, but of slots and ends in calls of Simple: proto_direct.h. */
#define PROTOCOL_DIRECT ((uint32_t)PROTOCOL_COUNT)

enum protocol_slots { PROTOCOL_LONG, PROTOCOL_SHORT, PROTOCOL_LINES };

/* Maximum number of protocols, with Direct: a slot's header and the wires have three bits for the protocol (fifo.h). */
#define PROTOCOLS_MAX 8
typedef char protocol_count_is_small[PROTOCOL_COUNT < PROTOCOLS_MAX ? 1 : -1];

/* The table's columns as functions, for host and device. */
#define PROTOCOL_SLOTS(NAME, name, text, slots, unit, line, costs) protocol == PROTOCOL_##NAME ? PROTOCOL_##slots:
#define PROTOCOL_UNIT(NAME, name, text, slots, unit, line, costs) protocol == PROTOCOL_##NAME ? unit:
#define PROTOCOL_LINE(NAME, name, text, slots, unit, line, costs) protocol == PROTOCOL_##NAME ? line:
PORT_FN enum protocol_slots protocol_slots(uint32_t protocol) { return PROTOCOLS(PROTOCOL_SLOTS) PROTOCOL_LONG; }
PORT_FN uint32_t protocol_unit_bytes(uint32_t protocol) { return PROTOCOLS(PROTOCOL_UNIT) 1; }
PORT_FN uint32_t protocol_line_bytes(uint32_t protocol) { return PROTOCOLS(PROTOCOL_LINE) 1; }

/* The maximum payload of a slot, for each of the three kinds of slots (enum protocol_slots). */
struct protocol_sizes {
    uint32_t long_bytes, short_bytes, lines_bytes;
};
PORT_FN uint32_t protocol_payload_bytes(uint32_t protocol, const struct protocol_sizes *sizes) {
    enum protocol_slots slots = protocol_slots(protocol);
    return slots == PROTOCOL_LONG    ? sizes->long_bytes
           : slots == PROTOCOL_SHORT ? sizes->short_bytes
                                     : sizes->lines_bytes;
}

/* The bytes of memory that a slot with this payload takes. Lines are longer than their payload, because they hold flags. */
PORT_FN uint32_t protocol_memory_bytes(uint32_t protocol, uint32_t payload_bytes) {
    uint32_t unit = protocol_unit_bytes(protocol);
    return (payload_bytes + unit - 1) / unit * protocol_line_bytes(protocol);
}

/* [protocol]: the protocol's name in COLLET_PROTO and in printed text (layout.c). */
extern const char *const protocol_names[PROTOCOL_COUNT];

#endif
