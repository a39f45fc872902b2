/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulation at work: take the worker that has been ready longest, do its step, wake the workers that can go on
 * now. sim.h has the picture.
 */
#include "layers/tuner/sim.h"

#include "base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ps_of(double ns) { return (int64_t)(ns * 1000 + 0.5); }

/* ---- pieces ---- */

static uint32_t uniform_rounds(const struct sim_lengths *lengths) {
    double rounds = lengths->part_bytes / lengths->chunk_bytes;
    uint32_t whole = (uint32_t)rounds;
    return whole + (rounds > whole || whole == 0);
}

uint32_t sim_rounds(const struct sim_lengths *lengths) {
    return lengths->uniform ? uniform_rounds(lengths) : (uint32_t)lengths->geometry.nrounds;
}

static double uniform_bytes(const struct sim_lengths *lengths, const struct sim_run *run, uint32_t round) {
    double left = lengths->part_bytes - round * lengths->chunk_bytes;
    return run->pieces * (left < lengths->chunk_bytes ? left > 0 ? left : 0 : lengths->chunk_bytes);
}

double sim_bytes(const struct sim *sim, const struct sim_lengths *lengths, const struct sim_run *run, uint32_t round) {
    if (lengths->uniform)
        return uniform_bytes(lengths, run, round);
    const struct sim_blocks *blocks = &sim->blocks[run - sim->runs];
    uint64_t elems = 0;
    for (uint32_t i = 0; i < run->pieces; i++)
        elems += geometry_piece(&lengths->geometry, geometry_block(&blocks->about, i, blocks->nblocks), round).count;
    return (double)(elems * lengths->elem_bytes);
}

/* ---- becoming ready ---- */

static const struct sim_run *run_of(const struct sim *sim, const struct sim_worker *w) {
    return &sim->runs[w->first_run + w->run];
}

static double piece_of(const struct sim *sim, const struct sim_worker *w) {
    return sim_bytes(sim, &sim->lengths[w->channel], run_of(sim, w), w->round);
}

static int64_t *slot_of(const struct sim *sim, int32_t conn, uint32_t number) {
    return &sim->slots[(size_t)conn * sim->nslots + number % sim->nslots];
}

/* Raises *at_ps to the time at which the step has all operands and credits that it needs. False: this time is not known yet, because
 * some operand was not sent yet, or some slot not given back. */
static bool is_ready(const struct sim *sim, const struct sim_run *run, int64_t *at_ps) {
    for (uint32_t k = 0; k < run->recv_count; k++) {
        int32_t c = sim->refs[run->recv_first + k];
        if (sim->conns[c].received == sim->conns[c].sent)
            return false;
        *at_ps = later(*at_ps, *slot_of(sim, c, sim->conns[c].received));
    }
    for (uint32_t k = 0; k < run->send_count; k++) {
        int32_t c = sim->refs[run->send_first + k];
        if (sim->conns[c].sent - sim->conns[c].received == sim->machine.nslots)
            return false;
        *at_ps = later(*at_ps, *slot_of(sim, c, sim->conns[c].sent));
    }
    return true;
}

static void advance(struct sim *sim, struct sim_worker *w) {
    if (++w->step < run_of(sim, w)->count)
        return;
    w->step = 0;
    if (++w->run < w->nruns)
        return;
    w->run = 0;
    uint32_t rounds = sim_rounds(&sim->lengths[w->channel]);
    if (++w->round == (rounds < sim->rounds_run ? rounds : sim->rounds_run))
        w->state = SIM_DONE;
}

/* Puts the worker into the queue if the time at which its next step can begin is known. Skips steps whose pieces are empty;
 * the other end skips them too. */
static void wake(struct sim *sim, int32_t number) {
    struct sim_worker *w = &sim->workers[number];
    w->state = SIM_BLOCKED;
    while (w->state != SIM_DONE && piece_of(sim, w) <= 0)
        advance(sim, w);
    int64_t at_ps = w->at_ps;
    if (w->state == SIM_DONE || !is_ready(sim, run_of(sim, w), &at_ps))
        return;
    w->state = SIM_READY;
    w->at_ps = at_ps;
    w->order = sim->norders++;
    sim_queue_put(sim->queue, (struct sim_event){at_ps, number});
}

/* ---- one step ---- */

/* A message on its way over links: the times of its first and of its last byte. */
struct transit {
    int64_t head_ps, tail_ps;
};

