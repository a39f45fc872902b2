/* SPDX-License-Identifier: Apache-2.0
 *
 * Loans: what the verifier finds in programs whose ranks write too early what they have lent, or return too early; and
 * what both ends of a loan do, one after the other, in one thread.
 */
#include "base/config_read.h"
#include "exec/exec.h"
#include "fifo/layout.h"
#include "fifo/proto_direct.h"
#include "layers/memory/heap.h"
#include "layers/memory/exec_direct.c"
#include "layers/memory/loan.h"
#include "layers/verifier/rehearsal.h"
#include "program/build.c"
#include "program/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- programs ---- */

static bool check(enum prog_collective collective, prog_build_fn build, int nranks, bool in_place, int hasty,
                  char why[512]) {
    struct algorithm algorithm = {.name = "test", .collective = collective, .build = build};
    struct rehearsal_rules rules = {.nslots = 2, .in_place = in_place, .hasty = hasty};
    return prog_check_by(&algorithm, &PROG_FLAT(nranks), 0, &rules, why, 512);
}

static void expect_lent(prog_build_fn build, int nranks, bool in_place, const char *says) {
    char why[512];
    if (check(PROG_ALLREDUCE, build, nranks, in_place, 0, why) || strstr(why, says) == NULL)
        fail_msg("'%s' does not say '%s'", why, says);
}

static void expect_fine(prog_build_fn build, int nranks, bool in_place) {
    char why[512];
    if (!check(PROG_ALLREDUCE, build, nranks, in_place, 0, why))
        fail_msg("%s", why);
}

/* Both ranks swap their parts and add up. In place, the sum overwrites what the other may still read. */
static void swap(struct prog *prog, bool copied, bool copied_in_place) {
    int other = 1 - prog->rank;
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = PEER(other), .copied = copied, .copied_in_place = copied_in_place);
    prog_step(prog, .recv = PEER(other), .local = IN(0), .local_at = prog->rank, .finish = true, .store = OUT(0));
}
static void swap_lent(struct prog *prog) { swap(prog, false, false); }
static void swap_copied(struct prog *prog) { swap(prog, true, false); }
static void swap_copied_in_place(struct prog *prog) { swap(prog, false, true); }

static void a_result_may_not_overwrite_what_is_lent(void **state) {
    (void)state;
    expect_fine(swap_lent, 2, false);
    expect_lent(swap_lent, 2, true, "which is lent to rank");
    expect_fine(swap_copied, 2, true);
    expect_fine(swap_copied_in_place, 2, true);
}

/* Rank 1 says that it has read what rank 0 lent, or does not. */
static void answer(struct prog *prog, bool answers) {
    prog_worker(prog);
    if (prog->rank == 0) {
        prog_step(prog, .local = IN(0), .store = OUT(0), .send = PEER(1));
        if (answers)
            prog_step(prog, .recv = PEER(1), .store = OUT(0), .finish = true);
        else
            prog_step(prog, .recv = PEER(1), .local = OUT(0), .local_at = 0, .store = OUT(0), .finish = true);
        return;
    }
    if (answers) {
        prog_step(prog, .recv = PEER(0), .local = IN(0), .local_at = 1, .store = OUT(0), .send = PEER(0),
                  .copied = true);
        prog_step(prog, .local = OUT(0), .finish = true, .store = OUT(0));
    } else {
        prog_step(prog, .local = IN(0), .send = PEER(0), .copied = true);
        prog_step(prog, .recv = PEER(0), .local = IN(0), .local_at = 1, .store = OUT(0), .finish = true);
    }
}
static void answered(struct prog *prog) { answer(prog, true); }
static void unanswered(struct prog *prog) { answer(prog, false); }

static void a_message_back_tells_that_a_loan_was_read(void **state) {
    (void)state;
    expect_fine(answered, 2, false);
    expect_fine(unanswered, 2, false); /* the copy in OUT is not what is lent */
    expect_lent(unanswered, 2, true, "rank 0 worker 0 step 1: stores to OUT block 0, which is lent to rank 1 worker 0");
}

