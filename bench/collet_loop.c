/* SPDX-License-Identifier: Apache-2.0
 *
 * The timing loop over collet; forks its ranks. Transport, algorithm and the like come from the environment (COLLET_*),
 * as for any program.
 */
#include "loop.h"

#include <collet.h>
#include <string.h>

static void must(enum collet_result result, const char *call) {
    if (result != COLLET_SUCCESS)
        bench_die("%s: %s: %s", call, collet_error_string(result), collet_last_error(NULL));
}

/* collet has no barrier; the smallest allreduce keeps ranks together as well. */
static void align(void *state) {
    struct collet_comm *comm = (struct collet_comm *)state;
    unsigned char in = 0, out;
    must(collet_allreduce(&in, &out, 1, COLLET_UINT8, COLLET_SUM, comm, NULL), "collet_allreduce");
}

static void allreduce(void *state, const float *in, float *out, size_t count) {
    struct collet_comm *comm = (struct collet_comm *)state;
    must(collet_allreduce(in, out, count, COLLET_FLOAT32, COLLET_SUM, comm, NULL), "collet_allreduce");
}

/* Rank 0 makes the id, after the fork, and the board carries it to the others. */
static struct collet_comm *comm_create(struct board *board, int rank) {
    struct collet_unique_id id;
    struct collet_comm *comm;
    _Static_assert(sizeof(id) <= sizeof(board->message), "the board's message holds an id");
    if (rank == 0) {
        must(collet_get_unique_id(&id), "collet_get_unique_id");
        memcpy(board->message, &id, sizeof(id));
    }
    board_meet(board);
    memcpy(&id, board->message, sizeof(id));
    must(collet_comm_init_rank(&comm, board->nranks, id, rank), "collet_comm_init_rank");
    return comm;
}

int main(int argc, char **argv) {
    int rank;
    struct loop_options options = loop_options_read(argc, argv);
    struct board *board = board_fork(options.nranks, options.pinned, &rank);
    struct collet_comm *comm = comm_create(board, rank);
    const struct loop_library library = {.state = comm, .align = align, .allreduce = allreduce};
    loop_run(&options, &library, board, rank);
    must(collet_comm_destroy(comm), "collet_comm_destroy");
    if (rank == 0)
        board_join(board);
    return 0;
}
