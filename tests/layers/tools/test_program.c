/* SPDX-License-Identifier: Apache-2.0
 *
 * The step program: what the builder refuses, how blocks run, what the printer prints.
 */
#include "base/err.h"
#include "layers/tools/prog/show.h"
#include "program/build.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the builder ---- */

static enum collet_result build(enum prog_collective collective, prog_build_fn build_fn, int nranks, int rank) {
    struct algorithm algorithm = {.name = "test", .collective = collective, .build = build_fn};
    struct prog *prog = NULL;
    enum collet_result result = algorithm_build(&algorithm, &PROG_FLAT(nranks), rank, 0, &prog);
    assert_int_equal(result == COLLET_SUCCESS, prog != NULL);
    prog_destroy(prog);
    return result;
}

static void no_operand(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .store = OUT(0));
}
static void no_place(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .recv = PEER(prog->rank + 1), .local = IN(0));
}
static void no_length(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .recv = PEER(prog->rank + 1), .send = PEER(prog->rank + 1));
}
static void length_beyond_slices(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .recv = PEER(prog->rank + 1), .length_of = IN(1), .send = PEER(prog->rank + 1));
}
static void block_beyond_slices(struct prog *prog) {
    prog_slices(prog, 2);
    prog_worker(prog);
    prog_step(prog, .local = IN(2), .store = OUT(1));
}
static void store_beyond_slices(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(-1));
}
static void store_to_in(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = IN(0));
}
static void local_too_far_behind(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .local_at = 1, .store = OUT(0));
}
static void self_peer(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = PEER(prog->rank));
}
static void peer_beyond_ranks(struct prog *prog) {
    int ranks[] = {1, 4};
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = LISTED(ranks, 2, 0));
}
static void lane_beyond_lanes(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = PEER_LANE(prog->rank + 1, PROG_LANE_P2P + 1));
}
static void negative_peers(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = {.first = 1, .count = -2});
}
static void local_and_list(struct prog *prog) {
    struct local_operand operands[] = {{0, IN(0)}};
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .local_list = {operands, 1}, .store = OUT(0));
}
static void locals_out_of_order(struct prog *prog) {
    struct local_operand operands[] = {{1, IN(0)}, {0, IN(0)}};
    prog_worker(prog);
    prog_step(prog, .recv = PEER(prog->rank + 1), .local_list = {operands, 2}, .store = OUT(0));
}
static void runs_that_differ(struct prog *prog) {
    prog_slices(prog, 4);
    prog_worker(prog);
    prog_step(prog, .local = IN_RUN(ROW(0, 3)), .store = OUT_RUN(ROW(0, 2)));
}
static void run_longer_than_the_region(struct prog *prog) {
    prog_slices(prog, 4);
    prog_worker(prog);
    prog_step(prog, .local = IN_RUN(ROW(0, 5)), .send = PEER(prog->rank + 1));
}
static void run_without_groups(struct prog *prog) {
    struct run run = {.first = 0, .count = 2, .stride = 1};
    prog_slices(prog, 4);
    prog_worker(prog);
    prog_step(prog, .local = IN_RUN(run), .send = PEER(prog->rank + 1));
}
static void tmp_that_was_not_declared(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .length_of = IN(0), .store = TMP(0));
}
static void tmp_alone_says_no_length(struct prog *prog) {
    prog_tmp(prog, 1);
    prog_worker(prog);
    prog_step(prog, .local = TMP(0), .send = PEER(prog->rank + 1));
}
static void slices_after_steps(struct prog *prog) {
    prog_slices(prog, 2);
    prog_worker(prog);
    prog_step(prog, .local = IN(1), .store = OUT(1));
    prog_slices(prog, 1);
}
static void tmp_after_steps(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(0));
    prog_tmp(prog, 1);
}
static void step_without_worker(struct prog *prog) { prog_step(prog, .local = IN(0), .store = OUT(0)); }
static void no_worker(struct prog *prog) { (void)prog; }
static void idle_worker(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(0));
    prog_worker(prog);
}

