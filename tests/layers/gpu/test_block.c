/* SPDX-License-Identifier: Apache-2.0
 *
 * The device executor's source, run by lanes on the host: the loop of a step at every alignment, then whole collectives
 * of all ranks in one grid, in Simple, LL and LL128, with numbers of lanes that divide nothing and lanes that run ahead of each
 * other as a seed says. Positions of connections stay in memory between launches, as under a replayed graph.
 */
#include "common/emulated_kernels.h"
#include "common/gang.h"
#include "common/level.h"
#include "kernels/interp.h"
#include "kernels/reduce_host.h"
#include "layers/gpu/mirror.h"
#include "layers/gpu/returns.h"
#include "layers/memory/loan.h"
#include "program/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % n;
}

/* ---- the loop of a step ---- */

#define MAX_BYTES 40000
#define GUARD 64
#define LISTS 5

static unsigned char sources[LISTS][MAX_BYTES], got[LISTS][MAX_BYTES], expected[LISTS][MAX_BYTES];

struct loop_case {
    enum collet_type type;
    enum collet_op op;
    bool reduces;
    size_t count;
    uint32_t nsrc, ndst, divisor, lanes;
    size_t src_at[LISTS], dst_at[LISTS];
    bool in_place; /* the first place is the first source */
};

static void run_loop(const struct loop_case *c, bool emulated) {
    unsigned char(*places)[MAX_BYTES] = emulated ? got : expected;
    const void *src[LISTS];
    void *dst[LISTS];
    for (uint32_t k = 0; k < LISTS; k++)
        memset(places[k], 0x5a, MAX_BYTES);
    for (uint32_t k = 0; k < c->nsrc; k++)
        src[k] = sources[k] + c->src_at[k];
    for (uint32_t k = 0; k < c->ndst; k++)
        dst[k] = places[k] + c->dst_at[k];
    if (c->in_place) {
        memcpy(dst[0], src[0], c->count * collet_type_size(c->type));
        src[0] = dst[0];
    }
    if (emulated)
        emulated_reduce(c->reduces, c->type, c->op, dst, c->ndst, src, c->nsrc,
                        c->reduces ? c->count : c->count * collet_type_size(c->type), c->divisor,
                        type_mirror(c->op, c->type), c->lanes, random_state | 1);
    else
        reduce_variant_plain.fn[c->op][c->type](dst, (int)c->ndst, src, (int)c->nsrc, c->count, c->divisor, 0);
}

static void check_loop(const struct loop_case *c) {
    run_loop(c, false);
    run_loop(c, true);
    for (uint32_t k = 0; k < c->ndst; k++)
        if (memcmp(got[k], expected[k], MAX_BYTES) != 0)
            fail_msg("%s %s: %zu elements, %u sources, %u places, divisor %u, %u lanes, in place %d: place %u differs",
                     type_name(c->type), op_name(c->op), c->count, c->nsrc, c->ndst, c->divisor, c->lanes, c->in_place,
                     k);
}

static size_t random_place(size_t elem_bytes, int alike) { /* alike: 2 modulo 16, 1 modulo 4, 0 not at all */
    size_t step = alike == 2 ? 16 : alike == 1 && elem_bytes < 4 ? 4 : elem_bytes;
    return GUARD + random_below(8) * step;
}

static struct loop_case random_loop(enum collet_type type, enum collet_op op) {
    static const uint32_t lanes[] = {1, 3, 32, 37, 64};
    static const size_t largest[] = {4, 100, 1100, 4000};
    size_t elem_bytes = collet_type_size(type);
    struct loop_case c = {.type = type, .op = op, .reduces = true};
    c.count = random_below((uint32_t)largest[random_below(4)]) + 1;
    c.nsrc = 1 + random_below(LISTS);
    c.ndst = 1 + random_below(LISTS);
    c.lanes = lanes[random_below(5)];
    c.divisor = op == COLLET_AVG ? 1 + random_below(5) : 1;
    c.reduces = c.nsrc > 1 || c.divisor > 1 || random_below(2);
    c.in_place = random_below(3) == 0;
    int alike = (int)random_below(3);
    size_t base = random_below(5) * elem_bytes;
    for (int k = 0; k < LISTS; k++) {
        c.src_at[k] = base + random_place(elem_bytes, alike);
        c.dst_at[k] = base + random_place(elem_bytes, alike);
    }
    for (uint32_t k = 0; k < c.nsrc; k++)
        numbers_fill_operands(sources[k] + c.src_at[k], type, op, random_state, (int)k, 0, c.count);
    return c;
}

