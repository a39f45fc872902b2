/* SPDX-License-Identifier: Apache-2.0
 *
 * Every registered algorithm, verified for every number of ranks that a test has time for.
 */
#include "algo/trees.h"
#include "program/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool has_root(const struct algorithm *a) {
    return a->collective == PROG_BROADCAST || a->collective == PROG_REDUCE || a->collective == PROG_SEND ||
           a->collective == PROG_RECV;
}

static void verify(const struct algorithm *a, int nranks, int root, int nslots) {
    char why[512];
    bool has_in_place_rule = a->collective != PROG_ALLTOALL && a->collective != PROG_SEND && a->collective != PROG_RECV;
    for (int in_place = 0; in_place < (has_in_place_rule ? 2 : 1); in_place++)
        if (!prog_check(a, nranks, root, nslots, in_place == 1, why, sizeof(why)))
            fail_msg("%s_%s, %d ranks, root %d, %d slots%s: %s", prog_collective_name(a->collective), a->name, nranks,
                     root, nslots, in_place == 1 ? ", in place" : "", why);
}

static void verify_roots(const struct algorithm *a, int nranks, int nslots) {
    int roots[] = {0, 1, nranks / 2, nranks - 1}, nroots = has_root(a) ? 4 : 1;
    for (int i = 0; i < nroots; i++)
        if (roots[i] < nranks && (i == 0 || roots[i] != roots[i - 1]))
            verify(a, nranks, roots[i], nslots);
}

static void every_algorithm_is_right_for_1_to_64_ranks(void **state) {
    (void)state;
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (int nranks = 1; nranks <= 64; nranks++)
            verify_roots(a, nranks, 2);
}

static void every_algorithm_is_right_with_more_slots(void **state) {
    (void)state;
    int some_nranks[] = {1, 2, 3, 4, 7, 8, 13, 16}, some_nslots[] = {3, 4, 8, 16};
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (int i = 0; i < 8; i++)
            for (int k = 0; k < 4; k++)
                verify_roots(a, some_nranks[i], some_nslots[k]);
}

static void every_algorithm_is_right_for_samples_up_to_1024_ranks(void **state) {
    (void)state;
    int some_nranks[] = {100, 128, 255, 512, 1024};
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (int i = 0; i < 5; i++)
            if (a->max_ranks == 0 || some_nranks[i] <= a->max_ranks)
                verify(a, some_nranks[i], has_root(a) ? some_nranks[i] / 3 : 0, 2);
}

/* A ring is a cycle of fused receive-and-send steps: with one slot everybody waits for credit from the next. */
static void all_but_rings_need_only_one_slot(void **state) {
    (void)state;
    char why[512];
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        for (int nranks = 1; nranks <= 9; nranks++) {
            bool right = prog_check(a, nranks, 0, 1, true, why, sizeof(why));
            bool ring = strcmp(a->name, "ring") == 0 && nranks > (a->collective == PROG_ALLREDUCE ? 1 : 2);
            if (right == ring)
                fail_msg("%s_%s, %d ranks, 1 slot: %s", prog_collective_name(a->collective), a->name, nranks,
                         right ? "verified" : why);
            if (ring)
                assert_non_null(strstr(why, "deadlock with 1 slot"));
        }
    }
}

static void the_registry_finds_what_it_lists_and_nothing_else(void **state) {
    (void)state;
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        assert_ptr_equal(algorithm_find(a->collective, a->name), a);
        assert_true(strlen(a->about) > 0);
    }
    assert_null(algorithm_find(PROG_ALLREDUCE, "chain"));
    assert_null(algorithm_find(PROG_ALLREDUCE, ""));
}

static void a_limit_of_ranks_is_enforced(void **state) {
    (void)state;
    const struct algorithm *oneshot = algorithm_find(PROG_ALLREDUCE, "oneshot");
    struct prog *prog = NULL;
    assert_int_equal(algorithm_build(oneshot, oneshot->max_ranks + 1, 0, 0, &prog), COLLET_ERR_INVALID_ARGUMENT);
    assert_null(prog);
}

static void a_ring_has_two_peers_however_long_it_is(void **state) {
    (void)state;
    struct prog *prog;
    assert_int_equal(algorithm_build(algorithm_find(PROG_ALLREDUCE, "ring"), 1000, 7, 0, &prog), COLLET_SUCCESS);
    assert_int_equal(prog->npeers, 2);
    assert_int_equal(prog->nsteps, 1999);
    prog_destroy(prog);
}

