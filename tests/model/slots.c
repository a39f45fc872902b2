/* SPDX-License-Identifier: Apache-2.0
 *
 * What is checked of slots: the library's interpreter runs the library's programs, two or three ranks as threads, through
 * connections of one, two or four slots.
 *
 *      rank 0 (thread 0)         connection 0 → 1           rank 1 (thread 1)
 *      interp_try_step() ──────▶ tail, headers, slots ────▶ interp_try_step()
 *             ▲                                                    │
 *             └─────────────────  connection 1 → 0  ◀──────────────┘
 *
 * Nothing of src/kernels/interp.h and src/fifo/ is replaced: this file is compiled with -fsanitize=thread, and so are they,
 * since they are headers. Each result must be exact, nothing may race, nobody may wait without end. Counters begin just below
 * 2^64, and the flags of LL have two or three bits, so all of them come round.
 */
#include "fifo/fan.h"
#include "kernels/interp.h"
#include "model.h"
#include "program/program.h"

#include <stdio.h>
#include <stdlib.h>

#define RANKS MODEL_THREADS
#define SLOTS 4
#define CONNECTIONS 8
#define WORKERS 2
#define STEPS 8
#define OPERANDS 4
#define CALLS_MAX 10
#define ELEMS_MAX 32

/* ---- scenarios ---- */

struct call {
    enum protocol protocol;
    uint32_t elems, chunk;
    uint32_t elem_bytes; /* 2 or 4 */
};

struct facts {
    enum prog_collective collective;
    const char *algorithm;
    int nranks;
    uint32_t nslots, flag_bits;
    uint64_t first; /* position, and turn of LL */
    struct call calls[CALLS_MAX];
    bool fans; /* what goes to all other ranks goes through one connection that all read */
};

