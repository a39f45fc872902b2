/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/forecast/fewer.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* TOLERANCE: how far the ratio of two growths may be from 1 or 2. NOTHING: a growth below this share of the time counts as
 * none. */
#define TOLERANCE 0.35
#define NOTHING 0.05

struct fewer_hosts {
    const struct simulated *whole; /* The whole job, which needs too many steps or too much memory. */
    struct forecast_job
        jobs[FORECAST_FEWER]; /* The jobs of N, N/2 and N/4 hosts. Except for numbers, they are like the whole job. */
    struct net nets[FORECAST_FEWER];
    struct simulated *simulated[FORECAST_FEWER];
};

/* ---- life ---- */

/* Opens the job of the first `nhosts` hosts. */
static enum collet_result open_one(const struct simulated *all, struct fewer_hosts *fewer, int k, int nhosts) {
    const struct forecast_job *whole = all->job;
    struct forecast_job *job = &fewer->jobs[k];
    *job = *whole;
    job->nhosts = job->machine.cast.nhosts = nhosts;
    job->nranks = nhosts * job->nlocal;
    job->shapes = malloc((size_t)job->machine.nshapes * sizeof(*job->shapes));
    if (job->shapes == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %d rings", job->machine.nshapes);
    for (int ring = 0; ring < job->machine.nshapes; ring++) {
        /* Hosts are listed one after the other, so the first hosts are the beginning of the list. */
        job->shapes[ring] = whole->shapes[ring];
        job->shapes[ring].nranks = job->nranks;
        job->shapes[ring].nnodes = nhosts;
    }
    fewer->nets[k] = *whole->net;
    fewer->nets[k].nhosts = nhosts;
    job->machine.net = job->net = &fewer->nets[k];
    job->machine.shapes = job->machine.whole = job->shapes;
    return simulated_open(job, all->cost->algorithm, &fewer->simulated[k]);
}

/* Finds the largest affordable number of hosts that is a power of two. A quarter of this number is at least 2, because some
 * algorithms do not take one host. */
static int most_hosts(const struct simulated *whole) {
    const double rounds = cost_rounds(&whole->machine);
    int nhosts = 2 << (FORECAST_FEWER - 1);
    while (2 * nhosts < whole->job->nhosts && simulated_affords(whole, 2 * nhosts, whole->machine.nshapes, rounds))
        nhosts *= 2;
    return nhosts;
}

enum collet_result fewer_open(const struct simulated *whole, struct fewer_hosts **fewer_p) {
    int nhosts = most_hosts(whole);
    if (nhosts >= whole->job->nhosts)
        return COLLET_SUCCESS;
    struct fewer_hosts *fewer;
    COLLET_TRY(memory_get(&fewer, 1, sizeof *fewer, "no memory for a forecast"));
    fewer->whole = whole;
    enum collet_result result = COLLET_SUCCESS;
    for (int k = 0; k < FORECAST_FEWER && result == COLLET_SUCCESS; k++)
        result = open_one(whole, fewer, k, nhosts >> k);
    if (result == COLLET_SUCCESS)
        *fewer_p = fewer;
    else
        fewer_close(fewer);
    return result;
}

void fewer_close(struct fewer_hosts *fewer) {
    if (fewer == NULL)
        return;
    for (int k = 0; k < FORECAST_FEWER; k++) {
        simulated_close(fewer->simulated[k]);
        free(fewer->jobs[k].shapes);
    }
    free(fewer);
}

const struct simulated *fewer_largest(const struct fewer_hosts *fewer) { return fewer->simulated[0]; }

/* ---- growth ---- */

/* Extends the times a, b and c of N, N/2 and N/4 hosts to N · grown hosts. Returns the time. Negative: the times grow in no
 * known way. */
static double extend(double a, double b, double c, double grown) {
    double ratio = (a - b) / (b - c);
    bool hardly = fabs(a - b) <= NOTHING * a && fabs(b - c) <= NOTHING * a;
    if (hardly || fabs(ratio - 1) <= TOLERANCE)
        return a + fmax(a - c, 0) / 2 * log2(grown);
    if (fabs(ratio - 2) <= TOLERANCE)
        return a + 2 * (a - b) * (grown - 1);
    return -1;
}

/* Stores times that grow irregularly, so that the user sees them. */
static void tell_growth(const struct fewer_hosts *fewer, const struct forecast *found, struct forecast *f) {
    f->fewer_hosts = fewer->jobs[0].nhosts;
    for (int k = 0; k < FORECAST_FEWER; k++)
        f->fewer_ns[k] = found[k].choice.predicted_ns;
}

enum collet_result fewer_run(struct fewer_hosts *fewer, const struct plan_choice *choice, uint64_t bytes, bool latency,
                             struct forecast *f) {
    struct forecast found[FORECAST_FEWER];
    *f = simulated_none(fewer->whole, choice, bytes);
    for (int k = 0; k < FORECAST_FEWER; k++) {
        COLLET_TRY(simulated_run(fewer->simulated[k], choice, bytes, latency, &found[k]));
        if (found[k].kind != FORECAST_EACH) /* A grouped simulation says nothing about hosts that cannot be grouped. */
            return COLLET_SUCCESS;
    }
    double grown = (double)fewer->whole->job->nhosts / fewer->jobs[0].nhosts, least_ns = found[0].choice.predicted_ns;
    double ns = extend(least_ns, found[1].choice.predicted_ns, found[2].choice.predicted_ns, grown);
    if (ns < 0) {
        tell_growth(fewer, found, f);
        return COLLET_SUCCESS;
    }
    *f = found[0];
    f->kind = FORECAST_EXTENDED;
    f->choice.predicted_ns = ns;
    for (int medium = 0; medium < TOPO_MEDIUM_COUNT; medium++)
        f->use[medium] *= least_ns / ns;
    if (latency)
        f->latency_ns = extend(found[0].latency_ns, found[1].latency_ns, found[2].latency_ns, grown);
    return COLLET_SUCCESS;
}