/* ---- trees ---- */

static int ceil_log2(int n) {
    int log = 0;
    while (1 << log < n)
        log++;
    return log;
}

/* Steps from rank up to the root; fails if that takes more than n (a cycle). */
static int depth_of(int n, int which, int rank, int root) {
    int depth = 0;
    for (int at = rank; at != root; depth++) {
        struct tree_place place = root < 0 ? tree_place(n, which, at) : tree_place_below(n, which, at, root);
        if (place.parent < 0 && root < 0)
            break;
        assert_in_range(place.parent, 0, n - 1);
        assert_in_range(depth, 0, n);
        at = place.parent;
    }
    return depth;
}

static bool is_child_of(struct tree_place parent, int rank) {
    for (int i = 0; i < parent.nchildren; i++)
        if (parent.child[i] == rank)
            return true;
    return false;
}

static void trees_span_all_ranks_and_are_shallow(void **state) {
    (void)state;
    for (int n = 1; n <= 1024; n++)
        for (int which = 0; which < TREES; which++) {
            int nroots = 0, nchildren = 0;
            for (int rank = 0; rank < n; rank++) {
                struct tree_place place = tree_place(n, which, rank);
                assert_in_range(place.nchildren, 0, 2);
                assert_true(depth_of(n, which, rank, -1) + 1 <= ceil_log2(n) + 1);
                if (place.parent < 0)
                    nroots++;
                else
                    assert_true(is_child_of(tree_place(n, which, place.parent), rank));
                nchildren += place.nchildren;
            }
            assert_int_equal(nroots, 1);
            assert_int_equal(nchildren, n - 1);
        }
}

static void no_rank_is_interior_in_both_trees(void **state) {
    (void)state;
    for (int n = 1; n <= 1024; n++)
        for (int rank = 0; rank < n; rank++)
            assert_false(tree_place(n, 0, rank).nchildren > 0 && tree_place(n, 1, rank).nchildren > 0);
}

static void trees_below_a_root_span_all_ranks_and_load_none_twice(void **state) {
    (void)state;
    for (int n = 1; n <= 70; n++)
        for (int root = 0; root < n; root++)
            for (int rank = 0; rank < n; rank++) {
                struct tree_place a = tree_place_below(n, 0, rank, root), b = tree_place_below(n, 1, rank, root);
                assert_int_equal(a.parent < 0, rank == root);
                assert_int_equal(b.parent < 0, rank == root);
                if (rank == root) {
                    assert_int_equal(a.nchildren, n > 1 ? 1 : 0);
                    assert_int_equal(b.nchildren, n > 1 ? 1 : 0);
                    continue;
                }
                assert_false(a.nchildren > 0 && b.nchildren > 0);
                assert_true(is_child_of(tree_place_below(n, 0, a.parent, root), rank));
                assert_true(is_child_of(tree_place_below(n, 1, b.parent, root), rank));
                assert_true(depth_of(n, 0, rank, root) <= ceil_log2(n) + 1);
                assert_true(depth_of(n, 1, rank, root) <= ceil_log2(n) + 1);
            }
}

static void the_tree_of_eleven_is_the_one_in_the_picture(void **state) {
    (void)state;
    int parent[] = {2, 4, 2, 8, 6, 4, 6, -1, 10, 8, 10}; /* of positions 1 … 11, as positions */
    for (int rank = 0; rank < 11; rank++)
        assert_int_equal(tree_place(11, 0, rank).parent, parent[rank] < 0 ? -1 : parent[rank] - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_is_right_for_1_to_64_ranks),
        cmocka_unit_test(every_algorithm_is_right_with_more_slots),
        cmocka_unit_test(every_algorithm_is_right_for_samples_up_to_1024_ranks),
        cmocka_unit_test(all_but_rings_need_only_one_slot),
        cmocka_unit_test(the_registry_finds_what_it_lists_and_nothing_else),
        cmocka_unit_test(a_limit_of_ranks_is_enforced),
        cmocka_unit_test(a_ring_has_two_peers_however_long_it_is),
        cmocka_unit_test(trees_span_all_ranks_and_are_shallow),
        cmocka_unit_test(no_rank_is_interior_in_both_trees),
        cmocka_unit_test(trees_below_a_root_span_all_ranks_and_load_none_twice),
        cmocka_unit_test(the_tree_of_eleven_is_the_one_in_the_picture),
    };
    return cmocka_run_group_tests_name("algorithms", tests, NULL, NULL);
}