static void loops_of_a_block_give_what_those_of_the_host_give(void **state) {
    (void)state;
    int rounds = level_now() == LEVEL_FAST ? 8 : level_now() == LEVEL_NORMAL ? 40 : 2000;
    for (int type = 0; type < COLLET_TYPE_COUNT; type++)
        for (int op = 0; op < COLLET_OP_COUNT; op++)
            for (int k = 0; k < rounds && op_takes((enum collet_op)op, (enum collet_type)type); k++) {
                struct loop_case c = random_loop((enum collet_type)type, (enum collet_op)op);
                check_loop(&c);
            }
}

/* ---- the same on the host ---- */

static void host_reduce(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc, uint64_t count) {
    reduce_host_step(w, step, ndst, nsrc, count, 0);
}

static void host_worker_init(struct interp_worker *w, const struct interp_op *op, uint32_t nsteps,
                             uint32_t room_bytes) {
    const size_t room = INTERP_BLOCK_OPERANDS + INTERP_BLOCK_PLACES;
    *w = (struct interp_worker){
        .op = op,
        .nsteps = nsteps,
        .src = calloc(room, sizeof(void *)),
        .dst = calloc(room, sizeof(void *)),
        .scratch = malloc(room * room_bytes),
        .scratch_stride = room_bytes,
    };
}

/* One worker of one rank's call. */
static struct interp_op host_op_of(const struct work *work, uint32_t block, reduce_fn reduce) {
    const struct work_block *own = &work->blocks[block];
    return (struct interp_op){
        .steps = own->steps,
        .locals = own->locals,
        .recv_ends = own->ends,
        .send_ends = own->ends + own->npeers,
        .memory = own->memory,
        .geometry = work_geometry(&work->args, own->channel),
        .args = work->args,
        .reduce = (const void *)reduce,
    };
}

/* Until all are done; fails if none can move. */
static void host_workers_run(struct interp_worker *workers, int nworkers) {
    for (int left = nworkers; left > 0;) {
        bool moved = false;
        for (int k = 0; k < nworkers; k++) {
            if (workers[k].done)
                continue;
            const struct interp_try next = interp_try_of(&workers[k]);
            enum interp_result result = interp_try_step(&workers[k], &next, host_reduce, PROTO_EACH_END);
            assert_int_not_equal(result, INTERP_MISMATCH);
            moved |= result != INTERP_BUSY;
            workers[k].done = result == INTERP_DONE;
            left -= result == INTERP_DONE;
        }
        if (!moved && left > 0)
            fail_msg("%d workers wait for each other", left);
    }
}

static void host_launch(const struct gang *gang, const struct work_launch *launch, const struct gang_call *c) {
    int nworkers = 0;
    size_t room = 0;
    for (uint32_t rank = 0; rank < launch->nworks; rank++)
        room += launch->works[rank].nblocks;
    struct interp_op *ops = calloc(room, sizeof(*ops));
    struct interp_worker *workers = calloc(room, sizeof(*workers));
    for (uint32_t rank = 0; rank < launch->nworks; rank++)
        for (uint32_t block = 0; block < launch->works[rank].nblocks; block++) {
            struct interp_op *op = &ops[nworkers];
            *op = host_op_of(&launch->works[rank], block, reduce_host_get(c->type, c->op));
            op->multiply = (const void *)reduce_host_multiply(c->type);
            host_worker_init(&workers[nworkers++], op, launch->works[rank].blocks[block].nsteps,
                             fifo_scratch_bytes(&gang->layout));
        }
    host_workers_run(workers, nworkers);
    for (int k = 0; k < nworkers; k++) {
        free(workers[k].src);
        free(workers[k].dst);
        free(workers[k].scratch);
    }
    free(workers);
    free(ops);
}