static void ranks_that_return_without_waiting_for_their_loans_are_found(void **state) {
    (void)state;
    char why[512];
    prog_build_fn chain = algorithm_find(PROG_BROADCAST, "chain")->build;
    prog_build_fn doubling = algorithm_find(PROG_ALLREDUCE, "doubling")->build;
    assert_true(check(PROG_BROADCAST, chain, 3, false, 0, why));
    assert_false(check(PROG_BROADCAST, chain, 3, false, REHEARSAL_HASTY, why));
    assert_non_null(strstr(why, "rank 0 returns from the call while rank 1 worker 0 may read its memory"));
    assert_true(check(PROG_ALLREDUCE, doubling, 4, false, REHEARSAL_HASTY, why)); /* its loans are none */
}

static bool lends_any(const struct algorithm *algorithm, int nranks) {
    bool lends = false;
    for (int rank = 0; rank < nranks; rank++) {
        struct prog *prog;
        assert_int_equal(algorithm_build(algorithm, &PROG_FLAT(nranks), rank, 0, &prog), COLLET_SUCCESS);
        for (int k = 0; k < prog->nsteps; k++)
            lends |= prog->steps[k].lends != STEP_LENDS_NOTHING;
        prog_destroy(prog);
    }
    return lends;
}

/* Nothing else in a program says that its last loans were read. */
static void no_algorithm_that_lends_may_return_at_once(void **state) {
    (void)state;
    char why[512];
    int lending = 0;
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (int nranks = 2; nranks <= 5; nranks++) {
            struct rehearsal_rules rules = {.nslots = 2}, hasty = {.nslots = 2, .hasty = REHEARSAL_HASTY};
            if (prog_is_p2p(a->collective) || !algorithm_applies(a, &PROG_FLAT(nranks)))
                continue;
            bool lends = lends_any(a, nranks);
            lending += lends;
            assert_true(prog_check_by(a, &PROG_FLAT(nranks), 0, &rules, why, sizeof why));
            if (prog_check_by(a, &PROG_FLAT(nranks), 0, &hasty, why, sizeof why) == lends)
                fail_msg("%s %s of %d ranks %s", prog_collective_name(a->collective), a->name, nranks,
                         lends ? "lends, and may return at once" : why);
        }
    assert_true(lending > 40);
}

/* ---- both ends of a connection ---- */

enum { BYTES = 25000, PART = 8192, PARTS = 4 };

struct pair {
    struct fifo_layout layout;
    void *memory;
    struct fifo_end producer, consumer;
    struct work_args args;
    char from[BYTES], to[BYTES];
};

static int pair_open(void **state) {
    static struct config config;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    struct pair *pair = calloc(1, sizeof(*pair));
    pair->layout = fifo_layout_of(2, (struct protocol_sizes){BYTES, 4096, 4096}, 0);
    pair->memory = calloc(1, pair->layout.total_bytes);
    pair->args = (struct work_args){.protocol = PROTOCOL_SIMPLE, .signature = 7};
    fifo_end_init(&pair->producer, pair->memory, &pair->layout, &config);
    fifo_end_init(&pair->consumer, pair->memory, &pair->layout, &config);
    pair->producer.loans.way = pair->consumer.loans.way = LOAN_PROCESS;
    pair->producer.loans.least_bytes = 1;
    for (int i = 0; i < BYTES; i++)
        pair->from[i] = (char)(i * 7 + i / 251);
    *state = pair;
    return 0;
}

static int pair_close(void **state) {
    struct pair *pair = *state;
    free(pair->memory);
    free(pair);
    return 0;
}

/* The producer lends, and the consumer finds the slot. */
static void pair_lend(struct pair *pair) {
    memset(pair->to, 0, BYTES);
    pair->producer.loans.lending = (uintptr_t)pair->from;
    direct_seal(&pair->args, &pair->producer, BYTES);
    direct_publish(&pair->args, &pair->producer, BYTES);
    assert_int_equal(direct_ready(&pair->args, &pair->consumer, BYTES, NULL), INTERP_STEPPED);
    assert_true(loan_is_open(&pair->consumer));
    assert_false(direct_is_over(&pair->producer));
}

