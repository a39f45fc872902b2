/* SPDX-License-Identifier: Apache-2.0
 *
 * The rehearsal at work: rehearsal.h has the picture, join.c comes before, check.c gives the verdict.
 */
#include "layers/verifier/rehearsal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- failing ---- */

bool rehearsal_fail(struct rehearsal *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(m->why, m->why_bytes, format, args);
    va_end(args);
    return false;
}

bool rehearsal_fail_at(struct rehearsal *m, int worker, int step, const char *format, ...) {
    const struct rehearsal_worker *w = &m->workers[worker];
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    m->failed = (struct rehearsal_failure){w->member, step, w->round};
    return rehearsal_fail(m, "rank %d worker %d step %d: %s", m->cast->members[w->member].rank, w->index,
                          step - w->first_step, what);
}

static int number_of(const struct rehearsal *m, const struct rehearsal_worker *w) { return (int)(w - m->workers); }

#define fail_here(m, w, ...) rehearsal_fail_at(m, number_of(m, w), (w)->first_step + (w)->pc, __VA_ARGS__)

/* ---- memory ---- */

/* The number of a block's length. Places of one number are equally long. The place is in IN or OUT. */
static int length_at(const struct rehearsal *m, struct rehearsal_place place) {
    if (!m->counted)
        return place.block % m->cast->nslices;
    struct cast_source source = {place.member, place.block};
    if (place.region == STEP_OUT)
        source = cast_source_of(m->cast, place.member, place.block);
    return cast_reduces(m->cast) ? source.block : expr_leaf(&m->exprs, source.member, source.block);
}

bool rehearsal_is_alive(const struct rehearsal *m, struct rehearsal_place place, int round) {
    return length_at(m, place) < m->lengths[round];
}

struct rehearsal_place rehearsal_place(const struct rehearsal *m, int member, int region, const struct block_run *run,
                                       int i) {
    int nblocks = i > 0 ? prog_region_blocks(m->cast->members[member].prog, (enum step_region)region) : 0;
    int block = i > 0 ? (int)geometry_block(run, (uint32_t)i, (uint32_t)nblocks) : run->first;
    return (struct rehearsal_place){member, (enum step_region)region, block};
}

static struct rehearsal_place about_of(const struct rehearsal *m, int member, const struct prog_step *step, int i) {
    return rehearsal_place(m, member, step->about_region, &step->about, i);
}

int rehearsal_index(const struct rehearsal *m, struct rehearsal_place place) {
    int alias = m->in_place && place.region == STEP_IN ? cast_alias_of(m->cast, place.member, place.block) : -1;
    if (place.region == STEP_IN && alias < 0)
        return m->nout + m->ntmp + place.block;
    return place.region == STEP_TMP ? m->nout + place.block : alias >= 0 ? alias : place.block;
}

/* Index of the memory that a member has for a round. TMP is the same memory in every round. */
static size_t row_of(const struct rehearsal *m, int round, struct rehearsal_place place) {
    return (size_t)(place.region == STEP_TMP ? 0 : round) * (size_t)m->cast->nmembers + (size_t)place.member;
}

/* The number of a place among those of all members and rounds. */
static size_t number_of_place(const struct rehearsal *m, int round, struct rehearsal_place place) {
    return row_of(m, round, place) * (size_t)rehearsal_places_of_member(m) + (size_t)rehearsal_index(m, place);
}

struct rehearsal_cell *rehearsal_cell(const struct rehearsal *m, int round, struct rehearsal_place place) {
    int ncells = m->nout + m->ntmp, index = rehearsal_index(m, place);
    return index < ncells ? &m->cells[row_of(m, round, place) * (size_t)ncells + (size_t)index] : NULL;
}

