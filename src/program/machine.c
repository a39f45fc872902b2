/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbolic machine at work: machine.h has the picture, wire.c comes before, check.c gives the verdict.
 */
#include "program/machine.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- failing ---- */

bool machine_fail(struct machine *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(m->why, m->why_bytes, format, args);
    va_end(args);
    return false;
}

bool machine_fail_at(struct machine *m, int worker, int step, const char *format, ...) {
    const struct machine_worker *w = &m->workers[worker];
    int rank = m->cast->members[w->member].rank;
    int length = snprintf(m->why, m->why_bytes, "rank %d worker %d step %d: ", rank, w->index, step - w->first_step);
    size_t used = (size_t)length < m->why_bytes ? (size_t)length : m->why_bytes;
    va_list args;
    va_start(args, format);
    vsnprintf(m->why + used, m->why_bytes - used, format, args);
    va_end(args);
    return false;
}

/* ---- memory ---- */

struct machine_cell *machine_out(const struct machine *m, int round, int member, int chunk) {
    return &m->out[((size_t)round * (size_t)m->cast->nmembers + (size_t)member) * (size_t)m->nout + (size_t)chunk];
}

bool machine_is_alive(const struct machine *m, enum prog_layout layout, int chunk, int round) {
    return layout != PROG_WHOLE || chunk < m->blocks[round];
}

size_t machine_place(const struct machine *m, int round, int member, enum step_region region, int chunk) {
    int place = chunk;
    if (region == STEP_IN) {
        int alias = m->in_place ? cast_alias_of(m->cast, member, chunk) : -1;
        place = alias >= 0 ? alias : m->nout + chunk;
    }
    size_t first = ((size_t)round * (size_t)m->cast->nmembers + (size_t)member) * (size_t)(m->nin + m->nout);
    return first + (size_t)place;
}

/* The slice whose length the step has; −1 where all blocks have the same length. */
static int block_of(const struct machine *m, int member, const struct prog_step *step) {
    const struct prog *prog = m->cast->members[member].prog;
    if (prog_in_layout(prog->collective) != PROG_WHOLE)
        return -1;
    return step->store_region != STEP_NONE ? step->store_chunk : step->local_chunk;
}

/* ---- one step ---- */

enum outcome { BUSY, STEPPED, FAILED };

static const struct prog_step *step_of(const struct machine *m, const struct machine_worker *w) {
    return &m->cast->members[w->member].prog->steps[w->first_step + w->pc];
}

static int number_of(const struct machine *m, const struct machine_worker *w) { return (int)(w - m->workers); }

static struct machine_conn *recv_conn(const struct machine *m, const struct machine_worker *w,
                                      const struct prog_step *step, int i) {
    return &m->conns[m->recv_conn[m->first_peer[w->member] + step->recv_first + i]];
}

static struct machine_conn *send_conn(const struct machine *m, const struct machine_worker *w,
                                      const struct prog_step *step, int i) {
    return &m->conns[m->send_conn[m->first_peer[w->member] + step->send_first + i]];
}

/* The slot that a counter of the connection (head or tail) points at. */
static size_t slot_at(const struct machine *m, const struct machine_conn *conn, uint32_t counter) {
    return (size_t)(conn - m->conns) * (size_t)m->nslots + counter % (uint32_t)m->nslots;
}

static bool is_ready(const struct machine *m, struct machine_worker *w, const struct prog_step *step) {
    for (int i = 0; i < step->recv_count; i++) {
        const struct machine_conn *conn = recv_conn(m, w, step, i);
        if (conn->tail == conn->head) {
            w->blocked_on = (int)(conn - m->conns);
            w->blocked_sending = false;
            return false;
        }
    }
    for (int i = 0; i < step->send_count; i++) {
        const struct machine_conn *conn = send_conn(m, w, step, i);
        if (conn->tail - conn->head == (uint32_t)m->nslots) {
            w->blocked_on = (int)(conn - m->conns);
            w->blocked_sending = true;
            return false;
        }
    }
    return true;
}

static bool fail_here(struct machine *m, const struct machine_worker *w, const char *what, int chunk,
                      const char *more) {
    return machine_fail_at(m, number_of(m, w), w->first_step + w->pc, "%s chunk %d%s, round %d", what, chunk, more,
                           w->round);
}

static bool fail_unordered(struct machine *m, const struct machine_worker *w, const char *what, int chunk, int other) {
    return machine_fail_at(m, number_of(m, w), w->first_step + w->pc,
                           "%s chunk %d while worker %d uses the same memory: no message orders the two%s", what, chunk,
                           m->workers[other].index, m->in_place ? " (in place)" : "");
}

