/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/accept_sums.h"

#include "base/os.h"
#include "gpu/accept_expect.h"
#include "gpu/accept_kernels.h"

#include <stdio.h>
#include <string.h>

void sums_prepare(struct sums *s, int nranks, int first, int count, size_t bytes) {
    *s = (struct sums){.nranks = nranks, .first = first, .count = count};
    s->wrong = side->memory(2 * RANKS_MOST * sizeof(*s->wrong), MEMORY_PINNED);
    for (int k = 0; k < count; k++) {
        s->gpus[k] = (first + k) * ngpus / nranks;
        side->use(s->gpus[k]);
        kernels->load();
        s->in[k] = side->memory(bytes, MEMORY_PLAIN);
        s->out[k] = side->memory(bytes, MEMORY_PLAIN);
        s->streams[k] = side->stream();
    }
}

void sums_finish(struct sums *s) {
    for (int k = 0; k < s->count; k++) {
        side->stream_free(s->streams[k]);
        side->memory_free(s->in[k], MEMORY_PLAIN);
        side->memory_free(s->out[k], MEMORY_PLAIN);
    }
    side->memory_free(s->wrong, MEMORY_PINNED);
}

static enum collet_result call(const struct sums *s, size_t elems, void *const *streams, int step) {
    enum collet_result result = collet_group_start();
    for (int k = 0; k < s->count && result == COLLET_SUCCESS; k++)
        result =
            collet_allreduce(s->in[k], s->out[k], elems, COLLET_FLOAT32, COLLET_SUM, s->comms[k], streams[k * step]);
    enum collet_result ended = collet_group_end();
    return result != COLLET_SUCCESS ? result : ended;
}

enum collet_result sums_call(const struct sums *s, size_t elems) { return call(s, elems, s->streams, 1); }

enum collet_result sums_call_in(const struct sums *s, size_t elems, void *stream) { return call(s, elems, &stream, 0); }

void sums_wait(const struct sums *s) {
    for (int k = 0; k < s->count; k++)
        side->stream_wait(s->streams[k]);
}

/* ---- right or wrong ---- */

static struct expect_region region_of(const struct sums *s, int k, bool out, size_t elems) {
    struct expect_region r = {
        .pattern = pattern_make(type_format(COLLET_FLOAT32), COLLET_SUM, s->nranks, 77 + (uint32_t)elems),
        .memory = out ? s->out[k] : s->in[k],
        .elems = elems,
        .elem_bytes = sizeof(float),
    };
    if (!out)
        r.ninputs = 1, r.inputs[0] = (struct expect_block){.count = elems, .rank = s->first + k};
    else
        r.nresults = 1, r.results[0] = (struct expect_block){.count = elems, .rank = EXPECT_ALL};
    return r;
}

void sums_fill(const struct sums *s, size_t elems) {
    for (int k = 0; k < 2 * s->count; k++) {
        const struct expect_region r = region_of(s, k / 2, k % 2, elems);
        side->use(s->gpus[k / 2]);
        s->wrong[k] = 0;
        kernels->fill(&r, s->streams[k / 2]);
    }
}

bool sums_are_right(const struct sums *s, size_t elems, char why[TRIAL_WHY_BYTES]) {
    for (int k = 0; k < 2 * s->count; k++) {
        const struct expect_region r = region_of(s, k / 2, k % 2, elems);
        side->use(s->gpus[k / 2]);
        kernels->check(&r, &s->wrong[k], s->streams[k / 2]);
    }
    sums_wait(s);
    for (int k = 0; k < 2 * s->count; k++)
        if (s->wrong[k] != 0) {
            const struct expect_region r = region_of(s, k / 2, k % 2, elems);
            int n = snprintf(why, TRIAL_WHY_BYTES, "rank %d, %s: ", s->first + k / 2, k % 2 ? "result" : "input");
            side->use(s->gpus[k / 2]);
            expect_explain(&r, why + n, TRIAL_WHY_BYTES - (size_t)n);
            return false;
        }
    return true;
}

/* ---- how long it takes ---- */

double sums_plan(const struct sums *s, size_t elems, char plan[160]) {
    double us = 0;
    plan[0] = '\0';
    if (collet_comm_plan(s->comms[0], "allreduce", elems, COLLET_FLOAT32, plan, 160) != COLLET_SUCCESS)
        return 0;
    char *predicted = strstr(plan, ", predicted ");
    if (predicted != NULL && sscanf(predicted, ", predicted %lf", &us) == 1)
        *predicted = '\0';
    return us;
}

double time_in_graph(void *stream, void (*enqueue)(void *argument), void *argument, int calls, int replays) {
    side->capture_begin(stream);
    for (int k = 0; k < calls; k++)
        enqueue(argument);
    void *graph = side->graph_make(side->capture_end(stream));
    side->graph_run(graph, stream);
    side->stream_wait(stream);
    const uint64_t start = os_now_ns();
    for (int k = 0; k < replays; k++)
        side->graph_run(graph, stream);
    side->stream_wait(stream);
    const double us = (double)(os_now_ns() - start) / 1e3 / replays / calls;
    side->graph_free(graph);
    return us;
}
