/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the symbolic machine: finds both ends of every connection, and what is wrong with programs before they run.
 */
#include "program/machine.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static struct machine_conn *conn_between(struct machine *m, int src, int dst, int lane) {
    uint32_t hash = (((uint32_t)src * 0x9e3779b1u) ^ (uint32_t)dst) * 0x85ebca6bu + (uint32_t)lane * 0xc2b2ae35u;
    for (uint32_t i = hash ^ hash >> 15;; i++) {
        int *place = &m->conn_index[i & (m->conn_index_size - 1)];
        if (*place < 0) {
            *place = m->nconns++;
            m->conns[*place] = (struct machine_conn){
                .src = src,
                .dst = dst,
                .lane = lane,
                .producer = -1,
                .consumer = -1,
                .first_sent = -1,
                .first_received = -1,
                .newest_sent = -1,
                .newest_received = -1,
            };
        }
        struct machine_conn *conn = &m->conns[*place];
        if (conn->src == src && conn->dst == dst && conn->lane == lane)
            return conn;
    }
}

/* Makes `worker` one end of the connections of peer table entries first … first+count−1. */
static bool wire_peers(struct machine *m, int worker, int step, int first, int count, bool sending) {
    int member = m->workers[worker].member;
    const struct cast_member *self = &m->cast->members[member];
    const char *verb = sending ? "sends to" : "receives from";
    for (int i = first; i < first + count; i++) {
        struct prog_peer peer = self->prog->peers[i];
        int other = cast_peer_of(m->cast, member, peer.rank);
        if (other < 0)
            return machine_fail_at(m, worker, step, "%s rank %d, which takes no part", verb, peer.rank);
        struct machine_conn *conn =
            sending ? conn_between(m, member, other, peer.lane) : conn_between(m, other, member, peer.lane);
        int *end = sending ? &conn->producer : &conn->consumer;
        int *first_use = sending ? &conn->first_sent : &conn->first_received;
        int *newest_use = sending ? &conn->newest_sent : &conn->newest_received;
        if (*end >= 0 && *end != worker)
            return machine_fail_at(m, worker, step,
                                   "%s rank %d on lane %d, and so does worker %d: one worker an end, take another lane",
                                   verb, peer.rank, peer.lane, m->workers[*end].index);
        if (*newest_use == step)
            return machine_fail_at(m, worker, step, "%s rank %d on lane %d twice in one step", verb, peer.rank,
                                   peer.lane);
        if (*end < 0)
            *first_use = step;
        *end = worker;
        *newest_use = step;
        conn->longest = conn->longest > self->prog->steps[step].count ? conn->longest : self->prog->steps[step].count;
        (sending ? m->send_conn : m->recv_conn)[m->first_peer[member] + i] = (int)(conn - m->conns);
    }
    return true;
}

/* ---- what the collective and the lengths of a step allow ---- */

static bool wire_region(struct machine *m, int worker, int step, enum step_region region) {
    const struct cast_member *self = &m->cast->members[m->workers[worker].member];
    const char *collective = prog_collective_name(self->prog->collective);
    if (region == STEP_IN && !self->has_in)
        return machine_fail_at(m, worker, step, "reads IN, which a %s gives only to the root", collective);
    if (region == STEP_OUT && !self->has_out)
        return machine_fail_at(m, worker, step, "touches OUT, which a %s gives only to the root", collective);
    return true;
}

/* What lengths TMP holds is seen only when it is read. */
static bool wire_length(struct machine *m, int worker, int step, struct machine_place place, struct machine_place about,
                        const char *verb) {
    if (place.region == STEP_TMP || machine_length_of(m, place) == machine_length_of(m, about))
        return true;
    bool stored = about.region == STEP_OUT;
    return machine_fail_at(m, worker, step, "%s slice %d and %s slice %d, which differ in length", verb, place.block,
                           stored ? "stores" : "is as long as", about.block);
}