static void cross(struct sim *sim, const struct sim_links *links, int host, double bytes, struct sim_crossing crossing,
                  struct transit *transit) {
    for (int k = 0; k < links->count; k++) {
        double part = k == 0 ? crossing.first : crossing.behind;
        if (sim->machine.link_gbps[links->link[k]] == 0)
            part *= sim_moved_share(sim, LINK_GPU, bytes);
        int64_t *free_ps = &sim->link_free[host * sim->machine.nlinks + links->link[k]];
        transit->head_ps = later(transit->head_ps, *free_ps);
        int64_t ps = (int64_t)(bytes * part * sim->link_ps[links->link[k]] + 0.5);
        *free_ps = transit->head_ps + (int64_t)((double)ps * sim->turns);
        transit->tail_ps = later(transit->tail_ps, transit->head_ps + ps);
    }
}

/* Is the step one of the second half of two-shot, which sums and sends? Then a switch stores its result in all GPUs at once. The other
 * steps send slices, which a switch reads from all GPUs at once. */
static bool sums(const struct sim_run *run) { return run->recv_count > 0 && run->send_count > 0; }

struct sim_crossing sim_crossing_of(const struct sim *sim, const struct sim_run *run) {
    if (!sim->switched)
        return (struct sim_crossing){1, 1};
    const double others = sim_nplayers(&sim->cast) - 1, share = sim->machine.costs->switched_share;
    const double one = 1 / others / share, own_too = (others + 1) / others / share;
    return sums(run) ? (struct sim_crossing){one, own_too} : (struct sim_crossing){own_too, one};
}

/* Returns the time at which the last byte is through all links, if the first byte starts at head_ps. */
static int64_t cross_all(struct sim *sim, const struct sim_conn *conn, struct sim_crossing crossing, int64_t head_ps,
                         double bytes) {
    struct transit transit = {head_ps, head_ps};
    cross(sim, &conn->route.out, conn->out_host, bytes, crossing, &transit);
    cross(sim, &conn->route.in, conn->in_host, bytes, crossing, &transit);
    return transit.tail_ps;
}

static const struct step_cost *cost_of(const struct sim *sim, enum link_class class) {
    return &sim->machine.costs->step[class][protocol_costs_as(sim->protocol)];
}

const struct sim_route *sim_peer_route(const struct sim *sim, const struct sim_run *run, uint32_t k) {
    uint32_t ref = k < run->recv_count ? run->recv_first + k : run->send_first + k - run->recv_count;
    return &sim->conns[sim->refs[ref]].route;
}

double sim_moved_share(const struct sim *sim, enum link_class class, double bytes) {
    const bool near = class == LINK_GPU || class == LINK_GPU_NVLINK;
    if (!near || sim->lent_from == 0 || bytes < sim->lent_from || sim->protocol != PROTOCOL_SIMPLE)
        return 1;
    return 1 - sim->machine.lent * (1 - sim->machine.costs->gpu_lent_share);
}

/* The share of the program's messages of this length that are lent on this route. */
static double lent_share(const struct sim *sim, const struct sim_route *route, double bytes) {
    if (sim->protocol != PROTOCOL_SIMPLE || route->loan.least_bytes == 0 || bytes < route->loan.least_bytes)
        return 0;
    return route->loan.class == LINK_LENT_CMA && sim->machine.root_reduces ? 0 : sim->machine.lent;
}

/* Is the payload of a loan copied to scratch memory before it is used? The kernel copies payloads that are reduced
 * (layers/memory/exec_direct.c). */
static bool needs_scratch(const struct sim *sim, const struct sim_run *run, const struct sim_route *route) {
    return route->loan.class == LINK_LENT_CMA && run->recv_count + sim->kinds[run->kind].loads > 1;
}

/* Cost of a message of this length at one of its ends. A share of the program's messages is lent, so this is the mean of lent messages
 * and messages in slots. The producer of a loan only writes where its payload lies. The consumer moves the bytes. */
static struct step_cost cost_at_end(const struct sim *sim, const struct sim_route *route, double bytes, bool consumes) {
    const struct step_cost *slot = cost_of(sim, route->class), *loan = cost_of(sim, route->loan.class);
    const double share = lent_share(sim, route, bytes);
    const double peer_ns = consumes ? loan->peer_ns : slot->peer_ns;
    const double byte_ns = (consumes ? 1 - route->loan.helped : route->loan.helped) * loan->byte_ns;
    return (struct step_cost){.step_ns = slot->step_ns,
                              .peer_ns = slot->peer_ns + share * (peer_ns - slot->peer_ns),
                              .byte_ns = slot->byte_ns + share * (byte_ns - slot->byte_ns),
                              .alpha_ns = slot->alpha_ns + share * (loan->alpha_ns - slot->alpha_ns),
                              .wire_byte_ns = slot->wire_byte_ns,
                              .fence_ns = slot->fence_ns};
}

