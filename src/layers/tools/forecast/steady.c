/* SPDX-License-Identifier: Apache-2.0
 *
 * Steady states. In a ring of 131,072 ranks each rank does 262,142 steps, nearly all of them alike. Soon everything repeats.
 *
 *      ├ transient ┤├ period ┤├ period ┤ … ├ period ┤├ rest ┤
 *                   ▲        ▲                       ▲
 *                snapshot   same state,            all times and counters are moved here at once
 *                           T later
 *
 * Two states are the same if everything that can influence the future is equal, seen from now: what workers wait for, what is under
 * way, until when links and engines are busy. Time is whole picoseconds, so "same" means the same bits, and the skipped
 * periods are what would have been simulated. A period may be skipped as often as every worker stays inside the run of
 * steps that it is in. The snapshot is taken anew whenever the number of events has doubled, so sooner or later it lies
 * behind the transient (R. Brent, "An improved Monte Carlo factorization algorithm", BIT 20, 1980, for cycles of
 * functions).
 */
#include "layers/tools/forecast/steady.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Minimum number of steps of a run that is worth looking at. */
#define RUN_MIN 64

struct steady {
    struct arena arena; /* The arena that owns the arrays. */
    bool armed;
    int32_t marker; /* The worker at whose steps states are compared. */
    uint64_t next;  /* Number of events after which the next snapshot is taken. */
    int64_t now_ps;
    uint64_t norders;
    struct sim_worker *workers;
    struct sim_conn *conns;
    int64_t *slots, *link_free, *engine_free;
};

static bool worthwhile(const struct sim *sim) {
    if (sim->nruns > 16 * sim->nworkers + 64)
        return false;
    for (size_t r = 0; r < sim->nruns; r++)
        if (sim->runs[r].count >= RUN_MIN && sim->lengths[0].uniform)
            return true;
    return false;
}

static void stop_looking(void *skipper) {
    struct steady *steady = skipper;
    arena_free(&steady->arena);
    free(steady);
}

/* Begins to look at a simulation. NULL: there is nothing to find, or no memory. */
static void *start_looking(const struct sim *sim) {
    struct steady *steady = worthwhile(sim) ? calloc(1, sizeof *steady) : NULL;
    if (steady == NULL)
        return NULL;
    struct arena *arena = &steady->arena;
    steady->workers = arena_get(arena, sim->nworkers, sizeof *steady->workers);
    steady->conns = arena_get(arena, sim->nconns, sizeof *steady->conns);
    steady->slots = arena_get(arena, sim->nconns * sim->nslots, sizeof *steady->slots);
    steady->link_free = arena_get(arena, sim->nlinks, sizeof *steady->link_free);
    steady->engine_free = arena_get(arena, sim->nclocks, sizeof *steady->engine_free);
    steady->next = 2 * sim->nworkers + 64;
    if (arena->failed) {
        stop_looking(steady);
        return NULL;
    }
    return steady;
}

static void take_snapshot(struct steady *steady, const struct sim *sim, int32_t worker, int64_t now_ps) {
    steady->armed = true;
    steady->marker = worker;
    steady->next = 2 * sim->nevents;
    steady->now_ps = now_ps;
    steady->norders = sim->norders;
    memcpy(steady->workers, sim->workers, sim->nworkers * sizeof *sim->workers);
    memcpy(steady->conns, sim->conns, sim->nconns * sizeof *sim->conns);
    memcpy(steady->slots, sim->slots, sim->nconns * sim->nslots * sizeof *sim->slots);
    memcpy(steady->link_free, sim->link_free, sim->nlinks * sizeof *sim->link_free);
    memcpy(steady->engine_free, sim->engine_free, sim->nclocks * sizeof *sim->engine_free);
}

/* ---- the same again? ---- */

/* Picoseconds from now until this time. 0: the time is in the past. */
static int64_t ahead(int64_t at_ps, int64_t now_ps) { return at_ps > now_ps ? at_ps - now_ps : 0; }

static bool same_times(const int64_t *then, int64_t then_ps, const int64_t *now, int64_t now_ps, size_t n) {
    for (size_t k = 0; k < n; k++)
        if (ahead(then[k], then_ps) != ahead(now[k], now_ps))
            return false;
    return true;
}

