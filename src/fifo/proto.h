/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that a step calls, whatever the protocol. PROTO_CALL(kind, ready, …) calls simple_ready(), ll_ready(), ll128_ready() or
 * direct_ready(), and so on: each protocol has a function of each kind, in proto_<name>.h. Only this file chooses among them.
 *
 *    consumer    ready     has the slot arrived? The payload of a slot with lines is copied to scratch as it arrives
 *                operand   returns where the slot's payload is now
 *                consume   gives the slot back to the producer, after the payload was read
 *    producer    place     returns where the step writes the payload; NULL: write it anywhere, then call put
 *                put       copies the payload into the slot, if place() returned NULL
 *                seal      completes the slot: lines get their last flags (all lanes call it, after the last line); a plain payload
 *                          gets its header (one lane calls it, at any time)
 *                publish   hands the slot to the consumer. One lane calls it, after a fence if the payload is plain
 *
 * `bytes` is the payload of the whole slot. A wire carries plain payload, whatever the protocol: over a wire the functions of Simple
 * are called.
 */
#ifndef COLLET_FIFO_PROTO_H
#define COLLET_FIFO_PROTO_H

#include "fifo/proto_direct.h"
#include "fifo/proto_ll.h"
#include "fifo/proto_ll128.h"

PORT_FN uint32_t proto_kind(uint32_t protocol, const struct fifo_end *end) {
    if (protocol >= PROTOCOL_COUNT)
        __builtin_unreachable(); /* No call has the protocol Direct. So the compiler leaves out its code here */
    return end->remote ? (uint32_t)PROTOCOL_SIMPLE : protocol;
}

/* A step calls these functions with `everywhere`: the protocol kind of all its ends, or PROTO_EACH_END to ask each end. If `everywhere`
 * is a compile-time constant, the compiler removes the code of all other protocols. */
#define PROTO_EACH_END (PROTOCOL_DIRECT + 1)
PORT_FN uint32_t proto_at(uint32_t everywhere, uint32_t protocol, const struct fifo_end *end) {
    return everywhere == PROTO_EACH_END ? proto_kind(protocol, end) : everywhere;
}

/* Are the slots lines with flags? (Direct is not in the table: its unit and its line are equal.) */
PORT_FN int proto_has_lines(uint32_t kind) { return protocol_line_bytes(kind) > protocol_unit_bytes(kind); }

/* The function `verb` of a protocol, such as ll_ready(). If `kind` is a compile-time constant, one call is left. */
#define PROTO_CALL(kind, verb, ...)                                                                                    \
    ((kind) == PROTOCOL_SIMPLE   ? simple_##verb(__VA_ARGS__)                                                          \
     : (kind) == PROTOCOL_LL     ? ll_##verb(__VA_ARGS__)                                                              \
     : (kind) == PROTOCOL_DIRECT ? direct_##verb(__VA_ARGS__)                                                          \
                                 : ll128_##verb(__VA_ARGS__))
typedef char proto_call_names_each_protocol[PROTOCOL_COUNT == 3 ? 1 : -1];

#endif
