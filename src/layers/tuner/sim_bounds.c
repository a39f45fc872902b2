/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of a simulation that does not run: the bytes of every link, and the work of every engine. No call can be faster than its busiest
 * link or engine.
 */
#include "layers/tuner/sim.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

static const struct sim_run *runs_of(const struct sim *sim, const struct sim_worker *w) {
    return &sim->runs[w->first_run];
}

/* ---- links ---- */

static void load_links(const struct sim *sim, const struct sim_links *links, int host, double bytes,
                       struct sim_crossing crossing, double *on) {
    for (int k = 0; k < links->count; k++) {
        const bool memory = sim->machine.link_gbps[links->link[k]] == 0;
        /* Payloads count as long: short ones are not lent. */
        const double moved = memory ? sim_moved_share(sim, LINK_GPU, INFINITY) : 1;
        on[host * sim->machine.nlinks + links->link[k]] += moved * bytes * (k == 0 ? crossing.first : crossing.behind);
    }
}

static void load_run(const struct sim *sim, enum protocol protocol, const struct sim_run *run, double bytes,
                     double *on) {
    const struct sim_crossing crossing = sim_crossing_of(sim, run);
    for (uint32_t s = 0; s < run->send_count; s++) {
        const struct sim_conn *conn = &sim->conns[sim->refs[run->send_first + s]];
        double wire_bytes = bytes * protocol_wire_factor(protocol, costs_is_remote(conn->route.class));
        load_links(sim, &conn->route.out, conn->out_host, wire_bytes, crossing, on);
        load_links(sim, &conn->route.in, conn->in_host, wire_bytes, crossing, on);
    }
}

/* The bytes of one step of the run, in all rounds together. */
static double run_bytes(const struct sim *sim, const struct sim_lengths *lengths, const struct sim_run *run) {
    if (lengths->uniform)
        return run->pieces * lengths->part_bytes;
    struct sim_lengths whole = *lengths;
    whole.geometry.chunk_elems = whole.geometry.part_elems;
    return sim_bytes(sim, &whole, run, 0);
}

/* Finds the load of each link, as the maximum over all hosts: in bytes, or in pieces of one round, weighed by the protocol. */
static enum collet_result load_all_runs(const struct sim *sim, enum protocol protocol, bool bytes, double *load) {
    SCOPED_FREE double *on = NULL;
    COLLET_TRY(memory_get(&on, sim->nlinks + 1, sizeof(*on), "no memory for the load of %zu links", sim->nlinks));
    for (size_t k = 0; k < sim->nworkers; k++) {
        const struct sim_worker *w = &sim->workers[k];
        for (const struct sim_run *run = runs_of(sim, w); run < runs_of(sim, w) + w->nruns; run++)
            load_run(sim, protocol, run,
                     run->count * (bytes ? run_bytes(sim, &sim->lengths[w->channel], run) : run->pieces), on);
    }
    int nlinks = sim->machine.nlinks;
    for (int link = 0; link < nlinks; link++)
        load[link] = 0;
    for (size_t link = 0; link < sim->nlinks; link++)
        if (on[link] > load[link % (size_t)nlinks])
            load[link % (size_t)nlinks] = on[link];
    return COLLET_SUCCESS;
}

/* Are all blocks of all channels equally long? */
static bool is_uniform(const struct sim *sim) {
    for (int c = 0; c < sim->nchannels; c++)
        if (!sim->lengths[c].uniform || sim->lengths[c].part_bytes != sim->lengths[0].part_bytes)
            return false;
    return true;
}

/* Counts the pieces that cross each link. If all blocks are equally long, the load of a link is proportional to their
 * length, so this is counted once. */
static enum collet_result count_crossed(struct sim *sim, enum protocol protocol) {
    if (sim->crossed[protocol] != NULL)
        return COLLET_SUCCESS;
    double *crossed;
    int nlinks = sim->machine.nlinks;
    COLLET_TRY(memory_get(&crossed, (size_t)nlinks, sizeof(*crossed), "no memory for the load of %d links", nlinks));
    enum collet_result result = load_all_runs(sim, protocol, false, crossed);
    if (result == COLLET_SUCCESS)
        sim->crossed[protocol] = crossed;
    else
        free(crossed);
    return result;
}

