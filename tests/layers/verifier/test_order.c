/* SPDX-License-Identifier: Apache-2.0
 *
 * What puts accesses to memory in order (layers/verifier/order.h)? Messages, and that a rank waits for its loans at the end of its call.
 * Each of these is taken away here, one at a time, and the verifier must find the program wrong, unless something else tells the
 * same. And payloads land early where they must not.
 */
#include "common/level.h"
#include "layers/verifier/rehearsal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- casts ---- */

#define IN_ORDER ((struct rehearsal_rules){.in_place = false}) /* nothing is taken away */

/* What one run of a cast says. */
struct run_of {
    bool right;
    int nmessages, nloans;
    char why[512];
};

static struct run_of run(const struct cast *cast, struct rehearsal_rules rules) {
    struct run_of result = {.nloans = 0};
    struct rehearsal m;
    rules.nslots = 2;
    result.right = rehearsal_create(&m, cast, &rules, result.why, sizeof result.why) && rehearsal_run(&m, NULL);
    result.nmessages = m.nmessages;
    result.nloans = m.ordered ? m.order.nloans : 0;
    rehearsal_destroy(&m);
    return result;
}

/* Flat; or on two nodes, if the algorithm is made for nodes. false: it takes neither. */
static bool cast_of(const struct algorithm *algorithm, int nranks, struct cast *cast) {
    struct prog_shape flat = PROG_FLAT(nranks), nodes;
    int node_of[PROG_NODE_RANKS_MAX];
    for (int rank = 0; rank < nranks; rank++)
        node_of[rank] = 2 * rank / nranks;
    assert_int_equal(prog_shape_init(&nodes, nranks, node_of, NULL), COLLET_SUCCESS);
    const struct prog_shape *shape = algorithm_applies(algorithm, &flat) ? &flat : &nodes;
    bool takes = !prog_is_p2p(algorithm->collective) && algorithm_applies(algorithm, shape);
    if (takes)
        assert_int_equal(cast_create(algorithm, shape, 0, cast), COLLET_SUCCESS);
    prog_shape_fini(&nodes);
    return takes;
}

/* ---- what is taken away ---- */

struct needs {
    int messages, in_memory; /* all; whose payload lies in memory … */
    int tell;                /* … and of the others, those that tell what accesses to memory rely on */
    int loans, awaited;      /* all; that no message shows to be over */
};

static bool says(const struct run_of *result, const char *what) { return strstr(result->why, what) != NULL; }

enum { NO_MESSAGE = -1 }; /* none has this number: all are counted, and nothing is taken away */

/* Takes every message's order away, then every loan's end. What is found then is an access out of order, and nothing else. */
static struct needs needs_of(const struct cast *cast, bool in_place) {
    struct run_of all = run(cast, (struct rehearsal_rules){.in_place = in_place, .silent = NO_MESSAGE});
    struct needs needs = {.messages = all.nmessages, .loans = all.nloans};
    if (!all.right)
        fail_msg("%s", all.why);
    for (int message = 1; message <= all.nmessages; message++) {
        struct run_of without = run(cast, (struct rehearsal_rules){.in_place = in_place, .silent = message});
        bool in_memory = says(&without, "may not have made yet");
        needs.in_memory += in_memory;
        needs.tell += !without.right && !in_memory;
        if (!without.right && !says(&without, "no message"))
            fail_msg("without the order of message %d: %s", message, without.why);
    }
    for (int loan = 1; loan <= all.nloans; loan++) {
        struct run_of without = run(cast, (struct rehearsal_rules){.in_place = in_place, .hasty = loan});
        needs.awaited += !without.right;
        if (!without.right && !says(&without, "returns from the call while"))
            fail_msg("without the end of loan %d: %s", loan, without.why);
    }
    return needs;
}

static void no_message_that_says_where_a_payload_lies_can_be_left_out(void **state) {
    (void)state;
    int most = level_now() == LEVEL_FULL ? 10 : 5, lent = 0;
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (int nranks = 2; nranks <= most; nranks++)
            for (int in_place = 0; in_place <= (prog_facts[a->collective].in_place != PROG_APART); in_place++) {
                struct cast cast;
                if (!cast_of(a, nranks, &cast))
                    continue;
                struct needs needs = needs_of(&cast, in_place == 1);
                if (needs.in_memory < needs.loans) /* others lie where they land early */
                    fail_msg("%s_%s of %d ranks: of %d messages that lend, only %d are missed",
                             prog_collective_name(a->collective), a->name, nranks, needs.loans, needs.in_memory);
                lent += needs.loans;
                cast_destroy(&cast);
            }
    assert_true(lent > 3000);
}

