/* SPDX-License-Identifier: Apache-2.0
 *
 * The lab on GPUs (gpu_calls.h). A candidate has a communicator of its own, which is closed before the next one takes memory for its
 * connections. The candidates that the model finds best come first: at each size the best one, then at each size the second one …
 *
 *      best at 8 B │ 8 B: calls, calls, … │ 32 B: calls, calls, … │ …      best at 32 B │ …       until all are done, or time is over
 */
#include "layers/tools/tune/lab.h"

#include "base/config_read.h"
#include "base/err.h"
#include "base/os.h"
#include "bench/board.h"
#include "chan/slots.h"
#include "exec/exec.h"
#include "layers/tools/tune/gpu_calls.h"
#include "layers/tuner/model.h"
#include "topo/probe/atlas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_NS 2e6 /* Time that the timed calls of a sample should take together. */
#define SAMPLE_CALLS_MAX 200
#define SIZE_NS 0.3e9 /* Time for all samples of a candidate at one size. */
#define HOPELESS 8.0  /* A candidate is not worth the time if its prediction exceeds the best one by this factor. */

/* Numbers of channels that are tried, besides the largest one for which blocks find room. */
static const int channels_tried[] = {1, 4, 16};

#define CHANNELS (sizeof(channels_tried) / sizeof(*channels_tried))

struct lab_gpu {
    struct lab *lab;
    struct gpu_calls calls;
    double predicted_us[LAB_CANDIDATES_MAX][LAB_SIZES_MAX];
};

static void must(enum collet_result result, const char *what) {
    if (result != COLLET_SUCCESS)
        bench_die("%s: %s", what, err_last());
}

/* ---- the machine, as a communicator of these ranks would see it ---- */

static struct map *map_of(const struct lab_gpu *bench, const struct config *config, const struct cost_table *costs,
                          const struct peer_info *peers) {
    int n = bench->lab->options.nranks;
    const struct topo *topo;
    int32_t place[LAB_RANKS_MAX];
    char *graph;
    void *atlas;
    size_t size;
    struct map *map;
    must(topo_here(config, &topo), "the topology");
    for (int r = 0; r < n; r++) {
        struct topo_whereabouts where = {.rank = r};
        gpu_busid(bench->calls.ordinals[r], where.busid);
        place[r] = topo_locate(topo, &where);
    }
    must(topo_share(topo, n, place, &graph), "the topology");
    struct atlas_node node = {.graph = graph, .graph_bytes = strlen(graph), .nlocal = n, .place = place};
    must(atlas_pack(&node, 1, costs, &atlas, &size), "the map");
    must(chart_create(peers, n, atlas, size, &map), "the map");
    free(graph);
    free(atlas);
    return map;
}

/* Finds the limits as plan/plan.c does. */
static void set_limits(struct lab_gpu *bench, const struct config *config, int count) {
    struct lab *lab = bench->lab;
    int n = lab->options.nranks, blocks = INT32_MAX;
    for (int ordinal = 0; ordinal < count && ordinal < n; ordinal++) {
        int here = (int)bench->calls.driver->streams->resident(ordinal);
        blocks = here < blocks ? here : blocks;
    }
    tuner_limits_of_gpus(config, blocks, (n + count - 1) / count, count > 1 && n > 1, &lab->limits);
}

static void describe_machine(struct lab_gpu *bench, const struct config *config, const struct cost_table *costs) {
    struct lab *lab = bench->lab;
    int n = lab->options.nranks;
    struct peer_info peers[LAB_RANKS_MAX];
    struct gpu_rank gpu = {.driver = bench->calls.driver};
    struct chan chan = {.owner = {.config = config, .peers = peers, .nranks = n, .gpu = &gpu}};
    memset(peers, 0, sizeof(peers));
    for (int r = 0; r < n; r++)
        peers[r] = (struct peer_info){.rank = r, .device = bench->calls.devices[r]};
    chan_layouts(config, &(struct chan_scale){n, n, false, true, false}, chan.owner.layouts);
    lab->map = map_of(bench, config, costs, peers);
    lab->shape = lab->map->shapes[0];
    must(model_create(&chan, config, lab->map, &lab->shape, 1, &lab->model), "the cost model");
    lab->machine[LAB_NEAR] = lab->machine[LAB_FAR] = lab->model->machine;
    must(tuner_limits_read(config, chan.owner.layouts, 1, &lab->limits), "the configuration");
}

/* ---- candidates ---- */

/* Lists the numbers of channels to try: those of channels_tried for which blocks find room, and the largest such number.
 * Returns how many there are. */
static size_t channels_of(const struct lab_gpu *bench, const struct algorithm *algorithm, int channels[CHANNELS + 1]) {
    const struct lab *lab = bench->lab;
    struct cost_stage *stage;
    size_t count = 0;
    must(cost_stage_open(&lab->machine[LAB_NEAR], algorithm, &stage), algorithm->name);
    int fit = tuner_fitting_channels(&lab->limits, stage->nworkers), most = lab->options.most_nchannels;
    cost_stage_close(stage);
    most = fit < most ? fit : most;
    for (size_t k = 0; k < CHANNELS && channels_tried[k] <= most; k++)
        channels[count++] = channels_tried[k];
    if (count > 0 && most > channels[count - 1])
        channels[count++] = most;
    return count;
}