static void the_builder_refuses_nonsense_and_says_what_it_is(void **state) {
    (void)state;
    const struct {
        prog_build_fn build_fn;
        const char *says;
    } cases[] = {
        {no_operand, "no operand"},
        {no_place, "no place"},
        {no_length, "how long"},
        {length_beyond_slices, "as long as is out of range"},
        {block_beyond_slices, "local operand is out of range"},
        {store_beyond_slices, "block that is stored is out of range"},
        {store_to_in, "other than OUT and TMP"},
        {local_too_far_behind, "local operand's place"},
        {self_peer, "its own peer"},
        {peer_beyond_ranks, "peer out of range"},
        {lane_beyond_lanes, "lane out of range"},
        {negative_peers, "negative number of peers"},
        {local_and_list, "both alone and as a list"},
        {locals_out_of_order, "not listed in the order of their places"},
        {runs_that_differ, "local operand differs in its number of blocks"},
        {run_longer_than_the_region, "out of range"},
        {run_without_groups, "groups of fewer than one"},
        {tmp_that_was_not_declared, "the block that is stored is out of range"},
        {tmp_alone_says_no_length, "how long"},
        {slices_after_steps, "after the first step"},
        {tmp_after_steps, "after the first step"},
        {step_without_worker, "before the first prog_worker"},
        {no_worker, "no worker"},
        {idle_worker, "worker 1 step 0: a worker without a step"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(build(PROG_ALLREDUCE, cases[i].build_fn, 4, 0), COLLET_ERR_INTERNAL);
        if (strstr(err_last(), cases[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", err_last(), cases[i].says);
    }
}

static void ranks_and_roots_out_of_range_are_refused(void **state) {
    (void)state;
    const struct algorithm *ring = algorithm_find(PROG_ALLREDUCE, "ring");
    struct prog *prog;
    assert_int_equal(algorithm_build(ring, &PROG_FLAT(0), 0, 0, &prog), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(algorithm_build(ring, &PROG_FLAT(4), 4, 0, &prog), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(algorithm_build(ring, &PROG_FLAT(4), -1, 0, &prog), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(algorithm_build(ring, &PROG_FLAT(4), 0, 4, &prog), COLLET_ERR_INVALID_ARGUMENT);
}

static void peers_wrap_around_and_others_leave_out_oneself(void **state) {
    (void)state;
    struct prog *prog = prog_create(PROG_ALLREDUCE, &PROG_FLAT(4), 1, 0);
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = PEER(-1));
    prog_step(prog, .recv = {.first = 0, .count = OTHERS}, .store = OUT(0));
    prog_step(prog, .recv = {.first = 2, .count = OTHERS}, .store = OUT(0));
    prog_step(prog, .recv = PEER(2), .store = OUT(0));
    assert_int_equal(prog_finish(prog), COLLET_SUCCESS);
    int ranks[] = {3, /* all but 1, in order: */ 0, 2, 3, /* from 2 on: */ 2, 3, 0};
    assert_int_equal(prog->npeers, 7);
    for (int i = 0; i < 7; i++)
        assert_int_equal(prog->peers[i].rank, ranks[i]);
    assert_int_equal(prog->peers[prog->steps[3].recv_first].rank, 2); /* the table is shared: there already */
    prog_destroy(prog);
}

static void in_a_pair_the_only_other_is_the_other(void **state) {
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        struct prog *prog = prog_create(PROG_ALLREDUCE, &PROG_FLAT(2), rank, 0);
        prog_worker(prog);
        prog_step(prog, .recv = {.first = 0, .count = OTHERS}, .store = OUT(0));
        assert_int_equal(prog_finish(prog), COLLET_SUCCESS);
        assert_int_equal(prog->peers[0].rank, 1 - rank);
        prog_destroy(prog);
    }
}

/* ---- shapes ---- */

static void a_shape_lists_ranks_node_by_node(void **state) {
    (void)state;
    struct prog_shape shape;
    int node_of[] = {0, 1, 0, 0, 1, 5}, order[] = {0, 2, 3, 1, 4, 5};
    assert_int_equal(prog_shape_init(&shape, 6, node_of, NULL), COLLET_SUCCESS);
    assert_int_equal(shape.nnodes, 3);
    assert_int_equal(shape.node_ranks, 0); /* they differ */
    for (int position = 0; position < 6; position++) {
        assert_int_equal(prog_shape_rank(&shape, position), order[position]);
        assert_int_equal(prog_shape_position(&shape, order[position]), position);
    }
    prog_shape_fini(&shape);
    int round_robin[] = {2, 1, 2, 1};
    assert_int_equal(prog_shape_init(&shape, 4, round_robin, NULL), COLLET_SUCCESS);
    assert_int_equal(shape.nnodes, 2);
    assert_int_equal(shape.node_ranks, 2);
    assert_int_equal(prog_shape_rank(&shape, 1), 2); /* the node of rank 0 comes first, whatever its number */
    prog_shape_fini(&shape);
}

static void a_shape_lists_ranks_along_a_given_order(void **state) {
    (void)state;
    struct prog_shape shape;
    int node_of[] = {0, 1, 0, 0, 1, 5}, along[] = {4, 3, 1, 0, 5, 2},
        order[] = {4, 1, 3, 0, 2, 5}; /* 4 1 | 3 0 2 | 5 */
    assert_int_equal(prog_shape_init(&shape, 6, node_of, along), COLLET_SUCCESS);
    for (int position = 0; position < 6; position++)
        assert_int_equal(prog_shape_rank(&shape, position), order[position]);
    struct prog_span span = prog_shape_span(&shape, 3);
    assert_int_equal(span.node, 1);
    assert_int_equal(span.first, 2);
    assert_int_equal(span.count, 3);
    shape.zigzag = true; /* 4 1 | 2 0 3 | 5 */
    struct prog *prog = prog_create(PROG_ALLREDUCE, &shape, 1, 0);
    assert_int_equal(prog_after(prog, 1), 2);
    assert_int_equal(prog_after(prog, 3), 3);
    assert_int_equal(prog_after(prog, -2), 5);
    prog_destroy(prog);
    prog_shape_fini(&shape);
}

static void a_shape_of_nonsense_is_refused(void **state) {
    (void)state;
    struct prog_shape shape;
    assert_int_equal(prog_shape_init(&shape, 2, (int[]){0, 0}, (int[]){1, 1}), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(prog_shape_init(&shape, 2, (int[]){0, 0}, (int[]){0, 2}), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(prog_shape_init(&shape, 0, NULL, NULL), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(prog_shape_init(&shape, 2, (int[]){0, 2}, NULL), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(prog_shape_init(&shape, 2, (int[]){-1, 0}, NULL), COLLET_ERR_INVALID_ARGUMENT);
}

static void distances_follow_the_shape_and_wrap_around(void **state) {
    (void)state;
    struct prog_shape shape;
    assert_int_equal(prog_shape_init(&shape, 6, (int[]){0, 1, 0, 0, 1, 5}, NULL), COLLET_SUCCESS);
    struct prog *prog = prog_create(PROG_BROADCAST, &shape, 3, 4); /* order: 0 2 3 | 1 4 | 5 */
    int after[] = {3, 1, 4, 5, 0, 2};
    for (int k = 0; k < 6; k++) {
        assert_int_equal(prog_after(prog, k), after[k]);
        assert_int_equal(prog_after(prog, k - 12), after[k]);
    }
    assert_int_equal(prog_behind_root(prog), 4);
    prog_destroy(prog);
    prog_shape_fini(&shape);
}

static bool on_two_nodes(const struct prog_shape *shape) { return shape->nnodes == 2; }

static void a_shape_that_an_algorithm_does_not_take_is_refused(void **state) {
    (void)state;
    struct algorithm algorithm = {
        .name = "choosy", .build = step_without_worker, .applies = on_two_nodes, .where = "pairs"};
    struct prog *prog = NULL;
    assert_int_equal(algorithm_build(&algorithm, &PROG_FLAT(4), 0, 0, &prog), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "choosy takes pairs, not 4 ranks on 1 node(s), each of 4 rank(s)"));
    assert_null(prog);
}

/* ---- runs of blocks ---- */

static void expect_run(struct block_run run, int count, int nblocks, const int *blocks) {
    for (int i = 0; i < count; i++)
        assert_int_equal(geometry_block(&run, (uint32_t)i, (uint32_t)nblocks), blocks[i]);
}

static void runs_go_in_groups_backwards_and_around(void **state) {
    (void)state;
    expect_run((struct block_run){4, 1, 1}, 3, 9, (int[]){4, 5, 6});
    expect_run((struct block_run){4, 1, 1}, 4, 6, (int[]){4, 5, 0, 1});
    expect_run((struct block_run){4, 0, 4}, 4, 6, (int[]){4, 5, 0, 1});
    expect_run((struct block_run){2, 4, 2}, 5, 12, (int[]){2, 3, 6, 7, 10});
    expect_run((struct block_run){2, -1, 1}, 5, 5, (int[]){2, 1, 0, 4, 3});
    expect_run((struct block_run){5, -3, 2}, 6, 8, (int[]){5, 6, 2, 3, 7, 0});
}

static void blocks_may_have_extents_of_their_own(void **state) {
    (void)state;
    const struct span extents[] = {{100, 7}, {0, 0}, {7, 50}, {300, 1000}};
    for (uint32_t nchannels = 1; nchannels <= 3; nchannels++)
        for (uint32_t block = 0; block < 4; block++) {
            uint64_t next = extents[block].first, most = 0;
            for (uint32_t channel = 0; channel < nchannels; channel++) {
                struct geometry g = geometry_of_extents(1000, 32, channel, nchannels);
                most = g.nrounds > most ? g.nrounds : most;
                for (uint64_t round = 0; round < g.nrounds; round++) {
                    struct span piece = geometry_piece_of(&g, extents[block], round);
                    assert_in_range(piece.count, 0, 32);
                    if (piece.count > 0)
                        assert_int_equal(piece.first, next);
                    next += piece.count;
                }
            }
            assert_int_equal(next, extents[block].first + extents[block].count); /* all of it, in order */
            assert_in_range(most, 1000 / nchannels / 32, 1000 / 32 + 1);
        }
}

static void pieces_in_a_slot_begin_at_units(void **state) {
    (void)state;
    assert_int_equal(geometry_padded(0, 16), 0);
    assert_int_equal(geometry_padded(1, 16), 16);
    assert_int_equal(geometry_padded(121, 120), 240);
    assert_int_equal(geometry_room(4096, 1, 16), 4096);
    assert_int_equal(geometry_room(4096, 3, 16), 1360);
    assert_int_equal(geometry_room(4096, 32, 120), 120);
    assert_int_equal(geometry_room(4096, 64, 120), 0);
}

/* ---- the printer ---- */

/* To be freed. */
static char *printed(const struct algorithm *algorithm, int nranks, int root) {
    char *text = NULL;
    size_t bytes = 0;
    struct cast cast;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(cast_create(algorithm, &PROG_FLAT(nranks), root, &cast), COLLET_SUCCESS);
    assert_int_equal(show_steps(&cast, (struct show_cells){false, false}, out), COLLET_SUCCESS);
    cast_destroy(&cast);
    fclose(out);
    return text;
}

static void swap_two_at_once(struct prog *prog) {
    prog_slices(prog, 4);
    prog_worker(prog);
    prog_step(prog, .local = IN_RUN(ROW(0, 2)), .send = PEER(1 - prog->rank));
    prog_step(prog, .recv = PEER(1 - prog->rank), .local = IN_RUN(ROW(0, 2)), .finish = true,
              .store = OUT_RUN(ROW(0, 2)));
}

static void a_run_is_printed_in_short(void **state) {
    (void)state;
    char *text =
        printed(&(struct algorithm){.name = "test", .collective = PROG_ALLREDUCE, .build = swap_two_at_once}, 2, 0);
    assert_non_null(strstr(text, "   1   R+!. 0,1  R+!. 0,1\n"));
    free(text);
}

static void the_ring_of_four_prints_as_documented(void **state) {
    (void)state;
    char *text = printed(algorithm_find(PROG_ALLREDUCE, "ring"), 4, 0);
    assert_string_equal(text, "step   rank0   rank1   rank2   rank3\n"
                              "   0   ...S 3  ...S 0  ...S 1  ...S 2\n"
                              "   1   R+.S 2  R+.S 3  R+.S 0  R+.S 1\n"
                              "   2   R+.S 1  R+.S 2  R+.S 3  R+.S 0\n"
                              "   3   R+!S 0  R+!S 1  R+!S 2  R+!S 3\n"
                              "   4   R.!S 3  R.!S 0  R.!S 1  R.!S 2\n"
                              "   5   R.!S 2  R.!S 3  R.!S 0  R.!S 1\n"
                              "   6   R.!. 1  R.!. 2  R.!. 3  R.!. 0\n"
                              "\n"
                              "totals             sends  reduces   stores  connections   in one round\n"
                              "ranks 0-3              6        3        4            2\n");
    free(text);
}

static void workers_are_printed_one_by_one(void **state) {
    (void)state;
    char *text = printed(algorithm_find(PROG_ALLREDUCE, "tree"), 3, 0);
    assert_string_equal(text, "worker 0\n"
                              "step   rank0   rank1   rank2\n"
                              "   0   ...S 0  R+!S 0  ...S 0\n"
                              "\n"
                              "worker 1\n"
                              "step   rank0   rank1   rank2\n"
                              "   0   ...S 1  ...S 1  R+!S 1\n"
                              "\n"
                              "worker 2\n"
                              "step   rank0   rank1   rank2\n"
                              "   0   R.!. 0  R.!. 1  R.!. 0\n"
                              "\n"
                              "worker 3\n"
                              "step   rank0   rank1   rank2\n"
                              "   0   R.!. 1\n"
                              "\n"
                              "totals             sends  reduces   stores  connections   in one round\n"
                              "rank 0                 2        0        2            4\n"
                              "ranks 1-2              3        2        2            6\n");
    free(text);
}

static void a_send_prints_both_ends(void **state) {
    (void)state;
    char *text = printed(algorithm_find(PROG_SEND, "direct"), 12, 4);
    assert_non_null(strstr(text, "step   rank5   rank4\n   0   ...S 0  R.!. 0\n"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_builder_refuses_nonsense_and_says_what_it_is),
        cmocka_unit_test(ranks_and_roots_out_of_range_are_refused),
        cmocka_unit_test(peers_wrap_around_and_others_leave_out_oneself),
        cmocka_unit_test(in_a_pair_the_only_other_is_the_other),
        cmocka_unit_test(a_shape_lists_ranks_node_by_node),
        cmocka_unit_test(a_shape_lists_ranks_along_a_given_order),
        cmocka_unit_test(a_shape_of_nonsense_is_refused),
        cmocka_unit_test(distances_follow_the_shape_and_wrap_around),
        cmocka_unit_test(a_shape_that_an_algorithm_does_not_take_is_refused),
        cmocka_unit_test(runs_go_in_groups_backwards_and_around),
        cmocka_unit_test(blocks_may_have_extents_of_their_own),
        cmocka_unit_test(pieces_in_a_slot_begin_at_units),
        cmocka_unit_test(a_run_is_printed_in_short),
        cmocka_unit_test(the_ring_of_four_prints_as_documented),
        cmocka_unit_test(workers_are_printed_one_by_one),
        cmocka_unit_test(a_send_prints_both_ends),
    };
    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
