/* SPDX-License-Identifier: Apache-2.0 */
#include "forecast/forecast.h"

#include "base/err.h"
#include "forecast/symmetry.h"
#include "plan/tuner.h"

#include <math.h>
#include <stdlib.h>

/* A communicator of few ranks has such connections (chan.c): on one host, and where slots are messages. */
#define SLOTS 8
#define SLOT_BYTES (128u << 10)
#define MESSAGE_SLOT_BYTES (512u << 10)
#define LL_SLOT_BYTES 4096u

#define CHANNELS_MAX 32 /* of ranks on GPUs */

/* Rounds after these cost what the last third of them cost: longer than slots let a producer run ahead. */
#define ROUNDS_MAX 12

/* Elements are taken to be of this size. */
#define ELEM_BYTES 4u

/* Times of fewer hosts: how much their growth may differ from the growth before, and how much of the time it may be to
 * count as none. */
#define FEWER_TOLERANCE 0.35
#define FEWER_NOTHING 0.05

/* So short that it costs nothing, but not empty. */
#define NO_BYTES 1e-3

/* ---- the job ---- */

static enum collet_result check_hosts(const struct topo_rings *rings) {
    if (rings->ncrossings > 1)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "host %d differs from host 0: forecasts are for jobs of equal hosts", rings->crossings[1].host);
    return COLLET_SUCCESS;
}

static enum collet_result search(const struct topo *topo, int per_host, struct topo_rings **rings_p) {
    int nranks, *place;
    COLLET_TRY(topo_place_ranks(topo, per_host, &nranks, &place));
    enum collet_result result = topo_search(topo, nranks, place, rings_p);
    free(place);
    return result;
}

enum collet_result forecast_open(const struct topo *topo, int nhosts, int per_host, struct forecast_job **job_p) {
    struct forecast_job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a job of %d hosts", nhosts);
    *job = (struct forecast_job){.nhosts = nhosts, .costs = &costs_default, .steps_max = FORECAST_STEPS_MAX};
    enum collet_result result = search(topo, per_host, &job->rings);
    if (result == COLLET_SUCCESS)
        result = check_hosts(job->rings);
    if (result == COLLET_SUCCESS)
        result = net_create(job->rings, nhosts, &job->net);
    if (result != COLLET_SUCCESS) {
        forecast_close(job);
        return result;
    }
    job->nranks = nhosts * job->net->nlocal;
    *job_p = job;
    return COLLET_SUCCESS;
}

void forecast_close(struct forecast_job *job) {
    if (job == NULL)
        return;
    net_destroy(job->net);
    topo_rings_destroy(job->rings);
    free(job);
}

/* ---- the stage ---- */

struct forecast_stage {
    const struct forecast_job *job;
    const struct algorithm *algorithm;
    int nchannels, nblocks;
    int nworkers, npeers; /* of a rank of host 0, at most */
    enum sim_grouping grouping;
    double steps, bytes;                          /* as those of the look, of all channels */
    struct sim *uniform;                          /* NULL: too large */
    struct sim *exact;                            /* every block as long as it is; NULL: not needed yet, or too large */
    struct forecast_stage *fewer[FORECAST_FEWER]; /* where every rank is too many: the same on fewer hosts; else NULL */
    struct forecast_job fewer_job[FORECAST_FEWER];
    struct net fewer_net[FORECAST_FEWER];
};

static bool is_slices(const struct forecast_stage *stage) { return prog_is_sliced(stage->algorithm->collective); }

/* Looks at the programs of host 0. A connection takes a name, its slots and its part of the index. */
static enum collet_result measure(const struct forecast_job *job, const struct prog_shape *shape,
                                  struct forecast_look *look) {
    double each = look->grouping == SIM_EACH ? job->nhosts : 1;
    for (int rank = 0; rank < job->net->nlocal; rank++) {
        struct prog *prog;
        COLLET_TRY(algorithm_build(look->algorithm, shape, rank, 0, &prog));
        look->nblocks = prog->nblocks;
        look->nworkers = prog->nworkers > look->nworkers ? prog->nworkers : look->nworkers;
        look->npeers = prog->npeers > look->npeers ? prog->npeers : look->npeers;
        look->steps += each * prog->nsteps;
        look->bytes +=
            each * (prog->npeers * (double)(sizeof(struct sim_conn) + SLOTS * sizeof(int64_t) + 2 * sizeof(int)) +
                    prog->nworkers * (double)(2 * sizeof(struct sim_worker) + sizeof(struct sim_run)));
        prog_destroy(prog);
    }
    return COLLET_SUCCESS;
}

