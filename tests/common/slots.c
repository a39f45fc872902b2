/* SPDX-License-Identifier: Apache-2.0 */
#include "common/slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

struct slots_pattern slots_pattern;

uint64_t slots_mix(uint64_t x) {
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15ull;
    return x ^ x >> 29;
}

static uint32_t protocol_of(uint64_t step) {
    const bool simple = slots_pattern.whole || slots_pattern.simple;
    return simple ? PROTOCOL_SIMPLE : (uint32_t)(slots_mix(step + 1) % PROTOCOL_COUNT);
}

/* Mostly small, sometimes the whole slot. */
uint32_t slots_bytes(const struct conn *conn, uint64_t step) {
    uint32_t room = fifo_payload_bytes(&conn->owner->layouts[PROG_TO_FEW], protocol_of(step));
    uint32_t bytes = (uint32_t)(slots_mix(step) >> 20) % (room + 1);
    bool whole = slots_pattern.whole || slots_mix(step + 2) % 4 == 0;
    return whole ? room : slots_mix(step + 3) % 2 ? bytes : bytes % 64;
}

struct fifo_slot_header slots_header(const struct conn *conn, uint64_t step) {
    uint64_t call = slots_pattern.call_of != NULL ? slots_pattern.call_of(step) : step;
    return (struct fifo_slot_header){
        .word = fifo_word(protocol_of(step), slots_bytes(conn, step)),
        .signature = (uint32_t)slots_mix(call),
        .sequence = slots_mix(call + 9),
    };
}

static char *memory_of(const struct conn *conn, uint64_t step) {
    return fifo_slot_at(&conn->end, protocol_of(step), step);
}

void slots_publish(struct conn *conn) {
    uint64_t step = conn->end.position;
    char *memory = memory_of(conn, step);
    for (uint32_t i = 0; i < slots_bytes(conn, step); i++)
        memory[i] = (char)(step * 7 + i);
    *fifo_header(&conn->end) = slots_header(conn, step);
    fifo_publish(&conn->end);
}

void slots_consume(struct conn *conn) {
    uint64_t step = conn->end.position;
    const struct fifo_slot_header *header = fifo_header(&conn->end), right = slots_header(conn, step);
    const char *memory = memory_of(conn, step);
    assert_int_equal(header->word, right.word);
    assert_int_equal(header->signature, right.signature);
    assert_int_equal(header->sequence, right.sequence);
    for (uint32_t i = 0; i < slots_bytes(conn, step); i++)
        if (memory[i] != (char)(step * 7 + i))
            fail_msg("byte %u of step %llu is wrong", i, (unsigned long long)step);
    fifo_consumed(&conn->end);
}
