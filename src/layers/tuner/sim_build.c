/* SPDX-License-Identifier: Apache-2.0
 *
 * From programs to a simulation: steps that are alike are folded into runs, and the peers of steps become connections.
 *
 *      program of A                        program of B
 *      step … send to B, lane 0 ──┐  ┌──── step … receive from A, lane 0
 *                                 ▼  ▼
 *                  connection (A, B, distance, lane)          both ends find it by the same name
 *
 * When ranks stand for others, all connections of one kind are one. When A sends to a rank two hosts further, a rank two hosts before
 * sends the same to A. The programs are read one after another: each is folded into the simulation, and forgotten.
 */
#include "layers/tuner/sim.h"

#include "base/grow.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define GROW(sim, name, more) grow(&(sim)->name, (sim)->n##name, (more), &(sim)->name##_room, sizeof *(sim)->name)

static enum collet_result no_memory(const struct sim *sim) {
    return err_set(COLLET_ERR_NO_MEMORY, "no memory to simulate %d ranks", sim->cast.nhosts * sim->cast.nlocal);
}

/* ---- finding connections ---- */

int sim_distance(const struct sim_cast *cast, int from, int to) {
    int a = from / cast->nlocal, b = to / cast->nlocal;
    if (cast->grouping == SIM_EACH)
        return 0;
    return cast->grouping == SIM_XOR ? a ^ b : (b - a + cast->nhosts) % cast->nhosts;
}

struct ends {
    int32_t from, to, distance, lane;
};

struct sim_index { /* A hash table. Its size is a power of two. conn −1: the entry is free. */
    struct index_entry {
        struct ends ends;
        int32_t conn;
    } * entries;
    size_t size, used;
};

static size_t hash_of(const struct ends *ends) {
    uint64_t hash = (uint64_t)(uint32_t)ends->from * 0x9E3779B97F4A7C15u ^ (uint64_t)(uint32_t)ends->to << 32;
    hash = (hash ^ hash >> 29) * 0xBF58476D1CE4E5B9u ^ (uint64_t)(uint32_t)ends->distance << 8 ^ (uint64_t)ends->lane;
    hash = (hash ^ hash >> 32) * 0x94D049BB133111EBu;
    return (size_t)(hash ^ hash >> 31);
}

static struct index_entry *index_at(const struct sim_index *index, const struct ends *ends) {
    for (size_t at = hash_of(ends);; at++) {
        struct index_entry *entry = &index->entries[at & (index->size - 1)];
        if (entry->conn < 0 || memcmp(&entry->ends, ends, sizeof *ends) == 0)
            return entry;
    }
}

static bool index_grow(struct sim_index *index) {
    struct sim_index old = *index;
    index->size = old.size > 0 ? 2 * old.size : 1024;
    index->entries = malloc(index->size * sizeof *index->entries);
    if (index->entries == NULL) {
        *index = old;
        return false;
    }
    for (size_t k = 0; k < index->size; k++)
        index->entries[k].conn = -1;
    for (size_t k = 0; k < old.size; k++)
        if (old.entries[k].conn >= 0)
            *index_at(index, &old.entries[k].ends) = old.entries[k];
    free(old.entries);
    return true;
}

static void connect(const struct sim *sim, struct sim_conn *conn, int from, int to) {
    const struct sim_machine *machine = &sim->machine;
    bool each = sim->cast.grouping == SIM_EACH;
    *conn = (struct sim_conn){
        .producer = -1,
        .consumer = -1,
        .out_host = each ? from / sim->cast.nlocal : 0,
        .in_host = each ? to / sim->cast.nlocal : 0,
    };
    machine->route(machine->context, sim->nchannels - 1, from, to, &conn->route);
}

