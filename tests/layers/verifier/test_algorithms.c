/* SPDX-License-Identifier: Apache-2.0
 *
 * Every registered algorithm, verified for as many shapes as a test has time for.
 */
#include "topo/trees.c"
#include "common/level.h"
#include "program/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- shapes ---- */

/* How ranks are numbered over nodes: node by node, or dealt round like cards; the same listed in any order, as a machine
 * may suggest it; and on nodes of any size. */
enum numbering { BY_NODE, ROUND, SHUFFLED, UNEVEN, NUMBERINGS };

static int node_of(enum numbering numbering, int nnodes, int nranks, int rank) {
    if (numbering == UNEVEN)
        return (int)((unsigned)rank * 2654435761u >> 7) % nnodes;
    return numbering == BY_NODE ? rank / (nranks / nnodes) : rank % nnodes;
}

/* A permutation that looks random and is always the same. */
static void shuffle(int nranks, int *along) {
    unsigned dice = (unsigned)nranks;
    for (int k = 0; k < nranks; k++) {
        dice = dice * 1103515245u + 12345u;
        int at = (int)((dice >> 8) % (unsigned)(k + 1));
        along[k] = along[at];
        along[at] = k;
    }
}

static void list_shuffled(struct prog_shape *shape, int nranks, int nnodes, const int *nodes) {
    int *along = malloc((size_t)nranks * sizeof(*along));
    assert_non_null(along);
    shuffle(nranks, along);
    assert_int_equal(prog_shape_init(shape, nranks, nodes, along), COLLET_SUCCESS);
    shape->zigzag = true;
    shape->chains = (nnodes + nranks) % 2 == 1;
    free(along);
}

/* To be released with prog_shape_fini(). */
static struct prog_shape shape_of(enum numbering numbering, int nnodes, int node_ranks) {
    struct prog_shape shape;
    int nranks = nnodes * node_ranks;
    int *nodes = malloc((size_t)nranks * sizeof(*nodes));
    assert_non_null(nodes);
    for (int rank = 0; rank < nranks; rank++)
        nodes[rank] = node_of(numbering, nnodes, nranks, rank);
    if (numbering == SHUFFLED || (numbering == UNEVEN && node_ranks % 2 == 1))
        list_shuffled(&shape, nranks, nnodes, nodes);
    else
        assert_int_equal(prog_shape_init(&shape, nranks, nodes, NULL), COLLET_SUCCESS);
    free(nodes);
    return shape;
}

/* ---- verifying ---- */

static bool has_root(const struct algorithm *a) { return prog_facts[a->collective].root != PROG_NO_ROOT; }

/* The fast level stays below 25 ranks, and has one sample of more. */
static int most_ranks(int of_all) { return level_now() == LEVEL_FAST && of_all > 24 ? 24 : of_all; }

/* ALGORITHM=allreduce_ring: only this one (scripts/mutants.py). */
static bool takes(const struct algorithm *a, const struct prog_shape *shape) {
    const char *alone = getenv("ALGORITHM");
    char name[64];
    snprintf(name, sizeof(name), "%s_%s", prog_collective_name(a->collective), a->name);
    return (alone == NULL || strcmp(name, alone) == 0) && algorithm_applies(a, shape);
}

/* An algorithm of which steps are made for nodes: nothing else takes its shapes. */
static bool needs_nodes(const struct algorithm *a) { return !algorithm_applies(a, &PROG_FLAT(4)); }

static void verify(const struct algorithm *a, const struct prog_shape *shape, int root, int nslots) {
    char why[512];
    bool in_place_too = prog_facts[a->collective].in_place != PROG_APART;
    for (int in_place = 0; in_place <= in_place_too; in_place++)
        if (!prog_check(a, shape, root, nslots, in_place == 1, why, sizeof(why)))
            fail_msg("%s_%s, %d ranks on %d nodes, root %d, %d slots%s: %s", prog_collective_name(a->collective),
                     a->name, shape->nranks, shape->nnodes, root, nslots, in_place == 1 ? ", in place" : "", why);
}

/* Nothing, if the algorithm does not take the shape. */
static void verify_roots(const struct algorithm *a, const struct prog_shape *shape, int nslots) {
    int n = shape->nranks, roots[] = {0, 1, n / 2, n - 1}, nroots = has_root(a) ? 4 : 1;
    if (!takes(a, shape))
        return;
    for (int i = 0; i < nroots; i++)
        if (roots[i] < n && (i == 0 || roots[i] != roots[i - 1]))
            verify(a, shape, roots[i], nslots);
}

