/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulated execution of all ranks of a program.
 *
 *    rank's CPU    ├ step ┤   ├── step ──┤            one thread a rank: its workers take turns
 *                         └─ α ─▶ slot full           a step starts when its CPU is free, its operands have
 *    peer's CPU                   ├─ step ─┤          arrived and its places have credit
 *
 * Progress of a program does not depend on the schedule (one producer and one consumer a connection), so ranks are simply
 * run in turn as far as they get. Rounds after the first few cost what the last of them cost.
 */
#include "plan/cost.h"

#include <stdlib.h>
#include <string.h>

struct step_cost {
    double step_ns;      /* CPU: a step */
    double peer_ns;      /* CPU: each slot received or sent */
    double byte_ns;      /* CPU: each byte of each operand and place */
    double alpha_ns;     /* from published to seen */
    double wire_byte_ns; /* each byte on the wire between */
};

/* Fitted to measurements of single calls (docs/performance.md); only ratios decide. */
static const struct step_cost costs[LINK_CLASS_COUNT][2] = {
    [LINK_MEMORY] = {[INTERP_SIMPLE] = {15, 15, 0.022, 100, 0}, [INTERP_LL] = {15, 10, 0.12, 50, 0}},
    [LINK_NET] = {[INTERP_SIMPLE] = {15, 2200, 0.10, 3000, 0.05}, [INTERP_LL] = {15, 2200, 0.40, 3000, 0.10}},
};

/* A rank that must wait for its CPU as well pays for the switch. */
#define SWITCH_NS 900.0

#define SIMULATED_ROUNDS 3

struct sim_conn {
    int producer, consumer, lane;
    uint32_t sent, received;
    double arrival_ns[FIFO_MAX_SLOTS]; /* of slot s mod nslots */
    double free_ns[FIFO_MAX_SLOTS];
};

struct sim_worker {
    uint32_t pc, round;
    bool done;
};

struct sim {
    const struct cost_machine *machine;
    const struct cost_call *call;
    struct prog *const *progs;
    uint32_t nrounds;
    struct sim_conn *conns;
    uint32_t conns_size; /* a hash table, a power of two */
    double *cpu_ns;      /* of each rank */
    struct sim_worker *workers;
    int *first_worker; /* of each rank */
    bool moved;
};

static enum link_class link_of(const struct cost_machine *machine, int a, int b) {
    return (enum link_class)machine->link[a * machine->nranks + b];
}

static struct sim_conn *conn_of(struct sim *sim, int producer, int consumer, int lane) {
    uint32_t at = ((uint32_t)producer * 40503u ^ (uint32_t)consumer * 2654435761u ^ (uint32_t)lane * 97u);
    at ^= at >> 13;
    for (;; at++) {
        struct sim_conn *conn = &sim->conns[at & (sim->conns_size - 1)];
        if (conn->producer < 0) {
            conn->producer = producer;
            conn->consumer = consumer;
            conn->lane = lane;
            return conn;
        }
        if (conn->producer == producer && conn->consumer == consumer && conn->lane == lane)
            return conn;
    }
}

static double later(double a, double b) { return a > b ? a : b; }

/* When everything the step needs is there; false if some of it is not even sent. */
static bool step_ready(struct sim *sim, int rank, const struct prog_step *step, double *ready_ns) {
    const struct prog *prog = sim->progs[rank];
    uint32_t nslots = sim->machine->nslots;
    for (int k = 0; k < step->recv_count; k++) {
        const struct prog_peer *peer = &prog->peers[step->recv_first + k];
        struct sim_conn *conn = conn_of(sim, peer->rank, rank, peer->lane);
        if (conn->received == conn->sent)
            return false;
        *ready_ns = later(*ready_ns, conn->arrival_ns[conn->received % nslots]);
    }
    for (int k = 0; k < step->send_count; k++) {
        const struct prog_peer *peer = &prog->peers[step->send_first + k];
        struct sim_conn *conn = conn_of(sim, rank, peer->rank, peer->lane);
        if (conn->sent - conn->received == nslots)
            return false;
        *ready_ns = later(*ready_ns, conn->free_ns[conn->sent % nslots]);
    }
    return true;
}

/* CPU time of a step, peer by peer, since links differ. */
static double step_cpu_ns(struct sim *sim, int rank, const struct prog_step *step, double bytes) {
    const struct prog *prog = sim->progs[rank];
    const struct step_cost *memory = &costs[LINK_MEMORY][sim->call->protocol];
    int local = (step->local_region != STEP_NONE) + (step->store_region != STEP_NONE);
    double ns = memory->step_ns + local * bytes * memory->byte_ns;
    for (int k = 0; k < step->recv_count + step->send_count; k++) {
        int entry = k < step->recv_count ? step->recv_first + k : step->send_first + k - step->recv_count;
        const struct step_cost *cost =
            &costs[link_of(sim->machine, rank, prog->peers[entry].rank)][sim->call->protocol];
        ns += cost->peer_ns + bytes * cost->byte_ns;
    }
    return ns;
}

