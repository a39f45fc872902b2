/* SPDX-License-Identifier: Apache-2.0
 *
 * Several ranks on one GPU: whatever is planned, the blocks of all of them find room there at once, for ranks that are launched one
 * by one wait for each other. Counted in the programs themselves, on an emulated GPU that runs 132, 66 or 16 blocks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/coll.h"
#include "api/comm.h"
#include "base/err.h"
#include "common/emulated_gpu.h"
#include "common/whole.h"
#include "layers/tuner/cards.h"
#include "plan/plan.h"
#include "topo/probe/chart.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 8 };

static struct collet_comm *comms[RANKS_MAX];

/* Dealt to so many GPUs in turn. */
static void open_ranks_on(int ngpus, int n, uint32_t resident) {
    int devices[RANKS_MAX];
    uint32_t each_other[RANKS_MAX];
    for (int gpu = 0; gpu < ngpus; gpu++)
        each_other[gpu] = (1u << ngpus) - 1;
    emulated_gpu_set(ngpus, each_other, resident);
    for (int rank = 0; rank < n; rank++)
        devices[rank] = COLLET_DEVICE_CUDA(rank % ngpus);
    if (collet_comm_init_all(comms, n, devices) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
}

static void open_ranks(int n, uint32_t resident) { open_ranks_on(1, n, resident); }

static void close_ranks(int n) {
    for (int rank = 0; rank < n; rank++)
        assert_int_equal(collet_comm_destroy(comms[rank]), COLLET_SUCCESS);
}

/* Of all ranks, for each channel. */
static uint32_t blocks_of(const struct algorithm *algorithm, int n) {
    int node[RANKS_MAX] = {0};
    struct prog_shape shape;
    uint32_t blocks = 0;
    assert_int_equal(prog_shape_init(&shape, n, node, NULL), COLLET_SUCCESS);
    for (int rank = 0; rank < n; rank++) {
        struct prog *prog;
        assert_int_equal(algorithm_build(algorithm, &shape, rank, 0, &prog), COLLET_SUCCESS);
        blocks += (uint32_t)prog->nworkers;
        prog_destroy(prog);
    }
    prog_shape_fini(&shape);
    return blocks;
}

/* A rank may be in both ends of a message at a time. */
static uint32_t blocks_of_call(enum prog_collective collective, const struct plan_choice *choice, int n) {
    if (prog_is_p2p(collective))
        return 2 * (uint32_t)n * (uint32_t)choice->nchannels;
    return blocks_of(choice->algorithm, n) * (uint32_t)choice->nchannels;
}

/* Of whichever algorithm takes fewest. */
static uint32_t fewest_blocks(enum prog_collective collective, int n) {
    int node[RANKS_MAX] = {0};
    struct prog_shape shape;
    uint32_t fewest = UINT32_MAX;
    assert_int_equal(prog_shape_init(&shape, n, node, NULL), COLLET_SUCCESS);
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        if (a->collective == collective && algorithm_applies(a, &shape) && blocks_of(a, n) < fewest)
            fewest = blocks_of(a, n);
    prog_shape_fini(&shape);
    return prog_is_p2p(collective) ? 2 * (uint32_t)n : fewest;
}

/* No plan: the error has the numbers, and says what to do. */
static void refusal_has_a_reason(enum prog_collective collective, int n, uint32_t resident) {
    char blocks[64], ranks[64];
    assert_true(fewest_blocks(collective, n) > resident);
    snprintf(blocks, sizeof blocks, "the GPU runs %u;", resident);
    snprintf(ranks, sizeof ranks, "%d ranks are on one GPU", n);
    assert_non_null(strstr(err_last(), blocks));
    assert_non_null(strstr(err_last(), ranks));
    assert_non_null(strstr(err_last(), "put fewer ranks on it"));
}

static void check(enum prog_collective collective, uint64_t bytes, int n, uint32_t resident) {
    struct exec_request request = {.collective = collective, .type = COLLET_INT8, .root = 0};
    struct plan_choice choice;
    request.count = prog_is_sliced(collective) ? bytes : (bytes + (uint64_t)n - 1) / (uint64_t)n;
    if (prog_is_p2p(collective) && n == 1)
        return;
    enum collet_result result = comm_choose(comms[n - 1], &request, &choice);
    if (result == COLLET_ERR_UNSUPPORTED) {
        refusal_has_a_reason(collective, n, resident);
        return;
    }
    if (result != COLLET_SUCCESS)
        fail_msg("%s of %d ranks: %s", prog_collective_name(collective), n, err_last());
    uint32_t blocks = blocks_of_call(collective, &choice, n);
    if (blocks > resident)
        fail_msg("%s of %llu bytes, %d ranks: %s with %d channels takes %u blocks, of which %u run at once",
                 prog_collective_name(collective), (unsigned long long)bytes, n, choice.algorithm->name,
                 choice.nchannels, blocks, resident);
}

/* From 8 bytes to 1 GB. */
static void check_sizes(enum prog_collective collective, int n, uint32_t resident) {
    if (prog_is_bare(collective) || prog_is_pairwise(collective)) {
        check(collective, 8, n, resident);
        return;
    }
    for (uint64_t bytes = 8; bytes <= UINT64_C(1) << 30; bytes *= 2)
        check(collective, bytes, n, resident);
}

static void check_all(uint32_t resident) {
    for (int n = 1; n <= RANKS_MAX; n++) {
        open_ranks(n, resident);
        for (int c = 0; c < PROG_COLLECTIVE_COUNT; c++)
            check_sizes((enum prog_collective)c, n, resident);
        close_ranks(n);
    }
}

static void every_plan_has_room_on_132_multiprocessors(void **state) {
    (void)state;
    check_all(132);
}

static void every_plan_has_room_on_66(void **state) {
    (void)state;
    check_all(66);
}

static void every_plan_has_room_on_16(void **state) {
    (void)state;
    check_all(16);
}

/* ---- GPUs that differ ---- */

static struct gpu_streams uneven_streams;
static struct gpu_driver uneven;

static uint32_t fewer_on_the_second(int ordinal) { return ordinal == 1 ? 16 : 132; }

/* All ranks know of it, whichever GPU they are on, and come to one plan: half of 8 ranks are on the second GPU. */
static void the_gpu_that_runs_the_fewest_blocks_counts_for_all(void **state) {
    (void)state;
    uneven_streams = *emulated_gpu_driver.streams;
    uneven_streams.resident = fewer_on_the_second;
    uneven = emulated_gpu_driver;
    uneven.streams = &uneven_streams;
    gpu_driver_use(&uneven);
    open_ranks_on(2, 8, 132);
    for (uint64_t bytes = 8; bytes <= UINT64_C(1) << 30; bytes *= 2) {
        struct exec_request request = {.collective = PROG_ALLREDUCE, .count = bytes, .type = COLLET_INT8};
        struct plan_choice first, choice;
        for (int rank = 0; rank < 8; rank++) {
            assert_int_equal(comm_choose(comms[rank], &request, &choice), COLLET_SUCCESS);
            first = rank == 0 ? choice : first;
            assert_true(choice.algorithm == first.algorithm && choice.protocol == first.protocol &&
                        choice.nchannels == first.nchannels && choice.chunk_bytes == first.chunk_bytes);
        }
        assert_true(blocks_of_call(PROG_ALLREDUCE, &choice, 8) / 2 <= 16);
    }
    close_ranks(8);
    gpu_driver_use(&emulated_gpu_driver);
}

/* This card has a file, and another card of its capability has another one. What its driver says of blocks counts, and not what the file says. */
static void constants_of_the_card_reach_all_ranks(void **state) {
    (void)state;
    const struct card_gpu gpu = {"NVIDIA H100 80GB HBM3", 90};
    struct cost_table costs = costs_default;
    assert_int_equal(card_suit(gpu, CARD_KERNELS, &costs), COLLET_SUCCESS);
    assert_true(costs.gpu_memory_gbps > 0 && costs.gpu_call_ns != costs_default.gpu_call_ns);
    emulated_gpu_set_model(gpu.name);
    open_ranks(4, 77);
    for (int rank = 0; rank < 4; rank++) {
        const struct cost_table *have = &chart_of(comms[rank]->map)->costs;
        assert_true(have->gpu_memory_gbps == costs.gpu_memory_gbps && have->gpu_call_ns == costs.gpu_call_ns);
        assert_int_equal(have->gpu_blocks, 77);
    }
    close_ranks(4);
}

/* ---- what the configuration asks for ---- */

static void more_channels_than_find_room_become_fewer(void **state) {
    (void)state;
    setenv("COLLET_NCHANNELS", "64", 1);
    for (int n = 2; n <= RANKS_MAX; n *= 2) {
        open_ranks(n, 132);
        for (int c = 0; c < PROG_COLLECTIVE_COUNT; c++)
            check((enum prog_collective)c, 1 << 20, n, 132);
        close_ranks(n);
    }
    unsetenv("COLLET_NCHANNELS");
}

static void an_algorithm_that_is_asked_for_has_room_or_is_refused(void **state) {
    (void)state;
    struct exec_request request = {.collective = PROG_ALLREDUCE, .count = 1 << 20, .type = COLLET_INT8};
    struct plan_choice choice;
    if (!library_is_whole)
        skip();                          /* halving is of another layer */
    setenv("COLLET_ALGO", "halving", 1); /* 7 blocks of each of 8 ranks */
    open_ranks(8, 132);
    check(PROG_ALLREDUCE, 1 << 20, 8, 132);
    close_ranks(8);
    open_ranks(8, 16);
    assert_int_equal(comm_choose(comms[7], &request, &choice), COLLET_ERR_UNSUPPORTED);
    assert_non_null(strstr(err_last(),
                           "allreduce takes 7 blocks of each rank, and 8 ranks are on one GPU: 56 blocks must "
                           "run side by side, but the GPU runs 16; put fewer ranks on it or name another "
                           "algorithm in COLLET_ALGO"));
    close_ranks(8);
    unsetenv("COLLET_ALGO");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_has_room_on_132_multiprocessors),
        cmocka_unit_test(every_plan_has_room_on_66),
        cmocka_unit_test(every_plan_has_room_on_16),
        cmocka_unit_test(the_gpu_that_runs_the_fewest_blocks_counts_for_all),
        cmocka_unit_test(constants_of_the_card_reach_all_ranks),
        cmocka_unit_test(more_channels_than_find_room_become_fewer),
        cmocka_unit_test(an_algorithm_that_is_asked_for_has_room_or_is_refused),
    };
    gpu_driver_use(&emulated_gpu_driver);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