#define LAPS(protocol, elems, chunk)                                                                                   \
    {                                                                                                                  \
        { PROTOCOL_##protocol, elems, chunk }                                                                          \
    }
#define NEARLY_ROUND (UINT64_MAX - 1)

static const struct scenario {
    const char *name;
    struct facts facts;
    bool large; /* `make model` only */
} scenarios[] = {
#define SCENARIO(large, fans, name, collective, algorithm, nranks, nslots, bits, first, ...)                           \
    { name, {PROG_##collective, algorithm, nranks, nslots, bits, first, {__VA_ARGS__}, fans}, large }
#define SMALL(...) SCENARIO(false, false, __VA_ARGS__)
#define LARGE(...) SCENARIO(true, false, __VA_ARGS__)
#define SMALL_FAN(...) SCENARIO(false, true, __VA_ARGS__)
#define LARGE_FAN(...) SCENARIO(true, true, __VA_ARGS__)
#define CALL(protocol, elems, chunk)                                                                                   \
    { PROTOCOL_##protocol, elems, chunk, 4 }
#define HALVES(protocol, elems, chunk)                                                                                 \
    { PROTOCOL_##protocol, elems, chunk, 2 }
#define END (UINT64_MAX - 1) /* counters begin here */
    SMALL("Simple: 5 messages, 2 slots", BROADCAST, "chain", 2, 2, 3, END, CALL(SIMPLE, 5, 1)),
    SMALL("LL: 5 messages, 2 slots", BROADCAST, "chain", 2, 2, 3, END, CALL(LL, 10, 2)),
    SMALL("LL128: 5 messages, 2 slots", BROADCAST, "chain", 2, 2, 3, END, CALL(LL128, 5, 1)),
    SMALL("LL128: 3 messages of two lines, 1 slot", BROADCAST, "chain", 2, 1, 3, END, CALL(LL128, 32, 32),
          CALL(LL128, 32, 32), CALL(LL128, 32, 32)),
    SMALL("LL: 3 messages of 6 bytes, 2 slots", BROADCAST, "chain", 2, 2, 3, END, HALVES(LL, 9, 3)),
    SMALL("LL: flags come round over short messages, 1 slot", BROADCAST, "chain", 2, 1, 2, 0, CALL(LL, 2, 2),
          CALL(LL, 1, 1), CALL(LL, 1, 1), CALL(LL, 1, 1), CALL(LL, 2, 2)),
    SMALL("LL: flags come round over short messages, 2 slots", BROADCAST, "chain", 2, 2, 3, 0, CALL(LL, 4, 2),
          CALL(LL, 6, 1), CALL(LL, 4, 2)),
    SMALL("protocols change between calls, 2 slots", BROADCAST, "chain", 2, 2, 3, END, CALL(LL, 2, 1),
          CALL(SIMPLE, 2, 1), CALL(LL128, 2, 1), CALL(LL, 1, 1)),
    SMALL("Simple: ring of 2, 2 rounds, 2 slots", ALLREDUCE, "ring", 2, 2, 3, END, CALL(SIMPLE, 4, 1)),
    SMALL("LL: ring of 2, 2 rounds, 2 slots", ALLREDUCE, "ring", 2, 2, 3, END, CALL(LL, 4, 1)),
    SMALL("LL128: ring of 2, 2 rounds, 2 slots", ALLREDUCE, "ring", 2, 2, 3, END, CALL(LL128, 4, 1)),
    SMALL("Simple: chain of 3 ranks, 3 messages, 2 slots", BROADCAST, "chain", 3, 2, 3, END, CALL(SIMPLE, 3, 1)),
    SMALL("LL: chain of 3 ranks, 3 messages, 2 slots", BROADCAST, "chain", 3, 2, 3, END, CALL(LL, 3, 1)),
    SMALL("LL128: chain of 3 ranks, 3 messages, 2 slots", BROADCAST, "chain", 3, 2, 3, END, CALL(LL128, 3, 1)),
    SMALL("Simple: all to all of 3 ranks, 1 slot", ALLREDUCE, "oneshot", 3, 1, 3, END, CALL(SIMPLE, 1, 1)),
    SMALL("LL: all to all of 3 ranks, 1 slot", ALLREDUCE, "oneshot", 3, 1, 3, END, CALL(LL, 1, 1)),
    SMALL("Simple: all to all of 3 ranks, 2 rounds, 1 slot", ALLREDUCE, "oneshot", 3, 1, 3, END, CALL(SIMPLE, 2, 1)),
    SMALL("LL: all to all of 3 ranks, 2 rounds, 1 slot", ALLREDUCE, "oneshot", 3, 1, 3, END, CALL(LL, 2, 1)),
    SMALL_FAN("Simple: fan to 2 ranks, 4 messages, 2 slots", BROADCAST, "direct", 3, 2, 3, END, CALL(SIMPLE, 4, 1)),
    SMALL_FAN("LL: fan to 2 ranks, 4 messages, 2 slots", BROADCAST, "direct", 3, 2, 3, END, CALL(LL, 4, 1)),
    SMALL_FAN("LL128: fan to 2 ranks, 3 messages, 1 slot", BROADCAST, "direct", 3, 1, 3, END, CALL(LL128, 3, 1)),
    SMALL_FAN("LL: fan to 2 ranks, flags come round over short messages, 1 slot", BROADCAST, "direct", 3, 1, 2, 0,
              CALL(LL, 2, 2), CALL(LL, 1, 1), CALL(LL, 1, 1), CALL(LL, 1, 1), CALL(LL, 2, 2)),
    SMALL_FAN("Simple: fans of 3 ranks, 1 slot", ALLREDUCE, "oneshot", 3, 1, 3, END, CALL(SIMPLE, 1, 1)),
    SMALL_FAN("LL: fans of 3 ranks, 1 slot", ALLREDUCE, "oneshot", 3, 1, 3, END, CALL(LL, 1, 1)),
    LARGE_FAN("Simple: fans of 3 ranks, 2 rounds, 1 slot", ALLREDUCE, "oneshot", 3, 1, 3, END, CALL(SIMPLE, 2, 1)),
    LARGE_FAN("LL: fans of 3 ranks, 2 rounds, 1 slot", ALLREDUCE, "oneshot", 3, 1, 3, END, CALL(LL, 2, 1)),
    LARGE("Simple: ring of 3, 2 slots", ALLREDUCE, "ring", 3, 2, 3, END, CALL(SIMPLE, 3, 1)),
    LARGE("LL: ring of 3, 2 slots", ALLREDUCE, "ring", 3, 2, 3, END, CALL(LL, 3, 1)),
    LARGE("LL128: ring of 3, 2 slots", ALLREDUCE, "ring", 3, 2, 3, END, CALL(LL128, 3, 1)),
    LARGE("Simple: 12 messages, 4 slots", BROADCAST, "chain", 2, 4, 3, END, CALL(SIMPLE, 12, 1)),
    LARGE("LL: 12 messages, 4 slots", BROADCAST, "chain", 2, 4, 4, END, CALL(LL, 24, 2)),
};

/* ---- what is in the arena ---- */

#define LL_SLOT_BYTES 16     /* two lines */
#define LL128_SLOT_BYTES 256 /* two lines */
#define SIMPLE_SLOT_BYTES 128

struct connection {
    uint64_t tail, head;
    struct fan_line lines[RANKS - 1]; /* of a fan: heads are here */
    struct fifo_slot_header headers[SLOTS];
    char simple[SLOTS * SIMPLE_SLOT_BYTES];
    char ll128[SLOTS * LL128_SLOT_BYTES] __attribute__((aligned(128)));
    char ll[SLOTS * LL_SLOT_BYTES] __attribute__((aligned(8)));
};

struct rank {
    int call, running;
    struct interp_op op;
    struct prog_step steps[STEPS]; /* of a rank whose fans are sent to once */
    struct interp_worker workers[WORKERS];
    struct fifo_end ends[2 * CONNECTIONS];
    struct fifo_end *recv_ends[OPERANDS], *send_ends[OPERANDS];
    const void *src[WORKERS][OPERANDS];
    void *dst[WORKERS][OPERANDS];
    char scratch[WORKERS][OPERANDS][SIMPLE_SLOT_BYTES];
    uint32_t in[ELEMS_MAX], out[CALLS_MAX][ELEMS_MAX];
};

struct arena {
    struct connection connections[CONNECTIONS];
    struct rank ranks[RANKS];
};
_Static_assert(sizeof(struct arena) <= MODEL_ARENA_BYTES, "all fits");

static struct arena *arena(void) { return (struct arena *)(void *)model_arena; }

/* Programs do not change. */
static struct prog *progs[RANKS];
static struct { int from, to, lane; } routes[CONNECTIONS];
static int nroutes;
#define TO_ALL (-1)

static bool is_fan(const struct facts *facts, int lane) { return facts->fans && lane == PROG_LANE_ALL; }

static int route_of(int from, int to, int lane) {
    for (int k = 0; k < nroutes; k++)
        if (routes[k].from == from && routes[k].to == to && routes[k].lane == lane)
            return k;
    if (nroutes == CONNECTIONS)
        abort();
    routes[nroutes].from = from;
    routes[nroutes].to = to;
    routes[nroutes].lane = lane;
    return nroutes++;
}

static void build_programs(const struct facts *facts) {
    struct prog_shape shape = PROG_FLAT(facts->nranks);
    const struct algorithm *algorithm = algorithm_find(facts->collective, facts->algorithm);
    nroutes = 0;
    for (int r = 0; r < facts->nranks; r++) {
        prog_destroy(progs[r]);
        if (algorithm == NULL || algorithm_build(algorithm, &shape, r, 0, &progs[r]) != COLLET_SUCCESS ||
            progs[r]->nworkers > WORKERS || progs[r]->npeers > OPERANDS || progs[r]->nsteps > STEPS)
            abort();
    }
}

/* ---- an execution begins ---- */

/* The ends of a fan: the producer's looks at the heads of all consumers. */
static void lines_create(const struct facts *facts, struct fifo_end *end, int rank, int route) {
    struct connection *c = &arena()->connections[route];
    int from = routes[route].from;
    for (int k = 0; k < RANKS - 1 && rank == from; k++) {
        c->lines[k].head = facts->first;
        model_name(&c->lines[k].head, 8, "head of %d→%d", from, (from + 1 + k) % RANKS);
        model_writer(&c->lines[k].head, sizeof c->lines[k].head, (from + 1 + k) % RANKS);
    }
    end->nheads = rank == from ? RANKS - 1 : 0;
    end->head = &c->lines[rank == from ? 0 : (rank - from - 1 + RANKS) % RANKS].head;
}

static struct fifo_end *end_create(const struct facts *facts, int rank, int number, int route) {
    struct connection *c = &arena()->connections[route];
    struct fifo_end *end = &arena()->ranks[rank].ends[number];
    const bool fan = routes[route].to == TO_ALL;
    c->tail = c->head = facts->first;
    model_name(&c->tail, 8, "tail of %d→%d", routes[route].from, routes[route].to);
    model_name(&c->head, 8, "head of %d→%d", routes[route].from, routes[route].to);
    if (fan ? rank == (routes[route].from + 1) % RANKS : rank == routes[route].to) {
        if (!fan)
            model_writer(&c->head, sizeof c->head, rank);
        model_writer(&c->tail, sizeof c->tail, routes[route].from);
        model_writer(c->ll128, sizeof c->ll128 + sizeof c->ll, routes[route].from);
    }
    end->tail = &c->tail;
    end->head = &c->head;
    end->headers = c->headers;
    end->slots[PROTOCOL_SIMPLE] = c->simple;
    end->strides[PROTOCOL_SIMPLE] = SIMPLE_SLOT_BYTES;
    end->slots[PROTOCOL_LL] = c->ll;
    end->strides[PROTOCOL_LL] = LL_SLOT_BYTES;
    end->slots[PROTOCOL_LL128] = c->ll128;
    end->strides[PROTOCOL_LL128] = LL128_SLOT_BYTES;
    end->position = end->seen = end->loans.until = facts->first;
    end->nslots = facts->nslots;
    end->turns[PROTOCOL_LL] = (uint32_t)facts->first;
    end->turn_mask = (1u << facts->flag_bits) - 1;
    if (fan)
        lines_create(facts, end, rank, route);
    return end;
}

static struct fifo_end *end_of(const struct facts *facts, int rank, int number, int from, int to, int lane) {
    return end_create(facts, rank, number, route_of(from, is_fan(facts, lane) ? TO_ALL : to, lane));
}

static void bind_ends(const struct facts *facts, int r) {
    const struct prog *prog = progs[r];
    struct rank *rank = &arena()->ranks[r];
    int n = 0;
    for (int k = 0; k < prog->nsteps; k++) {
        const struct prog_step *step = &prog->steps[k];
        for (int p = step->recv_first; p < step->recv_first + step->recv_count; p++)
            if (rank->recv_ends[p] == NULL)
                rank->recv_ends[p] = end_of(facts, r, n++, prog->peers[p].rank, r, prog->peers[p].lane);
        if (step->send_count > 0 && is_fan(facts, prog->peers[step->send_first].lane))
            rank->steps[k].send_count = 1;
        for (int p = step->send_first; p < step->send_first + rank->steps[k].send_count; p++)
            if (rank->send_ends[p] == NULL)
                rank->send_ends[p] = end_of(facts, r, n++, r, prog->peers[p].rank, prog->peers[p].lane);
    }
}

static uint32_t input(int rank, int call, uint32_t i) { return (uint32_t)(1 + rank) * 1000 + (uint32_t)call * 100 + i; }

/* An element of a buffer of halves or whole words. */
static uint32_t elem_get(const void *buffer, uint64_t i, uint32_t elem_bytes) {
    return elem_bytes == 2 ? ((const uint16_t *)buffer)[i] : ((const uint32_t *)buffer)[i];
}

static void elem_put(void *buffer, uint64_t i, uint32_t elem_bytes, uint32_t value) {
    if (elem_bytes == 2)
        ((uint16_t *)buffer)[i] = (uint16_t)value;
    else
        ((uint32_t *)buffer)[i] = value;
}

static void rank_prepare(const struct facts *facts, int r) {
    struct rank *rank = &arena()->ranks[r];
    const struct prog *prog = progs[r];
    memcpy(rank->steps, prog->steps, (size_t)prog->nsteps * sizeof *rank->steps);
    bind_ends(facts, r);
    rank->op.steps = rank->steps;
    rank->op.locals = prog->locals;
    rank->op.recv_ends = rank->recv_ends;
    rank->op.send_ends = rank->send_ends;
    for (int region = STEP_IN; region < STEP_REGIONS; region++)
        rank->op.memory.nblocks[region] = (uint32_t)prog_region_blocks(prog, (enum step_region)region);
    for (int k = 0; k < prog->nworkers; k++) {
        struct interp_worker *w = &rank->workers[k];
        w->op = &rank->op;
        w->first_step = (uint32_t)prog->workers[k].first_step;
        w->nsteps = (uint32_t)prog->workers[k].nsteps;
        w->src = rank->src[k];
        w->dst = rank->dst[k];
        w->scratch = rank->scratch[k][0];
        w->scratch_stride = SIMPLE_SLOT_BYTES;
    }
}

static void prepare(const struct model *model) {
    const struct facts *facts = model->facts;
    for (int r = 0; r < facts->nranks; r++)
        rank_prepare(facts, r);
    model_owned(arena()->ranks);
}

/* ---- a rank's thread, as the host executor does it ---- */

static void call_begin(const struct facts *facts, struct rank *rank, const struct prog *prog) {
    const struct call *call = &facts->calls[rank->call];
    for (uint32_t i = 0; i < call->elems; i++)
        elem_put(rank->in, i, call->elem_bytes, input(prog->rank, rank->call, i));
    struct work_args *args = &rank->op.args;
    args->in = (const char *)rank->in;
    args->out = (char *)rank->out[rank->call];
    args->sequence = (uint64_t)rank->call;
    args->row_elems = call->elems;
    args->block_elems = geometry_share(call->elems, (uint64_t)prog->nslices);
    args->chunk_elems = call->chunk;
    args->nchannels = args->divisor = 1;
    args->elem_bytes = call->elem_bytes;
    args->protocol = call->protocol;
    args->signature = 0x5eed0000u + (uint32_t)rank->call;
    rank->op.geometry = geometry_of(call->elems, args->block_elems, call->chunk, 0, 1);
    rank->running = prog->nworkers;
    for (int k = 0; k < prog->nworkers; k++) {
        rank->workers[k].pc = rank->workers[k].arrived = rank->workers[k].done = 0;
        rank->workers[k].round = 0;
    }
}

static void sum_up(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc, uint64_t count) {
    uint32_t elem_bytes = w->op->args.elem_bytes;
    (void)step;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t sum = 0;
        for (int s = 0; s < nsrc; s++)
            sum += elem_get(w->src[s], i, elem_bytes);
        for (int d = 0; d < ndst; d++)
            elem_put(w->dst[d], i, elem_bytes, sum);
    }
}

/* True: it moved. */
static bool visit(struct rank *rank, struct interp_worker *w) {
    if (w->done)
        return false;
    const struct interp_try next = interp_try_of(w);
    enum interp_result result = interp_try_step(w, &next, sum_up, PROTO_EACH_END);
    if (result == INTERP_MISMATCH)
        model_fail("a slot of another call");
    if (result == INTERP_DONE) {
        w->done = 1;
        rank->running--;
    }
    return result != INTERP_BUSY;
}

static void rank_main(const struct model *model, int r) {
    const struct facts *facts = model->facts;
    struct rank *rank = &arena()->ranks[r];
    while (rank->call < CALLS_MAX && facts->calls[rank->call].elems > 0) {
        if (rank->running == 0)
            call_begin(facts, rank, progs[r]);
        bool moved = false;
        for (int k = 0; k < progs[r]->nworkers; k++)
            moved |= visit(rank, &rank->workers[k]);
        rank->call += rank->running == 0;
        if (!moved)
            model_wait();
        model_turn();
    }
}

static void check(const struct model *model) {
    const struct facts *facts = model->facts;
    for (int r = 0; r < facts->nranks; r++)
        for (int call = 0; call < CALLS_MAX; call++)
            for (uint32_t i = 0; i < facts->calls[call].elems; i++) {
                uint32_t right = 0, here = elem_get(arena()->ranks[r].out[call], i, facts->calls[call].elem_bytes);
                for (int from = 0; from < (facts->collective == PROG_BROADCAST ? 1 : facts->nranks); from++)
                    right += input(from, call, i);
                if (here != right)
                    model_fail("rank %d, call %d, element %u: %u instead of %u", r, call, i, here, right);
            }
}

/* ---- all scenarios ---- */

static bool run(const struct scenario *scenario, uint64_t most_states, bool quiet, uint64_t *states) {
    struct model model = {scenario->name, scenario->facts.nranks, prepare, rank_main, check, &scenario->facts, false};
    build_programs(&scenario->facts);
    struct model_result result = model_explore(&model, most_states, quiet);
    *states += result.states;
    model_print(&model, &result, quiet);
    return !result.failed;
}

/* slots [quick | large | NAME]. quick: no output but the scenario that fails, for mutants; first a few states of each scenario, as
 * most mistakes show there. large: the large scenarios, too. NAME: those whose names have this in them. */
int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0, large = argc > 1 && strcmp(argv[1], "large") == 0;
    const char *name = argc > 1 && !quick && !large ? argv[1] : "";
    uint64_t states = 0;
    int passed = 0, failed = 0;
    for (uint64_t most = quick   ? MODEL_FEW
                         : large ? UINT64_MAX
                                 : MODEL_MOST;
         most != 0 && failed == 0; most = model_more(most)) {
        for (size_t k = 0; k < sizeof(scenarios) / sizeof(*scenarios) && !(quick && failed); k++) {
            if ((scenarios[k].large && !large && !name[0]) || strstr(scenarios[k].name, name) == NULL)
                continue;
            bool good = run(&scenarios[k], most, quick, &states);
            passed += good;
            failed += !good;
        }
    }
    if (!quick)
        printf("slots: %llu states\n%d passed, %d failed\n", (unsigned long long)states, passed, failed);
    return failed != 0;
}