static void step_run(struct sim *sim, int rank, const struct prog_step *step, double ready_ns, double bytes) {
    const struct prog *prog = sim->progs[rank];
    const struct cost_machine *machine = sim->machine;
    double crowd = (double)machine->ranks_of_node[rank] / machine->cpus;
    double cpu_ns = step_cpu_ns(sim, rank, step, bytes);
    if (crowd > 1)
        cpu_ns = cpu_ns * crowd + (ready_ns > sim->cpu_ns[rank] ? SWITCH_NS * crowd : 0);
    double end_ns = later(sim->cpu_ns[rank], ready_ns) + cpu_ns;
    sim->cpu_ns[rank] = end_ns;
    for (int k = 0; k < step->recv_count; k++) {
        const struct prog_peer *peer = &prog->peers[step->recv_first + k];
        struct sim_conn *conn = conn_of(sim, peer->rank, rank, peer->lane);
        conn->free_ns[conn->received++ % machine->nslots] = end_ns;
    }
    for (int k = 0; k < step->send_count; k++) {
        const struct prog_peer *peer = &prog->peers[step->send_first + k];
        struct sim_conn *conn = conn_of(sim, rank, peer->rank, peer->lane);
        const struct step_cost *cost = &costs[link_of(machine, rank, peer->rank)][sim->call->protocol];
        double byte_ns = later(cost->wire_byte_ns, machine->wire_byte_ns[rank * machine->nranks + peer->rank]);
        conn->arrival_ns[conn->sent++ % machine->nslots] = end_ns + cost->alpha_ns + bytes * byte_ns;
    }
}

static void worker_run(struct sim *sim, int rank, int worker) {
    const struct prog *prog = sim->progs[rank];
    struct sim_worker *w = &sim->workers[sim->first_worker[rank] + worker];
    while (!w->done) {
        const struct prog_step *step = &prog->steps[prog->workers[worker].first_step + (int)w->pc];
        int32_t chunk = step->store_region != STEP_NONE ? step->store_chunk : step->local_chunk;
        double bytes = (double)geometry_piece(&sim->call->geometry, (uint32_t)chunk, w->round).count *
                       sim->call->elem_bytes;
        double ready_ns = 0;
        if (bytes > 0) {
            if (!step_ready(sim, rank, step, &ready_ns))
                return;
            step_run(sim, rank, step, ready_ns, bytes);
        }
        sim->moved = true;
        if (++w->pc == (uint32_t)prog->workers[worker].nsteps) {
            w->pc = 0;
            w->done = ++w->round == sim->nrounds;
        }
    }
}

static double simulate_rounds(struct sim *sim, uint32_t nrounds) {
    int nranks = sim->machine->nranks;
    int nworkers = sim->first_worker[nranks];
    sim->nrounds = nrounds;
    memset(sim->cpu_ns, 0, (size_t)nranks * sizeof(*sim->cpu_ns));
    memset(sim->workers, 0, (size_t)nworkers * sizeof(*sim->workers));
    for (uint32_t k = 0; k < sim->conns_size; k++)
        sim->conns[k] = (struct sim_conn){.producer = -1};
    do {
        sim->moved = false;
        for (int rank = 0; rank < nranks; rank++)
            for (int worker = 0; worker < sim->progs[rank]->nworkers; worker++)
                worker_run(sim, rank, worker);
    } while (sim->moved);
    double last_ns = 0;
    for (int rank = 0; rank < nranks; rank++)
        last_ns = later(last_ns, sim->cpu_ns[rank]);
    return last_ns;
}

static bool sim_create(struct sim *sim) {
    int nranks = sim->machine->nranks;
    uint32_t entries = 1;
    sim->first_worker = calloc((size_t)nranks + 1, sizeof(*sim->first_worker));
    if (sim->first_worker == NULL)
        return false;
    for (int rank = 0; rank < nranks; rank++) {
        sim->first_worker[rank + 1] = sim->first_worker[rank] + sim->progs[rank]->nworkers;
        entries += (uint32_t)sim->progs[rank]->npeers;
    }
    for (sim->conns_size = 16; sim->conns_size < 4 * entries;)
        sim->conns_size *= 2;
    sim->conns = calloc(sim->conns_size, sizeof(*sim->conns));
    sim->cpu_ns = calloc((size_t)nranks, sizeof(*sim->cpu_ns));
    sim->workers = calloc((size_t)sim->first_worker[nranks] + 1, sizeof(*sim->workers));
    return sim->conns != NULL && sim->cpu_ns != NULL && sim->workers != NULL;
}

double cost_simulate(const struct cost_machine *machine, struct prog *const *progs, const struct cost_call *call) {
    struct sim sim = {.machine = machine, .call = call, .progs = progs};
    double ns = -1;
    if (sim_create(&sim)) {
        uint64_t nrounds = call->geometry.nrounds;
        if (nrounds <= SIMULATED_ROUNDS + 1) {
            ns = simulate_rounds(&sim, (uint32_t)nrounds);
        } else {
            double few_ns = simulate_rounds(&sim, SIMULATED_ROUNDS);
            double more_ns = simulate_rounds(&sim, SIMULATED_ROUNDS + 1);
            double round_ns = later(more_ns - few_ns, 0); /* a round more may hide in what ranks wait anyway */
            ns = more_ns + (double)(nrounds - SIMULATED_ROUNDS - 1) * round_ns;
        }
    }
    free(sim.first_worker);
    free(sim.conns);
    free(sim.cpu_ns);
    free(sim.workers);
    return ns;
}
