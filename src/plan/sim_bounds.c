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

/* The bytes of a run's steps in all rounds. */
static double bytes_of(const struct sim_lengths *lengths, const struct sim_run *run) {
    if (lengths->uniform)
        return run->count * lengths->part_bytes;
    double bytes = 0;
    for (uint32_t round = 0; round < lengths->geometry.nrounds; round++)
        bytes += sim_piece(lengths, run->chunk, round);
    return run->count * bytes;
}

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

enum collet_result sim_load(const struct sim *sim, enum interp_protocol protocol, double *load) {
    double *on = calloc(sim->nlinks + 1, sizeof *on);
    if (on == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the load of %zu links", sim->nlinks);
    double factor = sim->machine.costs->wire_factor[protocol];
    for (size_t k = 0; k < sim->nworkers; k++) {
        const struct sim_worker *w = &sim->workers[k];
        for (uint32_t r = 0; r < w->nruns; r++)
            load_run(sim, &runs_of(sim, w)[r], factor * bytes_of(&sim->lengths[w->channel], &runs_of(sim, w)[r]), on);
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

/* ---- engines ---- */

static double work_of_run(const struct sim *sim, enum interp_protocol protocol, const struct sim_lengths *lengths,
                          const struct sim_run *run) {
    double ns = 0;
    uint32_t rounds = sim_rounds(lengths);
    if (lengths->uniform) {
        struct sim_work work = sim_work_of(sim, protocol, run, lengths->part_bytes);
        return run->count * (rounds * work.fixed_ns + work.bytes_ns);
    }
    for (uint32_t round = 0; round < rounds; round++) {
        double bytes = sim_piece(lengths, run->chunk, round);
        struct sim_work work = sim_work_of(sim, protocol, run, bytes);
        ns += bytes > 0 ? work.fixed_ns + work.bytes_ns : 0;
    }
    return run->count * ns;
}

enum collet_result sim_busiest(const struct sim *sim, enum interp_protocol protocol, double *ns_p) {
    double *busy = calloc(sim->nengines + 1, sizeof *busy), most = 0;
    if (busy == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the work of %zu engines", sim->nengines);
    for (size_t k = 0; k < sim->nworkers; k++) {
        const struct sim_worker *w = &sim->workers[k];
        for (uint32_t r = 0; r < w->nruns; r++)
            busy[w->engine] += work_of_run(sim, protocol, &sim->lengths[w->channel], &runs_of(sim, w)[r]);
        most = busy[w->engine] > most ? busy[w->engine] : most;
    }
    free(busy);
    *ns_p = most;
    return COLLET_SUCCESS;
}