static enum collet_result look_at(struct forecast_job *job, const struct algorithm *algorithm) {
    struct forecast_look look = {.algorithm = algorithm};
    struct prog_shape shape;
    if (job->look.algorithm == algorithm)
        return COLLET_SUCCESS;
    COLLET_TRY(net_shape(job->net, 0, &shape));
    enum collet_result result = symmetry_find(algorithm, &shape, job->nhosts, &look.grouping);
    if (result == COLLET_SUCCESS)
        result = measure(job, &shape, &look);
    prog_shape_fini(&shape);
    if (result == COLLET_SUCCESS)
        job->look = look;
    return result;
}

static enum collet_result add_channel(const struct forecast_stage *stage, struct sim *sim, int channel,
                                      const struct sim_lengths *lengths) {
    struct prog_shape shape;
    COLLET_TRY(net_shape(stage->job->net, channel, &shape));
    enum collet_result result = sim_add_channel(sim, lengths);
    for (int player = 0; player < sim_nplayers(&sim->cast) && result == COLLET_SUCCESS; player++) {
        struct prog *prog;
        result = algorithm_build(stage->algorithm, &shape, player, 0, &prog);
        if (result == COLLET_SUCCESS) {
            result = sim_add_program(sim, prog);
            prog_destroy(prog);
        }
    }
    prog_shape_fini(&shape);
    return result;
}

static enum collet_result build(const struct forecast_stage *stage, enum sim_grouping grouping, bool uniform,
                                struct sim **sim_p) {
    const struct forecast_job *job = stage->job;
    struct sim_machine machine = {.costs = job->costs,
                                  .home = job->net->gpu ? LINK_GPU : LINK_MEMORY,
                                  .gpu = job->net->gpu,
                                  .nlinks = job->net->nlinks,
                                  .link_gbps = job->net->link_gbps,
                                  .nslots = SLOTS,
                                  .route = net_route,
                                  .context = job->net};
    struct sim_cast cast = {grouping, job->nhosts, job->net->nlocal};
    struct sim_lengths lengths = {.uniform = uniform, .part_bytes = NO_BYTES, .chunk_bytes = 1};
    struct sim *sim;
    COLLET_TRY(sim_create(&machine, &cast, &sim));
    enum collet_result result = COLLET_SUCCESS;
    for (int channel = 0; channel < stage->nchannels && result == COLLET_SUCCESS; channel++)
        result = add_channel(stage, sim, channel, &lengths);
    if (result == COLLET_SUCCESS)
        *sim_p = sim;
    else
        sim_destroy(sim);
    return result;
}

static bool is_affordable(const struct forecast_stage *stage, enum sim_grouping grouping, double steps) {
    double share = grouping == SIM_EACH ? FORECAST_EACH_SHARE : 1;
    return steps <= share * stage->job->steps_max && stage->bytes <= FORECAST_BYTES_MAX;
}

/* A stage of so many hosts in place of the job's. */
static enum collet_result stage_fewer(struct forecast_stage *stage, int k, int nhosts) {
    stage->fewer_net[k] = *stage->job->net;
    stage->fewer_net[k].nhosts = nhosts;
    stage->fewer_job[k] = *stage->job;
    stage->fewer_job[k].net = &stage->fewer_net[k];
    stage->fewer_job[k].nhosts = nhosts;
    stage->fewer_job[k].look = (struct forecast_look){0};
    stage->fewer_job[k].nranks = nhosts * stage->job->net->nlocal;
    return forecast_stage(&stage->fewer_job[k], stage->algorithm, stage->nchannels, &stage->fewer[k]);
}