static bool wire_memory(struct machine *m, int worker, int step_number) {
    int member = m->workers[worker].member;
    const struct prog *prog = m->cast->members[member].prog;
    const struct prog_step *step = &prog->steps[step_number];
    for (int l = 0; l < step->locals_count; l++)
        if (!wire_region(m, worker, step_number, (enum step_region)prog->locals[step->locals_first + l].region))
            return false;
    if (!wire_region(m, worker, step_number, (enum step_region)step->store_region))
        return false;
    for (int i = 0; i < step->count && (m->sliced || m->counted); i++) {
        struct machine_place about = machine_about(m, member, step, i);
        for (int l = 0; l < step->locals_count; l++)
            if (!wire_length(m, worker, step_number, machine_local(m, member, step, l, i), about, "reads"))
                return false;
        if (step->store_region != STEP_NONE &&
            !wire_length(m, worker, step_number, machine_store(m, member, step, i), about, "stores"))
            return false;
    }
    return true;
}

static bool wire_step(struct machine *m, int worker, int step_number) {
    const struct prog *prog = m->cast->members[m->workers[worker].member].prog;
    const struct prog_step *step = &prog->steps[step_number];
    if (step->finish && !cast_reduces(m->cast))
        return machine_fail_at(m, worker, step_number, "finishes a value, but a %s does not reduce",
                               prog_collective_name(prog->collective));
    return wire_memory(m, worker, step_number) &&
           wire_peers(m, worker, step_number, step->recv_first, step->recv_count, false) &&
           wire_peers(m, worker, step_number, step->send_first, step->send_count, true);
}

/* ---- memory that workers share ---- */

/* How the steps of a member use one place of its memory, and which worker does; SEVERAL: more than one. */
enum { SEVERAL = -1 };
struct place_use {
    int nreads, reader, nwrites, writer;
    bool hands_over; /* something is read that a step has stored */
};

static void note_use(int *ntimes, int *by, int worker) {
    *by = *ntimes == 0 || *by == worker ? worker : SEVERAL;
    ++*ntimes;
}

static void note_read(struct place_use *use, int worker, bool hands_over) {
    note_use(&use->nreads, &use->reader, worker);
    use->hands_over |= hands_over;
}

static void note_uses_of_step(const struct machine *m, int member, int worker, const struct prog_step *step,
                              struct place_use *uses) {
    for (int i = 0; i < step->count; i++) {
        for (int l = 0; l < step->locals_count; l++) {
            struct machine_place place = machine_local(m, member, step, l, i);
            note_read(&uses[machine_index(m, place)], worker, place.region != STEP_IN);
        }
        if (step->store_region == STEP_NONE)
            continue;
        struct place_use *use = &uses[machine_index(m, machine_store(m, member, step, i))];
        note_use(&use->nwrites, &use->writer, worker);
    }
}

static void note_uses(const struct machine *m, int member, struct place_use *uses) {
    const struct prog *prog = m->cast->members[member].prog;
    for (int w = 0; w < prog->nworkers; w++)
        for (int s = 0; s < prog->workers[w].nsteps; s++)
            note_uses_of_step(m, member, w, &prog->steps[prog->workers[w].first_step + s], uses);
}

/* Whether it takes clocks to know that accesses are in order: several workers use the place, and one of them writes it.
 * But not if a single step reads a contribution that, in place, a single step overwrites with its result: a right
 * result holds that very contribution, so it came from that read, by messages. The verdict on results says whether it
 * does. */
static bool is_order_open(const struct place_use *use) {
    if (use->nwrites == 0)
        return false;
    if (use->nwrites == 1 && use->nreads == 1 && !use->hands_over)
        return false;
    return use->writer == SEVERAL || (use->nreads > 0 && use->reader != use->writer);
}

static bool shares_memory(const struct machine *m, int member, struct place_use *uses) {
    size_t nplaces = (size_t)machine_places_of_member(m);
    memset(uses, 0, nplaces * sizeof(*uses));
    note_uses(m, member, uses);
    for (size_t i = 0; i < nplaces; i++)
        if (is_order_open(&uses[i]))
            return true;
    return false;
}

