/* SPDX-License-Identifier: Apache-2.0
 *
 * What calls promise beyond the bytes in their buffers, which test_conformance judges.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/level.h"
#include "common/world.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------------------ barriers */

#define ROUNDS 200

/* Each rank counts its rounds. Behind a barrier all others have counted this one. */
static void come_together(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int *come = ranks->argument;
    for (int round = 1; round <= ROUNDS; round++) {
        if (round % 50 == rank) /* one rank is late */
            ranks_sleep_ms(3);
        __atomic_store_n(&come[rank], round, __ATOMIC_RELEASE);
        ranks_try(ranks, rank, collet_barrier(comm, NULL));
        for (int other = 0; other < ranks->nranks; other++)
            ranks_check(ranks, rank, __atomic_load_n(&come[other], __ATOMIC_ACQUIRE) >= round);
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void expect_all_to_come(int nranks, const char *protocol) {
    const char *const variables[] = {"COLLET_PROTO", protocol, NULL};
    int *come = ranks_share(RANKS_MAX * sizeof(*come));
    for (int world = 0; world < (level_now() == LEVEL_FAST ? 3 : WORLD_COUNT); world++) {
        memset(come, 0, RANKS_MAX * sizeof(*come));
        world_run(&worlds[world], nranks, variables, come_together, come);
    }
    ranks_unshare(come, RANKS_MAX * sizeof(*come));
}

static void no_rank_leaves_a_barrier_before_all_have_come(void **state) {
    (void)state;
    expect_all_to_come(2, "");
    expect_all_to_come(5, "");
}

/* Their empty slots would have no line that says that they have come. */
static void barriers_do_not_take_protocols_with_lines(void **state) {
    (void)state;
    expect_all_to_come(3, "LL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rank_leaves_a_barrier_before_all_have_come),
        cmocka_unit_test(barriers_do_not_take_protocols_with_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