static void every_algorithm_is_right_for_1_to_64_ranks(void **state) {
    (void)state;
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (int nranks = 1; nranks <= most_ranks(64); nranks++)
            verify_roots(a, &PROG_FLAT(nranks), 2);
}

/* At the full level, everything; else every shape for what is made for nodes, and some for the others. */
static bool is_tried(const struct algorithm *a, enum numbering numbering, int nnodes, int node_ranks) {
    if (level_now() == LEVEL_FULL)
        return true;
    int nth = nnodes * 8 + node_ranks;
    if (nnodes * node_ranks > most_ranks(1024))
        return false;
    if (needs_nodes(a))
        return (int)numbering == nth % UNEVEN;
    return (int)numbering == nth % NUMBERINGS && (nnodes * node_ranks <= 24 || nth % 13 == 0);
}

static void every_algorithm_is_right_for_1_to_16_nodes_of_1_to_8_ranks(void **state) {
    (void)state;
    for (int nnodes = 1; nnodes <= 16; nnodes++)
        for (int node_ranks = 1; node_ranks <= 8; node_ranks++)
            for (enum numbering numbering = 0; numbering < NUMBERINGS; numbering++) {
                struct prog_shape shape = shape_of(numbering, nnodes, node_ranks);
                for (const struct algorithm *a = algorithms; a->name != NULL; a++)
                    if (is_tried(a, numbering, nnodes, node_ranks))
                        verify_roots(a, &shape, 2);
                prog_shape_fini(&shape);
            }
}

static void every_algorithm_is_right_with_more_slots(void **state) {
    (void)state;
    int some_nnodes[] = {1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 5}, some_nranks[] = {1, 2, 3, 4, 7, 8, 13, 16, 4, 2, 3};
    int some_nslots[] = {3, 4, 8, 16};
    for (int i = 0; i < 11; i++) {
        struct prog_shape shape = shape_of(BY_NODE, some_nnodes[i], some_nranks[i]);
        for (const struct algorithm *a = algorithms; a->name != NULL; a++)
            for (int k = 0; k < 4; k++)
                verify_roots(a, &shape, some_nslots[k]);
        prog_shape_fini(&shape);
    }
}

static void every_algorithm_is_right_for_samples_up_to_1024_ranks(void **state) {
    (void)state;
    int some_nnodes[] = {10, 16, 51, 64, 2, 8, 128}, some_node_ranks[] = {10, 8, 5, 16, 64, 64, 8};
    const int samples[] = {[LEVEL_FAST] = 1, [LEVEL_NORMAL] = 5, [LEVEL_FULL] = 7};
    for (int i = 0; i < samples[level_now()]; i++) {
        struct prog_shape shape = shape_of(i % 2 == 0 ? ROUND : BY_NODE, some_nnodes[i], some_node_ranks[i]);
        for (const struct algorithm *a = algorithms; a->name != NULL; a++)
            if (takes(a, &shape))
                verify(a, &shape, has_root(a) ? shape.nranks / 3 : 0, 2);
        prog_shape_fini(&shape);
    }
}

/* A ring is a cycle of fused receive-and-send steps: with one slot everybody waits for credit from the next. */
static bool is_ring(const struct algorithm *a, const struct prog_shape *shape) {
    if (strcmp(a->name, "hier") == 0)
        return a->collective == PROG_ALLREDUCE && shape->nnodes > 2;
    return strcmp(a->name, "ring") == 0 && shape->nranks > (a->collective == PROG_ALLREDUCE ? 1 : 2);
}

static void all_but_rings_need_only_one_slot(void **state) {
    (void)state;
    char why[512];
    for (int nnodes = 1; nnodes <= 5; nnodes++)
        for (int node_ranks = 1; node_ranks <= 9; node_ranks++) {
            struct prog_shape shape = shape_of(BY_NODE, nnodes, node_ranks);
            for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
                if (!takes(a, &shape) || (nnodes > 1 && !needs_nodes(a)))
                    continue;
                bool right = prog_check(a, &shape, 0, 1, true, why, sizeof(why)), ring = is_ring(a, &shape);
                if (right == ring)
                    fail_msg("%s_%s, %d nodes of %d ranks, 1 slot: %s", prog_collective_name(a->collective), a->name,
                             nnodes, node_ranks, right ? "verified" : why);
                if (ring)
                    assert_non_null(strstr(why, "deadlock with 1 slot"));
            }
            prog_shape_fini(&shape);
        }
}

