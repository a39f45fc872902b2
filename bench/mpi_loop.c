/* SPDX-License-Identifier: Apache-2.0
 *
 * The timing loop over any MPI library; started by its mpirun, one process a rank.
 */
#include "loop.h"

#include <mpi.h>
#include <stdio.h>

static void must(int result, const char *call) {
    if (result != MPI_SUCCESS)
        bench_die("%s failed with %d", call, result);
}

static void align(void *state) {
    (void)state;
    must(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

#define CALL(name, function, ...)                                                                                      \
    static void name(void *state, const float *in, float *out, size_t count) {                                         \
        int n = (int)count;                                                                                            \
        (void)state;                                                                                                   \
        must(function(__VA_ARGS__, MPI_COMM_WORLD), #function);                                                        \
    }
CALL(allreduce, MPI_Allreduce, in, out, n, MPI_FLOAT, MPI_SUM)
CALL(allgather, MPI_Allgather, in, n, MPI_FLOAT, out, n, MPI_FLOAT)
CALL(reducescatter, MPI_Reduce_scatter_block, in, out, n, MPI_FLOAT, MPI_SUM)
CALL(alltoall, MPI_Alltoall, in, n, MPI_FLOAT, out, n, MPI_FLOAT)
CALL(reduce, MPI_Reduce, in, out, n, MPI_FLOAT, MPI_SUM, 0)

static void broadcast(void *state, const float *in, float *out, size_t count) {
    (void)state, (void)in;
    must(MPI_Bcast(out, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD), "MPI_Bcast");
}

int main(int argc, char **argv) {
    const struct loop_library library = {.align = align,
                                         .calls = {allreduce, allgather, reducescatter, alltoall, broadcast, reduce}};
    int rank, nranks;
    must(MPI_Init(&argc, &argv), "MPI_Init");
    must(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    must(MPI_Comm_size(MPI_COMM_WORLD, &nranks), "MPI_Comm_size");
    struct loop_options options = loop_options_read(argc, argv);
    if (options.board_path == NULL)
        bench_die("-b BOARD is needed: an empty file that all ranks can open");
    struct board *board = board_open(options.board_path, nranks);
    loop_run(&options, &library, board, rank);
    must(MPI_Finalize(), "MPI_Finalize");
    return 0;
}