/* Finds or makes the connection from one rank to another. −1: there is no memory. */
static int32_t conn_between(struct sim *sim, int from, int to, int lane) {
    struct ends ends = {sim_player_of(&sim->cast, from), sim_player_of(&sim->cast, to),
                        sim_distance(&sim->cast, from, to), lane};
    struct sim_index *index = sim->index;
    if (2 * (index->used + 1) > index->size && !index_grow(index))
        return -1;
    struct index_entry *entry = index_at(index, &ends);
    if (entry->conn >= 0)
        return entry->conn;
    if (!GROW(sim, conns, 1))
        return -1;
    connect(sim, &sim->conns[sim->nconns], from, to);
    *entry = (struct index_entry){ends, (int32_t)sim->nconns};
    index->used++;
    return (int32_t)sim->nconns++;
}

/* ---- one program ---- */

static bool is_alike(const struct sim *sim, const struct sim_run *a, const struct sim_run *b, uint32_t loads,
                     uint32_t stores) {
    return sim->lengths[sim->nchannels - 1].uniform && a->pieces == b->pieces && a->recv_first == b->recv_first &&
           a->recv_count == b->recv_count && a->send_first == b->send_first && a->send_count == b->send_count &&
           sim->kinds[a->kind].loads == loads && sim->kinds[a->kind].stores == stores;
}

static bool costs_alike(const struct sim_route *a, const struct sim_route *b) {
    return a->class == b->class && a->loan.class == b->loan.class && a->loan.least_bytes == b->loan.least_bytes &&
           a->loan.helped == b->loan.helped;
}

static bool is_of_kind(const struct sim *sim, const struct sim_kind *kind, const struct sim_run *run) {
    const struct sim_run *first = &sim->runs[kind->run];
    if (first->recv_count != run->recv_count || first->send_count != run->send_count)
        return false;
    for (uint32_t k = 0; k < run->recv_count + run->send_count; k++)
        if (!costs_alike(sim_peer_route(sim, first, k), sim_peer_route(sim, run, k)))
            return false;
    return true;
}

/* Finds or makes the kind of the run that is added next. There are few kinds. −1: there is no memory. */
static int32_t kind_of(struct sim *sim, const struct sim_run *run, const struct sim_kind *facts) {
    for (size_t k = 0; k < sim->nkinds; k++)
        if (sim->kinds[k].loads == facts->loads && sim->kinds[k].stores == facts->stores &&
            sim->kinds[k].fan == facts->fan && sim->kinds[k].turns == facts->turns &&
            is_of_kind(sim, &sim->kinds[k], run))
            return (int32_t)k;
    if (!GROW(sim, kinds, 1))
        return -1;
    sim->kinds[sim->nkinds] = *facts;
    return (int32_t)sim->nkinds++;
}

/* Makes room in refs for the connections of a peer table: first those from which the rank receives, then those to which it
 * sends. *first_p is the index of the first. */
static enum collet_result refer(struct sim *sim, const struct prog *prog, uint32_t *first_p) {
    *first_p = (uint32_t)sim->nrefs;
    if (!GROW(sim, refs, 2 * (size_t)prog->npeers))
        return no_memory(sim);
    for (int k = 0; k < 2 * prog->npeers; k++)
        sim->refs[sim->nrefs++] = -1;
    return COLLET_SUCCESS;
}

/* Does the rank receive anything? If not, it is free to copy a part of what it lends (layers/memory/loan.h). */
static bool receives(const struct prog *prog) {
    for (int k = 0; k < prog->nsteps; k++)
        if (prog->steps[k].recv_count > 0)
            return true;
    return false;
}

/* Makes the worker an end of the connections with peers first … first + count − 1 of the program. False: there is no memory. */
static bool bind(struct sim *sim, const struct prog *prog, uint32_t refs, int first, int count, bool sends,
                 int worker) {
    for (int k = first; k < first + count; k++) {
        const struct prog_peer *peer = &prog->peers[k];
        int32_t *ref = &sim->refs[refs + (uint32_t)(sends ? prog->npeers + k : k)];
        if (*ref < 0)
            *ref = sends ? conn_between(sim, prog->rank, peer->rank, peer->lane)
                         : conn_between(sim, peer->rank, prog->rank, peer->lane);
        if (*ref < 0)
            return false;
        struct sim_loan *loan = &sim->conns[*ref].route.loan;
        if (sends && !receives(prog))
            loan->helped = 1.0 / (1 + count);
        /* Each consumer of a fan copies by itself, and the kernel copies for none. */
        if (sim->machine.fans && peer->lane == PROG_LANE_ALL) {
            loan->helped = 0;
            loan->least_bytes = loan->class == LINK_LENT_CMA ? 0 : loan->least_bytes;
        }
        if (sends)
            sim->conns[*ref].producer = worker;
        else
            sim->conns[*ref].consumer = worker;
    }
    return true;
}