/* ---- the registry ---- */

static void the_registry_finds_what_it_lists_and_nothing_else(void **state) {
    (void)state;
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        assert_ptr_equal(algorithm_find(a->collective, a->name), a);
        assert_true(strlen(a->about) > 0 && strlen(a->where) > 0);
    }
    assert_null(algorithm_find(PROG_ALLREDUCE, "chain"));
    assert_null(algorithm_find(PROG_ALLREDUCE, ""));
}

static void expect_refused(const char *name, struct prog_shape shape) {
    struct prog *prog = NULL;
    const struct algorithm *a = algorithm_find(PROG_ALLREDUCE, name);
    assert_int_equal(algorithm_build(a, &shape, 0, 0, &prog), COLLET_ERR_INVALID_ARGUMENT);
    assert_null(prog);
}

static void shapes_that_make_no_sense_are_refused(void **state) {
    (void)state;
    expect_refused("oneshot", PROG_FLAT(65));
    expect_refused("twoshot", PROG_FLAT(257));
    expect_refused("hier", PROG_FLAT(8));                                                      /* one node */
    expect_refused("hier", (struct prog_shape){.nranks = 8, .nnodes = 8, .node_ranks = 1});    /* a rank a node */
    expect_refused("hier", (struct prog_shape){.nranks = 8, .nnodes = 3});                     /* uneven nodes */
    expect_refused("hier", (struct prog_shape){.nranks = 130, .nnodes = 2, .node_ranks = 65}); /* too many rails */
}

/* The last number of ranks that an algorithm takes, and the first that it does not. */
static void limits_of_ranks_are_what_the_list_says(void **state) {
    (void)state;
    const struct {
        enum prog_collective collective;
        const char *name;
        int most;
    } cases[] = {
        {PROG_ALLREDUCE, "oneshot", 64},
        {PROG_ALLREDUCE, "twoshot", 256},
        {PROG_ALLGATHER, "direct", 256},
        {PROG_REDUCESCATTER, "direct", 256},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct algorithm *a = algorithm_find(cases[i].collective, cases[i].name);
        assert_true(algorithm_applies(a, &PROG_FLAT(cases[i].most)));
        assert_false(algorithm_applies(a, &PROG_FLAT(cases[i].most + 1)));
    }
}

/* ---- where the steps lead ---- */

static struct prog *built(enum prog_collective collective, const char *name, const struct prog_shape *shape, int rank) {
    struct prog *prog = NULL;
    assert_int_equal(algorithm_build(algorithm_find(collective, name), shape, rank, 0, &prog), COLLET_SUCCESS);
    return prog;
}

/* Blocks of TMP that steps store; one that is stored twice counts twice. */
static int count_scratch_stored(const struct prog *prog) {
    int nstored = 0;
    for (int s = 0; s < prog->nsteps; s++)
        nstored += prog->steps[s].store_region == STEP_TMP ? prog->steps[s].count : 0;
    return nstored;
}

static void nobody_asks_for_scratch_that_is_never_stored(void **state) {
    (void)state;
    for (int node_ranks = 1; node_ranks <= 5; node_ranks++) {
        struct prog_shape shape = shape_of(BY_NODE, 4, node_ranks);
        for (const struct algorithm *a = algorithms; a->name != NULL; a++)
            for (int rank = 0; rank < shape.nranks && takes(a, &shape); rank++) {
                struct prog *prog = built(a->collective, a->name, &shape, rank);
                if (prog->ntmp > count_scratch_stored(prog))
                    fail_msg("%s_%s, %d ranks, rank %d: %d blocks of TMP, and %d are stored",
                             prog_collective_name(a->collective), a->name, shape.nranks, rank, prog->ntmp,
                             count_scratch_stored(prog));
                prog_destroy(prog);
            }
        prog_shape_fini(&shape);
    }
}

static void a_ring_has_two_peers_however_long_it_is(void **state) {
    (void)state;
    struct prog *prog = built(PROG_ALLREDUCE, "ring", &PROG_FLAT(1000), 7);
    assert_int_equal(prog->npeers, 2);
    assert_int_equal(prog->nsteps, 1999);
    prog_destroy(prog);
}

