/* SPDX-License-Identifier: Apache-2.0
 *
 * A fan: a FIFO with one producer and several consumers. A rank writes a payload once, and all other ranks of its host read it.
 *
 *         producer                    its memory                           consumers
 *                        ┌──────────────────────────────────────┐
 *    writes tail,        │ tail │ headers[] │ slots, per protocol │ ─▶ rank 1, rank 2, rank 3 … all read the same slot
 *    headers, slots  ──▶ │      │           │                     │
 *                        │ line of rank 1 │ line of rank 2 │ …    │ ◀─ each writes a line of its own: its head
 *                        └──────────────────────────────────────┘
 *
 * A consumer's end is like the end of any other connection, except that its head lies in its line. The producer's end looks at all lines.
 * The least head decides: a slot may be written again when the slowest consumer has read it. Protocols do not know whether a connection
 * is a fan: the producer stores a tail or a flag once, and any number of consumers may poll it.
 *
 * A payload may be lent to all consumers, if each of them reaches it by address. Each consumer copies the payload, or reads it where it
 * lies. While a consumer reads it there, the consumer's line says at which position (layers/memory/loan.c). No consumer waits for
 * another one.
 */
#ifndef COLLET_FIFO_FAN_H
#define COLLET_FIFO_FAN_H

#include "fifo/fifo.h"

/* A consumer's line. Only that consumer writes it. */
struct fan_line {
    uint64_t head;    /* How many slots the consumer has used up, as in fifo.h */
    uint64_t reading; /* 1 + 2 · position of the lent payload that the consumer reads, or has read last; 0: none yet */
    uint64_t answer;  /* enum fan_answer; 0: the consumer has not answered yet */
} __attribute__((aligned(FIFO_LINE_BYTES)));

/* Called with the producer's end of a fan: the line of the k-th consumer. */
static inline struct fan_line *fan_line_at(const struct fifo_end *end, uint32_t k) {
    return (struct fan_line *)(void *)end->head + k;
}

#endif
