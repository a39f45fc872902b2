/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-tune --device on an emulated GPU, with two ranks: every candidate is measured that can be, in one group and in threads, the
 * best-known first, and constants of GPUs alone are fitted. What the numbers are says nothing about any GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/emulated_gpu.h"
#include "base/err.h"
#include "layers/tuner/costs_file.h"
#include "layers/tools/tune/fit.h"
#include "layers/tools/tune/gpu_calls.h"
#include "layers/tools/tune/gpu_file.h"
#include "layers/tools/tune/lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 26 }; /* of the GPU: 13 channels of one block each for 2 ranks, 4 of two-shot's three */

static struct lab *both[2]; /* in one group, in threads */

/* ---- a clock that goes a tenth of a second whenever somebody looks at it ---- */

static uint64_t looked_ns;

static uint64_t look_ns(void) { return looked_ns += 100000000; }

static struct budget endless = {.now_ns = look_ns};

static int measure(void **state) {
    (void)state;
    struct lab_options options = {
        .nranks = 2, .gpus = true, .most_nchannels = 64, .budget = &endless, .sizes = {64}, .nsizes = 1};
    for (int threads = 0; threads < 2; threads++) {
        options.threads = threads;
        lab_measure_gpus(&options, &costs_default, 1, &both[threads]);
    }
    return 0;
}

static int forget(void **state) {
    (void)state;
    lab_destroy(both[0]);
    lab_destroy(both[1]);
    return 0;
}

static void every_candidate_is_measured_and_predicted(void **state) {
    (void)state;
    for (int l = 0; l < 2; l++) {
        assert_int_equal(both[l]->ndone, both[l]->ncandidates);
        for (int k = 0; k < both[l]->ncandidates; k++) {
            assert_int_equal(lab_value(both[l], 0, k, LAB_NEAR).count, 1);
            assert_true(lab_value(both[l], 0, k, LAB_NEAR).median > 0);
            assert_true(lab_predict_us(both[l], &costs_default, 0, k, LAB_NEAR) > 0);
        }
    }
}

static bool is_listed(const char *algorithm, int nchannels) {
    for (int k = 0; k < both[0]->ncandidates; k++)
        if (strcmp(both[0]->candidates[k].algorithm->name, algorithm) == 0 &&
            both[0]->candidates[k].nchannels == nchannels)
            return true;
    return false;
}

static void as_many_channels_are_tried_as_find_room(void **state) {
    (void)state;
    assert_true(is_listed("ring", 1) && is_listed("ring", 4) && is_listed("ring", BLOCKS / 2));
    assert_true(is_listed("twoshot", 1) && is_listed("twoshot", 4));
    assert_false(is_listed("ring", 16) || is_listed("twoshot", 5) || is_listed("twoshot", 16));
    for (int k = 0; k < both[0]->ncandidates; k++)
        assert_int_not_equal(both[0]->candidates[k].protocol, PROTOCOL_LL128); /* nobody would choose it on one GPU */
}

/* Little time: what the model finds best has been measured, and not everything. */
static void what_is_known_best_comes_first(void **state) {
    (void)state;
    struct lab *hasty;
    struct budget none = {.now_ns = look_ns, .began_ns = looked_ns, .seconds = 0.05, .share = 1};
    struct lab_options options = {
        .nranks = 2, .gpus = true, .most_nchannels = 64, .budget = &none, .sizes = {64, 1 << 20}, .nsizes = 2};
    int best = 0;
    lab_measure_gpus(&options, &costs_default, 1, &hasty);
    assert_int_equal(hasty->ndone, 0);
    lab_destroy(hasty);
    options.budget = &endless;
    options.most_done = 1;
    lab_measure_gpus(&options, &costs_default, 1, &hasty);
    assert_int_equal(hasty->ndone, 1);
    for (int k = 0; k < hasty->ncandidates; k++)
        if (lab_predict_us(hasty, &costs_default, 0, k, LAB_NEAR) <
            lab_predict_us(hasty, &costs_default, 0, best, LAB_NEAR))
            best = k;
    assert_int_equal(lab_value(hasty, 0, best, LAB_NEAR).count, 1);
    lab_destroy(hasty);
}

static bool has_lines(const char *text, const char *line, const char *next) {
    const char *at = strstr(text, line);
    return at != NULL && strstr(at, next) != NULL;
}

/* Two stages and the fit have 4, 8 and 9.5 of 10 seconds. None begins anything when its time is over, so each is over by a look or two. */
static void a_run_keeps_to_its_time_and_tells_what_it_does(void **state) {
    (void)state;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct budget budget = {.now_ns = look_ns, .began_ns = looked_ns, .seconds = 10, .out = out};
    struct lab_options options = {
        .nranks = 2, .gpus = true, .most_nchannels = 64, .budget = &budget, .sizes = {8, 64, 512, 4096}, .nsizes = 4};
    struct lab *labs[2];
    struct cost_table costs = costs_default;
    for (int threads = 0; threads < 2; threads++) {
        options.threads = threads;
        budget.share = 0.4 * (threads + 1);
        lab_measure_gpus(&options, &costs_default, 5, &labs[threads]);
        assert_in_range(looked_ns - budget.began_ns, 4000000000 * (threads + 1),
                        4000000000 * (threads + 1) + 500000000);
        assert_in_range(labs[threads]->ndone, 1, labs[threads]->ncandidates - 1);
    }
    budget.share = 0.95;
    assert_true(isfinite(fit(labs, 2, false, &budget, &costs)));
    assert_in_range(looked_ns - budget.began_ns, 9500000000, 9800000000);
    fclose(out);
    assert_true(has_lines(text, "2 ranks, group: ", "2 ranks, threads: ") &&
                has_lines(text, "threads", "fit in steps of "));
    free(text);
    lab_destroy(labs[0]);
    lab_destroy(labs[1]);
}