static void pair_expect(struct pair *pair, const char *where) {
    const char *operand = direct_operand(&pair->args, &pair->consumer, BYTES, NULL);
    assert_ptr_equal(operand, where);
    assert_memory_equal(operand, pair->from, BYTES);
    direct_consume(&pair->consumer);
    assert_true(direct_is_over(&pair->producer));
}

static struct fifo_loan *pair_loan(struct pair *pair) { return &fifo_header(&pair->consumer)->loan; }

static char *pair_slot(struct pair *pair) {
    return fifo_slot_at(&pair->consumer, PROTOCOL_SIMPLE, pair->consumer.position);
}

static void a_consumer_alone_copies_all_parts(void **state) {
    struct pair *pair = *state;
    for (int lap = 0; lap < 5; lap++) {
        pair_lend(pair);
        assert_true(loan_fetch(&pair->consumer, BYTES, pair->to));
        assert_false(loan_help(&pair->producer, memcpy));
        pair_expect(pair, pair->to);
    }
}

static void a_payload_that_is_only_read_stays_where_it_is(void **state) {
    struct pair *pair = *state;
    pair_lend(pair);
    assert_true(loan_hold(&pair->consumer, BYTES));
    pair_expect(pair, pair->from);
}

static void a_slot_that_is_not_lent_has_no_trace_of_the_loan_before(void **state) {
    struct pair *pair = *state;
    for (int lap = 0; lap < 3; lap++) {
        pair_lend(pair);
        assert_true(loan_fetch(&pair->consumer, BYTES, NULL));
        pair_expect(pair, pair_slot(pair));
    }
    for (int lap = 0; lap < 3; lap++) {
        memcpy(direct_place(&pair->args, &pair->producer, BYTES), pair->from, BYTES);
        direct_seal(&pair->args, &pair->producer, BYTES);
        direct_publish(&pair->args, &pair->producer, BYTES);
        assert_int_equal(direct_ready(&pair->args, &pair->consumer, BYTES, NULL), INTERP_STEPPED);
        assert_false(loan_is_open(&pair->consumer));
        pair_expect(pair, pair_slot(pair));
    }
}

/* The consumer says where the payload is to go, and another part is in the hands of the producer. */
static void a_producer_copies_the_parts_that_it_claims(void **state) {
    struct pair *pair = *state;
    pair_lend(pair);
    assert_false(loan_help(&pair->producer, memcpy)); /* nobody has said where to */
    pair_loan(pair)->to = (uintptr_t)pair->to;
    assert_true(loan_help(&pair->producer, memcpy));
    assert_true(loan_help(&pair->producer, memcpy));
    assert_int_equal(pair_loan(pair)->done, 2);
    assert_true(loan_fetch(&pair->consumer, BYTES, pair->to));
    assert_int_equal(pair_loan(pair)->done, PARTS);
    pair_expect(pair, pair->to);
}

/* A consumer offers a place before the slot comes. */
static void a_producer_puts_a_payload_where_it_is_offered_a_place(void **state) {
    struct pair *pair = *state;
    pair->consumer.loans.least_bytes = 1;
    for (int lap = 0; lap < 5; lap++) {
        struct loan_landing landing = {pair->to, pair->consumer.position, BYTES};
        assert_true(loan_can_land(&pair->consumer.loans, (uintptr_t)pair->to, BYTES));
        assert_null(loan_land_there(&pair->producer, BYTES)); /* not yet */
        loan_land(&pair->consumer.loans, landing);
        loan_offer(&pair->consumer, landing);
        assert_null(loan_land_there(&pair->producer, BYTES - 1));
        assert_ptr_equal(loan_land_there(&pair->producer, BYTES), pair->to);
        memcpy(pair->to, pair->from, BYTES);
        pair->producer.loans.lending = LOAN_LANDED;
        direct_seal(&pair->args, &pair->producer, BYTES);
        direct_publish(&pair->args, &pair->producer, BYTES);
        assert_true(direct_is_over(&pair->producer)); /* it lends nothing */
        assert_int_equal(direct_ready(&pair->args, &pair->consumer, BYTES, NULL), INTERP_STEPPED);
        assert_true(loan_is_open(&pair->consumer));
        assert_true(loan_fetch(&pair->consumer, BYTES, pair->to));
        pair_expect(pair, pair->to);
    }
}