/* ---- grids ---- */

static void run_grid(struct gang *gang, const struct gang_call *c) {
    enum prog_collective collective = gang->algorithm->collective;
    int nranks = gang->shape.nranks;
    struct trial_call call = {collective, c->type, c->op, c->count, c->root, nranks, false, c->seed};
    struct trial trials[WORK_MAX];
    struct work_launch launch;
    char name[TRIAL_NAME_BYTES], why[TRIAL_WHY_BYTES];
    for (int rank = 0; rank < nranks; rank++)
        trial_prepare(&trials[rank], &call, rank);
    gang_launch(gang, c, trials, &launch);
    if (c->lanes > 0)
        emulated_launch(&launch, prog_facts[collective].reduces, c->type, c->op, c->lanes, c->seed);
    else
        host_launch(gang, &launch, c);
    assert_int_equal(gang->status.failure, WORK_FINE);
    trial_name(&call, name);
    for (int rank = 0; rank < nranks; rank++) {
        if (!trial_check(&trials[rank], why))
            fail_msg("%s: %s %s, %u lanes: %s", name, gang->algorithm->name, protocol_names[c->protocol], c->lanes,
                     why);
        trial_destroy(&trials[rank]);
    }
}

static struct gang_call random_case(enum prog_collective collective, int nranks) {
    static const uint32_t lanes[] = {1, 5, 32, 33};
    static const size_t largest[] = {3, 40, 700, 3000};
    enum protocol protocol = (enum protocol)random_below(PROTOCOL_COUNT);
    enum collet_type type = (enum collet_type)random_below(COLLET_TYPE_COUNT);
    if (prog_keeps_empty(collective))
        protocol = PROTOCOL_SIMPLE;
    return (struct gang_call){
        .count = prog_is_bare(collective) ? 0 : 1 + random_below((uint32_t)largest[random_below(4)]),
        .type = type,
        .op = trial_op(type, random_below(1000)),
        .protocol = protocol,
        .lanes = protocol == PROTOCOL_LL128 ? 8 * (1 + random_below(5)) : lanes[random_below(4)],
        .seed = random_below(1000000) + 1,
        .root = (int)random_below((uint32_t)nranks),
    };
}

#define LENDS_FROM 64

/* Several calls on the same connections: protocols alternate, positions go on, and payloads are lent or not. */
static void run_algorithm(const struct algorithm *algorithm, int nranks, int calls, bool on_host) {
    struct gang gang;
    int root = (int)random_below((uint32_t)nranks), nchannels = 1 + (int)random_below(3);
    gang_init(&gang, algorithm, nranks, root, nchannels, random_below(2) ? LENDS_FROM : 0);
    for (int k = 0; k < calls; k++) {
        struct gang_call c = random_case(algorithm->collective, nranks);
        c.root = root;
        c.lanes = on_host ? 0 : c.lanes;
        run_grid(&gang, &c);
    }
    gang_fini(&gang);
}

static void every_algorithm_runs_in_one_grid(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 8, 13, 20};
    int nsizes = level_now() == LEVEL_FAST ? 4 : level_now() == LEVEL_NORMAL ? 6 : 8;
    int calls = level_now() == LEVEL_FAST ? 4 : level_now() == LEVEL_NORMAL ? 8 : 60;
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (int k = 0; k < nsizes; k++) {
            struct prog_shape shape = PROG_FLAT(sizes[k]);
            if (a->collective < PROG_ALLGATHERV && algorithm_applies(a, &shape))
                run_algorithm(a, sizes[k], calls, false);
        }
}

/* Two-shot of 13 ranks has 24 entries in its table, and blocks have room for 20 here: a step's ends come and go with it. */
static void a_table_may_be_larger_than_a_block_has_room_for(void **state) {
    (void)state;
    run_algorithm(algorithm_find(PROG_ALLREDUCE, "twoshot"), 13, 6, false);
    run_algorithm(algorithm_find(PROG_REDUCESCATTER, "direct"), 13, 6, false);
}

