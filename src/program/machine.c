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
    m->failed = (struct machine_failure){w->member, step, w->round};
    int length = snprintf(m->why, m->why_bytes, "rank %d worker %d step %d: ", rank, w->index, step - w->first_step);
    size_t used = (size_t)length < m->why_bytes ? (size_t)length : m->why_bytes;
    va_list args;
    va_start(args, format);
    vsnprintf(m->why + used, m->why_bytes - used, format, args);
    va_end(args);
    return false;
}

/* ---- memory ---- */

struct machine_cell *machine_out(const struct machine *m, int round, int member, int block) {
    return &m->out[((size_t)round * (size_t)m->cast->nmembers + (size_t)member) * (size_t)m->nout + (size_t)block];
}

bool machine_is_alive(const struct machine *m, int block, int round) { return !m->sliced || block < m->blocks[round]; }

int machine_length_of(const struct machine *m, struct machine_place place) {
    if (!m->counted)
        return m->sliced ? place.block : -1;
    struct cast_source source = {place.owner, place.block};
    if (place.region == STEP_OUT)
        source = cast_source_of(m->cast, place.owner, place.block);
    return cast_reduces(m->cast) ? source.block : expr_leaf(&m->exprs, source.member, source.block);
}

static struct machine_place place_of(const struct machine *m, int member, int owner, enum step_region region,
                                     const struct block_run *run, int i) {
    if (i == 0 && owner == m->cast->members[member].rank) /* as in most steps */
        return (struct machine_place){member, region, run->first};
    const struct cast_member *self = &m->cast->members[member];
    int of = owner == self->rank ? member : cast_peer_of(m->cast, member, owner);
    uint32_t nblocks = (uint32_t)prog_region_blocks(m->cast->members[of].prog, region);
    return (struct machine_place){of, region, (int)geometry_block(run, (uint32_t)i, nblocks)};
}

struct machine_place machine_about(const struct machine *m, int member, const struct prog_step *step, int i) {
    int rank = m->cast->members[member].rank;
    return place_of(m, member, rank, (enum step_region)step->about_region, &step->about, i);
}

struct machine_place machine_local(const struct machine *m, int member, const struct prog_step *step, int l, int i) {
    const struct prog_local *local = &m->cast->members[member].prog->locals[step->locals_first + l];
    return place_of(m, member, local->owner, (enum step_region)local->region, &local->run, i);
}

struct machine_place machine_store(const struct machine *m, int member, const struct prog_step *step, int i) {
    return place_of(m, member, step->store_owner, (enum step_region)step->store_region, &step->store, i);
}

/* The block of OUT in whose memory a block of IN is; −1: it has memory of its own. */
static int alias_of(const struct machine *m, struct machine_place place) {
    return m->in_place && place.region == STEP_IN ? cast_alias_of(m->cast, place.owner, place.block) : -1;
}

int machine_index(const struct machine *m, struct machine_place place) {
    int alias = alias_of(m, place);
    switch (place.region) {
    case STEP_IN: return alias >= 0 ? alias : m->nout + place.block;
    case STEP_TMP: return m->nout + m->nin + place.block;
    default: return place.block;
    }
}

/* The number of a place among all. TMP is the same place in every round. */
static size_t number_of_place(const struct machine *m, int round, struct machine_place place) {
    size_t row = (size_t)(place.region == STEP_TMP ? 0 : round) * (size_t)m->cast->nmembers + (size_t)place.owner;
    return row * (size_t)machine_places_of_member(m) + (size_t)machine_index(m, place);
}

