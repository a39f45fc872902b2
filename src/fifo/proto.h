/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step asks of a protocol. Each question is answered by the function of that name in proto_<name>.h; that function is
 * chosen here, from the table of protocols, and nowhere else.
 *
 *    consumer    ready     has the slot arrived? A slot with lines is copied to scratch as it arrives
 *                operand   where its payload is now
 *                consume   it has been read: the producer may have it again
 *    producer    place     where the payload is to be made; NULL: make it anywhere, then put it
 *                put       copies the payload into the slot, where place() was NULL
 *                seal      what else must be written: after the last line, by all lanes; of a plain payload by one lane, at any time
 *                publish   by one lane, after a fence if the payload is plain: the slot is the consumer's
 *
 * `bytes` is the payload of the whole slot. A wire carries plain payload, whatever the protocol: there Simple
 * answers.
 */
#ifndef COLLET_FIFO_PROTO_H
#define COLLET_FIFO_PROTO_H

#include "fifo/proto_ll.h"
#include "fifo/proto_ll128.h"
#include "fifo/proto_simple.h"

PORT_FN uint32_t proto_kind(uint32_t protocol, const struct fifo_end *end) {
    return end->remote ? (uint32_t)PROTOCOL_SIMPLE : protocol;
}

/* A step calls these functions with `everywhere`: the protocol kind of all its ends, or PROTO_EACH_END to ask each end. If it is a
 * compile-time constant, the compiler removes the code of all other protocols. */
#define PROTO_EACH_END ((uint32_t)PROTOCOL_COUNT)
PORT_FN uint32_t proto_at(uint32_t everywhere, uint32_t protocol, const struct fifo_end *end) {
    return everywhere == PROTO_EACH_END ? proto_kind(protocol, end) : everywhere;
}

PORT_FN int proto_has_lines(uint32_t kind) { return protocol_line_bytes(kind) > protocol_unit_bytes(kind); }

/* ---- consumer ---- */

#define PROTO_READY(NAME, name, text, slots, unit, line, costs)                                                        \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        return name##_ready(args, end, bytes, scratch);
PORT_FN enum interp_result proto_ready(uint32_t kind, const struct work_args *args, struct fifo_end *end,
                                       uint32_t bytes, char *scratch) {
    PROTOCOLS(PROTO_READY)
    return INTERP_MISMATCH;
}

#define PROTO_OPERAND(NAME, name, text, slots, unit, line, costs)                                                      \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        return name##_operand(args, end, bytes, scratch);
PORT_FN const char *proto_operand(uint32_t kind, const struct work_args *args, const struct fifo_end *end,
                                  uint32_t bytes, const char *scratch) {
    PROTOCOLS(PROTO_OPERAND)
    return NULL;
}

#define PROTO_CONSUME(NAME, name, text, slots, unit, line, costs)                                                      \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        name##_consume(end);
PORT_FN void proto_consume(uint32_t kind, struct fifo_end *end){PROTOCOLS(PROTO_CONSUME)}

/* ---- producer ---- */

#define PROTO_PLACE(NAME, name, text, slots, unit, line, costs)                                                        \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        return name##_place(args, end, bytes);
PORT_FN char *proto_place(uint32_t kind, const struct work_args *args, const struct fifo_end *end, uint32_t bytes) {
    PROTOCOLS(PROTO_PLACE)
    return NULL;
}

#define PROTO_PUT(NAME, name, text, slots, unit, line, costs)                                                          \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        name##_put(args, end, from, bytes);
PORT_FN void proto_put(uint32_t kind, const struct work_args *args, const struct fifo_end *end, const char *from,
                       uint32_t bytes){PROTOCOLS(PROTO_PUT)}

#define PROTO_SEAL(NAME, name, text, slots, unit, line, costs)                                                         \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        name##_seal(args, end, bytes);
PORT_FN void proto_seal(uint32_t kind, const struct work_args *args, struct fifo_end *end,
                        uint32_t bytes){PROTOCOLS(PROTO_SEAL)}

#define PROTO_PUBLISH(NAME, name, text, slots, unit, line, costs)                                                      \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        name##_publish(args, end, bytes);
PORT_FN void proto_publish(uint32_t kind, const struct work_args *args, struct fifo_end *end, uint32_t bytes) {
    PROTOCOLS(PROTO_PUBLISH)
}

#endif