/* The number of a step's local operands that its engine touches. The engine does not touch an operand that the step only
 * lends. */
static double touched_locals(const struct sim *sim, const struct sim_run *run, double bytes) {
    const struct sim_kind *kind = &sim->kinds[run->kind];
    double lent = 0;
    if (run->recv_count > 0 || kind->stores > 0 || run->send_count == 0)
        return kind->loads;
    for (uint32_t k = 0; k < run->send_count; k++)
        lent += lent_share(sim, sim_peer_route(sim, run, k), bytes) / run->send_count;
    return (1 - lent) * kind->loads;
}

static struct sim_work work_of_kind(const struct sim *sim, const struct sim_kind *kind, double bytes) {
    const struct step_cost *home = cost_of(sim, sim->machine.home);
    const struct sim_run *run = &sim->runs[kind->run];
    const bool idle = sim->switched && !sums(run);
    const uint32_t npeers = run->recv_count + run->send_count;
    struct sim_work work = {.bytes_ns =
                                idle ? 0 : (touched_locals(sim, run, bytes) + kind->stores) * bytes * home->byte_ns};
    double fence_ns = 0, step_ns = sim->machine.gpu && npeers > 0 ? 0 : home->step_ns;
    /* Only the first consumer of a fan counts: the others read the same slot. */
    const uint32_t written = kind->fan ? run->recv_count + 1 : npeers;
    for (uint32_t k = 0; k < written; k++) {
        struct step_cost cost = cost_at_end(sim, sim_peer_route(sim, run, k), bytes, k < run->recv_count);
        work.fixed_ns += cost.peer_ns;
        if (k < run->recv_count && needs_scratch(sim, run, sim_peer_route(sim, run, k)))
            cost.byte_ns += lent_share(sim, sim_peer_route(sim, run, k), bytes) * home->byte_ns;
        double moved = sim_moved_share(sim, sim_peer_route(sim, run, k)->class, bytes);
        work.bytes_ns += sim->switched ? 0 : moved * bytes * cost.byte_ns;
        work.slots_ns += (1 - lent_share(sim, sim_peer_route(sim, run, k), bytes)) * bytes * cost.byte_ns;
        fence_ns = fmax(fence_ns, cost.fence_ns);
        step_ns = sim->machine.gpu ? fmax(step_ns, cost.step_ns) : step_ns;
    }
    work.fixed_ns += step_ns;
    /* The cost of the fences of a team, before and behind the step, is guessed. */
    work.fixed_ns += sim->switched && !idle ? 3 * fence_ns : fence_ns;
    double turns =
        sim->machine.gpu ? 1 : sim->turns; /* A CPU runs all channels. On a GPU each channel has its blocks. */
    work.fixed_ns *= turns;
    work.bytes_ns *= turns * (1 + (kind->turns ? sim->machine.costs->turns_share : 0));
    return work;
}

struct sim_work sim_work_of(struct sim *sim, const struct sim_run *run, double bytes) {
    struct sim_kind *kind = &sim->kinds[run->kind];
    if (kind->bytes != bytes) {
        kind->bytes = bytes;
        kind->work = work_of_kind(sim, kind, bytes);
    }
    return kind->work;
}

void sim_begin(struct sim *sim, enum protocol protocol) {
    sim->protocol = protocol;
    for (int link = 0; link < sim->machine.nlinks; link++) {
        double gbps = sim_link_gbps(sim->machine.link_gbps, sim->machine.costs, link);
        sim->link_ps[link] = gbps > 0 ? 1000 / gbps : 0;
    }
    for (size_t k = 0; k < sim->nkinds; k++)
        sim->kinds[k].bytes = -1;
}

static bool shares_cpu(const struct sim *sim, int engine) { return sim->cpus != NULL && sim->cpus[engine].count > 0; }

/* The clock of the CPU on which a rank can run soonest. If ranks share CPUs, this is the CPU of its node that is free first; otherwise
 * the rank's own CPU. */