/* Too many ranks, each for itself: the largest power of two of hosts that is affordable, and a half and a quarter of them. */
static enum collet_result stage_all_fewer(struct forecast_stage *stage) {
    double host_steps = stage->steps / stage->job->nhosts * ROUNDS_MAX;
    int nhosts = 1 << (FORECAST_FEWER - 1);
    while (2 * nhosts < stage->job->nhosts && 2 * nhosts * host_steps <= FORECAST_EACH_SHARE * stage->job->steps_max)
        nhosts *= 2;
    for (int k = 0; k < FORECAST_FEWER && nhosts < stage->job->nhosts; k++)
        COLLET_TRY(stage_fewer(stage, k, nhosts >> k));
    return COLLET_SUCCESS;
}

static enum collet_result prepare(struct forecast_stage *stage) {
    bool each = stage->grouping == SIM_EACH;
    if (is_affordable(stage, stage->grouping, stage->steps * (each ? ROUNDS_MAX : 1)))
        return build(stage, stage->grouping, true, &stage->uniform);
    return each ? stage_all_fewer(stage) : COLLET_SUCCESS;
}

enum collet_result forecast_stage(struct forecast_job *job, const struct algorithm *algorithm, int nchannels,
                                  struct forecast_stage **stage_p) {
    COLLET_TRY(look_at(job, algorithm));
    struct forecast_stage *stage = calloc(1, sizeof *stage);
    if (stage == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a forecast");
    *stage = (struct forecast_stage){.job = job,
                                     .algorithm = algorithm,
                                     .nchannels = nchannels,
                                     .nblocks = job->look.nblocks,
                                     .nworkers = job->look.nworkers,
                                     .npeers = job->look.npeers,
                                     .grouping = job->look.grouping,
                                     .steps = nchannels * job->look.steps,
                                     .bytes = nchannels * job->look.bytes};
    enum collet_result result = prepare(stage);
    if (result == COLLET_SUCCESS)
        *stage_p = stage;
    else
        forecast_unstage(stage);
    return result;
}

void forecast_unstage(struct forecast_stage *stage) {
    if (stage == NULL)
        return;
    sim_destroy(stage->uniform);
    sim_destroy(stage->exact);
    for (int k = 0; k < FORECAST_FEWER; k++)
        forecast_unstage(stage->fewer[k]);
    free(stage);
}

/* ---- lengths ---- */

/* Bytes of a block of the call. */
static double block_bytes(const struct forecast_stage *stage, uint64_t bytes) {
    return (double)bytes / (is_slices(stage) ? stage->nblocks : stage->job->nranks);
}

/* Slices are whole multiples of a few elements: of a short buffer the last ones are empty. */
static bool has_empty_slices(const struct forecast_stage *stage, uint64_t bytes) {
    uint64_t elems = bytes / ELEM_BYTES, share = geometry_share(elems, (uint64_t)stage->nblocks);
    return is_slices(stage) && share * (uint64_t)(stage->nblocks - 1) >= elems && stage->nblocks > 1;
}

static struct sim_lengths exact_lengths(const struct forecast_stage *stage, uint64_t bytes, uint32_t chunk_bytes,
                                        int channel) {
    uint64_t total, block, count = bytes / ELEM_BYTES;
    if (!is_slices(stage))
        count /= (uint64_t)stage->job->nranks;
    plan_extent(stage->algorithm->collective, count, stage->job->nranks, stage->nblocks, &total, &block);
    return (struct sim_lengths){.geometry = geometry_of(total, block, plan_chunk_elems(chunk_bytes, ELEM_BYTES),
                                                        (uint32_t)channel, (uint32_t)stage->nchannels),
                                .elem_bytes = ELEM_BYTES};
}

/* ---- one forecast ---- */

static enum collet_result find_bounds(struct sim *sim, struct forecast *f) {
    const struct sim_machine *machine = &sim->machine;
    double *load = malloc((size_t)(machine->nlinks + 1) * sizeof *load);
    if (load == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the load of %d links", machine->nlinks);
    const struct net *net = machine->context;
    enum collet_result result = sim_load(sim, f->candidate.protocol, load);
    for (int link = 0; link < machine->nlinks && result == COLLET_SUCCESS; link++) {
        double ns = load[link] / machine->link_gbps[link];
        enum topo_wire wire = net_link_wire(net, link);
        if (ns > f->link_ns) {
            f->link_ns = ns;
            f->link = link;
        }
        f->load[wire] = load[link] > f->load[wire] ? load[link] : f->load[wire];
        f->use[wire] = ns > f->use[wire] ? ns : f->use[wire];
    }
    free(load);
    return result == COLLET_SUCCESS ? sim_busiest(sim, f->candidate.protocol, &f->engine_ns) : result;
}

static bool is_beyond(const struct forecast *f, double limit_ns) {
    return limit_ns > 0 && (f->link_ns > limit_ns || f->engine_ns > limit_ns);
}

static double call_ns(const struct forecast_stage *stage) {
    return stage->job->net->gpu ? costs_launch_ns(stage->job->costs, stage->nchannels * stage->nworkers) : 0;
}

/* With the lengths that are set. */
static enum collet_result simulate(const struct forecast_stage *stage, struct sim *sim, double limit_ns,
                                   struct forecast *f) {
    COLLET_TRY(find_bounds(sim, f));
    if (is_beyond(f, limit_ns)) {
        f->kind = FORECAST_SLOWER;
        return COLLET_SUCCESS;
    }
    COLLET_TRY(sim_run(sim, f->candidate.protocol, ROUNDS_MAX, &f->ns));
    f->ns = fmax(f->ns, fmax(f->link_ns, f->engine_ns)) + call_ns(stage);
    for (int wire = 0; wire < TOPO_WIRE_COUNT; wire++)
        f->use[wire] /= f->ns;
    return COLLET_SUCCESS;
}

static void set_uniform(struct forecast_stage *stage, double bytes, uint32_t chunk_bytes) {
    struct sim_lengths lengths = {.uniform = true, .part_bytes = bytes / stage->nchannels, .chunk_bytes = chunk_bytes};
    for (int channel = 0; channel < stage->nchannels; channel++)
        sim_set(stage->uniform, channel, &lengths);
}

static enum collet_result find_latency(struct forecast_stage *stage, const struct forecast_wish *wish,
                                       struct forecast *f) {
    set_uniform(stage, NO_BYTES, 1);
    COLLET_TRY(sim_run(stage->uniform, wish->protocol, ROUNDS_MAX, &f->latency_ns));
    f->latency_ns += call_ns(stage);
    return COLLET_SUCCESS;
}

static struct sim *set_lengths(struct forecast_stage *stage, const struct forecast_wish *wish, struct forecast *f) {
    f->kind = has_empty_slices(stage, wish->bytes) ? FORECAST_BOUND
              : stage->grouping == SIM_EACH        ? FORECAST_EACH
                                                   : FORECAST_GROUPED;
    set_uniform(stage, block_bytes(stage, wish->bytes), wish->chunk_bytes);
    return stage->uniform;
}

static struct sim *set_exact(struct forecast_stage *stage, const struct forecast_wish *wish, struct forecast *f) {
    f->kind = FORECAST_EACH;
    for (int channel = 0; channel < stage->nchannels; channel++) {
        struct sim_lengths lengths = exact_lengths(stage, wish->bytes, wish->chunk_bytes, channel);
        sim_set(stage->exact, channel, &lengths);
    }
    return stage->exact;
}

/* a, b, c: of N, N/2, N/4 hosts; grown: N·grown is the number of hosts. Negative: they grow in no way that is known. */
static double extend(double a, double b, double c, double grown) {
    double ratio = (a - b) / (b - c);
    bool hardly = fabs(a - b) <= FEWER_NOTHING * a && fabs(b - c) <= FEWER_NOTHING * a;
    if (hardly || fabs(ratio - 1) <= FEWER_TOLERANCE)
        return a + fmax(a - c, 0) / 2 * log2(grown);
    if (fabs(ratio - 2) <= FEWER_TOLERANCE)
        return a + 2 * (a - b) * (grown - 1);
    return -1;
}

static enum collet_result run_fewer(struct forecast_stage *stage, const struct forecast_wish *wish,
                                    struct forecast *f) {
    struct forecast fewer[FORECAST_FEWER];
    for (int k = 0; k < FORECAST_FEWER; k++) {
        COLLET_TRY(forecast_run(stage->fewer[k], wish, &fewer[k]));
        if (fewer[k].kind == FORECAST_SLOWER)
            f->kind = FORECAST_SLOWER;
        if (fewer[k].kind != FORECAST_EACH) /* one that is grouped does not tell of one that cannot be */
            return COLLET_SUCCESS;
    }
    double grown = (double)stage->job->nhosts / stage->fewer_job[0].nhosts;
    double ns = extend(fewer[0].ns, fewer[1].ns, fewer[2].ns, grown);
    if (ns < 0) {
        f->fewer_hosts = stage->fewer_job[0].nhosts;
        for (int k = 0; k < FORECAST_FEWER; k++)
            f->fewer_ns[k] = fewer[k].ns;
        return COLLET_SUCCESS;
    }
    *f = fewer[0];
    f->kind = FORECAST_EXTENDED;
    for (int wire = 0; wire < TOPO_WIRE_COUNT; wire++)
        f->use[wire] *= f->ns / ns;
    f->ns = ns;
    if (wish->latency)
        f->latency_ns = extend(fewer[0].latency_ns, fewer[1].latency_ns, fewer[2].latency_ns, grown);
    return COLLET_SUCCESS;
}

/* Few enough elements for some slices to be empty, and few enough ranks to look at each of their steps. */
static bool is_worth_exactness(const struct forecast_stage *stage, uint64_t bytes) {
    double each = stage->grouping == SIM_EACH ? 1 : stage->job->nhosts;
    double exact_bytes = each * (stage->bytes + stage->steps * sizeof(struct sim_run));
    return has_empty_slices(stage, bytes) && exact_bytes <= FORECAST_BYTES_MAX / 4 &&
           is_affordable(stage, SIM_EACH, each * stage->steps);
}

/* A forecast without a time, and what will simulate it, with its lengths set; NULL: too many steps. */
static enum collet_result begin(struct forecast_stage *stage, const struct forecast_wish *wish, struct forecast *f,
                                struct sim **sim_p) {
    double rounds = block_bytes(stage, wish->bytes) / stage->nchannels / wish->chunk_bytes;
    bool exact = stage->fewer[0] == NULL && is_worth_exactness(stage, wish->bytes);
    *f = (struct forecast){.candidate = {stage->algorithm, wish->protocol, stage->nchannels, wish->chunk_bytes},
                           .kind = FORECAST_NONE,
                           .steps = stage->steps * fmin(fmax(rounds, 1), ROUNDS_MAX),
                           .latency_ns = -1,
                           .link = -1};
    if (exact && stage->exact == NULL)
        COLLET_TRY(build(stage, SIM_EACH, false, &stage->exact));
    if (exact)
        *sim_p = set_exact(stage, wish, f);
    else if (stage->uniform != NULL && is_affordable(stage, stage->grouping, f->steps))
        *sim_p = set_lengths(stage, wish, f);
    else
        *sim_p = NULL;
    return COLLET_SUCCESS;
}

enum collet_result forecast_run(struct forecast_stage *stage, const struct forecast_wish *wish, struct forecast *f) {
    struct sim *sim;
    COLLET_TRY(begin(stage, wish, f, &sim));
    if (stage->fewer[0] != NULL)
        return run_fewer(stage, wish, f);
    if (sim != NULL && sim == stage->uniform && wish->latency) {
        COLLET_TRY(find_latency(stage, wish, f));
        set_lengths(stage, wish, f);
    }
    return sim != NULL ? simulate(stage, sim, wish->limit_ns, f) : COLLET_SUCCESS;
}

/* ---- candidates ---- */

static uint32_t slot_bytes(const struct forecast_job *job) { return job->nhosts > 1 ? MESSAGE_SLOT_BYTES : SLOT_BYTES; }

/* One, one for each ring, and on GPUs twice as many again and again. */
int forecast_channels(const struct forecast_job *job, int channels[FORECAST_OPTIONS]) {
    int n = 0, nrings = job->net->nrings, few = FORECAST_MANY_RANKS / job->nranks;
    if (nrings > 1)
        channels[n++] = 1;
    channels[n++] = nrings;
    for (int more = 2 * nrings; job->net->gpu && job->nranks <= FORECAST_MANY_RANKS && n < FORECAST_OPTIONS; more *= 2)
        if (more <= CHANNELS_MAX && (more == 2 * nrings || more <= few))
            channels[n++] = more;
        else
            break;
    return n;
}

static bool is_affordable_on_gpus(const struct forecast_stage *stage) {
    return !stage->job->net->gpu || stage->nchannels <= stage->job->net->nrings ||
           (uint64_t)stage->nchannels <= plan_affordable_channels(stage->npeers, SLOTS, slot_bytes(stage->job));
}

int forecast_wishes(const struct forecast_stage *stage, uint64_t bytes, struct forecast_wish wishes[FORECAST_OPTIONS]) {
    double part = block_bytes(stage, bytes) / stage->nchannels;
    uint32_t slot = slot_bytes(stage->job);
    int n = 0;
    bool can_be_cut = part * stage->nchannels / stage->job->net->nrings >= GEOMETRY_ALIGN_ELEMS * ELEM_BYTES;
    if (!is_affordable_on_gpus(stage))
        return 0;
    if (stage->nchannels > 1 && part < GEOMETRY_ALIGN_ELEMS * ELEM_BYTES)
        return 0;
    if (stage->job->nranks > FORECAST_MANY_RANKS && stage->job->net->nrings > 1 && stage->nchannels == 1 && can_be_cut)
        return 0;
    if (part > slot / 4)
        wishes[n++] = (struct forecast_wish){bytes, PROTOCOL_SIMPLE, slot, false, 0};
    wishes[n++] = (struct forecast_wish){bytes, PROTOCOL_SIMPLE, slot / 4, false, 0};
    wishes[n++] = (struct forecast_wish){bytes, PROTOCOL_LL, LL_SLOT_BYTES, false, 0};
    if (net_keeps_lines(stage->job->net))
        wishes[n++] = (struct forecast_wish){bytes, PROTOCOL_LL128, LL_SLOT_BYTES, false, 0};
    return n;
}

/* No time of the wish's is less than this. */
static enum collet_result find_bound(struct forecast_stage *stage, const struct forecast_wish *wish, double *ns_p) {
    struct forecast f;
    struct sim *sim;
    if (stage->fewer[0] != NULL)
        return find_bound(stage->fewer[0], wish, ns_p);
    COLLET_TRY(begin(stage, wish, &f, &sim));
    if (sim != NULL)
        COLLET_TRY(find_bounds(sim, &f));
    *ns_p = fmax(f.link_ns, f.engine_ns);
    return COLLET_SUCCESS;
}

bool forecast_is_known(const struct forecast *f) { return f->kind != FORECAST_NONE && f->kind != FORECAST_SLOWER; }

/* The next wish: of those that are left the one with the lowest bound, of equal ones the first. */
static int next_wish(const double *bounds, int n) {
    int next = -1;
    for (int k = 0; k < n; k++)
        if (bounds[k] >= 0 && (next < 0 || bounds[k] < bounds[next]))
            next = k;
    return next;
}

enum collet_result forecast_improve(struct forecast_stage *stage, uint64_t bytes, struct forecast *best) {
    struct forecast_wish wishes[FORECAST_OPTIONS];
    double bounds[FORECAST_OPTIONS];
    int n = forecast_wishes(stage, bytes, wishes);
    for (int k = 0; k < n; k++)
        COLLET_TRY(find_bound(stage, &wishes[k], &bounds[k]));
    for (int k; (k = next_wish(bounds, n)) >= 0; bounds[k] = -1) {
        struct forecast forecast;
        wishes[k].limit_ns = forecast_is_known(best) ? best->ns : 0;
        COLLET_TRY(forecast_run(stage, &wishes[k], &forecast));
        bool first = best->candidate.algorithm == NULL;
        if (first || (forecast_is_known(&forecast) && (!forecast_is_known(best) || forecast.ns < best->ns)))
            *best = forecast;
    }
    return COLLET_SUCCESS;
}

double forecast_bus_factor(enum prog_collective collective, int nranks) {
    double others = (double)(nranks - 1) / nranks;
    if (!prog_is_sliced(collective))
        return others;
    return prog_facts[collective].root == PROG_NO_ROOT ? 2 * others : 1;
}