static bool append_step(struct sim *sim, const struct prog *prog, const struct prog_step *step, uint32_t refs,
                        int worker) {
    struct sim_run run = {
        .count = 1,
        .pieces = (uint32_t)step->count,
        .recv_first = refs + (uint32_t)step->recv_first,
        .recv_count = (uint32_t)step->recv_count,
        .send_first = refs + (uint32_t)(prog->npeers + step->send_first),
        .send_count = (uint32_t)step->send_count,
    };
    const uint32_t loads = (uint32_t)step->locals_count, stores = step->store_region != STEP_NONE;
    struct sim_worker *w = &sim->workers[worker];
    if (w->nruns > 0 && is_alike(sim, &sim->runs[sim->nruns - 1], &run, loads, stores)) {
        sim->runs[sim->nruns - 1].count++;
        return true;
    }
    if (!bind(sim, prog, refs, step->recv_first, step->recv_count, false, worker) ||
        !bind(sim, prog, refs, step->send_first, step->send_count, true, worker) || !GROW(sim, runs, 1))
        return false;
    if (!sim->lengths[sim->nchannels - 1].uniform) {
        if (!grow(&sim->blocks, sim->nruns, 1, &sim->blocks_room, sizeof *sim->blocks))
            return false;
        uint32_t nblocks = (uint32_t)prog_region_blocks(prog, (enum step_region)step->about_region);
        sim->blocks[sim->nruns] = (struct sim_blocks){step->about, nblocks};
    }
    const bool to_all = step->send_count > 0 && prog->peers[step->send_first].lane == PROG_LANE_ALL;
    const struct sim_kind facts = {.loads = loads,
                                   .stores = stores,
                                   .fan = to_all && sim->machine.fans,
                                   .turns = !sim->machine.gpu && prog->nworkers > 1,
                                   .run = (uint32_t)sim->nruns};
    run.kind = kind_of(sim, &run, &facts);
    if (run.kind < 0)
        return false;
    sim->runs[sim->nruns++] = run;
    w->nruns++;
    return true;
}

/* The engine that runs a worker. A CPU runs all workers of its rank; a GPU deals them to its blocks. */
static int engine_of(const struct sim *sim, const struct prog *prog, int worker) {
    int player = sim_player_of(&sim->cast, prog->rank), blocks = sim->machine.costs->gpu_blocks;
    if (!sim->machine.gpu)
        return player;
    return player * blocks + ((sim->nchannels - 1) * prog->nworkers + worker) % blocks;
}

enum collet_result sim_add_program(struct sim *sim, const struct prog *prog) {
    uint32_t refs;
    COLLET_TRY(refer(sim, prog, &refs));
    for (int k = 0; k < prog->nworkers; k++) {
        if (!GROW(sim, workers, 1))
            return no_memory(sim);
        int number = (int)sim->nworkers++;
        sim->workers[number] = (struct sim_worker){
            .first_run = (uint32_t)sim->nruns, .engine = engine_of(sim, prog, k), .channel = sim->nchannels - 1};
        const struct prog_step *step = &prog->steps[prog->workers[k].first_step];
        for (int s = 0; s < prog->workers[k].nsteps; s++)
            if (!append_step(sim, prog, &step[s], refs, number))
                return no_memory(sim);
    }
    return COLLET_SUCCESS;
}

/* ---- CPUs ---- */

static int node_of(const struct sim *sim, size_t rank) {
    return sim->machine.node != NULL ? sim->machine.node[rank] : (int)rank / sim->cast.nlocal;
}