static bool __attribute__((format(printf, 5, 6)))
fail_place(struct rehearsal *m, const struct rehearsal_worker *w, bool stores, struct rehearsal_place place,
           const char *format, ...) {
    static const char *const regions[] = {[STEP_IN] = "IN", [STEP_OUT] = "OUT", [STEP_TMP] = "TMP"};
    char more[160];
    va_list args;
    va_start(args, format);
    vsnprintf(more, sizeof(more), format, args);
    va_end(args);
    return fail_here(m, w, "%s %s block %d%s, round %d", stores ? "stores to" : "reads", regions[place.region],
                     place.block, more, w->round);
}

/* May this piece of the step read or store the place? Not if the rank has no such buffer, or if another worker's access is not ordered
 * against this one. The pieces of a step are done in any order. So if one piece stores to a place, no other piece may read or store it.
 * SEVERAL_PIECES: more than one piece has read. */
enum { SEVERAL_PIECES = -1 };
static bool may_access(struct rehearsal *m, const struct rehearsal_worker *w, struct rehearsal_place place, int piece,
                       bool stores) {
    const struct cast_member *self = &m->cast->members[w->member];
    struct rehearsal_cell *cell = rehearsal_cell(m, w->round, place);
    if ((place.region == STEP_IN && !self->has_in) || (place.region == STEP_OUT && !self->has_out))
        return fail_place(m, w, stores, place, ", which a %s does not give to this rank",
                          prog_collective_name(self->prog->collective));
    int other = !m->ordered
                    ? -1
                    : (stores ? order_write : order_read)(&m->order, number_of(m, w), m->first_worker[w->member],
                                                          number_of_place(m, w->round, place));
    if (other >= 0 && m->workers[other].member != w->member)
        return fail_place(
            m, w, stores, place, ", which is lent to rank %d worker %d: no message says that it was read%s",
            m->cast->members[m->workers[other].member].rank, m->workers[other].index, m->in_place ? " (in place)" : "");
    if (other >= 0)
        return fail_place(m, w, stores, place, " while worker %d uses the same memory: no message orders the two%s",
                          m->workers[other].index, m->in_place ? " (in place)" : "");
    bool again = cell != NULL && cell->touched == m->nsteps_done && cell->piece != piece;
    if (stores && again)
        return fail_place(m, w, stores, place, ", which the same step uses for another block");
    if (cell != NULL) {
        cell->touched = m->nsteps_done;
        cell->piece = again ? SEVERAL_PIECES : piece;
    }
    return true;
}

static bool expect_length(struct rehearsal *m, const struct rehearsal_worker *w, bool stores,
                          struct rehearsal_place place, int found, int expected) {
    return found == expected || fail_place(m, w, stores, place,
                                           ", slice %d, where slice %d is expected: they differ "
                                           "in length",
                                           found, expected);
}

static bool read_local(struct rehearsal *m, const struct rehearsal_worker *w, struct rehearsal_place place, int piece,
                       int length, int32_t *value_p) {
    const struct rehearsal_cell *cell = rehearsal_cell(m, w->round, place);
    if (!may_access(m, w, place, piece, false))
        return false;
    *value_p = place.region == STEP_IN ? expr_leaf(&m->exprs, place.member, place.block) : cell->value;
    if (place.region == STEP_IN && cell != NULL && cell->value != EXPR_NONE && cell->value != *value_p)
        return fail_place(m, w, false, place, ", which a result has overwritten (in place)");
    if (*value_p == EXPR_NONE)
        return fail_place(m, w, false, place, ", which nobody has written yet");
    if (place.region == STEP_TMP && cell->round != w->round)
        return fail_place(m, w, false, place, ", which was written last in a round before");
    int found = place.region == STEP_TMP ? cell->length : length_at(m, place);
    return expect_length(m, w, false, place, found, length);
}

static bool store(struct rehearsal *m, const struct rehearsal_worker *w, struct rehearsal_place place, int piece,
                  int length, int32_t value) {
    struct rehearsal_cell *cell = rehearsal_cell(m, w->round, place);
    int room = place.region == STEP_TMP ? length : length_at(m, place);
    if (!may_access(m, w, place, piece, true) || !expect_length(m, w, true, place, room, length))
        return false;
    *cell =
        (struct rehearsal_cell){value, number_of(m, w), w->first_step + w->pc, w->round, length, m->nsteps_done, piece};
    return true;
}

