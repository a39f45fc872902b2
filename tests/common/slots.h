/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots that tests of transports send and recognise: of each step the length, protocol, header and every byte follow from
 * its number alone, so its receiver can tell whether it is right.
 */
#ifndef COLLET_TESTS_SLOTS_H
#define COLLET_TESTS_SLOTS_H

#include "transport/conn.h"

#include <stdbool.h>
#include <stdint.h>

struct slots_pattern {
    bool whole;  /* Simple slots, all full; else of all protocols and lengths */
    bool simple; /* Simple slots, of all lengths */
    uint64_t (*call_of)(
        uint64_t step); /* steps of one call have equal signatures and sequence numbers; NULL: each its own */
};
extern struct slots_pattern slots_pattern;

uint64_t slots_mix(uint64_t x); /* a number that looks random */

uint32_t slots_bytes(const struct conn *conn, uint64_t step);
struct fifo_slot_header slots_header(const struct conn *conn, uint64_t step);

/* The end's next step, written as an executor would; and read, each deviation failing the test. */
void slots_publish(struct conn *conn);
void slots_consume(struct conn *conn);

#endif
