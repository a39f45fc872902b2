/* SPDX-License-Identifier: Apache-2.0
 *
 * What is chosen, beside other numbers of channels and beside limits: an empty kernel, a copy, and one kernel that reads all inputs
 * once and writes all outputs once, which is the least that ranks on one GPU can do. All in graphs, so it is time on the GPU.
 *
 * It fails where what was chosen takes more than twice, or less than half, of what was predicted.
 */
#include "gpu/accept_kernels.h"
#include "gpu/accept_sums.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_FACTOR 2
#define MOST_CHANNELS 64 /* that a call may have */

static const size_t all_bytes[] = {8, 4096, 65536, 1u << 20, 4u << 20, 16u << 20, 64u << 20, 256u << 20};
static const size_t few_bytes[] = {8, 4096};
#define SIZES (slow ? 2 : 8)

static size_t bytes_of(int size) { return slow ? few_bytes[size] : all_bytes[size]; }
static int calls_for(int size) { return slow ? 2 : size < 5 ? 10 : 3; }
static int replays_for(int size) { return slow ? 1 : size < 4 ? 20 : 3; }

/* What is timed: a call, or a limit. */
struct timed {
    struct sums *sums;
    size_t elems;
};

static double time_of(void (*enqueue)(void *timed), struct sums *s, int size) {
    struct timed timed = {s, bytes_of(size) / sizeof(float)};
    return time_in_graph(s->streams[0], enqueue, &timed, calls_for(size), replays_for(size));
}

/* All in the first rank's stream, while others are filled and checked in their own. */
static bool is_right(struct sums *s, int size, void (*enqueue)(void *timed), char why[TRIAL_WHY_BYTES]) {
    struct timed timed = {s, bytes_of(size) / sizeof(float)};
    sums_fill(s, timed.elems);
    sums_wait(s);
    enqueue(&timed);
    sums_wait(s);
    return sums_are_right(s, timed.elems, why);
}

/* ---- limits ---- */

static void enqueue_empty(void *timed_) {
    const struct timed *timed = timed_;
    kernels->empty(timed->sums->streams[0]);
}

static void enqueue_copy(void *timed_) {
    const struct timed *timed = timed_;
    kernels->copy(timed->sums->out[0], timed->sums->in[0], timed->elems * sizeof(float), timed->sums->streams[0]);
}

static void enqueue_fused(void *timed_) {
    const struct timed *timed = timed_;
    struct fused_buffers buffers = {.nranks = timed->sums->nranks, .count = timed->elems};
    for (int rank = 0; rank < buffers.nranks; rank++) {
        buffers.in[rank] = timed->sums->in[rank];
        buffers.out[rank] = timed->sums->out[rank];
    }
    kernels->fused(&buffers, timed->sums->streams[0]);
}

static void time_limits(struct sums *s, double *limits_us) {
    const double empty_us = time_of(enqueue_empty, s, 0);
    char why[TRIAL_WHY_BYTES] = "";
    report_figure(&(struct figure){"limits", "empty", "a kernel that does nothing", s->nranks, 0, 0, empty_us, 0});
    for (int size = 0; size < SIZES; size++) {
        const bool right = is_right(s, size, enqueue_fused, why);
        judge(right, "the fused kernel", why);
        limits_us[size] = time_of(enqueue_fused, s, size);
        report_figure(&(struct figure){"limits", "fused", "one kernel, all inputs and outputs", s->nranks,
                                       bytes_of(size), 0, limits_us[size], 0});
        report_figure(&(struct figure){"limits", "copy", "of one rank", s->nranks, bytes_of(size), 0,
                                       time_of(enqueue_copy, s, size), 0});
    }
}

/* ---- plans ---- */

static void enqueue_call(void *timed_) {
    const struct timed *timed = timed_;
    must(sums_call_in(timed->sums, timed->elems, timed->sums->streams[0]), "a call in a graph");
}

static void judge_prediction(const struct figure *f) {
    char name[80], why[120];
    snprintf(name, sizeof(name), "the prediction of n=%d, %zu bytes", f->nranks, f->bytes);
    snprintf(why, sizeof(why), "is %.2f us, measured are %.2f: a factor above %d", f->predicted_us, f->measured_us,
             MOST_FACTOR);
    judge(slow || (f->measured_us < MOST_FACTOR * f->predicted_us && f->predicted_us < MOST_FACTOR * f->measured_us),
          name, why);
}

static void time_plan(struct sums *s, int size, int channels, double limit_us) {
    const size_t elems = bytes_of(size) / sizeof(float);
    char plan[160], mode[16] = "chosen", why[TRIAL_WHY_BYTES] = "";
    struct figure figure = {"sweep", mode, plan, s->nranks, bytes_of(size), sums_plan(s, elems, plan), 0, limit_us};
    if (channels > 0)
        snprintf(mode, sizeof(mode), "%d ch", channels);
    report_doing("n=%d, %zu bytes, %s", s->nranks, bytes_of(size), mode);
    const bool right = is_right(s, size, enqueue_call, why);
    figure.measured_us = time_of(enqueue_call, s, size);
    report_figure(&figure);
    judge(right, plan, why);
    if (channels == 0)
        judge_prediction(&figure);
}

static bool make_comms(struct sums *s, int channels) {
    int devices[RANKS_MOST];
    char text[16] = "";
    for (int k = 0; k < s->count; k++)
        devices[k] = COLLET_DEVICE_CUDA(s->gpus[k]);
    if (channels > 0)
        snprintf(text, sizeof(text), "%d", channels);
    setenv("COLLET_NCHANNELS", channels > 0 ? text : "0", 1);
    enum collet_result made = collet_comm_init_all(s->comms, s->count, devices);
    unsetenv("COLLET_NCHANNELS");
    if (made != COLLET_SUCCESS)
        printf("  %d channels: %s\n", channels, collet_last_error(NULL));
    return made == COLLET_SUCCESS;
}

static void time_plans(struct sums *s, int channels, const double *limits_us) {
    if (!make_comms(s, channels))
        return;
    for (int size = 0; size < SIZES; size++)
        time_plan(s, size, channels, limits_us[size]);
    for (int k = 0; k < s->count; k++)
        must(collet_comm_destroy(s->comms[k]), "collet_comm_destroy");
}

/* What was chosen first, then the rest, while there is time. */
static void sweep(int nranks) {
    struct sums s;
    double limits_us[8];
    sums_prepare(&s, nranks, 0, nranks, bytes_of(SIZES - 1));
    const int fit = side->multiprocessors() / nranks, most = fit < MOST_CHANNELS ? fit : MOST_CHANNELS;
    const int channels[] = {0, most, 16, 4, 1}, n = slow ? 2 : 5;
    time_limits(&s, limits_us);
    for (int k = 0; k < n && (part_seconds == 0 || !report_time_is_up()); k++)
        time_plans(&s, channels[k], limits_us);
    sums_finish(&s);
}

void part_sweep(void) {
    const int all = ngpus, n = slow ? 1 : 3;
    static const int sizes[] = {2, 4, 8};
    ngpus = 1;
    report_expect(n * (slow ? 2 * 2 + 2 * 2 : 5 * 8 + 2 * 8));
    for (int k = 0; k < n; k++)
        sweep(sizes[k]);
    ngpus = all;
}
