/* SPDX-License-Identifier: Apache-2.0
 *
 * What a warm call costs in instructions: two ranks of one process all-reduce in one thread, as one group. A count, unlike
 * a time, is the same on a busy machine. scripts/instructions.sh counts what happens inside warm_calls().
 *
 *    usage: instructions <bytes> <calls> <calls before them>
 */
#include "collet.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 2, MOST_FLOATS = 1 << 20 };

static struct collet_comm *comms[RANKS];
static float in[RANKS][MOST_FLOATS], out[RANKS][MOST_FLOATS];

static void check(enum collet_result result) {
    if (result == COLLET_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", collet_error_string(result), collet_last_error(NULL));
    exit(1);
}

static void call(size_t count) {
    check(collet_group_start());
    for (int rank = 0; rank < RANKS; rank++)
        check(collet_allreduce(in[rank], out[rank], count, COLLET_FLOAT32, COLLET_SUM, comms[rank], NULL));
    check(collet_group_end());
}

__attribute__((noinline)) static void warm_calls(size_t count, int calls) {
    for (int k = 0; k < calls; k++)
        call(count);
}

int main(int argc, char **argv) {
    size_t count = argc == 4 ? strtoul(argv[1], NULL, 10) / sizeof(float) : 0;
    int calls = argc == 4 ? atoi(argv[2]) : 0;
    if (count == 0 || count > MOST_FLOATS || calls < 1) {
        fprintf(stderr, "usage: instructions <bytes, 4 … 4194304> <calls> <calls before them>\n");
        return 2;
    }
    check(collet_comm_init_all(comms, RANKS, NULL));
    for (int k = 0; k < atoi(argv[3]); k++)
        call(count);
    warm_calls(count, calls);
    for (int rank = 0; rank < RANKS; rank++)
        collet_comm_destroy(comms[rank]);
    return 0;
}