static bool read_local(struct machine *m, const struct machine_worker *w, const struct prog_step *step,
                       int32_t *value_p) {
    int chunk = step->local_chunk, member = w->member;
    bool from_in = step->local_region == STEP_IN;
    if (m->ordered) {
        size_t place = machine_place(m, w->round, member, step->local_region, chunk);
        int other = order_read(&m->order, number_of(m, w), m->first_worker[member], place);
        if (other >= 0)
            return fail_unordered(m, w, from_in ? "reads IN" : "reads OUT", chunk, other);
    }
    if (!from_in) {
        *value_p = machine_out(m, w->round, member, chunk)->value;
        return *value_p != EXPR_NONE || fail_here(m, w, "reads OUT", chunk, ", which nobody has written yet");
    }
    *value_p = expr_leaf(&m->exprs, member, chunk);
    int alias = m->in_place ? cast_alias_of(m->cast, member, chunk) : -1;
    int32_t stored = alias >= 0 ? machine_out(m, w->round, member, alias)->value : EXPR_NONE;
    return stored == EXPR_NONE || stored == *value_p ||
           fail_here(m, w, "reads IN", chunk, ", which a result has overwritten (in place)");
}

static bool store(struct machine *m, const struct machine_worker *w, const struct prog_step *step, int32_t value) {
    int chunk = step->store_chunk;
    if (m->ordered) {
        size_t place = machine_place(m, w->round, w->member, STEP_OUT, chunk);
        int other = order_write(&m->order, number_of(m, w), m->first_worker[w->member], place);
        if (other >= 0)
            return fail_unordered(m, w, "writes OUT", chunk, other);
    }
    *machine_out(m, w->round, w->member, chunk) = (struct machine_cell){value, number_of(m, w), w->first_step + w->pc};
    return true;
}

/* Reads the slot at the head of a connection; it stays there until the step is done. */
static bool read_slot(struct machine *m, const struct machine_worker *w, const struct prog_step *step,
                      const struct machine_conn *conn, int32_t *value_p) {
    const struct machine_slot *slot = &m->slots[slot_at(m, conn, conn->head)];
    const struct machine_worker *sender = &m->workers[conn->producer];
    int block = block_of(m, w->member, step), here = w->first_step + w->pc;
    int rank = m->cast->members[conn->src].rank, sent_by = slot->step - sender->first_step;
    if (slot->round != w->round)
        return machine_fail_at(m, number_of(m, w), here,
                               "in round %d it receives what rank %d worker %d step %d sent in round %d", w->round,
                               rank, sender->index, sent_by, slot->round);
    if (slot->block != block)
        return machine_fail_at(m, number_of(m, w), here,
                               "receives slice %d, but rank %d worker %d step %d sent slice %d: they differ in length",
                               block, rank, sender->index, sent_by, slot->block);
    if (m->ordered)
        order_receive(&m->order, number_of(m, w), slot_at(m, conn, conn->head));
    *value_p = slot->value;
    return true;
}

/* One more operand: sum = sum + operand. */
static bool add_operand(struct machine *m, const struct machine_worker *w, int32_t *sum, int32_t operand,
                        bool rounded) {
    if (*sum == EXPR_NONE) {
        *sum = operand;
        return true;
    }
    int here = w->first_step + w->pc;
    if (!cast_reduces(m->cast))
        return machine_fail_at(m, number_of(m, w), here, "reduces, but a %s must not",
                               prog_collective_name(m->cast->algorithm->collective));
    if (expr_is_finish(&m->exprs, *sum) || expr_is_finish(&m->exprs, operand))
        return machine_fail_at(m, number_of(m, w), here, "reduces a value that was finished before");
    *sum = expr_add(&m->exprs, *sum, operand, rounded);
    return *sum != EXPR_NO_MEMORY || machine_fail(m, "no memory to verify programs");
}

/* A member that has contributed nothing to the value, which has fewer leaves than there are members. */
static int find_missing(const struct machine *m, int32_t value) {
    int missing = 0, nmembers = m->cast->nmembers;
    int32_t *leaves = malloc((size_t)nmembers * sizeof(*leaves));
    int nleaves = leaves != NULL ? expr_list_leaves(&m->exprs, value, leaves, nmembers) : 0;
    for (int i = 0; i < nleaves; i++)
        if (leaves[i] / m->exprs.nchunks == missing) {
            missing++;
            i = -1; /* it has; so look for the next one, from the start */
        }
    free(leaves);
    return missing;
}

static bool finish(struct machine *m, const struct machine_worker *w, int32_t *value) {
    int here = w->first_step + w->pc, nleaves = expr_nleaves(&m->exprs, *value);
    if (expr_is_finish(&m->exprs, *value))
        return machine_fail_at(m, number_of(m, w), here, "finishes a value twice");
    if (nleaves < m->cast->nmembers)
        return machine_fail_at(m, number_of(m, w), here,
                               "finishes a value with %d of %d contributions: that of rank %d is missing", nleaves,
                               m->cast->nmembers, find_missing(m, *value));
    *value = expr_finish(&m->exprs, *value);
    return *value != EXPR_NO_MEMORY || machine_fail(m, "no memory to verify programs");
}

