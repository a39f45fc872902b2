/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning files: what is written can be read, mistakes are named by their line, and what rank 0 reads all ranks follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/comm.h"
#include "base/err.h"
#include "common/ranks.h"
#include "layers/tuner/costs_file.h"
#include "layers/tuner/tuner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/collet-tuner-XXXXXX";

static void write_file(const char *text) {
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

/* With these constants LL costs nothing per byte. So it wins where otherwise Simple wins. */
static const char cheap_ll[] = "# cheap LL\nmemory.LL.byte 0 ns/byte\n\n  memory.LL.step\t1 ns # a comment\n"
                               "memory.LL.peer 1 ns\nmemory.LL.alpha 1 ns\n";
#define MEGABYTE (1u << 20)

/* ---- the file ---- */

static void what_is_written_is_read_back(void **state) {
    (void)state;
    struct cost_table costs = costs_default, back = costs_default;
    int k = 1;
    for (int class = 0; class < LINK_CLASS_COUNT; class ++)
        for (int p = 0; p < COSTS_PROTOCOLS; p++, k += 6)
            costs.step[class][p] = (struct step_cost){k, k + 1, k + 2, k + 3, k + 4.5, k + 5};
    costs.host = (struct host_speed){1, 2, 3, 4, 5, 6, 7, 8, 9};
    costs.switch_ns = 1001;
    costs.turns_share = 0.125;
    costs.gpu_call_ns = 1002;
    costs.gpu_block_ns = 1003;
    costs.gpu_blocks = 7;
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    costs_print(&costs, "", out);
    fclose(out);
    assert_int_equal(costs_read(path, &back), COLLET_SUCCESS);
    for (int class = 0; class < LINK_CLASS_COUNT; class ++)
        for (int p = 0; p < COSTS_PROTOCOLS; p++)
            if (class != LINK_MEMORY_MEASURED) /* follows from the host's speed (layers/tuner/host.h) */
                assert_memory_equal(&back.step[class][p], &costs.step[class][p], sizeof costs.step[class][p]);
    assert_memory_equal(&back.host, &costs.host, sizeof costs.host);
    assert_true(back.switch_ns == costs.switch_ns && back.turns_share == costs.turns_share);
    assert_true(back.gpu_call_ns == costs.gpu_call_ns && back.gpu_block_ns == costs.gpu_block_ns);
    assert_int_equal(back.gpu_blocks, costs.gpu_blocks);
}

static void what_a_file_does_not_name_keeps_its_default(void **state) {
    (void)state;
    struct cost_table costs = costs_default;
    write_file(cheap_ll);
    assert_int_equal(costs_read(path, &costs), COLLET_SUCCESS);
    assert_true(costs.step[LINK_MEMORY][PROTOCOL_LL].byte_ns == 0);
    assert_true(costs.step[LINK_MEMORY][PROTOCOL_LL].step_ns == 1);
    assert_memory_equal(&costs.step[LINK_MEMORY][PROTOCOL_SIMPLE], &costs_default.step[LINK_MEMORY][PROTOCOL_SIMPLE],
                        sizeof(struct step_cost));
    assert_true(costs.switch_ns == costs_default.switch_ns);
}

static void mistakes_are_named_by_their_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *place, *why;
    } cases[] = {
        {"host.switch", ":1:", "expected \"host.switch NUMBER ns\""},
        {"\n\nhost.switch 5\n", ":3:", "expected \"host.switch NUMBER ns\""},
        {"host.switch 5 us\n", ":1:", "expected \"host.switch NUMBER ns\""},
        {"# fine\nhost.swich 5 ns\n", ":2:", "\"host.swich\" is no constant"},
        {"host.switch five ns\n", ":1:", "\"five\": expected a number"},
        {"host.switch 5x ns\n", ":1:", "\"5x\": expected a number"},
        {"host.switch -5 ns\n", ":1:", "\"-5\": expected a number"},
        {"host.switch nan ns\n", ":1:", "\"nan\": expected a number"},
        {"host.switch inf ns\n", ":1:", "\"inf\": expected a number"},
        {"host.switch 5 ns 6\n", ":1:", "something is left"},
        {"host.switch 5 ns\nhost.switch 5 ns\n", ":2:", "a second time"},
        {"gpu.blocks 0 blocks\n", ":1:", "whole number"},
        {"gpu.blocks 1.5 blocks\n", ":1:", "whole number"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct cost_table costs = {.switch_ns = 77};
        write_file(cases[k].text);
        assert_int_equal(costs_read(path, &costs), COLLET_ERR_INVALID_USAGE);
        if (strstr(err_last(), path) == NULL || strstr(err_last(), cases[k].place) == NULL ||
            strstr(err_last(), cases[k].why) == NULL)
            fail_msg("\"%s\" gives \"%s\"", cases[k].text, err_last());
        assert_true(costs.switch_ns == 77);
    }
}

static void a_file_that_is_not_there_is_named(void **state) {
    (void)state;
    struct cost_table costs = costs_default;
    assert_int_equal(costs_read("/nowhere/tuning", &costs), COLLET_ERR_INVALID_USAGE);
    assert_non_null(strstr(err_last(), "COLLET_TUNER_FILE: /nowhere/tuning: cannot be read: No such file"));
}

/* ---- the choice ---- */