/* In words: what is needed, and why the rest is not. */
static void describe(struct needs needs, char text[256]) {
    snprintf(text, 256,
             "of %d messages %d say that a payload is in memory, %d that memory is free, %d only fill slots; "
             "of %d loans %d end with the call, %d with later messages",
             needs.messages, needs.in_memory, needs.tell, needs.messages - needs.in_memory - needs.tell, needs.loans,
             needs.awaited, needs.loans - needs.awaited);
}

static void expect_needs(const char *name, enum prog_collective collective, int nranks, bool in_place,
                         const char *expected) {
    const struct algorithm *algorithm = algorithm_find(collective, name);
    struct cast cast;
    char text[256];
    assert_non_null(algorithm);
    assert_true(cast_of(algorithm, nranks, &cast));
    describe(needs_of(&cast, in_place), text);
    assert_string_equal(text, expected);
    cast_destroy(&cast);
}

static void what_can_be_left_out_fills_slots_or_is_told_by_other_messages(void **state) {
    (void)state;
    expect_needs("ring", PROG_ALLREDUCE, 4, false,
                 "of 90 messages 60 say that a payload is in memory, 0 that memory is free, 30 only fill slots; "
                 "of 60 loans 3 end with the call, 57 with later messages");
    /* Results overwrite what was lent: what comes next tells that it was read. */
    expect_needs("ring", PROG_ALLREDUCE, 4, true,
                 "of 90 messages 60 say that a payload is in memory, 30 that memory is free, 0 only fill slots; "
                 "of 60 loans 3 end with the call, 57 with later messages");
    expect_needs("tree", PROG_ALLREDUCE, 5, true,
                 "of 64 messages 56 say that a payload is in memory, 8 that memory is free, 0 only fill slots; "
                 "of 56 loans 32 end with the call, 24 with later messages");
    expect_needs("halving", PROG_ALLREDUCE, 5, true,
                 "of 120 messages 98 say that a payload is in memory, 19 that memory is free, 3 only fill slots; "
                 "of 98 loans 60 end with the call, 38 with later messages");
    expect_needs("oneshot", PROG_ALLREDUCE, 4, true, /* lends nothing in place */
                 "of 36 messages 0 say that a payload is in memory, 0 that memory is free, 36 only fill slots; "
                 "of 0 loans 0 end with the call, 0 with later messages");
    expect_needs("chain", PROG_BROADCAST, 4, false, /* nothing comes back */
                 "of 9 messages 9 say that a payload is in memory, 0 that memory is free, 0 only fill slots; "
                 "of 9 loans 9 end with the call, 0 with later messages");
    expect_needs("bruck", PROG_ALLGATHER, 7, false,
                 "of 63 messages 21 say that a payload is in memory, 0 that memory is free, 42 only fill slots; "
                 "of 21 loans 0 end with the call, 21 with later messages");
    expect_needs("hier", PROG_ALLTOALL, 4, false, /* 12 are sent from TMP, and land early */
                 "of 48 messages 48 say that a payload is in memory, 0 that memory is free, 0 only fill slots; "
                 "of 36 loans 28 end with the call, 8 with later messages");
}

/* ---- early landings ---- */

/* The program with all steps that could land early marked so, whatever else touches their blocks. */
static struct run_of run_landing(prog_build_fn build, int nranks) {
    struct algorithm algorithm = {.name = "test", .collective = PROG_BROADCAST, .build = build};
    struct cast cast;
    assert_int_equal(cast_create(&algorithm, &PROG_FLAT(nranks), 0, &cast), COLLET_SUCCESS);
    struct run_of in_time = run(&cast, IN_ORDER);
    if (!in_time.right)
        fail_msg("%s", in_time.why);
    for (int member = 0; member < nranks; member++)
        for (int k = 0; k < cast.members[member].prog->nsteps; k++) {
            struct prog_step *step = &cast.members[member].prog->steps[k];
            if (step->recv_count == 1 && step->store_region == STEP_OUT)
                step->lands = STEP_LANDS_EARLY;
        }
    struct run_of early = run(&cast, IN_ORDER);
    cast_destroy(&cast);
    return early;
}