static bool blocks_take(enum prog_collective collective, const char *name, int nranks) {
    struct prog *prog;
    bool takes = true;
    assert_int_equal(algorithm_build(algorithm_find(collective, name), &PROG_FLAT(nranks), 0, 0, &prog),
                     COLLET_SUCCESS);
    for (int k = 0; k < prog->nsteps; k++)
        takes &= interp_block_takes(&prog->steps[k]);
    prog_destroy(prog);
    return takes;
}

/* What a step exchanges with all other ranks at once, no block has room for where these are too many. */
static void a_step_with_too_many_peers_is_not_for_blocks(void **state) {
    (void)state;
    assert_true(blocks_take(PROG_ALLREDUCE, "twoshot", INTERP_BLOCK_PEERS + 1));
    assert_false(blocks_take(PROG_ALLREDUCE, "twoshot", INTERP_BLOCK_PEERS + 2));
    assert_false(blocks_take(PROG_BROADCAST, "direct", INTERP_BLOCK_PEERS + 2));
    assert_true(blocks_take(PROG_ALLREDUCE, "ring", 1000));
    assert_true(blocks_take(PROG_ALLTOALL, "direct", 1000));
}

static void every_algorithm_runs_on_the_host_with_short_slots(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 8, 13};
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (int k = 0; k < 6; k++) {
            struct prog_shape shape = PROG_FLAT(sizes[k]);
            if (a->collective < PROG_ALLGATHERV && algorithm_applies(a, &shape))
                run_algorithm(a, sizes[k], level_now() == LEVEL_FULL ? 60 : 10, true);
        }
}

/* An allreduce of one message per pair of ranks: a run that wraps around. What comes from all but the last other rank waits
 * in TMP; then the step that receives the last one reduces all of them, in rank order: n operands, of which one is received. */
static void meeting_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank, last = rank == n - 1 ? n - 2 : n - 1;
    struct run slices = {.first = 1, .count = n, .stride = 0, .group = n};
    struct local_operand operands[WORK_MAX];
    int noperands = 0;

    prog_slices(prog, n);
    prog_tmp(prog, n * n);
    prog_worker(prog);
    prog_step(prog, .local = IN_RUN(slices), .send = {.first = rank + 1, .count = OTHERS});
    for (int from = 0; from < n; from++) {
        struct run kept = ROW(from * n, n);
        if (from != rank && from != last)
            prog_step(prog, .recv = PEER(from), .length_of = IN_RUN(slices), .store = TMP_RUN(kept));
        if (from != last)
            operands[noperands++] =
                (struct local_operand){from > last ? 1 : 0, from == rank ? IN_RUN(slices) : TMP_RUN(kept)};
    }
    prog_step(prog, .recv = PEER(last), .local_list = {operands, noperands}, .finish = true, .store = OUT_RUN(slices));
}

static void a_step_may_have_several_operands_in_memory(void **state) {
    (void)state;
    const struct algorithm meeting = {
        .name = "meeting", .collective = PROG_ALLREDUCE, .build = meeting_build, .order = PROG_IN_RANK_ORDER};
    for (int nranks = 2; nranks <= 6; nranks++) {
        char why[256];
        if (!prog_check(&meeting, &PROG_FLAT(nranks), 0, 2, true, why, sizeof(why)))
            fail_msg("%s", why);
        run_algorithm(&meeting, nranks, 12, false);
        run_algorithm(&meeting, nranks, 12, true);
    }
}

/* ---- two ranks, and what each of them gives and gets ---- */

struct couple {
    struct gang gang;
    char buffer[2][4096];
};

static void couple_init(struct couple *couple, enum prog_collective collective, const char *name, uint32_t lends_from) {
    memset(couple->buffer, 0, sizeof(couple->buffer));
    gang_init(&couple->gang, algorithm_find(collective, name), 2, 0, 1, lends_from);
}