/* The kernel reaches the place, this end does not. The payload is lent if the kernel does not copy it. */
static void what_is_out_of_reach_the_kernel_carries_there(void **state) {
    struct pair *pair = *state;
    struct loan_end *producer = &pair->producer.loans, *consumer = &pair->consumer.loans;
    for (int lap = 0; lap < 4; lap++) {
        struct loan_landing landing = {pair->to, pair->consumer.position, BYTES};
        const int pid = lap % 2 == 0 ? getpid() : -1;
        producer->way = consumer->way = LOAN_HOST;
        producer->pid = pid;
        consumer->pid = getpid();
        consumer->least_bytes = 1;
        assert_true(loan_can_land(consumer, (uintptr_t)pair->to, BYTES));
        assert_false(loan_will_carry(&pair->producer, BYTES)); /* not yet */
        loan_land(consumer, landing);
        loan_offer(&pair->consumer, landing);
        assert_null(loan_land_there(&pair->producer, BYTES));
        assert_true(loan_will_carry(&pair->producer, BYTES));
        assert_false(loan_will_carry(&pair->producer, BYTES)); /* it has been taken up */
        memset(pair->to, 0, BYTES);
        producer->lending = loan_carry(&pair->producer, pair->from, BYTES);
        assert_int_equal(producer->lending, pid > 0 ? LOAN_LANDED : (uintptr_t)pair->from);
        direct_seal(&pair->args, &pair->producer, BYTES);
        direct_publish(&pair->args, &pair->producer, BYTES);
        assert_int_equal(direct_ready(&pair->args, &pair->consumer, BYTES, NULL), INTERP_STEPPED);
        assert_true(loan_fetch(&pair->consumer, BYTES, pair->to));
        pair_expect(pair, pair->to);
    }
}

static void nothing_is_carried_between_ends_that_the_kernel_keeps_apart(void **state) {
    struct pair *pair = *state;
    pair->consumer.loans.way = pair->producer.loans.way = LOAN_HOST;
    pair->consumer.loans.least_bytes = 1;
    assert_false(loan_can_land(&pair->consumer.loans, (uintptr_t)pair->to, BYTES));
    loan_offer(&pair->consumer, (struct loan_landing){pair->to, pair->consumer.position, BYTES});
    assert_false(loan_will_carry(&pair->producer, BYTES));
}

static void an_offer_ends_with_a_call_that_fails(void **state) {
    struct pair *pair = *state;
    struct loan_landing landing = {pair->to, pair->consumer.position, BYTES};
    loan_land(&pair->consumer.loans, landing);
    loan_offer(&pair->consumer, landing);
    loan_stop(&pair->consumer, 0);
    assert_null(loan_land_there(&pair->producer, BYTES));
}

static void a_payload_is_complete_when_every_part_is(void **state) {
    struct pair *pair = *state;
    pair_lend(pair);
    pair_loan(pair)->claimed = 1; /* the producer is about to copy the first part */
    assert_false(loan_fetch(&pair->consumer, BYTES, pair->to));
    assert_false(loan_fetch(&pair->consumer, BYTES, pair->to));
    assert_int_equal(pair_loan(pair)->done, PARTS - 1);
    memcpy(pair->to, pair->from, PART);
    pair_loan(pair)->done++;
    assert_true(loan_fetch(&pair->consumer, BYTES, pair->to));
    pair_expect(pair, pair->to);
}

static void reach_by_kernel(struct pair *pair) {
    pair->producer.loans.way = pair->consumer.loans.way = LOAN_HOST;
    pair->producer.loans.pid = pair->consumer.loans.pid = getpid();
}