/* Connections on which a rank sends, to other nodes only if so wanted. */
static int count_send_conns(const struct prog *prog, enum numbering numbering, int nnodes, int rank,
                            bool to_other_nodes) {
    int nconns = 0;
    bool *seen = calloc((size_t)prog->npeers + 1, sizeof(*seen));
    assert_non_null(seen);
    for (int s = 0; s < prog->nsteps; s++)
        for (int i = 0; i < prog->steps[s].send_count; i++)
            seen[prog->steps[s].send_first + i] = true;
    for (int p = 0; p < prog->npeers; p++) {
        struct prog_peer peer = prog->peers[p];
        int n = prog->nranks, here = node_of(numbering, nnodes, n, rank),
            there = node_of(numbering, nnodes, n, peer.rank);
        for (int q = 0; q < p; q++)
            seen[p] = seen[p] && !(seen[q] && prog->peers[q].rank == peer.rank && prog->peers[q].lane == peer.lane);
        nconns += seen[p] && (!to_other_nodes || here != there) ? 1 : 0;
    }
    free(seen);
    return nconns;
}

static int count_crossings(enum prog_collective collective, const char *name, enum numbering numbering, int nnodes,
                           int node_ranks) {
    struct prog_shape shape = shape_of(numbering, nnodes, node_ranks);
    int ncrossings = 0;
    for (int rank = 0; rank < shape.nranks; rank++) {
        struct prog *prog = built(collective, name, &shape, rank);
        ncrossings += count_send_conns(prog, numbering, nnodes, rank, true);
        prog_destroy(prog);
    }
    prog_shape_fini(&shape);
    return ncrossings;
}

static void a_ring_leaves_every_node_once_however_ranks_are_numbered(void **state) {
    (void)state;
    for (enum numbering numbering = 0; numbering < NUMBERINGS; numbering++) {
        assert_int_equal(count_crossings(PROG_ALLREDUCE, "ring", numbering, 5, 7), 5);
        assert_int_equal(count_crossings(PROG_ALLGATHER, "ring", numbering, 5, 7), 5);
        assert_int_equal(count_crossings(PROG_REDUCESCATTER, "ring", numbering, 5, 7), 5);
    }
}

static void a_tree_enters_every_node_once_however_ranks_are_numbered(void **state) {
    (void)state;
    for (enum numbering numbering = 0; numbering < NUMBERINGS; numbering++) {
        assert_int_equal(count_crossings(PROG_ALLREDUCE, "tree", numbering, 5, 7), 2 * 2 * 4); /* trees, up and down */
        assert_int_equal(count_crossings(PROG_BROADCAST, "tree", numbering, 6, 5), 2 * 5);
        assert_int_equal(count_crossings(PROG_REDUCE, "tree", numbering, 6, 5), 2 * 5);
    }
}

static void between_nodes_hierarchies_keep_to_their_rails(void **state) {
    (void)state;
    for (enum numbering numbering = 0; numbering < UNEVEN; numbering++) {
        assert_int_equal(count_crossings(PROG_ALLREDUCE, "hier", numbering, 5, 7), 5 * 7 * 2); /* sums and results */
        assert_int_equal(count_crossings(PROG_ALLTOALL, "hier", numbering, 5, 7), 5 * 7 * 4);
        assert_int_equal(count_crossings(PROG_ALLTOALL, "direct", numbering, 5, 7), 5 * 7 * 28);
    }
}

/* Chunks that a rank sends to other nodes in one round. */
static int count_chunks_to_other_nodes(const struct prog *prog, int nnodes, int rank) {
    int nchunks = 0, n = prog->nranks;
    for (int s = 0; s < prog->nsteps; s++)
        for (int i = 0; i < prog->steps[s].send_count; i++)
            nchunks += node_of(BY_NODE, nnodes, n, prog->peers[prog->steps[s].send_first + i].rank) !=
                       node_of(BY_NODE, nnodes, n, rank);
    return nchunks;
}

