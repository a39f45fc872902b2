/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the cache lines that a call reads and writes, rank by rank, on one host. The numbers follow from the programs and from the layout
 * of connections (fifo/layout.h). Nothing runs.
 *
 *      own memory   IN, OUT and TMP of the rank itself
 *      payload      slots, or what peers lend (layers/memory/loan.h)
 *      headers      headers of slots
 *      loans        what the reader of a loan writes if no other rank reads it: its claim in the header, and its offer of a place
 *      tails        a producer's counter: only Simple has it, slots of lines have flags
 *      heads        a consumer's counter. The consumer writes it for each message. The producer looks at it once a lap of the FIFO: so it
 *                   counts as a part of a line in each call
 *
 * Each access of a step counts, also if the line is in a cache. A fan (fifo/fan.h) is written once and read by each of its consumers. Two
 * things are left out: memory that no other rank sees (scratch), and the slots that LL fills anew once in 2^14 messages (fifo/proto_ll.h).
 */
#ifndef COLLET_LAYERS_TOOLS_LINES_LINES_H
#define COLLET_LAYERS_TOOLS_LINES_LINES_H

#include "fifo/protocol.h"
#include "layers/verifier/cast.h"

#include <stdio.h>

#define LINES_BYTES 64u /* Bytes of a cache line. */
#define LINES_RANKS_MAX 256

struct lines_call {
    enum protocol protocol;
    uint64_t count; /* Count of the call, as in collet.h. */
    uint32_t elem_bytes, chunk_bytes, nchannels;
    uint32_t nslots;    /* Number of slots of a connection. */
    bool fans;          /* A message to all other ranks is written once, and all read it. */
    uint32_t lent_from; /* Minimum bytes of a payload that is lent. 0: nothing is lent. */
};

/* The lines that one rank reads, or writes, by what they contain. */
struct lines_side {
    uint64_t own, payload, headers, tails, loans;
    double heads;
    uint64_t bytes; /* Bytes of data in own memory and payload, without flags. */
};
struct lines_rank {
    struct lines_side read, written;
};

/* Counts the lines of a call. ranks: one entry per member of the cast. *row_p is the maximum number of messages of a round
 * that follow each other, because each is sent only when the one before has come. Error: NO_MEMORY. */
enum collet_result lines_count(const struct cast *cast, const struct lines_call *call, struct lines_rank *ranks,
                               int *row_p);

/* Prints the lines that lines_count() finds. */
enum collet_result lines_show(const struct cast *cast, const struct lines_call *call, FILE *out);

#endif