/* Each sample has new threads, with pthread_self() of those that have ended. A rank that took its thread for that of another rank would
 * launch alone; on a GPU such launches may wait for each other in its queues. */
static void threads_launch_together_in_every_sample(void **state) {
    (void)state;
    enum { SAMPLES = 4, CALLS = 5 };
    struct gpu_calls calls = {.driver = gpu_driver(), .nranks = 3, .threads = true};
    gpu_calls_create(&calls, 1, 64);
    assert_true(gpu_calls_open(&calls, &both[0]->candidates[0]));
    for (int k = 0; k < SAMPLES; k++) {
        uint32_t before = emulated_launches();
        assert_true(gpu_calls_time(&calls, 64, CALLS) > 0);
        assert_int_equal(emulated_launches() - before, CALLS);
    }
    gpu_calls_close(&calls);
    lab_forget_candidates();
    gpu_calls_destroy(&calls);
}

/* A GPU that says, when work is done, that it failed. */
static enum collet_result fails_when_done(void *event) {
    enum collet_result result = emulated_gpu_driver.streams->query(event);
    return result == COLLET_SUCCESS ? err_set(COLLET_ERR_SYSTEM, "this work failed") : result;
}

/* It is told, and what was measured before stays. */
static void a_call_that_fails_ends_the_measuring_alone(void **state) {
    (void)state;
    struct lab *lab;
    struct gpu_streams streams = *emulated_gpu_driver.streams;
    struct gpu_driver driver = emulated_gpu_driver;
    struct lab_options options = {
        .nranks = 2, .gpus = true, .most_nchannels = 64, .budget = &endless, .sizes = {64}, .nsizes = 1};
    streams.query = fails_when_done;
    driver.streams = &streams;
    for (int threads = 0; threads < 2; threads++) {
        options.threads = threads;
        gpu_driver_use(&driver);
        lab_measure_gpus(&options, &costs_default, 1, &lab);
        gpu_driver_use(&emulated_gpu_driver);
        assert_true(lab->failed);
        assert_int_equal(lab->ndone, 0);
        lab_destroy(lab);
    }
}

/* A communicator takes the file, and its rows are there as remarks. */
static void the_file_is_read_again(void **state) {
    (void)state;
    struct cost_table fitted = costs_default, read = costs_default;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fitted.gpu_call_ns = 4321;
    gpu_file_print(both, 2, &costs_default, &fitted, 0.1, out);
    fclose(out);
    if (costs_read_text(text, "the file", &read) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
    assert_true(read.gpu_call_ns == 4321);
    assert_int_equal(strncmp(text, "# measured on ", 14), 0);
    assert_non_null(strstr(text, " threads "));
    assert_null(strstr(text, "gpu-")); /* nothing lies between GPUs here */
    assert_non_null(strstr(text, "# 2 allreduce 64 ring LL 1 4096 "));
    free(text);
}

static void what_is_fitted_is_of_gpus(void **state) {
    (void)state;
    struct cost_table costs = costs_default;
    double error = fit(both, 2, false, &endless, &costs);
    assert_true(isfinite(error) && costs_are_sound(&costs));
    assert_memory_not_equal(costs.step[LINK_GPU], costs_default.step[LINK_GPU], sizeof(costs.step[LINK_GPU]));
    for (int class = LINK_MEMORY; class <= LINK_NET; class ++)
        assert_memory_equal(costs.step[class], costs_default.step[class], sizeof(costs.step[class]));
    assert_true(costs.switch_ns == costs_default.switch_ns && costs.turns_share == costs_default.turns_share);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_candidate_is_measured_and_predicted),
        cmocka_unit_test(as_many_channels_are_tried_as_find_room),
        cmocka_unit_test(what_is_known_best_comes_first),
        cmocka_unit_test(a_run_keeps_to_its_time_and_tells_what_it_does),
        cmocka_unit_test(a_call_that_fails_ends_the_measuring_alone),
        cmocka_unit_test(threads_launch_together_in_every_sample),
        cmocka_unit_test(the_file_is_read_again),
        cmocka_unit_test(what_is_fitted_is_of_gpus),
    };
    uint32_t itself = 1;
    emulated_gpu_set(1, &itself, BLOCKS); /* two would share one default stream, which GPUs do not */
    gpu_driver_use(&emulated_gpu_driver);
    return cmocka_run_group_tests(tests, measure, forget);
}