/* ---- connections ---- */

size_t rehearsal_slot(const struct rehearsal *m, const struct rehearsal_conn *conn, uint32_t counter) {
    return (size_t)(conn - m->conns) * (size_t)m->nslots + counter % (uint32_t)m->nslots;
}

static const struct prog_step *step_of(const struct rehearsal *m, const struct rehearsal_worker *w) {
    return &m->cast->members[w->member].prog->steps[w->first_step + w->pc];
}

static struct rehearsal_conn *recv_conn(const struct rehearsal *m, const struct rehearsal_worker *w, int i) {
    return &m->conns[m->pairs.recv[m->pairs.first_peer[w->member] + step_of(m, w)->recv_first + i]];
}

static struct rehearsal_conn *send_conn(const struct rehearsal *m, const struct rehearsal_worker *w, int i) {
    return &m->conns[m->pairs.send[m->pairs.first_peer[w->member] + step_of(m, w)->send_first + i]];
}

/* Has any block of the step elements in this round? If not, both ends skip the step. */
static bool has_elements(const struct rehearsal *m, const struct rehearsal_worker *w) {
    const struct prog_step *step = step_of(m, w);
    int i = 0;
    while (i < step->count && !rehearsal_is_alive(m, about_of(m, w->member, step, i), w->round))
        i++;
    return i < step->count;
}

/* The connection that the worker's step waits for. NULL: none. */
static const struct rehearsal_conn *find_blocker(const struct rehearsal *m, const struct rehearsal_worker *w) {
    const struct prog_step *step = step_of(m, w);
    const struct rehearsal_conn *conn = NULL;
    for (int i = 0; i < step->recv_count && conn == NULL; i++)
        conn = recv_conn(m, w, i)->tail == recv_conn(m, w, i)->head ? recv_conn(m, w, i) : NULL;
    for (int i = 0; i < step->send_count && conn == NULL; i++)
        conn = send_conn(m, w, i)->tail - send_conn(m, w, i)->head == (uint32_t)m->nslots ? send_conn(m, w, i) : NULL;
    return conn != NULL && has_elements(m, w) ? conn : NULL;
}

/* ---- loans ---- */

struct rehearsal_place rehearsal_lent(const struct rehearsal *m, int member, const struct prog_step *step) {
    if (step->lends == STEP_LENDS_RESULT)
        return rehearsal_place(m, member, step->store_region, &step->store, 0);
    const struct prog_local *local = &m->cast->members[member].prog->locals[step->locals_first];
    return rehearsal_place(m, member, local->region, &local->run, 0);
}

/* Called for each message that is sent. If the sender's step lends the payload instead of copying it into the slot, notes the loan. */
static bool lend(struct rehearsal *m, const struct rehearsal_worker *w, const struct rehearsal_conn *conn,
                 struct rehearsal_slot *slot) {
    const struct prog_step *step = step_of(m, w);
    slot->loan = -1;
    if (!m->ordered || !rehearsal_lends(m, step) || m->results[0] == EXPR_NONE)
        return true;
    size_t place = number_of_place(m, w->round, rehearsal_lent(m, w->member, step));
    slot->loan = order_lend(&m->order, place, conn->consumer.worker);
    return slot->loan >= 0 || rehearsal_fail(m, "no memory to verify programs");
}

/* Reads a lent payload at the receiver, if the message is a loan. The payload must not have changed since the loan. */
static bool take_loan(struct rehearsal *m, const struct rehearsal_worker *w, const struct rehearsal_conn *conn,
                      const struct prog_step *sent) {
    size_t at = rehearsal_slot(m, conn, conn->head);
    const struct rehearsal_slot *slot = &m->slots[at];
    int32_t lent = m->values[at * (size_t)m->longest];
    if (!rehearsal_lends(m, sent) || lent == EXPR_NONE)
        return true;
    struct rehearsal_place place = rehearsal_lent(m, conn->at.src, sent);
    const struct rehearsal_cell *cell = rehearsal_cell(m, slot->round, place);
    bool written = cell != NULL && cell->value != EXPR_NONE;
    int32_t now = written ? cell->value : expr_leaf(&m->exprs, place.member, place.block);
    if (slot->loan >= 0)
        order_take(&m->order, slot->loan);
    return now == lent ||
           fail_here(m, w, "takes what rank %d lent in step %d, and has overwritten since",
                     m->cast->members[conn->at.src].rank, slot->step - m->workers[conn->producer.worker].first_step);
}

