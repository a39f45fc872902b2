/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts that differ between ranks. In an alltoallv only a pair knows whether they agree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/level.h"
#include "common/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 70000

/* What rank 0 sends to rank 1, and what rank 1 says that it is. */
struct disagreement {
    size_t sends, expects;
};

/* Everybody else moves 3 elements per pair. */
static void disagree(struct ranks *ranks, int rank) {
    const struct disagreement *pair = ranks->argument;
    struct collet_config config = {.size = sizeof(config), .timeout_ms = 3000};
    struct collet_comm *comm = ranks_comm(ranks, rank, &config);
    int32_t *in = calloc(MOST + 3 * RANKS_MAX, sizeof(*in)), *out = calloc(MOST + 3 * RANKS_MAX, sizeof(*out));
    size_t sendcounts[RANKS_MAX], recvcounts[RANKS_MAX];
    char numbers[2][64];
    for (int r = 0; r < ranks->nranks; r++)
        sendcounts[r] = recvcounts[r] = 3;
    if (rank == 0)
        sendcounts[1] = pair->sends;
    if (rank == 1)
        recvcounts[0] = pair->expects;
    snprintf(numbers[0], sizeof(numbers[0]), "rank 0 sends %zu int32 to rank 1 (sendcounts[1])", pair->sends);
    snprintf(numbers[1], sizeof(numbers[1]), "which expects %zu (recvcounts[0])", pair->expects);
    enum collet_result result = collet_alltoallv(in, sendcounts, NULL, out, recvcounts, NULL, COLLET_INT32, comm, NULL);
    if (rank < 2) { /* others may be done before */
        ranks_expect(ranks, rank, result, COLLET_ERR_MISMATCH, "counts that differ");
        if (strstr(collet_last_error(NULL), numbers[0]) == NULL || strstr(collet_last_error(NULL), numbers[1]) == NULL)
            ranks_fail(ranks, "rank %d does not name the counts: %s", rank, collet_last_error(NULL));
    }
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(in);
    free(out);
}

static void a_pair_that_disagrees_about_a_count_is_told_at_both_ends(void **state) {
    (void)state;
    struct disagreement pairs[] = {{5, 0}, {0, 5}, {5, 6}, {MOST, 1}, {1, MOST}, {MOST, 0}, {MOST, MOST - 1}};
    int npairs = level_now() == LEVEL_FAST ? 3 : 7;
    for (int k = 0; k < npairs; k++) {
        world_run_all(0, 2, NULL, disagree, &pairs[k]);
        world_run(&worlds[WORLD_SHM], 4, NULL, disagree, &pairs[k]);
    }
}

/* Wrong in itself: refused before anything moves, so the communicator goes on. */
static void give_nonsense(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int32_t in[8] = {0}, out[8] = {0};
    const size_t counts[2] = {2, 2}, others[2] = {1, 1}, huge[2] = {SIZE_MAX / 8, 2}, none[2] = {0, 0};
    const enum collet_result bad = COLLET_ERR_INVALID_ARGUMENT;
#define REFUSED(word, call)                                                                                            \
    do {                                                                                                               \
        ranks_expect(ranks, rank, call, bad, #call);                                                                   \
        ranks_check(ranks, rank, strstr(collet_last_error(NULL), word) != NULL);                                       \
    } while (0)
    REFUSED("recvcounts is NULL", collet_allgatherv(in, 2, out, NULL, NULL, COLLET_INT32, comm, NULL));
    REFUSED("sendcount is 1, but recvcounts[", collet_allgatherv(in, 1, out, counts, NULL, COLLET_INT32, comm, NULL));
    REFUSED("recvcounts[0] is", collet_allgatherv(in, rank ? 2 : huge[0], out, huge, NULL, COLLET_INT32, comm, NULL));
    REFUSED("sendbuff is NULL", collet_allgatherv(NULL, 2, out, counts, NULL, COLLET_INT32, comm, NULL));
    REFUSED("overlap", collet_allgatherv(out + 1, 2, out, counts, NULL, COLLET_INT32, comm, NULL));
    REFUSED("recvcounts is NULL", collet_reducescatterv(in, out, NULL, COLLET_INT32, COLLET_SUM, comm, NULL));
    REFUSED("op is", collet_reducescatterv(in, out, counts, COLLET_INT32, (enum collet_op)77, comm, NULL));
    REFUSED("sendcounts is NULL", collet_alltoallv(in, NULL, NULL, out, counts, NULL, COLLET_INT32, comm, NULL));
    REFUSED("is 2, but recvcounts[", collet_alltoallv(in, counts, NULL, out, others, NULL, COLLET_INT32, comm, NULL));
    REFUSED("overlap", collet_alltoallv(in, counts, NULL, in, counts, NULL, COLLET_INT32, comm, NULL));
    ranks_try(ranks, rank, collet_allgatherv(NULL, 0, NULL, none, NULL, COLLET_INT32, comm, NULL));
    ranks_try(ranks, rank, collet_alltoallv(NULL, none, NULL, NULL, none, NULL, COLLET_INT32, comm, NULL));
    ranks_try(ranks, rank, collet_alltoallv(in, counts, NULL, out, counts, NULL, COLLET_INT32, comm, NULL));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void counts_that_are_wrong_in_themselves_are_refused(void **state) {
    (void)state;
    world_run(&worlds[WORLD_THREADS], 2, NULL, give_nonsense, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_that_disagrees_about_a_count_is_told_at_both_ends),
        cmocka_unit_test(counts_that_are_wrong_in_themselves_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