static void a_producer_that_is_busy_leaves_the_whole_copy_to_the_consumer(void **state) {
    struct pair *pair = *state;
    reach_by_kernel(pair);
    pair->producer.loans.busy = 1;
    for (int lap = 0; lap < 5; lap++) {
        pair_lend(pair);
        pair_loan(pair)->to = (uintptr_t)pair->to;
        assert_false(loan_help(&pair->producer, memcpy));
        assert_true(loan_fetch(&pair->consumer, BYTES, pair->to));
        assert_int_equal(pair_loan(pair)->done, LOAN_ALONE | 1);
        pair_expect(pair, pair->to);
    }
}

static void a_payload_of_two_parts_has_one_for_each_end(void **state) {
    struct pair *pair = *state;
    reach_by_kernel(pair);
    pair_lend(pair);
    pair_loan(pair)->to = (uintptr_t)pair->to;
    assert_true(loan_help(&pair->producer, memcpy));
    assert_int_equal(pair_loan(pair)->done, 1);
    assert_true(loan_fetch(&pair->consumer, BYTES, pair->to));
    assert_int_equal(pair_loan(pair)->done, 2);
    pair_expect(pair, pair->to);
}

static void what_a_consumer_cannot_read_is_put_into_the_slot(void **state) {
    struct pair *pair = *state;
    pair->consumer.loans = (struct loan_end){.way = LOAN_HOST, .pid = -1};
    pair_lend(pair);
    assert_false(loan_fetch(&pair->consumer, BYTES, pair->to));
    assert_true(loan_help(&pair->producer, memcpy));
    assert_false(loan_help(&pair->producer, memcpy));
    assert_true(loan_fetch(&pair->consumer, BYTES, pair->to));
    pair_expect(pair, pair_slot(pair));
    assert_false(direct_is_worth(&pair->producer.loans, 0, BYTES)); /* nor is it tried again */
}

static void what_a_producer_cannot_write_is_put_into_the_slot(void **state) {
    struct pair *pair = *state;
    pair->producer.loans.way = LOAN_HOST;
    pair->producer.loans.pid = -1;
    pair_lend(pair);
    pair_loan(pair)->to = (uintptr_t)pair->to;
    assert_true(loan_help(&pair->producer, memcpy));
    assert_true(loan_fetch(&pair->consumer, BYTES, pair->to));
    pair_expect(pair, pair_slot(pair));
}

/* The consumer may have taken it from there, and its memory may be the program's again. */
static void a_producer_that_has_used_the_slot_writes_no_other_part(void **state) {
    struct pair *pair = *state;
    pair->producer.loans.way = LOAN_HOST;
    pair->producer.loans.pid = -1;
    pair_lend(pair);
    pair_loan(pair)->offset = 1; /* so it has several parts */
    pair_loan(pair)->to = (uintptr_t)pair->to;
    assert_true(loan_help(&pair->producer, memcpy));
    pair->producer.loans.pid = getpid(); /* and now the kernel would copy */
    assert_false(loan_help(&pair->producer, memcpy));
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(pair->to[i], 0);
}

/* ---- between processes: this one plays both ---- */

/* The payload is in the shared heap, and the consumer sees it at another address. */
static char *pair_part(struct pair *pair) {
    struct heap_ticket ticket = heap_own()->ticket;
    char *payload = heap_take(BYTES, 1);
    assert_non_null(payload);
    memcpy(payload, pair->from, BYTES);
    for (struct fifo_end *end = &pair->producer; end <= &pair->consumer; end++) {
        end->loans = (struct loan_end){.way = LOAN_HOST, .until = end->position, .least_common_bytes = 1};
        end->loans.heap = heap_own();
        assert_int_equal(heap_view_open(&ticket, &end->loans.view), COLLET_SUCCESS);
    }
    return payload;
}

static void pair_unpart(struct pair *pair, char *payload) {
    heap_view_close(pair->producer.loans.view);
    heap_view_close(pair->consumer.loans.view);
    assert_true(heap_give_back(payload));
}

static void pair_lend_common(struct pair *pair, char *payload) {
    assert_true(direct_is_worth(&pair->producer.loans, (uintptr_t)payload, BYTES));
    pair->producer.loans.lending = (uintptr_t)payload;
    direct_seal(&pair->args, &pair->producer, BYTES);
    direct_publish(&pair->args, &pair->producer, BYTES);
    assert_int_equal(direct_ready(&pair->args, &pair->consumer, BYTES, NULL), INTERP_STEPPED);
}

