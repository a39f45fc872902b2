/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the rehearsal: finds both ends of every connection, and what is wrong with programs before they run.
 */
#include "layers/verifier/rehearsal.h"

#include <string.h>

/* Makes `worker` one end of the connections of peer table entries first … first+count−1. */
static bool join_peers(struct rehearsal *m, int worker, int step, int first, int count, bool sending) {
    int member = m->workers[worker].member;
    const int *conns = (sending ? m->pairs.send : m->pairs.recv) + m->pairs.first_peer[member];
    const char *verb = sending ? "sends to" : "receives from";
    for (int i = first; i < first + count; i++) {
        struct prog_peer peer = m->cast->members[member].prog->peers[i];
        if (conns[i] < 0)
            return rehearsal_fail_at(m, worker, step, "%s rank %d, which takes no part", verb, peer.rank);
        struct rehearsal_conn *conn = &m->conns[conns[i]];
        struct rehearsal_end *end = sending ? &conn->producer : &conn->consumer;
        if (end->worker >= 0 && end->worker != worker)
            return rehearsal_fail_at(
                m, worker, step, "%s rank %d on lane %d, and so does worker %d: one worker an end, take another lane",
                verb, peer.rank, peer.lane, m->workers[end->worker].index);
        if (end->newest_use == step)
            return rehearsal_fail_at(m, worker, step, "%s rank %d on lane %d twice in one step", verb, peer.rank,
                                     peer.lane);
        *end = (struct rehearsal_end){worker, end->worker < 0 ? step : end->first_use, step};
    }
    return true;
}

static bool join_steps(struct rehearsal *m) {
    for (int w = 0; w < m->nworkers; w++)
        for (int s = m->workers[w].first_step; s < m->workers[w].first_step + m->workers[w].nsteps; s++) {
            const struct prog_step *step = &m->cast->members[m->workers[w].member].prog->steps[s];
            if (!join_peers(m, w, s, step->recv_first, step->recv_count, false) ||
                !join_peers(m, w, s, step->send_first, step->send_count, true))
                return false;
        }
    for (int c = 0; c < m->pairs.count; c++) {
        const struct rehearsal_conn *conn = &m->conns[c];
        int src = m->cast->members[conn->at.src].rank, dst = m->cast->members[conn->at.dst].rank;
        if (conn->consumer.worker < 0)
            return rehearsal_fail_at(m, conn->producer.worker, conn->producer.first_use,
                                     "sends to rank %d on lane %d, and rank %d never receives there", dst,
                                     conn->at.lane, dst);
        if (conn->producer.worker < 0)
            return rehearsal_fail_at(m, conn->consumer.worker, conn->consumer.first_use,
                                     "receives from rank %d on lane %d, and rank %d never sends there", src,
                                     conn->at.lane, src);
    }
    return true;
}

/* ---- memory that workers share ---- */

/* How the steps of a member use one place of its memory: numbers of reads and writes, and the worker that reads or writes. SEVERAL: more
 * than one worker. */
enum { SEVERAL = -1 };
struct place_use {
    int nreads, reader, nwrites, writer;
    /* Number of steps that lend the place; number of steps whose payload peers may write there early. */
    int nlends, nlands;
};

static void note_use(int *ntimes, int *by, int worker) {
    *by = *ntimes == 0 || *by == worker ? worker : SEVERAL;
    ++*ntimes;
}

/* Notes that peers read a place that a step lends. The place is either an operand, which the peers read instead of this
 * rank, or what the step has just stored. */
static void note_lent(const struct rehearsal *m, int member, const struct prog_step *step, struct place_use *uses) {
    struct place_use *use = &uses[rehearsal_index(m, rehearsal_lent(m, member, step))];
    use->nlends++;
    if (step->store_region == STEP_NONE)
        use->nreads += step->send_count - 1;
    use->reader = SEVERAL;
}