/* Number of CPUs that the ranks first … end − 1 of a node share. 0: each rank has a CPU. If there are more ranks than CPUs,
 * any rank may run on any of these CPUs. */
static uint32_t count_cpus(const struct sim *sim, size_t first, size_t end) {
    const double crowd = sim->machine.crowd != NULL ? sim->machine.crowd[first] : 0;
    const double count = crowd > 1 ? (double)(end - first) / crowd : 0;
    return crowd <= 1 ? 0 : count < 1 ? 1 : (uint32_t)(count + 0.5);
}

/* Finds the CPUs that the ranks of each node share, and the node's memory. */
static enum collet_result find_nodes(struct sim *sim) {
    sim->nclocks = sim->nengines;
    if (sim->machine.gpu)
        return COLLET_SUCCESS;
    COLLET_TRY(memory_get(&sim->cpus, sim->nengines, sizeof *sim->cpus, "no memory to simulate CPUs"));
    COLLET_TRY(memory_get(&sim->memory, sim->nengines, sizeof *sim->memory, "no memory to simulate CPUs"));
    for (size_t first = 0, end; first < sim->nengines; first = end) {
        for (end = first + 1; end < sim->nengines && node_of(sim, end) == node_of(sim, first); end++)
            ;
        const struct sim_cpus cpus = {(uint32_t)sim->nclocks, count_cpus(sim, first, end)};
        for (size_t rank = first; rank < end; rank++) {
            sim->cpus[rank] = cpus;
            sim->memory[rank] = cpus.first + cpus.count;
        }
        sim->nclocks += cpus.count + 1;
    }
    return COLLET_SUCCESS;
}

/* ---- the whole ---- */

enum collet_result sim_create(const struct sim_machine *machine, const struct sim_cast *cast, struct sim **sim_p) {
    struct sim *sim;
    COLLET_TRY(memory_get(&sim, 1, sizeof *sim, "no memory to simulate"));
    sim->machine = *machine;
    sim->cast = *cast;
    sim->turns = 1;
    sim->nengines = (size_t)sim_nplayers(cast) * (size_t)(machine->gpu ? machine->costs->gpu_blocks : 1);
    sim->nlinks = (size_t)machine->nlinks * (cast->grouping == SIM_EACH ? (size_t)cast->nhosts : 1);
    sim->link_ps = malloc((size_t)(machine->nlinks + 1) * sizeof *sim->link_ps);
    sim->index = calloc(1, sizeof *sim->index);
    if (sim->link_ps == NULL || sim->index == NULL) {
        sim_destroy(sim);
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to simulate %d links", machine->nlinks);
    }
    enum collet_result result = find_nodes(sim);
    if (result == COLLET_SUCCESS)
        *sim_p = sim;
    else
        sim_destroy(sim);
    return result;
}

void sim_destroy(struct sim *sim) {
    if (sim == NULL)
        return;
    if (sim->index != NULL)
        free(sim->index->entries);
    free(sim->index);
    free(sim->runs);
    free(sim->blocks);
    free(sim->workers);
    free(sim->conns);
    free(sim->refs);
    free(sim->slots);
    free(sim->link_free);
    free(sim->engine_free);
    free(sim->cpus);
    free(sim->memory);
    free(sim->link_ps);
    free(sim->kinds);
    free(sim->shares);
    for (int protocol = 0; protocol < COSTS_PROTOCOLS; protocol++)
        free(sim->crossed[protocol]);
    sim_queue_destroy(sim->queue);
    free(sim);
}

enum collet_result sim_add_channel(struct sim *sim, const struct sim_lengths *lengths) {
    if (sim->nchannels == SIM_CHANNELS_MAX)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "more than %d channels to simulate", SIM_CHANNELS_MAX);
    sim->lengths[sim->nchannels++] = *lengths;
    for (size_t k = 0; k < sim->index->size; k++)
        sim->index->entries[k].conn = -1;
    sim->index->used = 0;
    return COLLET_SUCCESS;
}
