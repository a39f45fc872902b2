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

#include <stdio.h>
#include <stdlib.h>
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

static void expect_all_to_come(int nranks, const char *protocol, const char *algorithm) {
    const char *const variables[] = {"COLLET_PROTO", protocol, "COLLET_ALGO", algorithm, NULL};
    int *come = ranks_share(RANKS_MAX * sizeof(*come));
    for (int world = 0; world < (level_now() == LEVEL_FAST ? 3 : WORLD_COUNT); world++) {
        memset(come, 0, RANKS_MAX * sizeof(*come));
        world_run(&worlds[world], nranks, variables, come_together, come);
    }
    ranks_unshare(come, RANKS_MAX * sizeof(*come));
}

static void no_rank_leaves_a_barrier_before_all_have_come(void **state) {
    (void)state;
    expect_all_to_come(2, "", "");
    expect_all_to_come(5, "", "");
}

/* In LL an empty slot has a line that says that it has come. In LL128 it has none, so that Simple is taken. */
static void so_it_is_in_every_protocol_and_algorithm(void **state) {
    (void)state;
    static const char *const algorithms[] = {"doubling", "oneshot", "direct"};
    for (size_t k = 0; k < sizeof(algorithms) / sizeof(*algorithms); k++) {
        expect_all_to_come(3, "LL", algorithms[k]);
        expect_all_to_come(2, "LL128", algorithms[k]);
        expect_all_to_come(3, "Simple", algorithms[k]);
    }
}

/* ------------------------------------------------------------------------------------------------------------ averages */

/* Bits of the largest power of two: twice of it is beyond the type. */
static const struct large {
    enum collet_type type;
    uint16_t bits;
} large_numbers[] = {{COLLET_FLOAT16, 0x7800}, {COLLET_FLOAT8_E4M3, 0x78}, {COLLET_FLOAT8_E5M2, 0x78}};

static void average_large_numbers(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    enum { COUNT = 100 };
    for (size_t k = 0; k < sizeof(large_numbers) / sizeof(*large_numbers); k++) {
        const size_t bytes = collet_type_size(large_numbers[k].type);
        char in[COUNT * 2], out[COUNT * 2];
        for (int i = 0; i < COUNT; i++)
            memcpy(in + (size_t)i * bytes, &large_numbers[k].bits, bytes);
        ranks_try(ranks, rank, collet_allreduce(in, out, COUNT, large_numbers[k].type, COLLET_AVG, comm, NULL));
        ranks_check(ranks, rank, memcmp(in, out, COUNT * bytes) == 0);
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void an_average_is_finite_where_the_sum_is_not(void **state) {
    (void)state;
    static const char *const algorithms[] = {"ring", "oneshot", "tree"};
    for (int k = 0; k < 3; k++) {
        const char *const variables[] = {"COLLET_ALGO", algorithms[k], NULL};
        world_run(&worlds[WORLD_THREADS], 4, variables, average_large_numbers, NULL);
        world_run(&worlds[WORLD_THREADS], 5, variables, average_large_numbers, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rank_leaves_a_barrier_before_all_have_come),
        cmocka_unit_test(so_it_is_in_every_protocol_and_algorithm),
        cmocka_unit_test(an_average_is_finite_where_the_sum_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