/* Reduces the operands in their order. */
static bool reduce(struct machine *m, const struct machine_worker *w, const struct prog_step *step, int32_t *value_p) {
    int noperands = step->recv_count + (step->local_region != STEP_NONE ? 1 : 0);
    *value_p = EXPR_NONE;
    for (int i = 0, received = 0; i < noperands; i++) {
        bool local = step->local_region != STEP_NONE && i == step->local_at;
        int32_t operand = EXPR_NONE;
        if (!(local ? read_local(m, w, step, &operand)
                    : read_slot(m, w, step, recv_conn(m, w, step, received++), &operand)))
            return false;
        bool rounded = i == noperands - 1 && !step->finish; /* finishing divides before it rounds */
        if (!add_operand(m, w, value_p, operand, rounded))
            return false;
    }
    return !step->finish || finish(m, w, value_p);
}

static void wake(struct machine *m, int worker, int conn) {
    if (m->workers[worker].blocked_on != conn)
        return;
    m->workers[worker].blocked_on = -1;
    m->runnable[m->nrunnable++] = worker;
}

/* Takes away what was read and passes on the result. */
static void move_slots(struct machine *m, const struct machine_worker *w, const struct prog_step *step, int32_t value) {
    for (int i = 0; i < step->recv_count; i++) {
        struct machine_conn *conn = recv_conn(m, w, step, i);
        conn->head++;
        wake(m, conn->producer, (int)(conn - m->conns));
    }
    for (int i = 0; i < step->send_count; i++) {
        struct machine_conn *conn = send_conn(m, w, step, i);
        size_t slot = slot_at(m, conn, conn->tail);
        int block = block_of(m, w->member, step);
        m->slots[slot] = (struct machine_slot){value, w->round, block, w->first_step + w->pc};
        if (m->ordered)
            order_send(&m->order, number_of(m, w), slot);
        conn->tail++;
        wake(m, conn->consumer, (int)(conn - m->conns));
    }
}

static enum outcome try_step(struct machine *m, struct machine_worker *w) {
    const struct prog_step *step = step_of(m, w);
    int block = block_of(m, w->member, step);
    if (block < m->blocks[w->round]) { /* else it has no elements: both ends skip it */
        if (!is_ready(m, w, step))
            return BUSY;
        if (m->ordered)
            order_step(&m->order, number_of(m, w));
        int32_t value;
        if (!reduce(m, w, step, &value))
            return FAILED;
        if (step->store_region != STEP_NONE && !store(m, w, step, value))
            return FAILED;
        move_slots(m, w, step, value);
    }
    if (++w->pc == w->nsteps) {
        w->pc = 0;
        w->round++;
    }
    return STEPPED;
}

/* ---- all steps ---- */

/* Follows who waits for whom, from one blocked worker on, and tells the first few. */
static bool fail_blocked(struct machine *m, int worker) {
    char chain[256] = "";
    for (int i = 0, at = worker; i < 3 && m->workers[at].blocked_on >= 0; i++) {
        const struct machine_worker *w = &m->workers[at];
        const struct machine_conn *conn = &m->conns[w->blocked_on];
        int other = w->blocked_sending ? conn->consumer : conn->producer;
        const struct machine_worker *o = &m->workers[other];
        size_t used = strlen(chain);
        snprintf(chain + used, sizeof(chain) - used, "%s rank %d worker %d%s", i == 0 ? "" : ", which waits for",
                 m->cast->members[o->member].rank, o->index,
                 o->round == m->nrounds ? ", which has finished"
                 : w->blocked_sending   ? " to free a slot"
                                        : " to send");
        at = other;
    }
    const struct machine_worker *w = &m->workers[worker];
    return machine_fail_at(m, worker, w->first_step + w->pc, "deadlock with %d slot%s in round %d: waits for%s",
                           m->nslots, m->nslots == 1 ? "" : "s", w->round, chain);
}

/* Nobody can move: that is the end if everybody is done and every slot was read. */
static bool end_run(struct machine *m) {
    int blocked = -1;
    for (int w = 0; w < m->nworkers; w++) {
        if (m->workers[w].round == m->nrounds)
            continue;
        const struct machine_conn *conn = &m->conns[m->workers[w].blocked_on];
        int other = m->workers[w].blocked_sending ? conn->consumer : conn->producer;
        if (m->workers[other].round == m->nrounds)
            return fail_blocked(m, w); /* the cause, where others only wait for this one */
        blocked = blocked < 0 ? w : blocked;
    }
    if (blocked >= 0)
        return fail_blocked(m, blocked);
    for (int c = 0; c < m->nconns; c++) {
        const struct machine_conn *conn = &m->conns[c];
        if (conn->head != conn->tail)
            return machine_fail_at(m, conn->producer, m->slots[slot_at(m, conn, conn->head)].step,
                                   "sends to rank %d on lane %d what is never received",
                                   m->cast->members[conn->dst].rank, conn->lane);
    }
    return true;
}

bool machine_run(struct machine *m) {
    for (int w = m->nworkers - 1; w >= 0; w--)
        m->runnable[m->nrunnable++] = w;
    while (m->nrunnable > 0) {
        struct machine_worker *w = &m->workers[m->runnable[--m->nrunnable]];
        enum outcome outcome = STEPPED;
        while (outcome == STEPPED && w->round < m->nrounds)
            outcome = try_step(m, w);
        if (outcome == FAILED)
            return false;
    }
    return end_run(m);
}