static int64_t *free_cpu(struct sim *sim, int engine) {
    if (!shares_cpu(sim, engine))
        return &sim->engine_free[engine];
    int64_t *first = &sim->engine_free[sim->cpus[engine].first], *best = first;
    for (uint32_t k = 1; k < sim->cpus[engine].count; k++)
        if (first[k] < *best)
            best = &first[k];
    return best;
}

/* Time until a CPU that ranks share has switched to another rank. A rank that waits first looks at its sockets in vain, then gives up
 * the CPU. */
static double switch_ns(const struct sim *sim, const struct sim_run *run) {
    double look_ns = 0;
    for (uint32_t k = 0; k < run->recv_count; k++) {
        enum link_class class = sim_peer_route(sim, run, k)->class;
        look_ns = costs_is_remote(class) ? cost_of(sim, class)->peer_ns : look_ns;
    }
    return sim->machine.costs->switch_ns + look_ns;
}

/* The time at which the worker is ready, and its engine and its CPU are free. */
static int64_t starts_at(struct sim *sim, const struct sim_worker *w) {
    return later(w->at_ps, later(sim->engine_free[w->engine], *free_cpu(sim, w->engine)));
}

/* Bytes that cross the memory per byte that is stored: the byte is first read, then written back. */
#define STORE_BYTES 2

double sim_memory_ns(const struct sim *sim, const struct sim_run *run, double bytes) {
    const struct sim_kind *kind = &sim->kinds[run->kind];
    const double gbps = sim->machine.costs->host.memory_gbps;
    if (sim->memory == NULL || gbps == 0 || sim->missed == 0)
        return 0;
    double touched = kind->loads + STORE_BYTES * kind->stores;
    for (uint32_t k = 0; k < run->recv_count && run->recv_count > 1; k++)
        if (needs_scratch(sim, run, sim_peer_route(sim, run, k)))
            touched += lent_share(sim, sim_peer_route(sim, run, k), bytes) * (STORE_BYTES + 1);
    return sim->turns * sim->missed * touched * bytes / gbps;
}

/* Adds a step to the work of its node's memory, which serves one step after the other. Returns the time at which the memory has served
 * this step. */
static int64_t cross_memory(struct sim *sim, const struct sim_worker *w, const struct sim_run *run, double bytes) {
    const int64_t ps = ps_of(sim_memory_ns(sim, run, bytes));
    if (ps == 0)
        return 0;
    int64_t *free_ps = &sim->engine_free[sim->memory[w->engine]];
    return *free_ps = later(*free_ps, w->at_ps) + ps;
}

/* Time that each further consumer of a fan adds, because all consumers fetch the same lines one after the other. 15 consumers took 190
 * ns longer than one (MPICH's broadcast of 8 bytes, which has one line for all, on 16 cores of a Xeon). */
#define FAN_CONSUMER_NS 14

static void do_step(struct sim *sim, struct sim_worker *w) {
    const struct sim_run *run = run_of(sim, w);
    double bytes = sim->weightless ? 0 : piece_of(sim, w);
    struct sim_work work = sim_work_of(sim, run, bytes);
    int64_t *engine_ps = &sim->engine_free[w->engine], *cpu_ps = free_cpu(sim, w->engine);
    if (cpu_ps != engine_ps && w->at_ps > *engine_ps)
        work.fixed_ns += switch_ns(sim, run);
    int64_t head_ps = starts_at(sim, w) + ps_of(work.fixed_ns);
    const int64_t memory_ps = cross_memory(sim, w, run, bytes);
    int64_t end_ps = later(head_ps + ps_of(work.bytes_ns), memory_ps > 0 ? memory_ps + ps_of(work.slots_ns) : 0);
    const struct sim_crossing crossing = sim_crossing_of(sim, run);
    *engine_ps = *cpu_ps = w->at_ps = end_ps;
    for (uint32_t k = 0; k < run->recv_count; k++) {
        int32_t c = sim->refs[run->recv_first + k];
        *slot_of(sim, c, sim->conns[c].received++) = end_ps;
    }
    for (uint32_t k = 0; k < run->send_count; k++) {
        int32_t c = sim->refs[run->send_first + k];
        struct sim_conn *conn = &sim->conns[c];
        struct step_cost cost = cost_at_end(sim, &conn->route, bytes, false);
        double wire_bytes = bytes * protocol_wire_factor(sim->protocol, costs_is_remote(conn->route.class));
        const double lent = run->recv_count > 0 ? 0 : lent_share(sim, &conn->route, bytes);
        const int64_t there_ps = end_ps - (int64_t)(lent * (double)(end_ps - head_ps));
        int64_t through_ps = later(there_ps, cross_all(sim, conn, crossing, head_ps, wire_bytes));
        if (sim->kinds[run->kind].fan)
            cost.alpha_ns += k * FAN_CONSUMER_NS;
        *slot_of(sim, c, conn->sent++) = through_ps + ps_of(cost.alpha_ns + bytes * cost.wire_byte_ns);
    }
}

