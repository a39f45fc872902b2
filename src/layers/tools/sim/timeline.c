/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at the simulation after each step:
 *
 *      engine of rank 1    ├ step 0 ┤       ├ step 1 ┤          a bar lasts from when engine, operands and credit are there
 *                                 ╲          ▲                  to when the engine is free again
 *      engine of rank 2            ╲─ message ╲
 *
 * Times are those of the model (layers/tuner/sim.h), in µs since the first step.
 */
#include "layers/tools/sim/timeline.h"

#include "base/err.h"
#include "base/memory.h"
#include "layers/observe/timeline.h"

/* The next step of a worker. */
struct position {
    uint32_t round, run;
    int64_t at_ps; /* Time at which the step can begin, unless its engine is busy. */
};

struct sim_timeline {
    struct timeline file;
    struct arena arena;
    struct position *next; /* [worker]: its next step. */
    int64_t *free_ps;      /* [engine]: the end of its last step. */
    /* The first run of the simulation has begun. Only this run counts: the simulation is repeated with fewer rounds. */
    bool begun;
};

static struct sim_timeline the_timeline; /* A global variable, because a skipper has no context. */

static double us(int64_t ps) { return (double)ps / 1e6; }

static struct position position_of(const struct sim_worker *w) { return (struct position){w->round, w->run, w->at_ps}; }

static void *timeline_first(const struct sim *sim) {
    struct sim_timeline *t = &the_timeline;
    if (t->begun)
        return NULL;
    t->begun = true;
    t->next = arena_get(&t->arena, sim->nworkers, sizeof *t->next);
    t->free_ps = arena_get(&t->arena, sim->nengines, sizeof *t->free_ps);
    if (t->next == NULL || t->free_ps == NULL)
        return NULL;
    for (size_t w = 0; w < sim->nworkers; w++)
        t->next[w] = position_of(&sim->workers[w]);
    for (size_t w = 0; w < sim->nworkers; w++) {
        char name[24], members[24];
        snprintf(name, sizeof name, "rank %d", sim->workers[w].engine);
        snprintf(members, sizeof members, "\"rank\":%d", sim->workers[w].engine);
        timeline_name(&t->file, sim->workers[w].engine, -1, name, members);
    }
    return t;
}

static void put_arrow(struct sim_timeline *t, char end, int conn, uint32_t number, const struct sim_worker *w,
                      int worker, int64_t ps) {
    char id[32];
    snprintf(id, sizeof id, "%d.%u", conn, number);
    timeline_arrow(&t->file, end, id, w->engine, worker, us(ps));
}

static void timeline_look(void *timeline, struct sim *sim, int32_t number, int64_t now_ps) {
    struct sim_timeline *t = timeline;
    const struct sim_worker *w = &sim->workers[number];
    struct position done = t->next[number];
    const struct sim_run *run = &sim->runs[w->first_run + done.run];
    int64_t begin_ps = now_ps > t->free_ps[w->engine] ? now_ps : t->free_ps[w->engine];
    int64_t end_ps = t->free_ps[w->engine] = sim->engine_free[w->engine];
    char name[TIMELINE_STEP_BYTES], members[160];
    timeline_step_name(done.run, run->recv_count > 0, run->send_count > 0, name);
    snprintf(members, sizeof members, "\"round\":%u,\"channel\":%d,\"receives\":%u,\"sends\":%u,\"bytes\":%.0f",
             done.round, w->channel, run->recv_count, run->send_count,
             sim_bytes(sim, &sim->lengths[w->channel], run, done.round));
    timeline_bar(&t->file, "step", name, w->engine, number, us(begin_ps), us(end_ps - begin_ps), members);
    for (uint32_t k = 0; k < run->recv_count; k++) {
        int32_t c = sim->refs[run->recv_first + k];
        put_arrow(t, 'f', c, sim->conns[c].received - 1, w, number, begin_ps);
    }
    for (uint32_t k = 0; k < run->send_count; k++) {
        int32_t c = sim->refs[run->send_first + k];
        put_arrow(t, 's', c, sim->conns[c].sent - 1, w, number, end_ps);
    }
    t->next[number] = position_of(w);
}

static void timeline_over(void *timeline) { (void)timeline; }

static const struct sim_skipper timeline_skipper = {timeline_first, timeline_look, timeline_over};

enum collet_result timeline_write(const struct forecast_job *job, const struct plan_choice *choice, uint64_t bytes,
                                  FILE *out) {
    struct simulated *simulated;
    struct forecast f;
    COLLET_TRY(simulated_open(job, choice->algorithm, &simulated));
    the_timeline = (struct sim_timeline){0};
    enum collet_result result = COLLET_SUCCESS;
    if (simulated->machine.uniform)
        result = err_set(COLLET_ERR_INVALID_ARGUMENT, "a timeline shows up to %d ranks, not %d", COST_RANKS_MAX,
                         job->nranks);
    simulated->machine.skips = &timeline_skipper; /* `skips` must be set before the simulation is built. */
    timeline_begin(&the_timeline.file, out, "collet-sim, a prediction");
    if (result == COLLET_SUCCESS)
        result = simulated_run(simulated, choice, bytes, false, &f);
    timeline_end(&the_timeline.file);
    if (result == COLLET_SUCCESS)
        result = arena_check(&the_timeline.arena, "no memory for a timeline");
    arena_free(&the_timeline.arena);
    simulated_close(simulated);
    return result;
}
