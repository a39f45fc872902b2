/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of equal hosts as the cost model sees it: one host's ranks and routes, which are those of every host. Ranks are
 * numbered along the first ring, as a communicator's model numbers them.
 */
#include "layers/tools/forecast/job.h"

#include "base/config_read.h"
#include "base/memory.h"
#include "chan/chan.h"
#include "chan/slots.h"
#include "layers/gpu/nvlink.h"
#include "layers/tuner/cards.h"
#include "layers/tuner/costs_file.h"
#include "layers/tuner/host.h"
#include "plan/map.h"
#include "topo/probe/chart.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- ranks ---- */

static enum collet_result find_rings(const struct topo *topo, int per_host, struct topo_rings **rings_p) {
    int nranks, *place;
    COLLET_TRY(topo_place_ranks(topo, per_host, &nranks, &place));
    enum collet_result result = topo_search(topo, nranks, place, rings_p);
    free(place);
    if (result == COLLET_SUCCESS && (*rings_p)->ncrossings > 1)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "host %d differs from host 0: forecasts are for jobs of equal hosts",
                       (*rings_p)->crossings[1].host);
    return result;
}

static const int *order_of(const struct topo_rings *rings, int ring) {
    bool backwards;
    return topo_route_of(rings, ring, 0, &backwards)->order;
}

/* The number of a rank in the job: its place along the first ring. `local` is the rank's number on its host, as in the
 * rings. */
static int number_of(const struct forecast_job *job, int local) {
    const int *order = order_of(job->rings, 0);
    int number = 0;
    while (order[number] != local)
        number++;
    return number;
}

/* ---- shapes ---- */