static bool wire_order(struct machine *m) {
    struct place_use *uses = malloc((size_t)machine_places_of_member(m) * sizeof(*uses));
    if (uses == NULL)
        return machine_fail(m, "no memory to verify programs");
    size_t group = 1;
    for (int member = 0; member < m->cast->nmembers; member++) {
        size_t nworkers = (size_t)m->cast->members[member].prog->nworkers;
        group = group > nworkers ? group : nworkers;
        m->ordered = m->ordered || shares_memory(m, member, uses);
    }
    free(uses);
    if (!m->ordered)
        return true;
    size_t nplaces = (size_t)m->nrounds * (size_t)m->cast->nmembers * (size_t)machine_places_of_member(m);
    if (!order_create(&m->order, (size_t)m->nworkers, group, (size_t)m->nconns * (size_t)m->nslots, nplaces))
        return machine_fail(m, "no memory to verify programs");
    return true;
}

static bool wire(struct machine *m) {
    for (int w = 0; w < m->nworkers; w++)
        for (int s = m->workers[w].first_step; s < m->workers[w].first_step + m->workers[w].nsteps; s++)
            if (!wire_step(m, w, s))
                return false;
    for (int c = 0; c < m->nconns; c++) {
        const struct machine_conn *conn = &m->conns[c];
        int src = m->cast->members[conn->src].rank, dst = m->cast->members[conn->dst].rank;
        if (conn->consumer < 0)
            return machine_fail_at(m, conn->producer, conn->first_sent,
                                   "sends to rank %d on lane %d, and rank %d never receives there", dst, conn->lane,
                                   dst);
        if (conn->producer < 0)
            return machine_fail_at(m, conn->consumer, conn->first_received,
                                   "receives from rank %d on lane %d, and rank %d never sends there", src, conn->lane,
                                   src);
    }
    return wire_order(m);
}

/* ---- making and unmaking ---- */

static bool count_rounds(struct machine *m) {
    const struct prog *prog = m->cast->members[0].prog;
    int nfull = m->nslots + 1;
    m->nrounds = nfull + (prog->nblocks > 1 ? 2 : 0);
    m->blocks = arena_get(&m->arena, (size_t)m->nrounds, sizeof(*m->blocks));
    if (m->blocks == NULL)
        return false;
    for (int round = 0; round < m->nrounds; round++)
        m->blocks[round] = round < nfull ? prog->nblocks : round == nfull ? (prog->nblocks + 1) / 2 : 1;
    return true;
}

static void list_workers(struct machine *m) {
    m->nworkers = 0;
    int npeers = 0;
    for (int member = 0; member < m->cast->nmembers; member++) {
        const struct prog *prog = m->cast->members[member].prog;
        m->first_worker[member] = m->nworkers;
        m->first_peer[member] = npeers;
        npeers += prog->npeers;
        for (int w = 0; w < prog->nworkers; w++)
            m->workers[m->nworkers++] = (struct machine_worker){
                .member = member,
                .index = w,
                .first_step = prog->workers[w].first_step,
                .nsteps = prog->workers[w].nsteps,
                .blocked_on = -1,
            };
    }
}