enum collet_result sim_load(struct sim *sim, enum protocol protocol, double *load) {
    sim_begin(sim, protocol);
    bool uniform = is_uniform(sim);
    COLLET_TRY(uniform ? count_crossed(sim, protocol) : load_all_runs(sim, protocol, true, load));
    for (int link = 0; link < sim->machine.nlinks; link++)
        load[link] = sim->turns * (uniform ? sim->crossed[protocol][link] * sim->lengths[0].part_bytes : load[link]);
    return COLLET_SUCCESS;
}

/* ---- engines ---- */

/* The time of one step of the run, in all rounds. The last rounds of short blocks are empty. */
static double work_of_run(struct sim *sim, const struct sim_lengths *lengths, const struct sim_run *run) {
    double bytes = run_bytes(sim, lengths, run);
    if (bytes <= 0)
        return 0;
    double message = sim_bytes(sim, lengths, run, 0), rounds = bytes / message;
    struct sim_work work = sim_work_of(sim, run, message);
    return ceil(rounds) * work.fixed_ns + rounds * work.bytes_ns;
}

static enum collet_result count_shares(struct sim *sim) {
    if (sim->shares != NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(memory_get(&sim->shares, sim->nengines * sim->nkinds, sizeof(*sim->shares),
                          "no memory for the work of %zu engines", sim->nengines));
    for (size_t k = 0; k < sim->nworkers; k++) {
        const struct sim_worker *w = &sim->workers[k];
        for (const struct sim_run *run = runs_of(sim, w); run < runs_of(sim, w) + w->nruns; run++) {
            struct sim_share *share = &sim->shares[(size_t)w->engine * sim->nkinds + (size_t)run->kind];
            share->steps += run->count;
            share->pieces += (double)run->count * run->pieces;
        }
    }
    return COLLET_SUCCESS;
}

/* The time of all steps of an engine, if all pieces are equally long. */
static double work_of_engine(struct sim *sim, size_t engine) {
    double ns = 0, rounds = sim_rounds(&sim->lengths[0]), bytes = sim->lengths[0].part_bytes;
    for (size_t k = 0; k < sim->nkinds && bytes > 0; k++) {
        const struct sim_share *share = &sim->shares[engine * sim->nkinds + k];
        const struct sim_run *run = &sim->runs[sim->kinds[k].run];
        double message = run->pieces * fmin(bytes, sim->lengths[0].chunk_bytes);
        struct sim_work work = sim_work_of(sim, run, message);
        ns += share->steps * rounds * work.fixed_ns + share->pieces * bytes * work.bytes_ns / message;
    }
    return ns;
}

static enum collet_result busiest_by_shares(struct sim *sim, double *ns_p) {
    COLLET_TRY(count_shares(sim));
    for (size_t engine = 0; engine < sim->nengines; engine++)
        *ns_p = fmax(*ns_p, work_of_engine(sim, engine));
    return COLLET_SUCCESS;
}

enum collet_result sim_busiest(struct sim *sim, enum protocol protocol, double *ns_p) {
    *ns_p = 0;
    sim_begin(sim, protocol);
    if (is_uniform(sim))
        return busiest_by_shares(sim, ns_p);
    SCOPED_FREE double *busy = NULL;
    COLLET_TRY(
        memory_get(&busy, sim->nengines + 1, sizeof(*busy), "no memory for the work of %zu engines", sim->nengines));
    for (size_t k = 0; k < sim->nworkers; k++) {
        const struct sim_worker *w = &sim->workers[k];
        for (const struct sim_run *run = runs_of(sim, w); run < runs_of(sim, w) + w->nruns; run++)
            busy[w->engine] += run->count * work_of_run(sim, &sim->lengths[w->channel], run);
        *ns_p = busy[w->engine] > *ns_p ? busy[w->engine] : *ns_p;
    }
    return COLLET_SUCCESS;
}