static enum collet_result make_shape(const struct forecast_job *job, int ring, struct prog_shape *shape) {
    const int *order = order_of(job->rings, ring);
    *shape = (struct prog_shape){.nranks = job->nranks,
                                 .nnodes = job->nhosts,
                                 .node_ranks = job->nlocal,
                                 .order = malloc((size_t)job->nranks * sizeof(int)),
                                 .position = malloc((size_t)job->nranks * sizeof(int)),
                                 .zigzag = job->rings->zigzag && !job->machine.uniform,
                                 .chains = job->machine.gpu};
    if (shape->order == NULL || shape->position == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the order of %d ranks", job->nranks);
    for (int i = 0; i < job->nlocal; i++) {
        int number = number_of(job, order[i]);
        for (int h = 0; h < job->nhosts; h++) {
            shape->order[h * job->nlocal + i] = h * job->nlocal + number;
            shape->position[h * job->nlocal + number] = h * job->nlocal + i;
        }
    }
    return COLLET_SUCCESS;
}

static enum collet_result make_shapes(struct forecast_job *job) {
    COLLET_TRY(memory_get(&job->shapes, (size_t)job->rings->nrings, sizeof(*job->shapes), "no memory for %d rings",
                          job->rings->nrings));
    for (; job->machine.nshapes < job->rings->nrings; job->machine.nshapes++)
        COLLET_TRY(make_shape(job, job->machine.nshapes, &job->shapes[job->machine.nshapes]));
    job->machine.shapes = job->machine.whole = job->shapes;
    return COLLET_SUCCESS;
}

/* ---- routes ---- */

static enum net_reach reach_of(const void *context, int from, int to) {
    const struct forecast_job *job = context;
    (void)from, (void)to;
    if (strcasecmp(job->config.cpu_distance, "auto") == 0 && job->costs.host.line_ns > 0)
        return NET_MEASURED;
    return strcasecmp(job->config.cpu_distance, "far") == 0 ? NET_FAR : NET_NEAR;
}

/* Each rank counts as a process of its own. */
static struct sim_loan loan_of(const void *context, int from, int to) {
    const struct forecast_job *job = context;
    (void)from, (void)to;
    return net_loan_of_processes(&job->config);
}

static enum collet_result job_routes(struct forecast_job *job) {
    const struct topo_rings *rings = job->rings;
    int n = job->nlocal;
    struct arena arena SCOPED_ARENA = {0};
    int *rank_of = arena_get(&arena, 2 * (size_t)n, sizeof(*rank_of));
    int *place = arena_get(&arena, (size_t)n, sizeof(*place));
    COLLET_TRY(arena_check(&arena, "no memory for the routes of %d ranks", n));
    for (int i = 0; i < n; i++) {
        rank_of[i] = topo_rank_of(rings, 0, order_of(rings, 0)[i]);
        rank_of[n + i] = rings->nhosts > 1 ? topo_rank_of(rings, 1, order_of(rings, 0)[i]) : -1;
        place[i] = rings->place[rank_of[i]];
    }
    struct net_source source = {rings->topo,      rings,    n,       job->nhosts, rank_of, place,
                                job->machine.gpu, reach_of, loan_of, job};
    COLLET_TRY(net_create(&source, &job->net));
    job->machine.net = job->net;
    return COLLET_SUCCESS;
}

/* ---- what may be chosen ---- */

/* The node of the graph where a rank of a host is. */
static int place_of(const struct forecast_job *job, int i) {
    return job->rings->place[topo_rank_of(job->rings, 0, order_of(job->rings, 0)[i])];
}

/* Can the NVSwitches of the machine make sums? Switches of the third generation, which join H100, and later switches can. Whether they
 * do so in a call depends on its buffers; a forecast assumes that they do. */
static bool switches_sum(const struct forecast_job *job) {
    for (int i = 0; i < job->nlocal; i++) {
        const struct topo_node *gpu = &job->rings->topo->nodes[job->rings->place[topo_rank_of(job->rings, 0, i)]];
        bool switched = false;
        for (int l = gpu->first_link; l >= 0; l = job->rings->topo->links[l].next)
            switched |= job->rings->topo->nodes[job->rings->topo->links[l].to].kind == TOPO_NVS;
        if (gpu->gpu.sm < 90 || !switched)
            return false;
    }
    return job->nhosts == 1;
}

/* May LL128 be used? The rule is that of communicators (plan.c, nvlink.h): on GPUs, only if several GPUs are on a host and NVLink joins
 * them. If the graph does not name the kind of a GPU, it counts as a new kind. */
static enum collet_result lines_are_whole(const struct forecast_job *job, bool *whole) {
    const struct topo_rings *rings = job->rings;
    SCOPED_FREE struct nvlink_card *cards = NULL;
    SCOPED_FREE int32_t *place = NULL;
    COLLET_TRY(memory_get(&cards, (size_t)job->nlocal, sizeof *cards, "no memory for %d GPUs", job->nlocal));
    COLLET_TRY(memory_get(&place, (size_t)job->nlocal, sizeof *place, "no memory for %d GPUs", job->nlocal));
    for (int i = 0; i < job->nlocal; i++) {
        place[i] = rings->place[topo_rank_of(rings, 0, order_of(rings, 0)[i])];
        int sm = rings->topo->nodes[place[i]].gpu.sm;
        cards[i] =
            (struct nvlink_card){.on_gpu = 1, .capability = sm == 0 ? 90 : (uint32_t)sm, .gpu = (uint64_t)place[i] + 1};
    }
    *whole = (job->nlocal > 1 || job->nranks == 1) && nvlink_joins_all(rings->topo, place, cards, job->nlocal);
    return COLLET_SUCCESS;
}

/* The maximum number of ranks that share a GPU, counted as in plan.c. *apart_p: not all ranks share one GPU. */
static int ranks_of_a_gpu(const struct forecast_job *job, bool *apart_p) {
    int most = 1;
    *apart_p = job->nhosts > 1;
    for (int a = 0; a < job->nlocal; a++) {
        int here = 0;
        for (int b = 0; b < job->nlocal; b++) {
            bool shared = place_of(job, a) == place_of(job, b);
            here += shared;
            *apart_p |= !shared;
        }
        most = here > most ? here : most;
    }
    return most;
}

static enum collet_result set_limits(struct forecast_job *job) {
    const struct chan_scale scale = {job->nranks, job->nlocal, job->nhosts > 1, job->machine.gpu, false};
    struct fifo_layout layouts[PROG_CONNECTS_COUNT];
    chan_layouts(&job->config, &scale, layouts);
    job->machine.nslots = layouts[PROG_TO_FEW].nslots;
    COLLET_TRY(tuner_limits_read(&job->config, layouts, chart_rails(job->rings), &job->limits));
    if (!job->machine.gpu)
        return COLLET_SUCCESS;
    bool whole;
    COLLET_TRY(lines_are_whole(job, &whole));
    bool apart;
    int sharers = ranks_of_a_gpu(job, &apart);
    job->limits.protocol_allowed[PROTOCOL_LL128] &= whole;
    tuner_limits_of_gpus(&job->config, job->costs.gpu_blocks, sharers, apart, &job->limits);
    job->machine.switched_from = whole && switches_sum(job) ? net_lent_from(&job->config) : 0;
    return COLLET_SUCCESS;
}

/* ---- who shares a CPU ---- */

/* Number of CPUs of a host. 0: the graph does not say it. */
static int count_cpus(const struct topo *topo) {
    int cpus = 0;
    for (int node = topo->hosts[0].first_node; node < topo->hosts[0].end_node; node++)
        for (int k = 0; topo->nodes[node].kind == TOPO_CPU && k < topo->nodes[node].cpu.affinity_words; k++)
            cpus += __builtin_popcount(topo->nodes[node].cpu.affinity[k]);
    return cpus;
}

static enum collet_result job_crowds(struct forecast_job *job) {
    int cpus = job->config.cpus > 0 ? (int)job->config.cpus : count_cpus(job->rings->topo);
    if (job->machine.gpu || cpus == 0)
        return COLLET_SUCCESS;
    COLLET_TRY(memory_get(&job->crowd, (size_t)job->nranks, sizeof(*job->crowd), "no memory for the CPUs of %d ranks",
                          job->nranks));
    for (int rank = 0; rank < job->nranks; rank++)
        job->crowd[rank] = (double)job->nlocal / cpus;
    job->machine.crowd = job->crowd;
    return COLLET_SUCCESS;
}

/* ---- all of it ---- */

static enum collet_result fill(struct forecast_job *job, const struct topo *topo, int per_host) {
    COLLET_TRY(config_read(&job->config));
    COLLET_TRY(find_rings(topo, per_host, &job->rings));
    job->nlocal = topo_nlocal(job->rings, 0);
    job->nranks = job->nhosts * job->nlocal;
    const struct topo_node *first = &topo->nodes[job->rings->place[0]];
    job->costs = costs_default;
    if (first->kind == TOPO_GPU)
        COLLET_TRY(card_suit((struct card_gpu){.sm = first->gpu.sm}, CARD_KERNELS, &job->costs));
    if (job->config.tuner_file[0] != '\0')
        COLLET_TRY(costs_read(job->config.tuner_file, &job->costs));
    host_suit(&job->costs);
    job->machine = (struct cost_machine){
        .costs = &job->costs,
        .gpu = first->kind == TOPO_GPU,
        .fans = first->kind != TOPO_GPU && job->nhosts == 1 && job->nranks > 2 && job->config.fans,
        .cast = {.grouping = SIM_EACH, .nhosts = job->nhosts, .nlocal = job->nlocal},
        .uniform = job->nranks > COST_RANKS_MAX,
    };
    COLLET_TRY(make_shapes(job));
    COLLET_TRY(job_routes(job));
    COLLET_TRY(job_crowds(job));
    return set_limits(job);
}

enum collet_result forecast_open(const struct topo *topo, int nhosts, int per_host, struct forecast_job **job_p) {
    struct forecast_job *job;
    COLLET_TRY(memory_get(&job, 1, sizeof *job, "no memory for a job of %d hosts", nhosts));
    job->nhosts = nhosts;
    job->elem_bytes = 1;
    job->steps_max = FORECAST_STEPS_MAX;
    enum collet_result result = fill(job, topo, per_host);
    if (result == COLLET_SUCCESS)
        *job_p = job;
    else
        forecast_close(job);
    return result;
}

void forecast_close(struct forecast_job *job) {
    if (job == NULL)
        return;
    for (int k = 0; k < job->machine.nshapes; k++)
        prog_shape_fini(&job->shapes[k]);
    free(job->shapes);
    free(job->crowd);
    net_destroy(job->net);
    topo_rings_destroy(job->rings);
    free(job);
}