static void hierarchies_send_the_least_between_nodes(void **state) {
    (void)state;
    struct prog_shape shape = shape_of(BY_NODE, 4, 8);
    for (int rank = 0; rank < 32; rank++) {
        const struct {
            enum prog_collective collective;
            const char *name;
            int nchunks;
        } cases[] = {
            {PROG_ALLREDUCE, "hier", 2 * 3},    /* of 4 slices of its rail's part: all but one, twice */
            {PROG_ALLGATHER, "pat", 3},         /* blocks of its rail: as many as there are other nodes */
            {PROG_REDUCESCATTER, "pat", 3},     /* and sums */
            {PROG_ALLREDUCE, "halving", 2 * 3}, /* 3 of 32 slices, there and back */
        };
        for (int i = 0; i < 4; i++) {
            struct prog *prog = built(cases[i].collective, cases[i].name, &shape, rank);
            assert_int_equal(count_chunks_to_other_nodes(prog, 4, rank), cases[i].nchunks);
            prog_destroy(prog);
        }
    }
    prog_shape_fini(&shape);
}

static void logarithmic_algorithms_have_logarithmically_many_peers(void **state) {
    (void)state;
    struct prog *prog = built(PROG_ALLGATHER, "pat", &PROG_FLAT(1000), 7);
    assert_int_equal(prog->nworkers, 11);
    assert_int_equal(prog->nsteps, 1000);
    assert_int_equal(count_send_conns(prog, BY_NODE, 1, 7, false), 10 * 11 / 2);
    prog_destroy(prog);
    prog = built(PROG_ALLREDUCE, "halving", &PROG_FLAT(1024), 7);
    assert_int_equal(prog->nworkers, 2 * 10 + 1);
    assert_int_equal(count_send_conns(prog, BY_NODE, 1, 7, false), 10 * 11);
    prog_destroy(prog);
}

static int ceil_log2(int n) {
    int log = 0;
    while (1 << log < n)
        log++;
    return log;
}

static int count_messages(enum prog_collective collective, const char *name, int n, int rank) {
    struct prog *prog = built(collective, name, &PROG_FLAT(n), rank);
    int nmessages = 0;
    for (int s = 0; s < prog->nsteps; s++)
        nmessages += prog->steps[s].send_count;
    prog_destroy(prog);
    return nmessages;
}

/* A block that wraps round the end of a buffer, or blocks with gaps, are one message. */
static void bruck_and_doubling_send_a_message_per_level(void **state) {
    (void)state;
    for (int n = 1; n <= 64; n++)
        for (int rank = 0; rank < n; rank++) {
            assert_int_equal(count_messages(PROG_ALLGATHER, "bruck", n, rank), ceil_log2(n));
            assert_int_equal(count_messages(PROG_ALLTOALL, "bruck", n, rank), ceil_log2(n));
            if (1 << ceil_log2(n) == n)
                assert_int_equal(count_messages(PROG_ALLREDUCE, "doubling", n, rank), ceil_log2(n));
        }
}

/* ---- trees ---- */

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
        cmocka_unit_test(every_algorithm_is_right_for_1_to_16_nodes_of_1_to_8_ranks),
        cmocka_unit_test(every_algorithm_is_right_with_more_slots),
        cmocka_unit_test(every_algorithm_is_right_for_samples_up_to_1024_ranks),
        cmocka_unit_test(all_but_rings_need_only_one_slot),
        cmocka_unit_test(the_registry_finds_what_it_lists_and_nothing_else),
        cmocka_unit_test(shapes_that_make_no_sense_are_refused),
        cmocka_unit_test(limits_of_ranks_are_what_the_list_says),
        cmocka_unit_test(nobody_asks_for_scratch_that_is_never_stored),
        cmocka_unit_test(a_ring_has_two_peers_however_long_it_is),
        cmocka_unit_test(a_ring_leaves_every_node_once_however_ranks_are_numbered),
        cmocka_unit_test(a_tree_enters_every_node_once_however_ranks_are_numbered),
        cmocka_unit_test(between_nodes_hierarchies_keep_to_their_rails),
        cmocka_unit_test(hierarchies_send_the_least_between_nodes),
        cmocka_unit_test(logarithmic_algorithms_have_logarithmically_many_peers),
        cmocka_unit_test(bruck_and_doubling_send_a_message_per_level),
        cmocka_unit_test(trees_span_all_ranks_and_are_shallow),
        cmocka_unit_test(no_rank_is_interior_in_both_trees),
        cmocka_unit_test(trees_below_a_root_span_all_ranks_and_load_none_twice),
        cmocka_unit_test(the_tree_of_eleven_is_the_one_in_the_picture),
    };
    return cmocka_run_group_tests_name("algorithms", tests, NULL, NULL);
}