/* What a place holds; NULL for a block of IN that nothing overwrites. */
static struct machine_cell *cell_of(const struct machine *m, int round, struct machine_place place) {
    int alias = alias_of(m, place);
    if (place.region == STEP_TMP)
        return &m->tmp[(size_t)place.owner * (size_t)m->ntmp + (size_t)place.block];
    if (place.region == STEP_IN)
        return alias < 0 ? NULL : machine_out(m, round, place.owner, alias);
    return machine_out(m, round, place.owner, place.block);
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

static int step_here(const struct machine_worker *w) { return w->first_step + w->pc; }

static const char *const region_names[] = {[STEP_IN] = "IN", [STEP_OUT] = "OUT", [STEP_TMP] = "TMP"};

static bool fail_place(struct machine *m, const struct machine_worker *w, const char *verb, struct machine_place place,
                       const char *more) {
    return machine_fail_at(m, number_of(m, w), step_here(w), "%s %s block %d%s, round %d", verb,
                           region_names[place.region], place.block, more, w->round);
}

static bool fail_unordered(struct machine *m, const struct machine_worker *w, const char *verb,
                           struct machine_place place, int other) {
    return machine_fail_at(m, number_of(m, w), step_here(w),
                           "%s %s block %d while worker %d uses the same memory: no message orders the two%s", verb,
                           region_names[place.region], place.block, m->workers[other].index,
                           m->in_place ? " (in place)" : "");
}

/* Pieces of a step are done in any order, so what one stores no other may read or store. SEVERAL: more than one did. */
enum { SEVERAL_PIECES = -1 };
static bool touch(struct machine *m, const struct machine_worker *w, struct machine_cell *cell, int piece, bool writes,
                  struct machine_place place) {
    bool again = cell->touched == m->nsteps_done, other = again && cell->piece != piece;
    if (writes && other)
        return fail_place(m, w, "stores to", place, ", which the same step uses for another block");
    cell->touched = m->nsteps_done;
    cell->piece = other ? SEVERAL_PIECES : piece;
    return true;
}

/* ---- operands ---- */

static bool read_stored(struct machine *m, const struct machine_worker *w, struct machine_place place,
                        const struct machine_cell *cell, int length, int32_t *value_p) {
    *value_p = cell->value;
    if (cell->value == EXPR_NONE)
        return fail_place(m, w, "reads", place, ", which nobody has written yet");
    if (cell->round != w->round)
        return fail_place(m, w, "reads", place, ", which was written last in a round before");
    if (cell->length != length)
        return machine_fail_at(m, number_of(m, w), step_here(w),
                               "expected slice %d in %s block %d, found slice %d: they differ in length", length,
                               region_names[place.region], place.block, cell->length);
    return true;
}

static bool read_local(struct machine *m, const struct machine_worker *w, struct machine_place place, int piece,
                       int length, int32_t *value_p) {
    struct machine_cell *cell = cell_of(m, w->round, place);
    if (m->ordered) {
        int other =
            order_read(&m->order, number_of(m, w), m->first_worker[place.owner], number_of_place(m, w->round, place));
        if (other >= 0)
            return fail_unordered(m, w, "reads", place, other);
    }
    if (cell != NULL && !touch(m, w, cell, piece, false, place))
        return false;
    if (place.region != STEP_IN)
        return read_stored(m, w, place, cell, length, value_p);
    *value_p = expr_leaf(&m->exprs, place.owner, place.block);
    return cell == NULL || cell->value == EXPR_NONE || cell->value == *value_p ||
           fail_place(m, w, "reads", place, ", which a result has overwritten (in place)");
}

static bool store(struct machine *m, const struct machine_worker *w, struct machine_place place, int piece, int length,
                  int32_t value) {
    struct machine_cell *cell = cell_of(m, w->round, place);
    if (m->ordered) {
        int other =
            order_write(&m->order, number_of(m, w), m->first_worker[place.owner], number_of_place(m, w->round, place));
        if (other >= 0)
            return fail_unordered(m, w, "writes", place, other);
    }
    if (!touch(m, w, cell, piece, true, place))
        return false;
    cell->value = value;
    cell->worker = number_of(m, w);
    cell->step = step_here(w);
    cell->round = w->round;
    cell->length = length;
    return true;
}

/* The values in the slot at the head of a connection; it stays there until the step is done. */
static const int32_t *slot_values(const struct machine *m, const struct machine_conn *conn) {
    return &m->values[conn->first_value + conn->head % (uint32_t)m->nslots * (size_t)conn->longest];
}

/* Names who sent what a connection delivers. */
static bool __attribute__((format(printf, 5, 6)))
fail_slot(struct machine *m, const struct machine_worker *w, const struct machine_conn *conn, const char *so,
          const char *format, ...) {
    const struct machine_worker *producer = &m->workers[conn->producer];
    char what[64];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return machine_fail_at(m, number_of(m, w), step_here(w), "%s from rank %d worker %d step %d%s", what,
                           m->cast->members[conn->src].rank, producer->index,
                           m->slots[slot_at(m, conn, conn->head)].step - producer->first_step, so);
}

static bool expect_lengths(struct machine *m, const struct machine_worker *w, const struct prog_step *step,
                           const struct machine_conn *conn, const struct prog_step *sent) {
    for (int i = 0; i < step->count; i++) {
        int expected = machine_length_of(m, machine_about(m, w->member, step, i));
        int got = machine_length_of(m, machine_about(m, conn->src, sent, i));
        if (expected != got)
            return fail_slot(m, w, conn, ": they differ in length", "expected slice %d, got slice %d", expected, got);
    }
    return true;
}

/* Is what a connection delivers what this step waits for? */
static bool expect_slot(struct machine *m, const struct machine_worker *w, const struct prog_step *step,
                        const struct machine_conn *conn) {
    size_t at = slot_at(m, conn, conn->head);
    const struct machine_slot *slot = &m->slots[at];
    const struct prog_step *sent = &m->cast->members[conn->src].prog->steps[slot->step];
    if (slot->round != w->round)
        return fail_slot(m, w, conn, "", "expected a message of round %d, got one of round %d", w->round, slot->round);
    if (sent->count != step->count)
        return fail_slot(m, w, conn, "", "expected %d blocks, got %d", step->count, sent->count);
    if (m->ordered)
        order_receive(&m->order, number_of(m, w), at);
    return !(m->sliced || m->counted) || expect_lengths(m, w, step, conn, sent);
}

/* ---- reducing ---- */

/* One more operand: sum = sum + operand. */
static bool add_operand(struct machine *m, const struct machine_worker *w, int32_t *sum, int32_t operand,
                        bool rounded) {
    if (*sum == EXPR_NONE) {
        *sum = operand;
        return true;
    }
    if (!cast_reduces(m->cast))
        return machine_fail_at(m, number_of(m, w), step_here(w), "reduces, but a %s must not",
                               prog_collective_name(m->cast->algorithm->collective));
    if (expr_is_finish(&m->exprs, *sum) || expr_is_finish(&m->exprs, operand))
        return machine_fail_at(m, number_of(m, w), step_here(w), "reduces a value that was finished before");
    *sum = expr_add(&m->exprs, *sum, operand, rounded);
    return *sum != EXPR_NO_MEMORY || machine_fail(m, "no memory to verify programs");
}

/* A member that has contributed nothing to the value, which has fewer leaves than there are members. */
static int find_missing(const struct machine *m, int32_t value) {
    int missing = 0, nmembers = m->cast->nmembers;
    int32_t *leaves = malloc((size_t)nmembers * sizeof(*leaves));
    int nleaves = leaves != NULL ? expr_list_leaves(&m->exprs, value, leaves, nmembers) : 0;
    for (int i = 0; i < nleaves; i++)
        if (leaves[i] / m->exprs.nblocks == missing) {
            missing++;
            i = -1; /* it has; so look for the next one, from the start */
        }
    free(leaves);
    return missing;
}

static bool finish(struct machine *m, const struct machine_worker *w, int32_t *value) {
    int nleaves = expr_nleaves(&m->exprs, *value);
    if (expr_is_finish(&m->exprs, *value))
        return machine_fail_at(m, number_of(m, w), step_here(w), "finishes a value twice");
    if (nleaves < m->cast->nmembers)
        return machine_fail_at(m, number_of(m, w), step_here(w),
                               "finishes a value with %d of %d contributions: that of rank %d is missing", nleaves,
                               m->cast->nmembers, find_missing(m, *value));
    *value = expr_finish(&m->exprs, *value);
    return *value != EXPR_NO_MEMORY || machine_fail(m, "no memory to verify programs");
}

/* Reduces the operands of one piece in their order. */
static bool reduce_piece(struct machine *m, const struct machine_worker *w, const struct prog_step *step, int piece,
                         int32_t *value_p) {
    const struct prog_local *locals = &m->cast->members[w->member].prog->locals[step->locals_first];
    int noperands = step->recv_count + step->locals_count, received = 0, read = 0;
    int length = machine_length_of(m, machine_about(m, w->member, step, piece));
    *value_p = EXPR_NONE;
    while (received + read < noperands) {
        bool local = read < step->locals_count && locals[read].at == received;
        bool last = received + read == noperands - 1;
        int32_t operand = EXPR_NONE;
        if (!local)
            operand = slot_values(m, recv_conn(m, w, step, received++))[piece];
        else if (!read_local(m, w, machine_local(m, w->member, step, read++, piece), piece, length, &operand))
            return false;
        if (!add_operand(m, w, value_p, operand, last && !step->finish)) /* finishing divides before it rounds */
            return false;
    }
    return !step->finish || finish(m, w, value_p);
}

static bool reduce(struct machine *m, const struct machine_worker *w, const struct prog_step *step) {
    for (int i = 0; i < step->recv_count; i++)
        if (!expect_slot(m, w, step, recv_conn(m, w, step, i)))
            return false;
    for (int i = 0; i < step->count; i++) {
        m->results[i] = EXPR_NONE;
        if (machine_is_alive(m, machine_about(m, w->member, step, i).block, w->round) &&
            !reduce_piece(m, w, step, i, &m->results[i]))
            return false;
    }
    return true;
}

static bool store_all(struct machine *m, const struct machine_worker *w, const struct prog_step *step) {
    for (int i = 0; i < step->count && step->store_region != STEP_NONE; i++) {
        int length = machine_length_of(m, machine_about(m, w->member, step, i));
        if (m->results[i] != EXPR_NONE && !store(m, w, machine_store(m, w->member, step, i), i, length, m->results[i]))
            return false;
    }
    return true;
}

static void wake(struct machine *m, int worker, int conn) {
    if (m->workers[worker].blocked_on != conn)
        return;
    m->workers[worker].blocked_on = -1;
    m->runnable[m->nrunnable++] = worker;
}

/* Takes away what was read and passes on the result. */
static void move_slots(struct machine *m, const struct machine_worker *w, const struct prog_step *step) {
    for (int i = 0; i < step->recv_count; i++) {
        struct machine_conn *conn = recv_conn(m, w, step, i);
        conn->head++;
        wake(m, conn->producer, (int)(conn - m->conns));
    }
    for (int i = 0; i < step->send_count; i++) {
        struct machine_conn *conn = send_conn(m, w, step, i);
        size_t slot = slot_at(m, conn, conn->tail);
        size_t first = conn->first_value + conn->tail % (uint32_t)m->nslots * (size_t)conn->longest;
        m->slots[slot] = (struct machine_slot){w->round, step_here(w)};
        memcpy(&m->values[first], m->results, (size_t)step->count * sizeof(*m->values));
        if (m->ordered)
            order_send(&m->order, number_of(m, w), slot);
        conn->tail++;
        wake(m, conn->consumer, (int)(conn - m->conns));
    }
}

/* Whether any block of the step has elements in this round; else both ends skip it. */
static bool has_elements(const struct machine *m, const struct machine_worker *w, const struct prog_step *step) {
    for (int i = 0; i < step->count; i++)
        if (!m->sliced || machine_is_alive(m, machine_about(m, w->member, step, i).block, w->round))
            return true;
    return false;
}

static enum outcome try_step(struct machine *m, struct machine_worker *w) {
    const struct prog_step *step = step_of(m, w);
    if (has_elements(m, w, step)) {
        if (!is_ready(m, w, step))
            return BUSY;
        m->nsteps_done++;
        if (m->ordered)
            order_step(&m->order, number_of(m, w));
        if (!reduce(m, w, step) || !store_all(m, w, step))
            return FAILED;
        move_slots(m, w, step);
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

int machine_turn(struct machine *m, int round) {
    int nready = 0;
    for (int i = 0; i < m->nworkers; i++) {
        struct machine_worker *w = &m->workers[i];
        w->turned = -1;
        if (w->round <= round && (!has_elements(m, w, step_of(m, w)) || is_ready(m, w, step_of(m, w))))
            m->runnable[nready++] = i;
    }
    m->nrunnable = nready; /* workers that wake up come behind, and wait for the next turn */
    for (int i = 0; i < nready; i++) {
        struct machine_worker *w = &m->workers[m->runnable[i]];
        w->turned = w->pc;
        if (try_step(m, w) == FAILED)
            return -1;
    }
    return nready;
}

bool machine_run(struct machine *m) {
    m->nrunnable = 0;
    for (int w = m->nworkers - 1; w >= 0; w--) {
        m->workers[w].blocked_on = -1;
        m->runnable[m->nrunnable++] = w;
    }
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