static void wake_peers(struct sim *sim, const struct sim_run *run) {
    for (uint32_t k = 0; k < run->recv_count; k++) {
        int32_t producer = sim->conns[sim->refs[run->recv_first + k]].producer;
        if (sim->workers[producer].state == SIM_BLOCKED)
            wake(sim, producer);
    }
    for (uint32_t k = 0; k < run->send_count; k++) {
        int32_t consumer = sim->conns[sim->refs[run->send_first + k]].consumer;
        if (sim->workers[consumer].state == SIM_BLOCKED)
            wake(sim, consumer);
    }
}

/* ---- a whole call ---- */

/* Checks the connections and makes room, before the first run. */
static enum collet_result make_ready(struct sim *sim) {
    if (sim->queue != NULL)
        return COLLET_SUCCESS;
    for (size_t c = 0; c < sim->nconns; c++)
        if (sim->conns[c].producer < 0 || sim->conns[c].consumer < 0)
            return err_set(COLLET_ERR_INTERNAL, "simulated ranks disagree about who talks to whom");
    sim->most_sent = 1;
    for (size_t k = 0; k < sim->nruns; k++)
        for (uint32_t s = 0; s < sim->runs[k].send_count; s++) {
            struct sim_conn *conn = &sim->conns[sim->refs[sim->runs[k].send_first + s]];
            conn->sent += sim->runs[k].count;
            sim->most_sent = conn->sent > sim->most_sent ? conn->sent : sim->most_sent;
        }
    sim->queue = sim_queue_create(sim->nworkers);
    sim->link_free = malloc((sim->nlinks + 1) * sizeof *sim->link_free);
    sim->engine_free = malloc((sim->nclocks + 1) * sizeof *sim->engine_free);
    if (sim->queue == NULL || sim->link_free == NULL || sim->engine_free == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to simulate %zu workers and %zu connections", sim->nworkers,
                       sim->nconns);
    return COLLET_SUCCESS;
}

