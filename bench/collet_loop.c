/* SPDX-License-Identifier: Apache-2.0
 *
 * The timing loop over collet; forks its ranks. Transport, algorithm and the like come from the environment (COLLET_*),
 * as for any program.
 */
#include "loop.h"

#include <collet.h>
#include <stdio.h>
#include <string.h>

static void must(enum collet_result result, const char *call) {
    if (result != COLLET_SUCCESS)
        bench_die("%s: %s: %s", call, collet_error_string(result), collet_last_error(NULL));
}

static void align(void *state) { must(collet_barrier((struct collet_comm *)state, NULL), "collet_barrier"); }

#define CALL(name, ...)                                                                                                \
    static void name(void *state, const float *in, float *out, size_t count) {                                         \
        must(collet_##name(__VA_ARGS__, (struct collet_comm *)state, NULL), "collet_" #name);                          \
    }
CALL(allreduce, in, out, count, COLLET_FLOAT32, COLLET_SUM)
CALL(allgather, in, out, count, COLLET_FLOAT32)
CALL(reducescatter, in, out, count, COLLET_FLOAT32, COLLET_SUM)
CALL(alltoall, in, out, count, COLLET_FLOAT32)
CALL(reduce, in, out, count, COLLET_FLOAT32, COLLET_SUM, 0)

static void broadcast(void *state, const float *in, float *out, size_t count) {
    (void)in;
    must(collet_broadcast(out, out, count, COLLET_FLOAT32, 0, (struct collet_comm *)state, NULL), "collet_broadcast");
}

/* Registrations end with the communicator. */
static void *allocate(void *state, size_t bytes) {
    void *buffer;
    struct collet_registration *registration;
    must(collet_mem_alloc(&buffer, bytes, COLLET_DEVICE_HOST), "collet_mem_alloc");
    must(collet_comm_register((struct collet_comm *)state, buffer, bytes, &registration), "collet_comm_register");
    return buffer;
}

static void release(void *state, void *buffer) {
    (void)state;
    must(collet_mem_free(buffer), "collet_mem_free");
}

/* "twoshot/Simple/1/131072/44.92": algorithm, protocol, channels, bytes of a chunk, predicted microseconds. */
static void plan(void *state, const char *collective, size_t count, char text[LOOP_PLAN_BYTES]) {
    char said[128], algorithm[32], protocol[32];
    int channels;
    unsigned chunk;
    double predicted;
    must(collet_comm_plan((struct collet_comm *)state, collective, count, COLLET_FLOAT32, said, sizeof(said)),
         "collet_comm_plan");
    if (sscanf(said, "%31[^,], %31[^,], %d channel(s), chunk %u bytes, predicted %lf us", algorithm, protocol,
               &channels, &chunk, &predicted) == 5)
        snprintf(text, LOOP_PLAN_BYTES, "%s/%s/%d/%u/%.2f", algorithm, protocol, channels, chunk, predicted);
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
    struct loop_library library = {
        .state = comm,
        .align = align,
        .calls = {allreduce, allgather, reducescatter, alltoall, broadcast, reduce},
        .plan = plan,
    };
    if (options.registered) {
        library.allocate = allocate;
        library.release = release;
    }
    loop_run(&options, &library, board, rank);
    must(collet_comm_destroy(comm), "collet_comm_destroy");
    if (rank == 0)
        board_join(board);
    return 0;
}
