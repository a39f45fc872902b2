/* SPDX-License-Identifier: Apache-2.0
 *
 * What a simulation adds up to without running it: the bytes of every link, the work of every engine. No call can be
 * faster than its busiest link or engine.
 */
#include "plan/sim.h"

#include "base/err.h"

#include <stdlib.h>

static const struct sim_run *runs_of(const struct sim *sim, const struct sim_worker *w) {
    return &sim->runs[w->first_run];
}

/* ---- links ---- */

static void load_links(const struct sim *sim, const struct sim_links *links, int host, double bytes, double *on) {
    for (int k = 0; k < links->count; k++)
        on[host * sim->machine.nlinks + links->link[k]] += bytes;
}

static void load_run(const struct sim *sim, const struct sim_run *run, double bytes, double *on) {
    for (uint32_t s = 0; s < run->send_count; s++) {
        const struct sim_conn *conn = &sim->conns[sim->refs[run->send_first + s]];
        load_links(sim, &conn->route.out, conn->out_host, bytes, on);
        load_links(sim, &conn->route.in, conn->in_host, bytes, on);
    }
}

/* The bytes of a run's steps in all rounds. */
static double bytes_of(const struct sim_lengths *lengths, const struct sim_run *run) {
    double bytes = 0;
    for (uint32_t round = 0; round < lengths->geometry.nrounds; round++)
        bytes += sim_bytes(lengths, run, round);
    return run->count * bytes;
}

/* Of each link the most that any host has, in bytes or in messages of a round. */
static enum collet_result load_all(const struct sim *sim, bool bytes, double *load) {
    double *on = calloc(sim->nlinks + 1, sizeof *on);
    if (on == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the load of %zu links", sim->nlinks);
    for (size_t k = 0; k < sim->nworkers; k++) {
        const struct sim_worker *w = &sim->workers[k];
        for (const struct sim_run *run = runs_of(sim, w); run < runs_of(sim, w) + w->nruns; run++)
            load_run(sim, run, bytes ? bytes_of(&sim->lengths[w->channel], run) : run->count, on);
    }
    int nlinks = sim->machine.nlinks;
    for (int link = 0; link < nlinks; link++)
        load[link] = 0;
    for (size_t link = 0; link < sim->nlinks; link++)
        if (on[link] > load[link % (size_t)nlinks])
            load[link % (size_t)nlinks] = on[link];
    free(on);
    return COLLET_SUCCESS;
}

/* All blocks of all channels are equally long. */
static bool is_uniform(const struct sim *sim) {
    for (int c = 0; c < sim->nchannels; c++)
        if (!sim->lengths[c].uniform || sim->lengths[c].part_bytes != sim->lengths[0].part_bytes)
            return false;
    return true;
}

/* What crosses a link is in proportion to lengths if they are all the same, so it is counted once. */
static enum collet_result count_crossed(struct sim *sim) {
    if (sim->crossed != NULL)
        return COLLET_SUCCESS;
    double *crossed = malloc((size_t)(sim->machine.nlinks + 1) * sizeof *crossed);
    if (crossed == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the load of %d links", sim->machine.nlinks);
    enum collet_result result = load_all(sim, false, crossed);
    if (result == COLLET_SUCCESS)
        sim->crossed = crossed;
    else
        free(crossed);
    return result;
}

enum collet_result sim_load(struct sim *sim, enum protocol protocol, double *load) {
    double factor = sim->machine.costs->wire_factor[protocol];
    bool uniform = is_uniform(sim);
    COLLET_TRY(uniform ? count_crossed(sim) : load_all(sim, true, load));
    for (int link = 0; link < sim->machine.nlinks; link++)
        load[link] = factor * (uniform ? sim->crossed[link] * sim->lengths[0].part_bytes : load[link]);
    return COLLET_SUCCESS;
}

/* ---- engines ---- */

static double work_of_run(const struct sim *sim, enum protocol protocol, const struct sim_lengths *lengths,
                          const struct sim_run *run) {
    double ns = 0;
    uint32_t rounds = sim_rounds(lengths);
    for (uint32_t round = 0; round < rounds; round++) {
        double bytes = sim_bytes(lengths, run, round);
        struct sim_work work = sim_work_of(sim, protocol, &sim->kinds[run->kind], bytes);
        ns += bytes > 0 ? work.fixed_ns + work.bytes_ns : 0;
    }
    return ns;
}

/* One step of each kind, in all rounds, with lengths that are uniform. */
static void work_of_kinds(const struct sim *sim, enum protocol protocol, const struct sim_lengths *lengths,
                          double *kinds_ns) {
    for (size_t k = 0; k < sim->nkinds; k++) {
        struct sim_work work = sim_work_of(sim, protocol, &sim->kinds[k], lengths->part_bytes);
        kinds_ns[k] = sim_rounds(lengths) * work.fixed_ns + work.bytes_ns;
    }
}

static double busiest(const struct sim *sim, enum protocol protocol, double *busy, double *kinds_ns) {
    const struct sim_lengths *lengths = NULL;
    double most = 0;
    for (size_t k = 0; k < sim->nworkers; k++) {
        const struct sim_worker *w = &sim->workers[k];
        if (lengths != &sim->lengths[w->channel] && sim->lengths[w->channel].uniform)
            work_of_kinds(sim, protocol, &sim->lengths[w->channel], kinds_ns);
        lengths = &sim->lengths[w->channel];
        for (const struct sim_run *run = runs_of(sim, w); run < runs_of(sim, w) + w->nruns; run++)
            busy[w->engine] +=
                run->count * (lengths->uniform ? kinds_ns[run->kind] : work_of_run(sim, protocol, lengths, run));
        most = busy[w->engine] > most ? busy[w->engine] : most;
    }
    return most;
}

enum collet_result sim_busiest(const struct sim *sim, enum protocol protocol, double *ns_p) {
    double *busy = calloc(sim->nengines + 1, sizeof *busy), *kinds_ns = malloc((sim->nkinds + 1) * sizeof *kinds_ns);
    enum collet_result result = COLLET_SUCCESS;
    if (busy != NULL && kinds_ns != NULL)
        *ns_p = busiest(sim, protocol, busy, kinds_ns);
    else
        result = err_set(COLLET_ERR_NO_MEMORY, "no memory for the work of %zu engines", sim->nengines);
    free(busy);
    free(kinds_ns);
    return result;
}