static void note_step(const struct rehearsal *m, int member, int worker, const struct prog_step *step,
                      struct place_use *uses) {
    for (int i = 0; i < step->count; i++) {
        for (int l = step->locals_first; l < step->locals_first + step->locals_count; l++) {
            const struct prog_local *local = &m->cast->members[member].prog->locals[l];
            struct place_use *use =
                &uses[rehearsal_index(m, rehearsal_place(m, member, local->region, &local->run, i))];
            note_use(&use->nreads, &use->reader, worker);
            /* A read of OUT or TMP counts twice, because the step that stored the value used the place too. */
            use->nreads += local->region != STEP_IN;
        }
        if (step->store_region == STEP_NONE)
            continue;
        struct place_use *use =
            &uses[rehearsal_index(m, rehearsal_place(m, member, step->store_region, &step->store, i))];
        note_use(&use->nwrites, &use->writer, worker);
        use->nlands += rehearsal_lands(m, member, step);
    }
    if (rehearsal_lends(m, step))
        note_lent(m, member, step, uses);
}

/* Can only clocks say whether accesses to a place are in order? They are necessary if several workers use the place and one
 * of them writes it. One case needs no clocks: a single step reads a contribution, and a single step overwrites it with its
 * result, in place. A right result contains that contribution, so it follows from the read, by messages. check.c then judges
 * the result. A lent place needs clocks if another step than the one that stored it writes there. A place where a payload
 * lands early needs clocks if another step uses it. */
static bool is_order_open(const struct place_use *use) {
    if (use->nlands > 0 && use->nreads + use->nwrites > 1)
        return true;
    return use->nwrites > 0 && !(use->nwrites == 1 && use->nreads == 1) &&
           (use->writer == SEVERAL || (use->nreads > 0 && use->reader != use->writer) ||
            (use->nlends > 0 && use->nwrites > 1));
}

static bool shares_memory(const struct rehearsal *m, int member, struct place_use *uses) {
    const struct prog *prog = m->cast->members[member].prog;
    memset(uses, 0, (size_t)rehearsal_places_of_member(m) * sizeof(*uses));
    for (int w = 0; w < prog->nworkers; w++)
        for (int s = 0; s < prog->workers[w].nsteps; s++)
            note_step(m, member, w, &prog->steps[prog->workers[w].first_step + s], uses);
    for (int i = 0; i < rehearsal_places_of_member(m); i++)
        if (is_order_open(&uses[i]))
            return true;
    return false;
}

static bool join_order(struct rehearsal *m) {
    struct place_use *uses = arena_get(&m->arena, (size_t)rehearsal_places_of_member(m), sizeof(*uses));
    size_t group = 1, nplaces = (size_t)m->nrounds * (size_t)m->cast->nmembers * (size_t)rehearsal_places_of_member(m);
    bool enough = uses != NULL;
    for (int member = 0; member < m->cast->nmembers && enough; member++) {
        size_t nworkers = (size_t)m->cast->members[member].prog->nworkers;
        group = group > nworkers ? group : nworkers;
        m->ordered = m->ordered || shares_memory(m, member, uses);
    }
    if (m->ordered)
        enough =
            order_create(&m->order, (size_t)m->nworkers, group, (size_t)m->pairs.count * (size_t)m->nslots, nplaces);
    return enough || rehearsal_fail(m, "no memory to verify programs");
}

/* ---- making and unmaking ---- */

static int most(int a, int b) { return a > b ? a : b; }

/* Compares what all programs must have in common, and finds the maximum of the numbers that may differ. */
static bool compare_programs(struct rehearsal *m) {
    const struct cast_member *first = &m->cast->members[0];
    for (int member = 0; member < m->cast->nmembers; member++) {
        const struct cast_member *other = &m->cast->members[member];
        if (other->prog->nslices != first->prog->nslices)
            return rehearsal_fail(m, "rank %d cuts its buffers into %d slices, rank %d into %d", other->rank,
                                  other->prog->nslices, first->rank, first->prog->nslices);
        if (other->prog->longest_run != first->prog->longest_run)
            return rehearsal_fail(
                m, "the longest message of rank %d has %d blocks, that of rank %d has %d: pieces are cut by it",
                other->rank, other->prog->longest_run, first->rank, first->prog->longest_run);
        m->ntmp = most(m->ntmp, other->prog->ntmp);
        m->nworkers += other->prog->nworkers;
    }
    return true;
}