/* The receiver learns what the message carries: which steps of other workers are over. For a silent message it learns nothing. If the
 * payload lies in memory and not in the slot, the receiver needs this knowledge to read there. */
static bool expect_arrival(struct rehearsal *m, const struct rehearsal_worker *w, const struct rehearsal_conn *conn,
                           const struct prog_step *sent) {
    size_t slot = rehearsal_slot(m, conn, conn->head);
    int worker = number_of(m, w), sender = conn->producer.worker;
    bool in_memory = rehearsal_lends(m, sent) || rehearsal_lands(m, w->member, step_of(m, w));
    if (!m->ordered)
        return true;
    if (++m->nmessages != m->silent)
        order_receive(&m->order, worker, slot);
    return !in_memory || order_has_heard(&m->order, worker, slot, sender) ||
           fail_here(m, w, "uses what rank %d worker %d may not have made yet: no message orders the two",
                     m->cast->members[conn->at.src].rank, m->workers[sender].index);
}

/* Checks a step whose payload may land early. The peer may then write the payload into this rank's memory as soon as it sends the
 * message. */
static bool expect_landing(struct rehearsal *m, const struct rehearsal_worker *w) {
    const struct prog_step *step = step_of(m, w);
    bool copies = step->recv_count == 1 && step->locals_count == 0 && step->count == 1;
    if (!rehearsal_lands(m, w->member, step))
        return true;
    if (!copies || step->store_region != STEP_OUT)
        return fail_here(m, w, "may land early, but it does more than to store a block that it receives in OUT");
    if (!m->ordered)
        return true;
    const struct rehearsal_conn *conn = recv_conn(m, w, 0);
    struct rehearsal_place place = rehearsal_place(m, w->member, step->store_region, &step->store, 0);
    int user = order_land(&m->order, rehearsal_slot(m, conn, conn->head), m->first_worker[w->member],
                          number_of_place(m, w->round, place));
    return user < 0 ||
           fail_place(m, w, true, place, ", where it may land early, while rank %d worker %d uses the same memory%s",
                      m->cast->members[m->workers[user].member].rank, m->workers[user].index,
                      m->in_place ? " (in place)" : "");
}

/* Is the message that a connection delivers the one that this step waits for? */
static bool expect_message(struct rehearsal *m, const struct rehearsal_worker *w, const struct rehearsal_conn *conn) {
    const struct prog_step *step = step_of(m, w);
    const struct rehearsal_slot *slot = &m->slots[rehearsal_slot(m, conn, conn->head)];
    const struct rehearsal_worker *producer = &m->workers[conn->producer.worker];
    const struct prog_step *sent = &m->cast->members[conn->at.src].prog->steps[slot->step];
    const char *what = slot->round != w->round ? "round" : "number of blocks";
    int expected = slot->round != w->round ? w->round : step->count;
    int got = slot->round != w->round ? slot->round : sent->count;
    for (int i = 0; i < step->count && got == expected; i++) {
        what = "slice";
        expected = length_at(m, about_of(m, w->member, step, i));
        got = length_at(m, about_of(m, conn->at.src, sent, i));
    }
    return got == expected
               ? expect_arrival(m, w, conn, sent) && take_loan(m, w, conn, sent)
               : fail_here(m, w, "expected %s %d, got %s %d from rank %d worker %d step %d", what, expected, what, got,
                           m->cast->members[conn->at.src].rank, producer->index, slot->step - producer->first_step);
}