/* A call in place, which the caller may still change. */
static void couple_launch(struct couple *couple, enum protocol protocol, size_t count, struct work_launch *launch) {
    const struct trial trials[2] = {{.sendbuff = couple->buffer[0], .recvbuff = couple->buffer[0]},
                                    {.sendbuff = couple->buffer[1], .recvbuff = couple->buffer[1]}};
    const struct gang_call c = {.count = count, .type = COLLET_FLOAT32, .protocol = protocol, .seed = 1};
    gang_launch(&couple->gang, &c, trials, launch);
}

static void couple_run(const struct work_launch *launch) {
    emulated_launch(launch, 1, COLLET_FLOAT32, COLLET_SUM, 32, 1);
}

/* ---- failures ---- */

/* Rank 1 never comes. */
static void run_half_a_grid(enum work_failure fails) {
    for (int protocol = PROTOCOL_SIMPLE; protocol <= PROTOCOL_LL128; protocol++) {
        struct couple couple;
        struct work_launch launch;
        couple_init(&couple, PROG_ALLREDUCE, "ring", 0);
        couple_launch(&couple, (enum protocol)protocol, 1000, &launch);
        launch.nworks = 1;
        couple.gang.status.abort = fails == WORK_ABORTED;
        couple.gang.status.timeout_ns = 1000000;
        couple_run(&launch);
        assert_int_equal(couple.gang.status.failure, fails == WORK_TIMEOUT ? WORK_TIMEOUT : WORK_FINE);
        assert_int_equal(couple.gang.status.peer, fails == WORK_TIMEOUT ? 1 : 0);
        gang_fini(&couple.gang);
    }
}

static void an_abort_ends_a_grid_that_waits(void **state) {
    (void)state;
    run_half_a_grid(WORK_ABORTED);
}

static void a_wait_that_is_too_long_ends_and_is_reported(void **state) {
    (void)state;
    run_half_a_grid(WORK_TIMEOUT);
}

static void lines_of_another_call_are_reported(void **state) {
    (void)state;
    for (int protocol = PROTOCOL_LL; protocol <= PROTOCOL_LL128; protocol++) {
        struct couple couple;
        struct work_launch launch;
        couple_init(&couple, PROG_ALLREDUCE, "ring", 0);
        couple_launch(&couple, (enum protocol)protocol, 1000, &launch);
        launch.works[1].args.signature ^= 0x10000;
        couple_run(&launch);
        assert_int_equal(couple.gang.status.failure, WORK_FOREIGN);
        gang_fini(&couple.gang);
    }
}

static void a_mismatch_is_reported_once(void **state) {
    (void)state;
    struct couple couple;
    struct work_launch launch;
    couple_init(&couple, PROG_ALLREDUCE, "ring", 0);
    couple_launch(&couple, PROTOCOL_SIMPLE, 1000, &launch);
    launch.works[1].args.signature++;
    launch.works[1].args.sequence = 99;
    couple_run(&launch);
    assert_int_equal(couple.gang.status.failure, WORK_MISMATCH);
    assert_int_equal(couple.gang.status.sequence + couple.gang.status.their_sequence, 1 + 99);
    gang_fini(&couple.gang);
}

/* ---- loans ---- */

static uint32_t lent_slots(const struct gang *gang) {
    uint32_t n = 0;
    for (int k = 0; k < gang->nwires; k++)
        for (uint32_t slot = 0; slot < gang->layout.nslots; slot++)
            n += direct_is_lent(&gang->wires[k].producer.headers[slot]);
    return n;
}

