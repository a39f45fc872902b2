/* SPDX-License-Identifier: Apache-2.0
 *
 * Four ranks in one process and one thread, made for gdb: no other thread runs while you step through the code, and every run is
 * the same. Build without optimisation, choose the algorithm to look at, and stop in the interpreter:
 *
 *   make BUILD=build-gdb CFLAGS='-g -O0'
 *   COLLET_ALGO=ring COLLET_PROTO=Simple gdb build-gdb/bin/local_allreduce
 *   (gdb) break interp_try_step
 *   (gdb) run
 *   (gdb) print *w                         a worker: its place in its program
 *   (gdb) print w->op->steps[w->first_step + w->pc]        the step that it tries next
 *   (gdb) finish                           was it BUSY (an operand is not there yet) or STEPPED?
 *   (gdb) delete
 *   (gdb) watch results[2][0]              stops where rank 2's first sum is written
 *   (gdb) continue
 *   (gdb) backtrace                        shows all calls from collet_group_end() down to that place
 *
 * build/bin/collet-prog allreduce_ring 4 prints the same program as a table. Also try COLLET_ALGO=tree, oneshot or
 * twoshot, COLLET_PROTO=LL, and break interp_try_step if w->pc == 3.
 */
#include "collet.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 4, COUNT = 8 };

/* These variables are not on the stack, so that gdb finds them from any frame. */
static float inputs[RANKS][COUNT];
static float results[RANKS][COUNT];

static void check(enum collet_result result) {
    if (result != COLLET_SUCCESS) {
        fprintf(stderr, "%s: %s\n", collet_error_string(result), collet_last_error(NULL));
        exit(1);
    }
}

static void print_row(const char *name, int rank, const float *row) {
    printf("rank %d %s", rank, name);
    for (int i = 0; i < COUNT; i++)
        printf(" %6g", (double)row[i]);
    printf("\n");
}

int main(void) {
    struct collet_comm *comms[RANKS];
    check(collet_comm_init_all(comms, RANKS, NULL));

    /* Each rank has its own decimal place: 1234 is the sum of all four ranks, and in 204 the ranks 0 and 2 are missing. */
    static const float places[RANKS] = {1000, 200, 30, 4};
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < COUNT; i++)
            inputs[rank][i] = places[rank];

    check(collet_group_start());
    for (int rank = 0; rank < RANKS; rank++)
        check(collet_allreduce(inputs[rank], results[rank], COUNT, COLLET_FLOAT32, COLLET_SUM, comms[rank], NULL));
    check(collet_group_end()); /* All four ranks run in here, and take turns step by step */

    int wrong = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        print_row("gave", rank, inputs[rank]);
        print_row("got ", rank, results[rank]);
        for (int i = 0; i < COUNT; i++)
            wrong += results[rank][i] != 1234;
    }
    for (int rank = 0; rank < RANKS; rank++)
        check(collet_comm_destroy(comms[rank]));
    return wrong != 0;
}