/* Marks a worker that may be able to move again. */
static void wake(struct rehearsal *m, int worker) {
    if (!m->workers[worker].awake)
        m->awake[m->nawake++] = worker;
    m->workers[worker].awake = true;
}

/* Frees the slots that were read, and sends the results. */
static bool move_slots(struct rehearsal *m, const struct rehearsal_worker *w) {
    const struct prog_step *step = step_of(m, w);
    for (int i = 0; i < step->recv_count; i++) {
        recv_conn(m, w, i)->head++;
        wake(m, recv_conn(m, w, i)->producer.worker);
    }
    for (int i = 0; i < step->send_count; i++) {
        struct rehearsal_conn *conn = send_conn(m, w, i);
        size_t slot = rehearsal_slot(m, conn, conn->tail++);
        m->slots[slot] = (struct rehearsal_slot){.round = w->round, .step = w->first_step + w->pc};
        if (!lend(m, w, conn, &m->slots[slot]))
            return false;
        memcpy(&m->values[slot * (size_t)m->longest], m->results, (size_t)step->count * sizeof(*m->values));
        if (m->ordered)
            order_send(&m->order, number_of(m, w), slot);
        wake(m, conn->consumer.worker);
    }
    return true;
}

/* ---- reducing ---- */

/* Adds one more operand: sum = sum + operand. */
static bool add_operand(struct rehearsal *m, const struct rehearsal_worker *w, int32_t *sum, int32_t operand,
                        bool rounded) {
    if (*sum == EXPR_NONE) {
        *sum = operand;
        return true;
    }
    if (!cast_reduces(m->cast))
        return fail_here(m, w, "reduces, but a %s must not", prog_collective_name(m->cast->algorithm->collective));
    if (expr_is_finish(&m->exprs, *sum) || expr_is_finish(&m->exprs, operand))
        return fail_here(m, w, "reduces a value that was finished before");
    *sum = expr_add(&m->exprs, *sum, operand, rounded);
    return *sum != EXPR_NO_MEMORY || rehearsal_fail(m, "no memory to verify programs");
}

/* Is the sum complete? It must have each member's contribution exactly once, all of the same block. */
static bool expect_complete(struct rehearsal *m, const struct rehearsal_worker *w, int32_t sum) {
    int nmembers = m->cast->nmembers, nblocks = m->exprs.nblocks;
    int nleaves = expr_list_leaves(&m->exprs, sum, m->leaves, nmembers + 1);
    memset(m->seen, 0, (size_t)nmembers * sizeof(*m->seen));
    for (int i = 0; i < nleaves; i++) {
        int member = m->leaves[i] / nblocks, block = m->leaves[i] % nblocks, first = m->leaves[0] % nblocks;
        if (block != first)
            return fail_here(m, w, "finishes a sum of block %d of rank %d and of block %d of rank %d", block, member,
                             first, m->leaves[0] / nblocks);
        if (m->seen[member])
            return fail_here(m, w, "finishes a sum in which the contribution of rank %d is doubled", member);
        m->seen[member] = true;
    }
    for (int member = 0; member < nmembers; member++)
        if (!m->seen[member])
            return fail_here(m, w, "finishes a sum of %d of %d contributions: that of rank %d is missing", nleaves,
                             nmembers, member);
    return true;
}

static bool finish(struct rehearsal *m, const struct rehearsal_worker *w, int32_t *value) {
    int32_t sum = *value, nnodes = m->exprs.nnodes;
    if (!cast_reduces(m->cast))
        return fail_here(m, w, "finishes a value, but a %s does not reduce",
                         prog_collective_name(m->cast->algorithm->collective));
    if (expr_is_finish(&m->exprs, sum))
        return fail_here(m, w, "finishes a value twice");
    *value = expr_finish(&m->exprs, sum);
    if (*value == EXPR_NO_MEMORY)
        return rehearsal_fail(m, "no memory to verify programs");
    /* A sum that was finished before was checked then. */
    return m->exprs.nnodes == nnodes || expect_complete(m, w, sum);
}

