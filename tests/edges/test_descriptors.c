/* SPDX-License-Identifier: Apache-2.0
 *
 * A daemon has closed its descriptors 0, 1 and 2. The next socket that it makes would be descriptor 0, and what a library writes to
 * standard error would go into it: a peer got a line of the log in place of data, and the job ended. So collet keeps none of the three.
 *
 *      close(0), close(1), close(2) ─▶ a communicator, calls, a split, a late rank ─▶ all three are still closed
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/level.h"
#include "common/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ELEMS 300000
#define LATE_MS 1500

static void check_closed(struct ranks *ranks, int rank, const char *after) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) != -1)
            ranks_fail(ranks, "rank %d: after %s, descriptor %d is one of collet", rank, after, fd);
}

static void sum(struct ranks *ranks, int rank, struct collet_comm *comm, int32_t *data) {
    for (int i = 0; i < ELEMS; i++)
        data[i] = i + rank;
    ranks_try(ranks, rank, collet_allreduce(data, data, ELEMS, COLLET_INT32, COLLET_SUM, comm, NULL));
    for (int i = 0; i < ELEMS; i++)
        ranks_check(ranks, rank, data[i] == ranks->nranks * i + ranks->nranks * (ranks->nranks - 1) / 2);
}

/* In a process without the three: what a rank can do that makes descriptors. One rank is late, and the others' log says so, to nowhere. */
static void live_without(struct ranks *ranks, int rank) {
    int32_t *data = malloc(ELEMS * sizeof(*data));
    struct collet_comm *half;
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    ranks_barrier(ranks);
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    check_closed(ranks, rank, "creation");
    sum(ranks, rank, comm, data);
    check_closed(ranks, rank, "an allreduce");
    ranks_try(ranks, rank, collet_comm_split(comm, 0, rank, &half, NULL));
    if (rank == 0)
        ranks_sleep_ms(LATE_MS);
    sum(ranks, rank, half, data);
    check_closed(ranks, rank, "a split");
    ranks_try(ranks, rank, collet_comm_destroy(half));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    check_closed(ranks, rank, "its end");
    free(data);
}

static void a_rank_without_a_terminal_sends_no_log_to_its_peers(void **state) {
    (void)state;
    static const char *const silent[] = {"COLLET_WARN_AFTER", "1", NULL};
    static const char *const loud[] = {"COLLET_WARN_AFTER", "1", "COLLET_DEBUG", "TRACE", NULL};
    static const char *const seen[] = {"COLLET_RECORD", "/dev/null", "COLLET_METRICS", "39400-39499", "COLLET_TRACE",
                                       "/dev/null",     NULL};
    world_run_all(WORLD_NO_THREADS, 3, silent, live_without, NULL);
    world_run_all(WORLD_NO_THREADS, 3, loud, live_without, NULL);
    world_run_all(WORLD_NO_THREADS, 2, seen, live_without, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_without_a_terminal_sends_no_log_to_its_peers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