/* Makes room for the slots that this number of rounds uses. */
static enum collet_result make_slots(struct sim *sim, uint32_t rounds) {
    uint64_t sent = (uint64_t)sim->most_sent * rounds;
    sim->nslots = sent < sim->machine.nslots ? (uint32_t)sent : sim->machine.nslots;
    size_t want = (sim->nconns + 1) * sim->nslots;
    if (want <= sim->slots_room)
        return COLLET_SUCCESS;
    free(sim->slots);
    sim->slots_room = 0;
    sim->slots = malloc(want * sizeof *sim->slots);
    if (sim->slots == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to simulate %zu connections", sim->nconns);
    sim->slots_room = want;
    return COLLET_SUCCESS;
}

static void reset(struct sim *sim) {
    memset(sim->slots, 0, sim->nconns * sim->nslots * sizeof *sim->slots);
    memset(sim->link_free, 0, sim->nlinks * sizeof *sim->link_free);
    memset(sim->engine_free, 0, sim->nclocks * sizeof *sim->engine_free);
    for (size_t c = 0; c < sim->nconns; c++)
        sim->conns[c].sent = sim->conns[c].received = 0;
    sim_queue_reset(sim->queue);
    sim->norders = sim->nevents = 0;
    for (size_t w = 0; w < sim->nworkers; w++) {
        struct sim_worker *worker = &sim->workers[w];
        worker->round = worker->run = worker->step = 0;
        worker->at_ps = 0;
        worker->state = SIM_BLOCKED;
    }
    for (size_t w = 0; w < sim->nworkers; w++)
        wake(sim, (int32_t)w);
}

void sim_set(struct sim *sim, int channel, const struct sim_lengths *lengths) { sim->lengths[channel] = *lengths; }

/* Simulates this number of rounds. Stores their time in *ps_p. */
static enum collet_result run_rounds(struct sim *sim, uint32_t rounds, int64_t *ps_p) {
    COLLET_TRY(make_slots(sim, rounds));
    struct sim_event event;
    sim->rounds_run = rounds;
    reset(sim);
    void *skipper = sim->skips != NULL ? sim->skips->create(sim) : NULL;
    while (sim_queue_take(sim->queue, &event)) {
        struct sim_worker *w = &sim->workers[event.worker];
        const struct sim_run *run = run_of(sim, w);
        if (shares_cpu(sim, w->engine) &&
            starts_at(sim, w) > event.at_ps) { /* Until that time, other workers may come first. */
            sim_queue_put(sim->queue, (struct sim_event){starts_at(sim, w), event.worker});
            continue;
        }
        do_step(sim, w);
        w->state = SIM_BLOCKED;
        advance(sim, w);
        if (w->state != SIM_DONE)
            wake(sim, event.worker);
        wake_peers(sim, run);
        sim->nevents++;
        if (skipper != NULL)
            sim->skips->look(skipper, sim, event.worker, event.at_ps);
    }
    if (skipper != NULL)
        sim->skips->destroy(skipper);
    *ps_p = 0;
    for (size_t w = 0; w < sim->nworkers; w++) {
        if (sim->workers[w].state != SIM_DONE)
            return err_set(COLLET_ERR_INTERNAL, "simulated ranks wait for each other: the program is wrong");
        *ps_p = later(*ps_p, sim->workers[w].at_ps);
    }
    return COLLET_SUCCESS;
}

/* Time of the steps of one full round, on whatever is busiest: an engine, the shared CPUs of a node, or the memory of a node. Uses
 * engine_free for counting; the next run resets engine_free. */
static int64_t busiest_round_ps(struct sim *sim) {
    int64_t most_ps = 0;
    memset(sim->engine_free, 0, sim->nclocks * sizeof *sim->engine_free);
    for (size_t k = 0; k < sim->nworkers; k++) {
        const struct sim_worker *w = &sim->workers[k];
        struct sim_cpus cpus = sim->cpus != NULL ? sim->cpus[w->engine] : (struct sim_cpus){0};
        for (const struct sim_run *run = &sim->runs[w->first_run]; run < &sim->runs[w->first_run + w->nruns]; run++) {
            double bytes = sim_bytes(sim, &sim->lengths[w->channel], run, 0);
            struct sim_work work = sim_work_of(sim, run, bytes);
            int64_t ps = bytes > 0 ? run->count * ps_of(work.fixed_ns + work.bytes_ns) : 0;
            sim->engine_free[w->engine] += ps;
            if (cpus.count > 0)
                sim->engine_free[cpus.first] += ps / cpus.count;
            if (sim->memory != NULL)
                sim->engine_free[sim->memory[w->engine]] += run->count * ps_of(sim_memory_ns(sim, run, bytes));
        }
        most_ps = later(most_ps, sim->engine_free[w->engine]);
        if (cpus.count > 0)
            most_ps = later(most_ps, sim->engine_free[cpus.first]);
        if (sim->memory != NULL)
            most_ps = later(most_ps, sim->engine_free[sim->memory[w->engine]]);
    }
    return most_ps;
}

/* Simulates all rounds, or else rounds_max of them. Then the cost of a further round follows from a second run with fewer
 * rounds: a full pipeline takes equally long for each round, and both runs begin with filling it and end with draining it.
 * Where producers wait for credit, rounds come in bursts of nslots, so the two runs differ by nslots rounds if possible. No
 * round takes less time than its busiest engine works. */
enum collet_result sim_run(struct sim *sim, enum protocol protocol, uint32_t rounds_max, double *ns_p) {
    uint32_t nrounds = 1, nslots = sim->machine.nslots;
    uint32_t fewer = rounds_max > nslots ? rounds_max - nslots : rounds_max - (rounds_max + 3) / 4;
    int64_t ps, fewer_ps;
    COLLET_TRY(make_ready(sim));
    sim_begin(sim, protocol);
    for (int c = 0; c < sim->nchannels; c++)
        if (sim_rounds(&sim->lengths[c]) > nrounds)
            nrounds = sim_rounds(&sim->lengths[c]);
    COLLET_TRY(run_rounds(sim, nrounds < rounds_max ? nrounds : rounds_max, &ps));
    *ns_p = (double)ps / 1000;
    if (nrounds <= rounds_max)
        return COLLET_SUCCESS;
    COLLET_TRY(run_rounds(sim, fewer, &fewer_ps));
    int64_t more_ps = later(ps - fewer_ps, busiest_round_ps(sim) * (rounds_max - fewer));
    *ns_p += (double)(nrounds - rounds_max) * (double)more_ps / (rounds_max - fewer) / 1000;
    return COLLET_SUCCESS;
}
