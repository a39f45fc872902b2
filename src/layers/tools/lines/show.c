/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the lines of a call: one row for what a rank reads, and one for what it writes. Ranks with equal numbers share their rows.
 */
#include "layers/tools/lines/lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_SHOWN = 32 };

/* Prints a number with one decimal, such as 1.9, but prints 2 and not 2.0. */
static void show_number(double number, int width, FILE *out) {
    const double tenths = (double)(uint64_t)(number * 10 + 0.5);
    fprintf(out, " %*.*f", width, (uint64_t)tenths % 10 == 0 ? 0 : 1, tenths / 10);
}

static void show_side(const char *who, const char *does, const struct lines_side *side, FILE *out) {
    const uint64_t whole = side->own + side->payload + side->headers + side->tails + side->loans;
    fprintf(out, "%-13s %-7s %10" PRIu64 " %10" PRIu64 " %8" PRIu64 " %6" PRIu64 " %6" PRIu64, who, does, side->own,
            side->payload, side->headers, side->loans, side->tails);
    show_number(side->heads, 7, out);
    show_number((double)whole + side->heads, 10, out);
    fprintf(out, " %12" PRIu64 "\n", side->bytes);
}

static void show_ranks(const char *who, const struct lines_rank *rank, FILE *out) {
    show_side(who, "reads", &rank->read, out);
    show_side("", "writes", &rank->written, out);
}

static void add_side(struct lines_side *sum, const struct lines_side *side) {
    sum->own += side->own;
    sum->payload += side->payload;
    sum->headers += side->headers;
    sum->tails += side->tails;
    sum->loans += side->loans;
    sum->heads += side->heads;
    sum->bytes += side->bytes;
}

static void show_table(const struct cast *cast, const struct lines_rank *ranks, FILE *out) {
    struct lines_rank all = {{0}, {0}};
    int groups = 0;
    fprintf(out, "%-21s %10s %10s %8s %6s %6s %7s %10s %12s\n", "lines of 64 bytes", "own memory", "payload", "headers",
            "loans", "tails", "heads", "all", "bytes");
    for (int m = 0, next; m < cast->nmembers; m = next) {
        char who[32];
        for (next = m + 1; next < cast->nmembers && memcmp(&ranks[m], &ranks[next], sizeof *ranks) == 0;)
            next++;
        snprintf(who, sizeof who, next - m > 1 ? "ranks %d-%d" : "rank %d", cast->members[m].rank,
                 cast->members[next - 1].rank);
        if (groups++ < GROUPS_SHOWN)
            show_ranks(who, &ranks[m], out);
        for (int k = m; k < next; k++) {
            add_side(&all.read, &ranks[k].read);
            add_side(&all.written, &ranks[k].written);
        }
    }
    if (groups > GROUPS_SHOWN)
        fprintf(out, "%d more rows of ranks are not shown\n", 2 * (groups - GROUPS_SHOWN));
    show_ranks("all ranks", &all, out);
}

/* Prints how many lines consumers fetch one after another, before the last of the messages in a row has its first data. */
static void show_row(const struct lines_call *call, int row, FILE *out) {
    const bool plain = call->protocol == PROTOCOL_SIMPLE;
    fprintf(out, "in a row: %d message%s, %d line%s: of each its reader fetches %s\n", row, row == 1 ? "" : "s",
            plain ? 3 * row : row,
            plain      ? "s"
            : row == 1 ? ""
                       : "s",
            plain ? "tail, header, data" : "a line with its flag");
}

enum collet_result lines_show(const struct cast *cast, const struct lines_call *call, FILE *out) {
    SCOPED_FREE struct lines_rank *ranks = NULL;
    int row = 0;
    COLLET_TRY(memory_get(&ranks, (size_t)cast->nmembers, sizeof *ranks, "no memory for %d ranks", cast->nranks));
    COLLET_TRY(lines_count(cast, call, ranks, &row));
    show_table(cast, ranks, out);
    show_row(call, row, out);
    return COLLET_SUCCESS;
}