static void list_candidates(struct lab_gpu *bench) {
    int channels[CHANNELS + 1];
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        if (a->collective == PROG_ALLREDUCE && algorithm_applies(a, &bench->lab->shape) &&
            a->order != PROG_SWITCH_ORDER)
            lab_list_algorithm(bench->lab, a, channels, channels_of(bench, a, channels));
}

static void predict_all(struct lab_gpu *bench, const struct cost_table *costs) {
    struct lab *lab = bench->lab;
    for (int k = 0; k < lab->ncandidates; k++)
        for (int size = 0; size < lab->options.nsizes; size++)
            bench->predicted_us[k][size] = lab_predict_us(lab, costs, size, k, LAB_NEAR);
}

/* The candidate that is predicted to be best at this size, of those not done. −1: all are done. */
static int next_at(const struct lab_gpu *bench, const bool *done, int size) {
    int next = -1;
    for (int k = 0; k < bench->lab->ncandidates; k++)
        if (!done[k] && (next < 0 || bench->predicted_us[k][size] < bench->predicted_us[next][size]))
            next = k;
    return next;
}

/* ---- measuring ---- */

static bool time_is_over(const struct lab_gpu *bench) {
    const struct lab *lab = bench->lab;
    return bench->calls.failed || budget_is_over(lab->options.budget) ||
           (lab->options.most_done > 0 && lab->ndone == lab->options.most_done);
}

static bool is_hopeless(const struct lab_gpu *bench, int size, int candidate) {
    double least_us = INFINITY;
    for (int k = 0; k < bench->lab->ncandidates; k++)
        least_us = fmin(least_us, bench->predicted_us[k][size]);
    return bench->predicted_us[candidate][size] > HOPELESS * least_us;
}

static void fill_cell(struct lab_gpu *bench, int size, int candidate) {
    struct lab *lab = bench->lab;
    struct lab_cell *cell = &lab->cells[size][candidate];
    uint64_t bytes = lab->options.sizes[size];
    /* The first call also does what is only done once, such as making connections. */
    double ns = gpu_calls_time(&bench->calls, bytes, 1);
    double until_ns = (double)os_now_ns() + SIZE_NS;
    for (int round = 0; round < lab->rounds && ns > 0; round++) {
        ns = gpu_calls_time(&bench->calls, bytes, (int)fmin(fmax(SAMPLE_NS / ns, 1), SAMPLE_CALLS_MAX));
        if (ns <= 0)
            break;
        cell->us[round] = (float)(ns / 1000);
        cell->class[round] = LAB_NEAR;
        if ((double)os_now_ns() > until_ns || time_is_over(bench))
            break;
    }
}

static void say(const struct lab_gpu *bench, int candidate, int size, bool now) {
    const struct lab *lab = bench->lab;
    const struct plan_choice *choice = &lab->candidates[candidate];
    char name[LAB_NAME_BYTES];
    budget_say(lab->options.budget, now,
               "%d ranks, %s: %d of %d candidates are measured; now %s on %d channels, %llu bytes", lab->options.nranks,
               lab_mode_name(lab), lab->ndone, lab->ncandidates, lab_name(choice, name), choice->nchannels,
               (unsigned long long)lab->options.sizes[size]);
}

static void measure(struct lab_gpu *bench, int candidate) {
    struct lab *lab = bench->lab;
    if (!gpu_calls_open(&bench->calls, &lab->candidates[candidate]))
        return;
    for (int size = 0; size < lab->options.nsizes && !time_is_over(bench); size++)
        if (!is_hopeless(bench, size, candidate)) {
            say(bench, candidate, size, false);
            fill_cell(bench, size, candidate);
            if (bench->calls.failed)
                say(bench, candidate, size, true);
        }
    gpu_calls_close(&bench->calls);
    lab->ndone += !bench->calls.failed;
}

static void measure_best_first(struct lab_gpu *bench) {
    bool done[LAB_CANDIDATES_MAX] = {false};
    for (int k = 0; k < bench->lab->ncandidates && !time_is_over(bench); k++) {
        int next = next_at(bench, done, k % bench->lab->options.nsizes);
        done[next] = true;
        measure(bench, next);
    }
}

/* ---- all of it ---- */

void lab_measure_gpus(const struct lab_options *options, const struct cost_table *costs, int rounds,
                      struct lab **lab_p) {
    struct config config;
    const char *why;
    struct lab_gpu *bench = calloc(1, sizeof(*bench));
    struct lab *lab = calloc(1, sizeof(*lab));
    if (bench == NULL || lab == NULL)
        bench_die("no memory");
    lab_forget_candidates();
    unsetenv("COLLET_NCHANNELS");
    must(config_read(&config), "the configuration");
    *lab = (struct lab){.options = *options, .rounds = rounds};
    lab_forget_samples(lab);
    bench->lab = lab;
    bench->calls = (struct gpu_calls){.driver = gpu_driver(), .nranks = options->nranks, .threads = options->threads};
    int count = bench->calls.driver->count(&why);
    gpu_calls_create(&bench->calls, count, options->sizes[options->nsizes - 1]);
    describe_machine(bench, &config, costs);
    set_limits(bench, &config, count);
    list_candidates(bench);
    predict_all(bench, costs);
    measure_best_first(bench);
    lab_forget_candidates();
    lab->failed = bench->calls.failed;
    gpu_calls_destroy(&bench->calls);
    free(bench);
    *lab_p = lab;
}