static bool allocate(struct machine *m) {
    size_t nmembers = (size_t)m->cast->nmembers, nworkers = 0, npeers = 0;
    for (size_t member = 0; member < nmembers; member++) {
        nworkers += (size_t)m->cast->members[member].prog->nworkers;
        npeers += (size_t)m->cast->members[member].prog->npeers;
    }
    size_t max_conns = 2 * npeers + 1, ncells = (size_t)m->nrounds * nmembers * (size_t)m->nout;
    size_t ntmp = nmembers * (size_t)m->ntmp;
    m->conn_index_size = 4;
    while (m->conn_index_size < 2 * max_conns)
        m->conn_index_size *= 2;
    m->first_worker = arena_get(&m->arena, nmembers, sizeof(*m->first_worker));
    m->first_peer = arena_get(&m->arena, nmembers, sizeof(*m->first_peer));
    m->workers = arena_get(&m->arena, nworkers, sizeof(*m->workers));
    m->runnable = arena_get(&m->arena, nworkers, sizeof(*m->runnable));
    m->conns = arena_get(&m->arena, max_conns, sizeof(*m->conns));
    m->conn_index = arena_get(&m->arena, m->conn_index_size, sizeof(*m->conn_index));
    m->recv_conn = arena_get(&m->arena, max_conns, sizeof(*m->recv_conn));
    m->send_conn = arena_get(&m->arena, max_conns, sizeof(*m->send_conn));
    m->out = arena_get(&m->arena, ncells, sizeof(*m->out));
    m->tmp = arena_get(&m->arena, ntmp, sizeof(*m->tmp));
    m->results = arena_get(&m->arena, (size_t)m->longest, sizeof(*m->results));
    if (m->arena.failed)
        return false;
    memset(m->conn_index, 0xff, m->conn_index_size * sizeof(*m->conn_index)); /* every entry −1: free */
    for (size_t i = 0; i < ncells; i++)
        m->out[i] = (struct machine_cell){.value = EXPR_NONE};
    for (size_t i = 0; i < ntmp; i++)
        m->tmp[i] = (struct machine_cell){.value = EXPR_NONE};
    return true;
}

/* What all programs must have in common; and the largest of what they need not. */
static bool compare_programs(struct machine *m) {
    const struct cast_member *first = &m->cast->members[0];
    for (int member = 0; member < m->cast->nmembers; member++) {
        const struct cast_member *other = &m->cast->members[member];
        if (other->prog->nblocks != first->prog->nblocks)
            return machine_fail(m, "rank %d cuts its buffers into %d slices, rank %d into %d", other->rank,
                                other->prog->nblocks, first->rank, first->prog->nblocks);
        if (other->prog->longest_run != first->prog->longest_run)
            return machine_fail(
                m, "the longest message of rank %d has %d blocks, that of rank %d has %d: pieces are cut by it",
                other->rank, other->prog->longest_run, first->rank, first->prog->longest_run);
        m->ntmp = m->ntmp > other->prog->ntmp ? m->ntmp : other->prog->ntmp;
        for (int s = 0; s < other->prog->nsteps; s++)
            m->longest = m->longest > other->prog->steps[s].count ? m->longest : other->prog->steps[s].count;
    }
    return true;
}

static bool make_slots(struct machine *m) {
    size_t nvalues = 0;
    for (int c = 0; c < m->nconns; c++) {
        m->conns[c].first_value = nvalues;
        nvalues += (size_t)m->conns[c].longest * (size_t)m->nslots;
    }
    m->slots = arena_get(&m->arena, (size_t)m->nconns * (size_t)m->nslots, sizeof(*m->slots));
    m->values = arena_get(&m->arena, nvalues, sizeof(*m->values));
    return !m->arena.failed || machine_fail(m, "no memory to verify programs");
}

bool machine_create(struct machine *m, const struct cast *cast, int nslots, bool in_place, char *why,
                    size_t why_bytes) {
    *m = (struct machine){.cast = cast, .nslots = nslots, .in_place = in_place, .why = why, .why_bytes = why_bytes};
    m->failed.member = -1;
    const struct prog *prog = cast->members[0].prog;
    const struct prog_facts *facts = &prog_facts[prog->collective];
    m->sliced = prog_is_sliced(prog->collective);
    m->counted = facts->in == PROG_COUNTS || facts->out == PROG_COUNTS;
    if (!compare_programs(m))
        return false;
    m->nin = prog_region_blocks(prog, STEP_IN);
    m->nout = prog_region_blocks(prog, STEP_OUT);
    expr_init(&m->exprs, cast->nmembers, m->nin);
    if (!count_rounds(m) || !allocate(m))
        return machine_fail(m, "no memory to verify programs");
    list_workers(m);
    return wire(m) && make_slots(m);
}

void machine_destroy(struct machine *m) {
    if (m->ordered)
        order_destroy(&m->order);
    expr_fini(&m->exprs);
    arena_free(&m->arena);
}