/* Reduces the operands of one piece in their order. */
static bool reduce_piece(struct rehearsal *m, const struct rehearsal_worker *w, int piece, int32_t *value_p) {
    const struct prog_step *step = step_of(m, w);
    const struct prog *prog = m->cast->members[w->member].prog; /* Its `locals` is NULL if the program has none. */
    int noperands = step->recv_count + step->locals_count, received = 0, read = 0;
    int length = length_at(m, about_of(m, w->member, step, piece));
    *value_p = EXPR_NONE;
    while (received + read < noperands) {
        const struct prog_local *local = read < step->locals_count ? &prog->locals[step->locals_first + read] : NULL;
        bool last = received + read == noperands - 1;
        int32_t operand = EXPR_NONE;
        if (local == NULL || local->at != received) {
            const struct rehearsal_conn *conn = recv_conn(m, w, received++);
            operand = m->values[rehearsal_slot(m, conn, conn->head) * (size_t)m->longest + (size_t)piece];
        } else if (!read_local(m, w, rehearsal_place(m, w->member, local->region, &local->run, piece), piece, length,
                               &operand)) {
            return false;
        } else {
            read++;
        }
        if (!add_operand(m, w, value_p, operand, last && !step->finish)) /* Finishing divides before it rounds. */
            return false;
    }
    return !step->finish || finish(m, w, value_p);
}

/* ---- steps and turns ---- */

static bool do_step(struct rehearsal *m, const struct rehearsal_worker *w) {
    const struct prog_step *step = step_of(m, w);
    m->nsteps_done++;
    if (m->ordered)
        order_step(&m->order, number_of(m, w));
    for (int i = 0; i < step->recv_count; i++)
        if (!expect_message(m, w, recv_conn(m, w, i)))
            return false;
    if (!expect_landing(m, w))
        return false;
    for (int i = 0; i < step->count; i++) {
        m->results[i] = EXPR_NONE;
        if (rehearsal_is_alive(m, about_of(m, w->member, step, i), w->round) && !reduce_piece(m, w, i, &m->results[i]))
            return false;
    }
    for (int i = 0; i < step->count && step->store_region != STEP_NONE; i++) {
        struct rehearsal_place place = rehearsal_place(m, w->member, step->store_region, &step->store, i);
        int length = length_at(m, about_of(m, w->member, step, i));
        if (m->results[i] != EXPR_NONE && !store(m, w, place, i, length, m->results[i]))
            return false;
    }
    return move_slots(m, w);
}

static bool can_move(const struct rehearsal *m, const struct rehearsal_worker *w, int nrounds) {
    return w->round < nrounds && find_blocker(m, w) == NULL;
}

static bool advance(struct rehearsal *m, struct rehearsal_worker *w) {
    if (has_elements(m, w) && !do_step(m, w))
        return false;
    w->pc = (w->pc + 1) % w->nsteps;
    w->round += w->pc == 0;
    return true;
}

/* Runs the first round in turns. In a turn every worker that is able to move does one step. Workers that wake up in a turn
 * wait for the next one. */
static bool run_turns(struct rehearsal *m, const struct rehearsal_watcher *watcher) {
    for (int turn = 1, nmoving = 1; nmoving > 0; turn++) {
        nmoving = 0;
        for (int i = 0; i < m->nawake; i++) {
            struct rehearsal_worker *w = &m->workers[m->awake[i]];
            w->awake = can_move(m, w, 1);
            w->turned = w->awake ? w->pc : -1;
            if (w->awake)
                m->awake[nmoving++] = m->awake[i];
        }
        m->nawake = nmoving;
        for (int i = 0; i < nmoving; i++)
            if (!advance(m, &m->workers[m->awake[i]]))
                return false;
        if (nmoving > 0)
            watcher->turn(m, turn, watcher->context);
    }
    return true;
}

