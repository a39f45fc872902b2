/* SPDX-License-Identifier: Apache-2.0
 *
 * Wiring of the symbolic machine: finds both ends of every connection, and what is wrong with a program before it runs.
 */
#include "program/machine.h"

#include <stdlib.h>

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
            return machine_fail_at(m, worker, step, "%s rank %d on lane %d, and so does worker %d: a connection has one "
                                   "worker at each end, take another lane", verb, peer.rank, peer.lane,
                                   m->workers[*end].index);
        if (*newest_use == step)
            return machine_fail_at(m, worker, step, "%s rank %d on lane %d twice in one step", verb, peer.rank, peer.lane);
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

/* Whether two workers of the member touch the same chunk of memory and one of them writes it. */
static bool shares_memory(const struct machine *m, int member, int *owner) {
    const struct prog *prog = m->cast->members[member].prog;
    size_t base = machine_place(m, 0, member, STEP_OUT, 0);
    for (int pass = 0; pass < 2; pass++) { /* first who writes, then who else reads or writes */
        for (int i = 0; pass == 0 && i < m->nin + m->nout; i++)
            owner[i] = -1;
        for (int w = 0; w < prog->nworkers; w++) {
            for (int s = prog->workers[w].first_step; s < prog->workers[w].first_step + prog->workers[w].nsteps; s++) {
                const struct prog_step *step = &prog->steps[s];
                if (step->store_region != STEP_NONE) {
                    size_t place = machine_place(m, 0, member, STEP_OUT, step->store_chunk) - base;
                    if (owner[place] >= 0 && owner[place] != w)
                        return true;
                    owner[place] = w;
                }
                if (pass == 1 && step->local_region != STEP_NONE) {
                    size_t place = machine_place(m, 0, member, step->local_region, step->local_chunk) - base;
                    if (owner[place] >= 0 && owner[place] != w)
                        return true;
                }
            }
        }
    }
    return false;
}

static bool wire_order(struct machine *m) {
    int *owner = malloc((size_t)(m->nin + m->nout) * sizeof(*owner));
    if (owner == NULL)
        return machine_fail(m, "no memory to verify programs");
    size_t group = 1;
    for (int member = 0; member < m->cast->nmembers; member++) {
        size_t nworkers = (size_t)m->cast->members[member].prog->nworkers;
        group = group > nworkers ? group : nworkers;
        m->ordered = m->ordered || shares_memory(m, member, owner);
    }
    free(owner);
    if (!m->ordered)
        return true;
    size_t nplaces = (size_t)m->nrounds * (size_t)m->cast->nmembers * (size_t)(m->nin + m->nout);
    if (!order_create(&m->order, (size_t)m->nworkers, group, (size_t)m->nconns * (size_t)m->nslots, nplaces))
        return machine_fail(m, "no memory to verify programs");
    return true;
}

bool machine_wire(struct machine *m) {
    for (int w = 0; w < m->nworkers; w++)
        for (int s = m->workers[w].first_step; s < m->workers[w].first_step + m->workers[w].nsteps; s++)
            if (!wire_step(m, w, s))
                return false;
    for (int c = 0; c < m->nconns; c++) {
        const struct machine_conn *conn = &m->conns[c];
        int src = m->cast->members[conn->src].rank, dst = m->cast->members[conn->dst].rank;
        if (conn->consumer < 0)
            return machine_fail_at(m, conn->producer, conn->first_sent,
                                   "sends to rank %d on lane %d, and rank %d never receives there", dst, conn->lane, dst);
        if (conn->producer < 0)
            return machine_fail_at(m, conn->consumer, conn->first_received,
                                   "receives from rank %d on lane %d, and rank %d never sends there", src, conn->lane, src);
    }
    return wire_order(m);
}