/* What only one rank has and all others want is read where it is. */
static void blocks_read_payloads_in_memory_of_other_ranks(void **state) {
    (void)state;
    static const struct {
        enum prog_collective collective;
        const char *name;
    } lend[] = {{PROG_ALLGATHER, "direct"},    {PROG_ALLGATHER, "ring"},    {PROG_ALLTOALL, "direct"},
                {PROG_ALLREDUCE, "ring"},      {PROG_ALLREDUCE, "twoshot"}, {PROG_BROADCAST, "direct"},
                {PROG_REDUCESCATTER, "direct"}};
    for (size_t k = 0; k < sizeof(lend) / sizeof(*lend); k++) {
        struct gang gang;
        struct gang_call c = {
            .count = 900, .type = COLLET_FLOAT32, .protocol = PROTOCOL_SIMPLE, .lanes = 37, .seed = 7};
        gang_init(&gang, algorithm_find(lend[k].collective, lend[k].name), 4, 0, 2, LENDS_FROM);
        run_grid(&gang, &c);
        if (lent_slots(&gang) == 0)
            fail_msg("%s lends nothing", lend[k].name);
        for (int wire = 0; wire < gang.nwires; wire++) /* the call is over when nobody reads any more */
            assert_true((int64_t)(gang.wires[wire].producer.loans.until - *gang.wires[wire].producer.head) <= 0);
        c.count = 3; /* shorter than what is lent */
        run_grid(&gang, &c);
        gang_fini(&gang);
    }
}

/* A broadcast of rank 0 lends its buffer to rank 1. */
static void lenders_init(struct couple *lenders) { couple_init(lenders, PROG_BROADCAST, "direct", LENDS_FROM); }

/* Those of the ranks first … first + n − 1 that come; each call is one message. */
static enum work_failure lenders_run(struct couple *lenders, enum protocol protocol, uint32_t first, uint32_t n) {
    struct work_launch launch;
    couple_launch(lenders, protocol, 500, &launch);
    launch.works[0] = launch.works[first];
    launch.nworks = n;
    emulated_launch(&launch, 0, COLLET_FLOAT32, COLLET_SUM, 32, 1);
    return (enum work_failure)lenders->gang.status.failure;
}

static const struct fifo_loan *lenders_loan(const struct couple *l, uint64_t position) {
    return &l->gang.wires[0].producer.headers[position & (l->gang.layout.nslots - 1)].loan;
}

/* Rank 1 comes too late: the call of rank 0 has failed, and its buffer is the program's. */
static void a_block_that_fails_takes_back_what_it_has_lent(void **state) {
    (void)state;
    struct couple l;
    lenders_init(&l);
    l.gang.status.timeout_ns = 1000000;
    memset(l.buffer[0], 1, sizeof(l.buffer[0]));
    uint64_t position = l.gang.wires[0].producer.position;
    assert_int_equal(lenders_run(&l, PROTOCOL_SIMPLE, 0, 1), WORK_TIMEOUT);
    assert_int_equal(l.gang.status.peer, 1);
    assert_int_not_equal(lent_slots(&l.gang), 0);
    lenders_run(&l, PROTOCOL_SIMPLE, 1, 1);
    for (size_t k = 0; k < sizeof(l.buffer[1]); k++)
        assert_int_equal(l.buffer[1][k], 0);
    assert_int_equal(lenders_loan(&l, position)->done, 1); /* rank 1 says that it does not read */
    gang_fini(&l.gang);
}

/* A slot of LL says nothing about loans: its header is still that of an earlier call. Nobody waits for the reader of that. */
static void a_block_that_fails_takes_back_no_loan_of_another_call(void **state) {
    (void)state;
    struct couple l;
    lenders_init(&l);
    for (uint32_t slot = 0; slot < l.gang.layout.nslots; slot++)
        assert_int_equal(lenders_run(&l, PROTOCOL_SIMPLE, 0, 2), WORK_FINE);
    assert_int_equal(lent_slots(&l.gang), l.gang.layout.nslots);
    uint64_t position = l.gang.wires[0].producer.position;
    assert_int_equal(lenders_run(&l, PROTOCOL_LL, 0, 1), WORK_FINE);
    l.gang.status.timeout_ns = 1000000;
    assert_int_equal(lenders_run(&l, PROTOCOL_SIMPLE, 0, 1), WORK_TIMEOUT);
    assert_int_equal(lenders_loan(&l, position)->claimed & LOAN_STOPPED, 0);
    assert_int_equal(lenders_loan(&l, position + 1)->claimed, LOAN_STOPPED);
    gang_fini(&l.gang);
}

/* ---- results that are pushed ---- */