static enum protocol chosen(const struct cost_table *costs, enum link_class class) {
    int host_of[2] = {0, 0};
    struct net_path inside[4] = {{.class = LINK_MEMORY}, {.class = class}, {.class = class}, {.class = LINK_MEMORY}};
    struct net net = {.nranks = 2, .nhosts = 1, .nrings = 1, .host_of = host_of, .inside = inside};
    double crowd[2] = {1, 1};
    struct tuner_limits limits = {.nchannels = 1};
    struct prog_shape shape = PROG_FLAT(2);
    struct cost_machine machine = {.costs = costs,
                                   .cast = {SIM_EACH, 1, 2},
                                   .nshapes = 1,
                                   .shapes = &shape,
                                   .whole = &shape,
                                   .net = &net,
                                   .crowd = crowd,
                                   .nslots = 8};
    struct plan_choice choice;
    for (int kind = 0; kind < PROG_CONNECTS_COUNT; kind++)
        limits.sizes_of[kind] = (struct protocol_sizes){131072, 4096, 4096};
    memset(limits.protocol_allowed, true, sizeof limits.protocol_allowed);
    assert_int_equal(tuner_choose(&machine, &limits, PROG_ALLREDUCE, MEGABYTE, 1, &choice), COLLET_SUCCESS);
    return choice.protocol;
}

static void choices_follow_the_file(void **state) {
    (void)state;
    struct cost_table costs = costs_default;
    write_file(cheap_ll);
    assert_int_equal(costs_read(path, &costs), COLLET_SUCCESS);
    assert_int_equal(chosen(&costs, LINK_MEMORY), PROTOCOL_LL);
    assert_int_equal(chosen(&costs_default, LINK_MEMORY), PROTOCOL_SIMPLE);
}

/* What makes LL dear where CPUs are far leaves it cheap where they are near. */
static void near_and_far_have_constants_of_their_own(void **state) {
    (void)state;
    struct cost_table costs = costs_default;
    char text[1024];
    snprintf(text, sizeof text, "%smemory-far.LL.byte 9 ns/byte\n", cheap_ll);
    write_file(text);
    assert_int_equal(costs_read(path, &costs), COLLET_SUCCESS);
    assert_true(costs.step[LINK_MEMORY_FAR][PROTOCOL_LL].byte_ns == 9);
    assert_true(costs.step[LINK_MEMORY][PROTOCOL_LL].byte_ns == 0);
    assert_int_equal(chosen(&costs, LINK_MEMORY), PROTOCOL_LL);
    assert_int_equal(chosen(&costs, LINK_MEMORY_FAR), PROTOCOL_SIMPLE);
}

/* ---- a job ---- */

static void plan_and_run(struct ranks *ranks, int rank) {
    const bool *with_file = ranks->argument;
    if (rank == 0 && *with_file)
        setenv("COLLET_TUNER_FILE", path, 1);
    setenv("COLLET_CPU_DISTANCE", "near", 1); /* whose constants the file has */
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct exec_request request = {
        .collective = PROG_ALLREDUCE, .count = MEGABYTE / 4, .type = COLLET_FLOAT32, .op = COLLET_SUM};
    struct exec_call call = {.program = NULL};
    ranks_try(ranks, rank, plan_get(comm->planner, &request, &call));
    ranks_check(ranks, rank, call.args.protocol == (*with_file ? PROTOCOL_LL : PROTOCOL_SIMPLE));
    float *data = calloc(MEGABYTE / 4, sizeof *data);
    for (size_t k = 0; k < MEGABYTE / 4; k++)
        data[k] = (float)(rank + 1);
    ranks_try(ranks, rank, collet_allreduce(data, data, MEGABYTE / 4, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    ranks_check(ranks, rank, data[0] == 3 && data[MEGABYTE / 4 - 1] == 3);
    free(data);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void a_file_of_rank_0_is_followed_by_all(void **state) {
    (void)state;
    char why[RANKS_TEXT_BYTES];
    write_file(cheap_ll);
    for (int with_file = 0; with_file < 2; with_file++) {
        bool argument = with_file;
        struct ranks_job job = {.processes = 2, .run = plan_and_run, .argument = &argument};
        if (!ranks_run(&job, why))
            fail_msg("%s", why);
    }
}

static void meet_a_bad_file(struct ranks *ranks, int rank) {
    struct collet_comm *comm = NULL;
    if (rank == 0)
        setenv("COLLET_TUNER_FILE", path, 1);
    ranks_new_id(ranks, rank);
    enum collet_result result = collet_comm_init_rank(&comm, ranks->nranks, ranks->id, rank);
    ranks_expect(ranks, rank, result, COLLET_ERR_INVALID_USAGE, "a communicator with a bad file");
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), path) != NULL);
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), ":2:") != NULL);
}

static void a_bad_file_of_rank_0_is_an_error_of_all(void **state) {
    (void)state;
    char why[RANKS_TEXT_BYTES];
    struct ranks_job job = {.processes = 2, .run = meet_a_bad_file};
    write_file("host.switch 5 ns\nnonsense\n");
    if (!ranks_run(&job, why))
        fail_msg("%s", why);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(what_a_file_does_not_name_keeps_its_default),
        cmocka_unit_test(mistakes_are_named_by_their_line),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
        cmocka_unit_test(choices_follow_the_file),
        cmocka_unit_test(near_and_far_have_constants_of_their_own),
        cmocka_unit_test(a_file_of_rank_0_is_followed_by_all),
        cmocka_unit_test(a_bad_file_of_rank_0_is_an_error_of_all),
    };
    int file = mkstemp(path);
    if (file < 0)
        return EXIT_FAILURE;
    close(file);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failures;
}