static void a_payload_in_the_shared_heap_is_read_there(void **state) {
    struct pair *pair = *state;
    char *payload = pair_part(pair);
    pair_lend_common(pair, payload);
    assert_true(loan_is_near(&pair->consumer, BYTES));
    assert_true(loan_hold(&pair->consumer, BYTES));
    assert_ptr_not_equal(pair->consumer.loans.taken, payload);
    pair_expect(pair, heap_view_at(pair->consumer.loans.view, heap_offset(heap_own(), (uintptr_t)payload), 1));
    assert_false(direct_is_worth(&pair->producer.loans, (uintptr_t)pair->from, BYTES)); /* that is nowhere near */
    pair_unpart(pair, payload);
}

/* Into the consumer's shared heap the producer helps; into its other memory nobody but itself can copy. */
static void a_producer_helps_into_the_shared_heap(void **state) {
    struct pair *pair = *state;
    char *payload = pair_part(pair), *to = heap_take(BYTES, 1);
    pair_lend_common(pair, payload);
    pair_loan(pair)->to = (uintptr_t)pair->to;
    assert_false(loan_help(&pair->producer, memcpy));
    pair_loan(pair)->to_offset = heap_offset(heap_own(), (uintptr_t)to);
    assert_true(loan_help(&pair->producer, memcpy));
    assert_memory_equal(to, pair->from, 1000);
    assert_true(loan_fetch(&pair->consumer, BYTES, to));
    pair_expect(pair, to);
    assert_true(heap_give_back(to));
    pair_unpart(pair, payload);
}

static void a_payload_behind_the_end_of_the_shared_heap_is_refused(void **state) {
    struct pair *pair = *state;
    char *payload = pair_part(pair);
    pair_lend_common(pair, payload);
    pair_loan(pair)->offset = heap_own()->bytes - BYTES + 1;
    assert_false(loan_is_near(&pair->consumer, BYTES));
    assert_false(loan_fetch(&pair->consumer, BYTES, pair->to));
    assert_true(loan_help(&pair->producer, memcpy)); /* puts it into the slot */
    assert_true(loan_fetch(&pair->consumer, BYTES, pair->to));
    pair_expect(pair, pair_slot(pair));
    pair_unpart(pair, payload);
}

static void a_loan_that_was_stopped_is_touched_by_nobody(void **state) {
    struct pair *pair = *state;
    pair_lend(pair);
    loan_stop(&pair->producer, 1);
    assert_false(loan_fetch(&pair->consumer, BYTES, pair->to));
    assert_false(loan_hold(&pair->consumer, BYTES));
    assert_false(loan_help(&pair->producer, memcpy));
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(pair->to[i], 0);
}

static void a_consumer_that_fails_keeps_the_producer_off_its_buffer(void **state) {
    struct pair *pair = *state;
    pair_lend(pair);
    pair_loan(pair)->to = (uintptr_t)pair->to;
    loan_stop(&pair->consumer, 0);
    assert_false(loan_help(&pair->producer, memcpy));
    assert_int_equal(pair->to[0], 0);
}

/* ---- landings ---- */

/* The last step receives block 1 of OUT. What else is done with that block? */
static struct prog *receiver(void (*before)(struct prog *prog)) {
    struct prog *prog = prog_create(PROG_BROADCAST, &PROG_FLAT(2), 1, 0);
    prog_slices(prog, 2);
    prog_worker(prog);
    if (before != NULL)
        before(prog);
    prog_step(prog, .recv = PEER(0), .store = OUT(1));
    assert_int_equal(prog_finish(prog), COLLET_SUCCESS);
    return prog;
}