static uint32_t landed_slots(const struct gang *gang) {
    uint32_t n = 0;
    for (int k = 0; k < gang->nwires; k++)
        for (uint32_t slot = 0; slot < gang->layout.nslots; slot++)
            n += direct_is_lent(&gang->wires[k].producer.headers[slot]) &&
                 gang->wires[k].producer.headers[slot].loan.address == LOAN_LANDED;
    return n;
}

static void results_are_pushed_to_where_their_operands_were_lent(void **state) {
    (void)state;
    for (int nranks = 2; nranks <= 5; nranks++) {
        struct gang gang;
        struct gang_call c = {.count = 900, .type = COLLET_FLOAT32, .lanes = 37, .seed = 7};
        gang_init(&gang, algorithm_find(PROG_ALLREDUCE, "twoshot"), nranks, 0, 2, LENDS_FROM);
        run_grid(&gang, &c);
        assert_true(landed_slots(&gang) > 0);
        gang_fini(&gang);
    }
}

/* In such a program each result goes back to all who lent its operands. */
static void only_results_that_come_back_are_pushed(void **state) {
    (void)state;
    static const char *const names = " twoshot nvls ";
    struct prog_shape shape = PROG_FLAT(4);
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        struct prog *prog;
        char name[64];
        if (!algorithm_applies(a, &shape))
            continue;
        snprintf(name, sizeof(name), " %s ", a->name);
        assert_int_equal(algorithm_build(a, &shape, 1, 0, &prog), COLLET_SUCCESS);
        assert_int_equal(gpu_returns(prog), a->collective == PROG_ALLREDUCE && strstr(names, name) != NULL);
        prog_destroy(prog);
    }
}

/* Rank 1 sums when the call of rank 0 has failed: that has taken back its slice, so nothing is stored in its buffer any more. */
static void nothing_is_pushed_to_a_rank_that_has_failed(void **state) {
    (void)state;
    struct couple couple;
    struct work_launch launch;
    couple_init(&couple, PROG_ALLREDUCE, "twoshot", LENDS_FROM);
    couple.gang.status.timeout_ns = 1000000;
    memset(couple.buffer[0], 1, sizeof(couple.buffer[0]));
    memset(couple.buffer[1], 2, sizeof(couple.buffer[1]));
    couple_launch(&couple, PROTOCOL_SIMPLE, 500, &launch);
    launch.nworks = 1;
    couple_run(&launch);
    assert_int_equal(couple.gang.status.failure, WORK_TIMEOUT);
    couple_launch(&couple, PROTOCOL_SIMPLE, 500, &launch);
    launch.works[0] = launch.works[1];
    launch.nworks = 1;
    couple_run(&launch);
    for (size_t k = 0; k < sizeof(couple.buffer[0]); k++)
        assert_int_equal(couple.buffer[0][k], 1);
    gang_fini(&couple.gang);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_of_a_block_give_what_those_of_the_host_give),
        cmocka_unit_test(every_algorithm_runs_in_one_grid),
        cmocka_unit_test(a_table_may_be_larger_than_a_block_has_room_for),
        cmocka_unit_test(a_step_with_too_many_peers_is_not_for_blocks),
        cmocka_unit_test(every_algorithm_runs_on_the_host_with_short_slots),
        cmocka_unit_test(a_step_may_have_several_operands_in_memory),
        cmocka_unit_test(an_abort_ends_a_grid_that_waits),
        cmocka_unit_test(a_wait_that_is_too_long_ends_and_is_reported),
        cmocka_unit_test(a_mismatch_is_reported_once),
        cmocka_unit_test(lines_of_another_call_are_reported),
        cmocka_unit_test(blocks_read_payloads_in_memory_of_other_ranks),
        cmocka_unit_test(a_block_that_fails_takes_back_what_it_has_lent),
        cmocka_unit_test(a_block_that_fails_takes_back_no_loan_of_another_call),
        cmocka_unit_test(results_are_pushed_to_where_their_operands_were_lent),
        cmocka_unit_test(only_results_that_come_back_are_pushed),
        cmocka_unit_test(nothing_is_pushed_to_a_rank_that_has_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