/* Rank 1 receives the block twice, and in between it tells rank 0 that it has the first, or does not. */
static void receive_twice(struct prog *prog, bool told, bool swapped) {
    prog_worker(prog);
    if (prog->rank == 0) {
        prog_step(prog, .local = IN(0), .send = PEER(1));
        if (told)
            prog_step(prog, .recv = PEER_LANE(1, 1), .store = OUT(0));
        else
            prog_step(prog, .local = IN(0), .store = OUT(0));
        prog_step(prog, .local = IN(0), .send = PEER_LANE(1, 2));
        return;
    }
    prog_step(prog, .recv = PEER_LANE(0, swapped ? 2 : 0), .store = OUT(0));
    if (told)
        prog_step(prog, .local = OUT(0), .send = PEER_LANE(0, 1));
    prog_step(prog, .recv = PEER_LANE(0, swapped ? 0 : 2), .store = OUT(0));
}
static void not_told(struct prog *prog) { receive_twice(prog, false, false); }
static void told(struct prog *prog) { receive_twice(prog, true, false); }
/* The payload that is stored last may have landed before the other one was sent. */
static void swapped(struct prog *prog) { receive_twice(prog, false, true); }

/* Rank 1 lends its block to rank 2, which says to rank 1 that it was read, or to rank 0. Then rank 0 sends the block anew. */
static void land_on_a_loan(struct prog *prog, int hears) {
    prog_tmp(prog, 1);
    prog_worker(prog);
    if (prog->rank == 0) {
        prog_step(prog, .local = IN(0), .store = OUT(0), .send = PEER(1));
        prog_step(prog, .recv = PEER_LANE(1, 1), .length_of = IN(0), .store = TMP(0));
        if (hears == 0)
            prog_step(prog, .recv = PEER_LANE(2, 2), .length_of = IN(0), .store = TMP(0));
        prog_step(prog, .local = IN(0), .send = PEER_LANE(1, 3));
    } else if (prog->rank == 1) {
        prog_step(prog, .recv = PEER(0), .store = OUT(0), .send = LISTED(((int[]){2, 0}), 2, 1));
        if (hears == 1)
            prog_step(prog, .recv = PEER_LANE(2, 2), .length_of = IN(0), .store = TMP(0));
        prog_step(prog, .recv = PEER_LANE(0, 3), .store = OUT(0));
    } else {
        prog_step(prog, .recv = PEER_LANE(1, 1), .store = OUT(0));
        prog_step(prog, .local = OUT(0), .send = PEER_LANE(hears, 2));
    }
}
static void only_the_lender_hears(struct prog *prog) { land_on_a_loan(prog, 1); }
static void the_sender_hears(struct prog *prog) { land_on_a_loan(prog, 0); }

static void expect_clash(prog_build_fn build, int nranks, const char *where, const char *with) {
    struct run_of early = run_landing(build, nranks);
    if (early.right || !says(&early, where) || !says(&early, with))
        fail_msg("'%s' does not say '%s' and '%s'", early.why, where, with);
}

static void a_payload_that_lands_before_its_place_is_free_is_found(void **state) {
    (void)state;
    expect_clash(not_told, 2, "rank 1 worker 0 step 1: stores to OUT block 0", "early, while rank 1 worker 0 uses");
    expect_clash(swapped, 2, "rank 1 worker 0 step 1: stores to OUT block 0", "early, while rank 1 worker 0 uses");
    assert_true(run_landing(told, 2).right);
    expect_clash(only_the_lender_hears, 3, "rank 1 worker 0 step 2", "early, while rank 2 worker 0 uses");
    assert_true(run_landing(the_sender_hears, 3).right);
}

static void only_a_block_that_is_stored_as_it_comes_may_land(void **state) {
    (void)state;
    struct cast cast;
    assert_true(cast_of(algorithm_find(PROG_ALLREDUCE, "ring"), 4, &cast));
    struct prog *prog = cast.members[2].prog;
    int adds = 0;
    while (prog->steps[adds].store_region != STEP_OUT)
        adds++;
    assert_int_equal(prog->steps[adds].locals_count, 1);
    prog->steps[adds].lands = STEP_LANDS_EARLY;
    struct run_of early = run(&cast, IN_ORDER);
    assert_false(early.right);
    assert_true(says(&early, "rank 2 worker 0 step 3: may land early, but it does more"));
    cast_destroy(&cast);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_message_that_says_where_a_payload_lies_can_be_left_out),
        cmocka_unit_test(what_can_be_left_out_fills_slots_or_is_told_by_other_messages),
        cmocka_unit_test(a_payload_that_lands_before_its_place_is_free_is_found),
        cmocka_unit_test(only_a_block_that_is_stored_as_it_comes_may_land),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