/* Runs all rounds. Always takes the worker that was woken last, and moves it as far as it can go. */
static bool run_freely(struct rehearsal *m) {
    while (m->nawake > 0) {
        struct rehearsal_worker *w = &m->workers[m->awake[--m->nawake]];
        w->awake = false;
        while (can_move(m, w, m->nrounds))
            if (!advance(m, w))
                return false;
    }
    return true;
}

/* The worker that a blocked worker waits for. */
static int awaited_by(const struct rehearsal *m, int worker) {
    const struct rehearsal_conn *conn = find_blocker(m, &m->workers[worker]);
    return conn->producer.worker == worker ? conn->consumer.worker : conn->producer.worker;
}

/* Fails. The message follows the chain of waiting workers from one blocked worker on, for at most three links. */
static bool fail_blocked(struct rehearsal *m, int worker) {
    const struct rehearsal_worker *w = &m->workers[worker];
    char chain[256] = "";
    for (int i = 0, at = worker; i < 3 && m->workers[at].round < m->nrounds; i++) {
        const struct rehearsal_conn *conn = find_blocker(m, &m->workers[at]);
        const struct rehearsal_worker *other = &m->workers[awaited_by(m, at)];
        size_t used = strlen(chain);
        snprintf(chain + used, sizeof(chain) - used, "%s rank %d worker %d%s", i == 0 ? "" : ", which waits for",
                 m->cast->members[other->member].rank, other->index,
                 other->round == m->nrounds    ? ", which has finished"
                 : conn->producer.worker == at ? " to free a slot"
                                               : " to send");
        at = number_of(m, other);
    }
    return fail_here(m, w, "deadlock with %d slot%s in round %d: waits for%s", m->nslots, m->nslots == 1 ? "" : "s",
                     w->round, chain);
}

/* Nobody can move. The run is right if all workers are done and every slot was read. */
static bool end_run(struct rehearsal *m) {
    int blocked = -1;
    for (int w = 0; w < m->nworkers; w++) {
        if (m->workers[w].round == m->nrounds)
            continue;
        if (m->workers[awaited_by(m, w)].round == m->nrounds)
            return fail_blocked(m, w); /* The worker waits for one that has ended: it is the cause */
        blocked = blocked < 0 ? w : blocked;
    }
    if (blocked >= 0)
        return fail_blocked(m, blocked);
    for (const struct rehearsal_conn *conn = m->conns; conn < m->conns + m->pairs.count; conn++)
        if (conn->head != conn->tail)
            return rehearsal_fail_at(m, conn->producer.worker, m->slots[rehearsal_slot(m, conn, conn->head)].step,
                                     "sends to rank %d on lane %d what is never received",
                                     m->cast->members[conn->at.dst].rank, conn->at.lane);
    return true;
}

/* Checks hasty loans. A hasty rank returns from the call when its last step is done. By then, messages must have told it that its loans
 * were read. */
static bool end_loans(struct rehearsal *m) {
    size_t nplaces = (size_t)rehearsal_places_of_member(m), nmembers = (size_t)m->cast->nmembers;
    for (int loan = 0; m->hasty != 0 && loan < m->order.nloans; loan++) {
        const struct order_loan *of = &m->order.loans[loan];
        int member = (int)(of->place / nplaces % nmembers), reader = of->reader;
        if ((m->hasty == REHEARSAL_HASTY || m->hasty == loan + 1) &&
            !order_is_over(&m->order, loan, m->first_worker[member], m->cast->members[member].prog->nworkers))
            return rehearsal_fail(m, "rank %d returns from the call while rank %d worker %d may read its memory",
                                  m->cast->members[member].rank, m->cast->members[m->workers[reader].member].rank,
                                  m->workers[reader].index);
    }
    return true;
}

bool rehearsal_run(struct rehearsal *m, const struct rehearsal_watcher *watcher) {
    for (int w = m->nworkers - 1; w >= 0; w--)
        wake(m, w);
    if (watcher != NULL && watcher->turn != NULL && !run_turns(m, watcher))
        return false;
    for (int w = m->nworkers - 1; w >= 0; w--)
        wake(m, w);
    return run_freely(m) && end_run(m) && end_loans(m);
}