static void store_other(struct prog *prog) { prog_step(prog, .recv = PEER(0), .store = OUT(0)); }
static void store_same(struct prog *prog) { prog_step(prog, .recv = PEER(0), .store = OUT(1)); }
static void read_other(struct prog *prog) { prog_step(prog, .local = OUT(0), .send = PEER(0)); }
static void read_same(struct prog *prog) { prog_step(prog, .local = OUT(1), .send = PEER(0)); }
static void read_in(struct prog *prog) { prog_step(prog, .local = IN(1), .send = PEER(0)); }
static void read_both(struct prog *prog) { prog_step(prog, .local = OUT_RUN(ROW(0, 2)), .send = PEER(0)); }

static void a_payload_may_land_early_where_no_other_step_touches_its_block(void **state) {
    (void)state;
    static const struct {
        void (*before)(struct prog *prog);
        enum step_landing lands;
    } cases[] = {
        {NULL, STEP_LANDS_EARLY},        {store_other, STEP_LANDS_EARLY}, {store_same, STEP_LANDS_IN_TIME},
        {read_other, STEP_LANDS_EARLY},  {read_same, STEP_LANDS_IN_TIME}, {read_in, STEP_LANDS_EARLY},
        {read_both, STEP_LANDS_IN_TIME},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct prog *prog = receiver(cases[k].before);
        assert_int_equal(prog->steps[prog->nsteps - 1].lands, cases[k].lands);
        prog_destroy(prog);
    }
}

static void and_where_in_is_not_out(void **state) {
    (void)state;
    static char memory[300];
    struct interp_op op = {.args = {.out = memory + 100, .row_elems = 50, .block_elems = 25, .elem_bytes = 2}};
    op.memory.nblocks[STEP_IN] = op.memory.nblocks[STEP_OUT] = 2;
    struct prog *reads = receiver(read_in), *reads_not = receiver(NULL);
    for (int at = 0; at <= 200; at++) {
        op.args.in = memory + at;
        assert_int_equal(exec_is_out_of_place(&op, reads), at == 0 || at == 200);
        assert_true(exec_is_out_of_place(&op, reads_not));
    }
    prog_destroy(reads);
    prog_destroy(reads_not);
}

int main(void) {
#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, pair_open, pair_close)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_may_not_overwrite_what_is_lent),
        cmocka_unit_test(a_message_back_tells_that_a_loan_was_read),
        cmocka_unit_test(ranks_that_return_without_waiting_for_their_loans_are_found),
        cmocka_unit_test(no_algorithm_that_lends_may_return_at_once),
        WITH_PAIR(a_consumer_alone_copies_all_parts),
        WITH_PAIR(a_payload_that_is_only_read_stays_where_it_is),
        WITH_PAIR(a_slot_that_is_not_lent_has_no_trace_of_the_loan_before),
        WITH_PAIR(a_producer_copies_the_parts_that_it_claims),
        WITH_PAIR(a_producer_that_is_busy_leaves_the_whole_copy_to_the_consumer),
        WITH_PAIR(a_payload_of_two_parts_has_one_for_each_end),
        WITH_PAIR(a_producer_puts_a_payload_where_it_is_offered_a_place),
        WITH_PAIR(what_is_out_of_reach_the_kernel_carries_there),
        WITH_PAIR(nothing_is_carried_between_ends_that_the_kernel_keeps_apart),
        WITH_PAIR(an_offer_ends_with_a_call_that_fails),
        WITH_PAIR(a_payload_is_complete_when_every_part_is),
        WITH_PAIR(what_a_consumer_cannot_read_is_put_into_the_slot),
        WITH_PAIR(what_a_producer_cannot_write_is_put_into_the_slot),
        WITH_PAIR(a_producer_that_has_used_the_slot_writes_no_other_part),
        WITH_PAIR(a_payload_in_the_shared_heap_is_read_there),
        WITH_PAIR(a_producer_helps_into_the_shared_heap),
        WITH_PAIR(a_payload_behind_the_end_of_the_shared_heap_is_refused),
        WITH_PAIR(a_loan_that_was_stopped_is_touched_by_nobody),
        WITH_PAIR(a_consumer_that_fails_keeps_the_producer_off_its_buffer),
        cmocka_unit_test(a_payload_may_land_early_where_no_other_step_touches_its_block),
        cmocka_unit_test(and_where_in_is_not_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