static void list_rounds(struct rehearsal *m) {
    int nfull = m->nslots + 1;
    for (int round = 0; round < m->nrounds; round++)
        m->lengths[round] = round < nfull ? m->nlengths : round == nfull ? (m->nlengths + 1) / 2 : 1;
}

static void list_workers(struct rehearsal *m) {
    struct rehearsal_worker *w = m->workers;
    for (int member = 0; member < m->cast->nmembers; member++) {
        const struct prog *prog = m->cast->members[member].prog;
        m->first_worker[member] = (int)(w - m->workers);
        for (int i = 0; i < prog->nworkers; i++)
            *w++ = (struct rehearsal_worker){
                .member = member,
                .index = i,
                .first_step = prog->workers[i].first_step,
                .nsteps = prog->workers[i].nsteps,
            };
    }
}

static void *get(struct rehearsal *m, size_t n, size_t bytes) { return arena_get(&m->arena, n, bytes); }

static bool allocate(struct rehearsal *m) {
    size_t nmembers = (size_t)m->cast->nmembers, nconns = (size_t)m->pairs.count, nworkers = (size_t)m->nworkers;
    size_t ncells = (size_t)m->nrounds * nmembers * (size_t)(m->nout + m->ntmp);
    m->lengths = get(m, (size_t)m->nrounds, sizeof(*m->lengths));
    m->first_worker = get(m, nmembers, sizeof(*m->first_worker));
    m->workers = get(m, nworkers, sizeof(*m->workers));
    m->awake = get(m, nworkers, sizeof(*m->awake));
    m->conns = get(m, nconns, sizeof(*m->conns));
    m->slots = get(m, nconns * (size_t)m->nslots, sizeof(*m->slots));
    m->values = get(m, nconns * (size_t)m->nslots * (size_t)m->longest, sizeof(*m->values));
    m->cells = get(m, ncells, sizeof(*m->cells));
    m->results = get(m, (size_t)most(m->nin, m->nout), sizeof(*m->results));
    m->leaves = get(m, nmembers + 1, sizeof(*m->leaves));
    m->seen = get(m, nmembers, sizeof(*m->seen));
    if (m->arena.failed)
        return false;
    for (int c = 0; c < m->pairs.count; c++)
        m->conns[c] = (struct rehearsal_conn){m->pairs.list[c], {-1, -1, -1}, {-1, -1, -1}, 0, 0};
    for (size_t i = 0; i < ncells; i++)
        m->cells[i].value = EXPR_NONE;
    return true;
}

bool rehearsal_create(struct rehearsal *m, const struct cast *cast, const struct rehearsal_rules *rules, char *why,
                      size_t why_bytes) {
    int nslots = rules->nslots;
    *m = (struct rehearsal){
        .cast = cast, .nslots = nslots, .in_place = rules->in_place, .why = why, .why_bytes = why_bytes};
    m->hasty = rules->hasty;
    m->silent = rules->silent;
    m->ordered = m->hasty != 0 || m->silent != 0;
    m->failed.member = -1;
    const struct prog *prog = cast->members[0].prog;
    m->counted = prog_is_counted(prog->collective);
    m->nin = prog_region_blocks(prog, STEP_IN);
    m->nlengths = !m->counted ? prog->nslices : cast_reduces(cast) ? m->nin : cast->nmembers * m->nin;
    m->nrounds = nslots + 1 + (m->nlengths > 1 ? 2 : 0);
    m->nout = prog_region_blocks(prog, STEP_OUT);
    m->longest = prog->longest_run;
    expr_init(&m->exprs, cast->nmembers, m->nin);
    if (!compare_programs(m))
        return false;
    if (!cast_connect(cast, &m->pairs) || !allocate(m))
        return rehearsal_fail(m, "no memory to verify programs");
    list_rounds(m);
    list_workers(m);
    return join_steps(m) && join_order(m);
}

void rehearsal_destroy(struct rehearsal *m) {
    if (m->ordered)
        order_destroy(&m->order);
    expr_fini(&m->exprs);
    cast_disconnect(&m->pairs);
    arena_free(&m->arena);
}
