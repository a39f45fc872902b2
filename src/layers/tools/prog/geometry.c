/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows fifo/geometry.h with numbers: each line takes one part of the line before, and cuts this part again.
 */
#include "fifo/protocol.h"
#include "layers/tools/prog/show.h"

#include <inttypes.h>

enum { PARTS_SHOWN = 8 };

/* Prints "| 0 | 1 | 2 |". */
static void print_bar(uint64_t nparts, const char *what, FILE *out) {
    fprintf(out, "%10s  ", "");
    for (uint64_t i = 0; i < nparts && i < PARTS_SHOWN; i++)
        fprintf(out, "|%4" PRIu64 "  ", i);
    fprintf(out, "|%s  %" PRIu64 " %s\n", nparts > PARTS_SHOWN ? " .. |" : "", nparts, what);
}

static void print_span(const char *name, uint64_t number, struct span span, uint32_t elem_bytes, FILE *out) {
    fprintf(out, "%-7s %2" PRIu64 "  ", name, number);
    if (span.count == 0)
        fprintf(out, "no elements\n");
    else
        fprintf(out, "elements %" PRIu64 "-%" PRIu64 ": %" PRIu64 " elements, %" PRIu64 " bytes\n", span.first,
                span.first + span.count - 1, span.count, span.count * elem_bytes);
}

/* Index of the second of n things. If there is only one, of the first. */
static uint32_t second(uint64_t n) { return n > 1 ? 1 : 0; }

/* Follows one example down: the second slice, in this slice the second channel's part, in this part the second round's piece, and the
 * slot of this piece. A chunk has at least one element. */
void show_geometry(uint64_t count, uint32_t elem_bytes, uint32_t nranks, uint32_t nchannels, uint32_t chunk_bytes,
                   FILE *out) {
    uint64_t slice = geometry_share(count, nranks), chunk = chunk_bytes / elem_bytes;
    uint32_t block = second(nranks), channel = second(nchannels);
    uint64_t uncut = slice > 0 ? slice : 1; /* One round is enough for a whole slice */
    struct geometry whole = geometry_of(count, slice, uncut, 0, 1);
    struct geometry all = geometry_of(count, slice, uncut, channel, nchannels);
    struct geometry cut = geometry_of(count, slice, chunk, channel, nchannels);
    uint32_t round = second(cut.nrounds);
    struct span piece = geometry_piece(&cut, block, round);
    fprintf(out, "%-10s  %" PRIu64 " elements of %" PRIu32 " bytes\n", "buffer", count, elem_bytes);
    print_bar(nranks, "slices (blocks), one per rank", out);
    print_span("slice", block, geometry_piece(&whole, block, 0), elem_bytes, out);
    print_bar(nchannels, "parts, one per channel", out);
    print_span("part", channel, geometry_piece(&all, block, 0), elem_bytes, out);
    print_bar(cut.nrounds, "rounds, one piece (at most a chunk) per round", out);
    print_span("piece", round, piece, elem_bytes, out);
    for (uint32_t p = 0; p < PROTOCOL_COUNT; p++) {
        uint32_t bytes = geometry_padded((uint32_t)piece.count * elem_bytes, protocol_unit_bytes(p));
        fprintf(out, "%-10s  %-6s takes %" PRIu32 " bytes of payload (units of %" PRIu32 "), %" PRIu32 " of memory\n",
                p == 0 ? "slot" : "", protocol_names[p], bytes, protocol_unit_bytes(p),
                protocol_memory_bytes(p, bytes));
    }
    if (piece.count == 0)
        fprintf(out, "%-10s  a slot without elements is not sent\n", "");
}
