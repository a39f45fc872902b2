/* SPDX-License-Identifier: Apache-2.0
 *
 * What the cost model predicts beside what others have published: `make bench-forecasts` prints the table.
 *
 * The figures are NCCL's, so a row names the algorithm that NCCL took. A row is for the same thing if collet has this
 * algorithm: then the prediction is within 15 % of the figure. Other rows say what differs, and have bounds of their own, so
 * that they are noticed when they move.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "layers/tools/forecast/forecast.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum unit { BUS_GBPS, MICROSECONDS };

#define SAME 0.85, 1.15
#define KI UINT64_C(1024)

static const struct figure {
    const char *what, *machine;
    int nhosts;
    const char *algorithm;
    uint64_t bytes;
    enum unit unit;
    double from, to;     /* published */
    double least, most;  /* the ratio of prediction and figure */
    const char *source;  /* below github.com */
    const char *differs; /* NULL: nothing, it is for the same thing */
} figures[] = {
    {"8 A100, 1 GB", "8 gpu a100 nvswitch", 1, "ring", KI *KI *KI, BUS_GBPS, 230.8, 230.8, SAME,
     "NVIDIA/nccl/issues/583", NULL},
    {"8 H100, 1 GB, without NVLS", "8 gpu h100 nvswitch", 1, "ring", KI *KI *KI, BUS_GBPS, 368.8, 368.8, SAME,
     "NVIDIA/nccl-tests/issues/309", NULL},
    {"8 H100, 1 GB, with NVLS", "8 gpu h100 nvswitch", 1, "nvls", KI *KI *KI, BUS_GBPS, 476, 476, SAME,
     "NVIDIA/nccl-tests/issues/290", NULL},
    {"2 hosts of 8 A100, 8 x 200 Gbit/s, 1 GB", "8 gpu a100 nvswitch : 8 nic 200", 2, "ring", KI *KI *KI, BUS_GBPS, 192,
     192, SAME, "NVIDIA/nccl/issues/812", NULL},
    {"3 hosts of 8 A100, 4 x 200 Gbit/s, 128 MB", "8 gpu a100 nvswitch : 4 nic 200", 3, "ring", 128 * KI *KI, BUS_GBPS,
     96, 96, SAME, "NVIDIA/nccl-tests/issues/119", NULL},
    {"2 hosts of 8 H100, 8 x 400 Gbit/s, 4 GB", "8 gpu h100 nvswitch : 8 nic 400", 2, "ring", 4 * KI *KI *KI, BUS_GBPS,
     330, 384, SAME, "NVIDIA/nccl/issues/1221 (330; no page was found again for 384)", NULL},
    {"2 A100, 32 bytes", "2 gpu a100 nvswitch", 1, "ring", 32, MICROSECONDS, 10.1, 10.1, SAME, "NVIDIA/nccl/issues/583",
     NULL},
    {"2 hosts of 8 GPUs, 8 bytes", "8 gpu h100 nvswitch : 8 nic 400", 2, "tree", 8, MICROSECONDS, 47, 51, 0.85, 1.15,
     "NVIDIA/nccl/issues/1244", "H20, and inside hosts the switches add up (NVLSTree)"},
    {"2 hosts of 8 A100, 8 bytes, ring", "8 gpu a100 nvswitch : 8 nic 200", 2, "ring", 8, MICROSECONDS, 93.1, 93.1,
     SAME, "NVIDIA/nccl/issues/812", NULL},
};

static const struct algorithm *algorithm_called(const char *name) {
    for (int k = 0; algorithms[k].name != NULL; k++)
        if (strcmp(algorithms[k].name, name) == 0 && algorithms[k].collective == PROG_ALLREDUCE)
            return &algorithms[k];
    fail_msg("there is no algorithm %s", name);
    return NULL;
}

static double predicted_ns(const struct figure *figure) {
    struct topo *host, *topo;
    struct forecast_job *job;
    struct forecast_stage *stage;
    struct forecast best;
    if (topo_synthetic(figure->machine, &host) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
    assert_int_equal(topo_repeat(host, figure->nhosts > 1 ? 2 : 1, &topo), COLLET_SUCCESS);
    assert_int_equal(forecast_open(topo, figure->nhosts, 0, &job), COLLET_SUCCESS);
    const struct algorithm *algorithm = algorithm_called(figure->algorithm);
    job->limits.algorithm_named[algorithm - algorithms] = true;
    assert_int_equal(forecast_stage_open(job, algorithm, &stage), COLLET_SUCCESS);
    assert_int_equal(forecast_best(stage, figure->bytes, &best), COLLET_SUCCESS);
    forecast_stage_close(stage);
    int nranks = job->nranks;
    forecast_close(job);
    topo_destroy(topo);
    topo_destroy(host);
    return figure->unit == MICROSECONDS ? best.choice.predicted_ns
                                        : best.choice.predicted_ns * nranks / (2.0 * (nranks - 1));
}

static void forecasts_are_near_published_figures(void **state) {
    (void)state;
    int wrong = 0;
    printf("allreduce                                    published      predicted   ratio  source, and what differs\n");
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const struct figure *f = &figures[i];
        double ns = predicted_ns(f), predicted = f->unit == MICROSECONDS ? ns / 1000 : (double)f->bytes / ns;
        double near = fmin(fmax(predicted, f->from), f->to), ratio = predicted / near;
        char published[32];
        snprintf(published, sizeof published, f->to > f->from ? "%.4g-%.4g" : "%.4g", f->from, f->to);
        printf("%-42s %11s %9.1f %s  %5.2f  %s%s%s\n", f->what, published, predicted,
               f->unit == MICROSECONDS ? "us  " : "GB/s", ratio, f->source, f->differs != NULL ? ": " : "",
               f->differs != NULL ? f->differs : "");
        wrong += !(ratio >= f->least && ratio <= f->most);
    }
    assert_int_equal(wrong, 0);
}

/* Of an allreduce, as a communicator would choose it whose window switches know. */
static const char *chosen_by_switches(const char *machine, uint64_t bytes) {
    struct topo *topo;
    struct forecast_job *job;
    struct plan_choice choice = {.algorithm = NULL};
    assert_int_equal(topo_synthetic(machine, &topo), COLLET_SUCCESS);
    assert_int_equal(forecast_open(topo, 1, 0, &job), COLLET_SUCCESS);
    job->limits.switches = true;
    assert_int_equal(tuner_choose(&job->machine, &job->limits, PROG_ALLREDUCE, bytes, 1, &choice), COLLET_SUCCESS);
    forecast_close(job);
    topo_destroy(topo);
    return choice.algorithm->name;
}

static void switches_win_large_sums_of_gpus_that_have_them(void **state) {
    (void)state;
    assert_string_equal(chosen_by_switches("8 gpu h100 nvswitch", KI * KI * KI), "nvls");
    assert_string_equal(chosen_by_switches("8 gpu b200 nvswitch", KI * KI * KI), "nvls");
    assert_string_not_equal(chosen_by_switches("8 gpu h100 nvswitch", 64 * KI), "nvls");
    assert_string_not_equal(chosen_by_switches("2 gpu h100 nvswitch", KI * KI * KI), "nvls"); /* 1.5 S, not S */
    assert_string_not_equal(chosen_by_switches("8 gpu a100 nvswitch", KI * KI * KI), "nvls");
    assert_string_not_equal(chosen_by_switches("8 gpu h100 mesh", KI * KI * KI), "nvls");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forecasts_are_near_published_figures),
                                       cmocka_unit_test(switches_win_large_sums_of_gpus_that_have_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
