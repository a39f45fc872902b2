/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-tune --device on an emulated GPU, with two ranks: every candidate is measured that can be, and constants of
 * GPUs alone are fitted. What the numbers are says nothing about any GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/emulated_gpu.h"
#include "tools/tune/fit.h"
#include "tools/tune/lab.h"

#include <math.h>
#include <string.h>

static struct lab *lab;

static int measure(void **state) {
    (void)state;
    struct lab_options options = {.nranks = 2, .gpus = true, .most_nchannels = 4, .sizes = {64}, .nsizes = 1};
    lab_measure_gpus(&options, &costs_default, 1, &lab);
    return 0;
}

static int forget(void **state) {
    (void)state;
    lab_destroy(lab);
    return 0;
}

static void every_candidate_is_measured_and_predicted(void **state) {
    (void)state;
    int channels[2] = {0, 0};
    for (int k = 0; k < lab->ncandidates; k++) {
        const struct plan_choice *candidate = &lab->candidates[k];
        int count = lab_value(lab, 0, k, LAB_NEAR).count;
        channels[candidate->nchannels > 1]++;
        assert_int_equal(count, 1);
        assert_true(lab_value(lab, 0, k, LAB_NEAR).median > 0);
        assert_true(lab_predict_us(lab, &costs_default, 0, k, LAB_NEAR) > 0);
    }
    assert_true(channels[0] > 0 && channels[1] > 0);
}

static void what_is_fitted_is_of_gpus(void **state) {
    (void)state;
    struct cost_table costs = costs_default;
    double error = fit(&lab, 1, false, &costs);
    assert_true(isfinite(error) && costs_are_sound(&costs));
    assert_memory_not_equal(costs.step[LINK_GPU], costs_default.step[LINK_GPU], sizeof(costs.step[LINK_GPU]));
    for (int class = LINK_MEMORY; class <= LINK_NET; class ++)
        assert_memory_equal(costs.step[class], costs_default.step[class], sizeof(costs.step[class]));
    assert_true(costs.switch_ns == costs_default.switch_ns && costs.turns_share == costs_default.turns_share);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_candidate_is_measured_and_predicted),
        cmocka_unit_test(what_is_fitted_is_of_gpus),
    };
    uint32_t itself = 1;
    emulated_gpu_set(1, &itself, 64); /* two would share one default stream, which GPUs do not */
    gpu_driver_use(&emulated_gpu_driver);
    return cmocka_run_group_tests(tests, measure, forget);
}