static bool same_workers(const struct steady *steady, const struct sim *sim, int64_t now_ps) {
    for (size_t k = 0; k < sim->nworkers; k++) {
        const struct sim_worker *a = &steady->workers[k], *b = &sim->workers[k];
        if (a->state != b->state || a->run != b->run || a->round != b->round)
            return false;
        if (a->state != SIM_DONE && ahead(a->at_ps, steady->now_ps) != ahead(b->at_ps, now_ps))
            return false;
        if (a->state == SIM_READY && steady->norders - a->order != sim->norders - b->order)
            return false;
    }
    return true;
}

static bool same_conns(const struct steady *steady, const struct sim *sim, int64_t now_ps) {
    uint32_t nslots = sim->nslots;
    for (size_t c = 0; c < sim->nconns; c++) {
        const struct sim_conn *a = &steady->conns[c], *b = &sim->conns[c];
        if (a->sent - a->received != b->sent - b->received)
            return false;
        for (uint32_t s = 0; s < nslots; s++)
            if (ahead(steady->slots[c * nslots + (a->received + s) % nslots], steady->now_ps) !=
                ahead(sim->slots[c * nslots + (b->received + s) % nslots], now_ps))
                return false;
    }
    return true;
}

static bool same_state(const struct steady *steady, const struct sim *sim, int64_t now_ps) {
    return same_workers(steady, sim, now_ps) && same_conns(steady, sim, now_ps) &&
           same_times(steady->link_free, steady->now_ps, sim->link_free, now_ps, sim->nlinks) &&
           same_times(steady->engine_free, steady->now_ps, sim->engine_free, now_ps, sim->nclocks);
}

/* ---- skipping ---- */

/* Number of periods that fit into the runs of all workers, as a multiple of nslots, so that slots keep their places. */
static uint64_t periods_left(const struct steady *steady, const struct sim *sim) {
    uint64_t most = UINT64_MAX;
    for (size_t k = 0; k < sim->nworkers; k++) {
        const struct sim_worker *w = &sim->workers[k];
        if (w->state == SIM_DONE || w->step == steady->workers[k].step)
            continue;
        uint64_t left = sim->runs[w->first_run + w->run].count - w->step - 1;
        uint64_t fit = left / (w->step - steady->workers[k].step);
        most = fit < most ? fit : most;
    }
    return most == UINT64_MAX ? 0 : most / sim->nslots * sim->nslots;
}

static void shift(int64_t *times, size_t n, int64_t by_ps) {
    for (size_t k = 0; k < n; k++)
        times[k] += by_ps;
}

static void skip(const struct steady *steady, struct sim *sim, uint64_t periods, int64_t period_ps) {
    int64_t by_ps = (int64_t)periods * period_ps;
    for (size_t k = 0; k < sim->nworkers; k++) {
        struct sim_worker *w = &sim->workers[k];
        if (w->state == SIM_DONE)
            continue;
        w->step += (uint32_t)periods * (w->step - steady->workers[k].step);
        w->at_ps += by_ps;
    }
    for (size_t c = 0; c < sim->nconns; c++) {
        uint32_t by = (uint32_t)periods * (sim->conns[c].sent - steady->conns[c].sent);
        sim->conns[c].sent += by;
        sim->conns[c].received += by;
    }
    sim_queue_delay(sim->queue, by_ps);
    shift(sim->slots, sim->nconns * sim->nslots, by_ps);
    shift(sim->link_free, sim->nlinks, by_ps);
    shift(sim->engine_free, sim->nclocks, by_ps);
}

static void look_for_period(void *skipper, struct sim *sim, int32_t worker, int64_t now_ps) {
    struct steady *steady = skipper;
    if (steady->armed && worker == steady->marker && same_state(steady, sim, now_ps)) {
        uint64_t periods = periods_left(steady, sim);
        if (periods > 0)
            skip(steady, sim, periods, now_ps - steady->now_ps);
        steady->armed = false;
        steady->next = sim->nevents + sim->nworkers;
    } else if (sim->nevents >= steady->next) {
        take_snapshot(steady, sim, worker, now_ps);
    }
}

const struct sim_skipper steady_skipper = {start_looking, look_for_period, stop_looking};
