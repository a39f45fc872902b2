/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the symbolic machine: finds both ends of every connection, and what is wrong with programs before they run.
 */
#include "program/machine.h"

#include <stdlib.h>
#include <string.h>

static struct machine_conn *conn_between(struct machine *m, int src, int dst, int lane) {
    uint32_t hash = (((uint32_t)src * 0x9e3779b1u) ^ (uint32_t)dst) * 0x85ebca6bu + (uint32_t)lane * 0xc2b2ae35u;
    for (uint32_t i = hash ^ hash >> 15;; i++) {
        int *place = &m->conn_index[i & (m->conn_index_size - 1)];
        if (*place < 0) {
            *place = m->nconns++;
            m->conns[*place] = (struct machine_conn){src, dst, lane, -1, -1, -1, -1, -1, -1, 0, 0};
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
        (sending ? m->send_conn : m->recv_conn)[m->first_peer[member] + i] = (int)(conn - m->conns);
    }
    return true;
}

/* What the collective and the length of the step allow. */
static bool wire_step(struct machine *m, int worker, int step_number) {
    int member = m->workers[worker].member;
    const struct cast_member *self = &m->cast->members[member];
    const struct prog_step *step = &self->prog->steps[step_number];
    const char *collective = prog_collective_name(self->prog->collective);
    bool uses_out = step->store_region == STEP_OUT || step->local_region == STEP_OUT;
    if (step->local_region == STEP_IN && !self->has_in)
        return machine_fail_at(m, worker, step_number, "reads IN, which a %s gives only to the root", collective);
    if (uses_out && !self->has_out)
        return machine_fail_at(m, worker, step_number, "touches OUT, which a %s gives only to the root", collective);
    if (step->finish && !cast_reduces(m->cast))
        return machine_fail_at(m, worker, step_number, "finishes a value, but a %s does not reduce", collective);
    bool both = step->local_region != STEP_NONE && step->store_region != STEP_NONE;
    if (both && prog_out_layout(self->prog->collective) == PROG_WHOLE && step->local_chunk != step->store_chunk)
        return machine_fail_at(m, worker, step_number, "reads slice %d and stores slice %d, which differ in length",
                               step->local_chunk, step->store_chunk);
    return wire_peers(m, worker, step_number, step->recv_first, step->recv_count, false) &&
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

static void note_uses(const struct machine *m, int member, struct place_use *uses) {
    const struct prog *prog = m->cast->members[member].prog;
    size_t base = machine_place(m, 0, member, STEP_OUT, 0);
    for (int w = 0; w < prog->nworkers; w++)
        for (int s = 0; s < prog->workers[w].nsteps; s++) {
            const struct prog_step *step = &prog->steps[prog->workers[w].first_step + s];
            if (step->local_region != STEP_NONE) {
                struct place_use *use =
                    &uses[machine_place(m, 0, member, step->local_region, step->local_chunk) - base];
                note_use(&use->nreads, &use->reader, w);
                use->hands_over |= step->local_region == STEP_OUT;
            }
            if (step->store_region != STEP_NONE) {
                struct place_use *use = &uses[machine_place(m, 0, member, STEP_OUT, step->store_chunk) - base];
                note_use(&use->nwrites, &use->writer, w);
            }
        }
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
    size_t nplaces = (size_t)(m->nin + m->nout);
    memset(uses, 0, nplaces * sizeof(*uses));
    note_uses(m, member, uses);
    for (size_t i = 0; i < nplaces; i++)
        if (is_order_open(&uses[i]))
            return true;
    return false;
}

static bool wire_order(struct machine *m) {
    struct place_use *uses = malloc((size_t)(m->nin + m->nout) * sizeof(*uses));
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
    size_t nplaces = (size_t)m->nrounds * (size_t)m->cast->nmembers * (size_t)(m->nin + m->nout);
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
    m->blocks = malloc((size_t)m->nrounds * sizeof(*m->blocks));
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
    m->conn_index_size = 4;
    while (m->conn_index_size < 2 * max_conns)
        m->conn_index_size *= 2;
    m->first_worker = malloc(nmembers * sizeof(*m->first_worker));
    m->first_peer = malloc(nmembers * sizeof(*m->first_peer));
    m->workers = malloc(nworkers * sizeof(*m->workers));
    m->runnable = malloc(nworkers * sizeof(*m->runnable));
    m->conns = malloc(max_conns * sizeof(*m->conns));
    m->conn_index = malloc(m->conn_index_size * sizeof(*m->conn_index));
    m->recv_conn = malloc(max_conns * sizeof(*m->recv_conn));
    m->send_conn = malloc(max_conns * sizeof(*m->send_conn));
    m->out = malloc(ncells * sizeof(*m->out));
    if (m->first_worker == NULL || m->first_peer == NULL || m->workers == NULL || m->runnable == NULL ||
        m->conns == NULL || m->conn_index == NULL || m->recv_conn == NULL || m->send_conn == NULL || m->out == NULL)
        return false;
    memset(m->conn_index, 0xff, m->conn_index_size * sizeof(*m->conn_index)); /* every entry −1: free */
    for (size_t i = 0; i < ncells; i++)
        m->out[i].value = EXPR_NONE;
    return true;
}

bool machine_create(struct machine *m, const struct cast *cast, int nslots, bool in_place, char *why,
                    size_t why_bytes) {
    *m = (struct machine){.cast = cast, .nslots = nslots, .in_place = in_place, .why = why, .why_bytes = why_bytes};
    const struct prog *prog = cast->members[0].prog;
    for (int member = 1; member < cast->nmembers; member++)
        if (cast->members[member].prog->nblocks != prog->nblocks)
            return machine_fail(m, "rank %d cuts its buffers into %d slices, rank %d into %d",
                                cast->members[member].rank, cast->members[member].prog->nblocks, cast->members[0].rank,
                                prog->nblocks);
    m->nin = prog_chunks(prog, prog_in_layout(prog->collective));
    m->nout = prog_chunks(prog, prog_out_layout(prog->collective));
    expr_init(&m->exprs, cast->nmembers, m->nin);
    if (!count_rounds(m) || !allocate(m))
        return machine_fail(m, "no memory to verify programs");
    list_workers(m);
    if (!wire(m))
        return false;
    m->slots = malloc((size_t)m->nconns * (size_t)nslots * sizeof(*m->slots) + 1);
    return m->slots != NULL || machine_fail(m, "no memory to verify programs");
}

void machine_destroy(struct machine *m) {
    if (m->ordered)
        order_destroy(&m->order);
    expr_fini(&m->exprs);
    free(m->blocks);
    free(m->first_worker);
    free(m->first_peer);
    free(m->workers);
    free(m->runnable);
    free(m->conns);
    free(m->conn_index);
    free(m->recv_conn);
    free(m->send_conn);
    free(m->slots);
    free(m->out);
}
