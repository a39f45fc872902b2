/* SPDX-License-Identifier: Apache-2.0
 *
 * Who lives, and one decision of all that do, whatever the order of deaths and letters. The ranks are of one process and
 * are polled one by one, so each order can be made.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/os.h"
#include "boot/boot.h"
#include "boot/hub.h"
#include "layers/elastic/agreement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NRANKS 4

static const int all_ranks[NRANKS] = {0, 1, 2, 3};
static int timeout_s = 60;

struct table {
    struct config configs[NRANKS];
    struct boot *boots[NRANKS];
    struct agreement agreements[NRANKS];
    int payloads; /* so many ids were made */
};

static enum collet_result give_number(void *giver, const uint8_t *lives, char payload[AGREEMENT_PAYLOAD_BYTES]) {
    (void)lives;
    snprintf(payload, AGREEMENT_PAYLOAD_BYTES, "payload %d", ++*(int *)giver);
    return COLLET_SUCCESS;
}

static enum collet_result ask_about(struct table *table, uint64_t key, int rank, bool leaving_is_no,
                                    enum collet_result code) {
    const struct agreement_terms terms = {.boot = table->boots[rank],
                                          .key = key,
                                          .ranks = all_ranks,
                                          .nranks = NRANKS,
                                          .self = rank,
                                          .leaving_is_no = leaving_is_no,
                                          .give = give_number,
                                          .giver = &table->payloads,
                                          .call = "shrink",
                                          .timeout_s = timeout_s};
    agreement_fini(&table->agreements[rank]);
    return agreement_start(&table->agreements[rank], &terms, code);
}

static enum collet_result ask(struct table *table, int rank, bool leaving_is_no, enum collet_result code) {
    return ask_about(table, 77, rank, leaving_is_no, code);
}

static int set_up(void **state) {
    static struct table table;
    struct collet_unique_id id;
    const struct boot_self self = {.device = 0};
    table = (struct table){.payloads = 0};
    assert_int_equal(boot_unique_id_fresh(true, &id), COLLET_SUCCESS);
    for (int rank = 0; rank < NRANKS; rank++) {
        table.configs[rank] = *config_process();
        assert_int_equal(boot_join(&id, NRANKS, rank, &self, &table.configs[rank], &table.boots[rank]), COLLET_SUCCESS);
    }
    boot_fail(table.boots[0], COLLET_ERR_REMOTE, "somebody died"); /* which is when this is needed */
    for (int rank = 0; rank < NRANKS; rank++)
        assert_int_equal(ask(&table, rank, false, COLLET_SUCCESS), COLLET_SUCCESS);
    *state = &table;
    return 0;
}

static int tear_down(void **state) {
    struct table *table = *state;
    for (int rank = 0; rank < NRANKS; rank++) {
        agreement_fini(&table->agreements[rank]);
        boot_destroy(table->boots[rank]);
    }
    return 0;
}

static void dies(struct table *table, int rank) {
    assert_true(hub_set_state(table->boots[0]->hub, rank, PEER_DEAD, 0));
}

/* Dies, and its letters to these ranks with it. */
static void dies_before_telling(struct table *table, int rank, const int *ranks, int n) {
    dies(table, rank);
    for (int k = 0; k < n; k++) {
        struct letter *letter;
        while ((letter = hub_collect(table->boots[ranks[k]], rank, boot_key(BOOT_DECISION, 77))) != NULL)
            free(letter);
    }
}

static enum collet_result poll_rank(struct table *table, int rank) { return agreement_try(&table->agreements[rank]); }

static void waits(struct table *table, int rank) { assert_int_equal(poll_rank(table, rank), COLLET_IN_PROGRESS); }

/* After as many turns as it takes. Pauses between repetitions make that milliseconds. */
static void agree(struct table *table, const int *ranks, int n) {
    bool done[NRANKS] = {false};
    for (int left = n; left > 0;)
        for (int k = 0; k < n; k++) {
            enum collet_result result = done[k] ? COLLET_IN_PROGRESS : poll_rank(table, ranks[k]);
            assert_true(result >= 0);
            done[k] |= result == COLLET_SUCCESS;
            left -= result == COLLET_SUCCESS;
        }
}

static void check_decision(const struct table *table, int rank, const char *payload, const char *lives) {
    const struct agreement_decision *decision = table->agreements[rank].decision;
    assert_int_equal(decision->sum.code, COLLET_SUCCESS);
    assert_string_equal(decision->payload, payload);
    for (int k = 0; k < NRANKS; k++)
        assert_int_equal(decision->lives[k], lives[k] == '1');
}

static void all_that_live_get_the_payload_of_the_lowest(void **state) {
    struct table *table = *state;
    agree(table, all_ranks, NRANKS);
    for (int rank = 0; rank < NRANKS; rank++)
        check_decision(table, rank, "payload 1", "1111");
    dies(table, 0);
    for (int rank = 1; rank < NRANKS; rank++)
        ask(table, rank, false, COLLET_SUCCESS);
    agree(table, &all_ranks[1], NRANKS - 1);
    for (int rank = 1; rank < NRANKS; rank++)
        check_decision(table, rank, "payload 2", "0111");
}

static void the_death_of_a_rank_that_has_voted_leaves_it_out(void **state) {
    struct table *table = *state;
    const int survivors[] = {0, 1, 3};
    waits(table, 2); /* its vote is on the way */
    dies(table, 2);
    agree(table, survivors, 3);
    for (int k = 0; k < 3; k++)
        check_decision(table, survivors[k], "payload 1", "1101");
}

/* All have voted. Rank 0 has its decision, and so has one other rank. */
static void coordinator_with_one_listener(struct table *table, int listener) {
    for (int rank = 1; rank < NRANKS; rank++)
        waits(table, rank);
    assert_int_equal(poll_rank(table, 0), COLLET_SUCCESS);
    assert_int_equal(poll_rank(table, listener), COLLET_SUCCESS);
}

/* Rank 0 dies before it tells ranks 1 and 3. */
static void a_decision_that_one_survivor_has_had_is_that_of_all(void **state) {
    struct table *table = *state;
    const int others[] = {1, 3};
    coordinator_with_one_listener(table, 2);
    dies_before_telling(table, 0, others, 2);
    agree(table, others, 2);
    for (int rank = 1; rank < NRANKS; rank++)
        check_decision(table, rank, "payload 1", "1111");
}

/* The next coordinator has had the decision itself, and looks for no votes any more: its watch answers. */
static void a_coordinator_that_has_gone_on_still_answers(void **state) {
    struct table *table = *state;
    const int others[] = {2, 3};
    coordinator_with_one_listener(table, 1);
    dies_before_telling(table, 0, others, 2);
    agree(table, others, 2);
    for (int rank = 1; rank < NRANKS; rank++)
        check_decision(table, rank, "payload 1", "1111");
}

/* Two coordinators die, each when one rank has its decision. */
static void two_coordinators_may_die(void **state) {
    struct table *table = *state;
    const int last[] = {2};
    coordinator_with_one_listener(table, 3);
    dies_before_telling(table, 0, last, 1);
    dies(table, 1);
    agree(table, last, 1);
    check_decision(table, 2, "payload 1", "1111");
    check_decision(table, 3, "payload 1", "1111");
}

/* Rank 0 died with its decision, and whoever had it too. Those that are left make their own. */
static void a_decision_that_only_the_dead_had_is_forgotten(void **state) {
    struct table *table = *state;
    const int others[] = {1, 3};
    coordinator_with_one_listener(table, 2);
    dies_before_telling(table, 0, others, 2);
    dies(table, 2);
    agree(table, others, 2);
    check_decision(table, 1, "payload 2", "0101");
    check_decision(table, 3, "payload 2", "0101");
}

static void one_no_is_the_no_of_all_with_its_text(void **state) {
    struct table *table = *state;
    agree(table, all_ranks, NRANKS);
    for (int rank = 0; rank < NRANKS; rank++) {
        err_set(COLLET_ERR_SYSTEM, "rank %d has no memory", rank);
        ask(table, rank, true, rank >= 2 ? COLLET_ERR_SYSTEM : COLLET_SUCCESS);
    }
    agree(table, all_ranks, NRANKS);
    for (int rank = 0; rank < NRANKS; rank++) {
        const struct agreement_decision *decision = table->agreements[rank].decision;
        assert_int_equal(decision->sum.code, COLLET_ERR_SYSTEM);
        assert_string_equal(decision->sum.text, "rank 2 has no memory");
        assert_int_equal(decision->lives[2], 1);
    }
    assert_int_equal(table->payloads, 1);
}

static void a_rank_that_gives_up_is_a_no_at_once(void **state) {
    struct table *table = *state;
    const int others[] = {0, 2, 3};
    agreement_give_up(&table->agreements[1], COLLET_ERR_REMOTE, "rank 1 gave up");
    agree(table, others, 3);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(table->agreements[others[k]].decision->sum.code, COLLET_ERR_REMOTE);
        assert_string_equal(table->agreements[others[k]].decision->sum.text, "rank 1 gave up");
    }
}

/* Also if it leaves at once. */
static void a_rank_that_has_voted_may_still_give_up(void **state) {
    struct table *table = *state;
    const int others[] = {0, 2, 3};
    waits(table, 1);
    waits(table, 0); /* has that vote */
    agreement_give_up(&table->agreements[1], COLLET_ERR_MISMATCH, "rank 1 gave up");
    assert_true(hub_set_state(table->boots[0]->hub, 1, PEER_LEFT, 0));
    agree(table, others, 3);
    for (int k = 0; k < 3; k++)
        assert_int_equal(table->agreements[others[k]].decision->sum.code, COLLET_ERR_MISMATCH);
}

static void a_coordinator_that_gives_up_is_a_no_too(void **state) {
    struct table *table = *state;
    waits(table, 0);
    waits(table, 1);
    agreement_give_up(&table->agreements[0], COLLET_ERR_REMOTE, "rank 0 gave up");
    agree(table, &all_ranks[1], NRANKS - 1);
    for (int rank = 1; rank < NRANKS; rank++) {
        assert_int_equal(table->agreements[rank].decision->sum.code, COLLET_ERR_REMOTE);
        assert_string_equal(table->agreements[rank].decision->sum.text, "rank 0 gave up");
    }
}

/* Ranks 1 and 3 come at once, rank 0 comes when their patience is nearly over, and rank 2 never does: all hear of rank 2. */
static void a_coordinator_that_comes_late_still_names_who_is_missing(void **state) {
    struct table *table = *state;
    const int others[] = {0, 1, 3};
    timeout_s = 1;
    for (int k = 1; k < 3; k++)
        ask(table, others[k], false, COLLET_SUCCESS);
    const uint64_t late_ns = os_now_ns() + 2200000000u; /* they wait for 1 s, and for 2 s more */
    do {
        waits(table, 1);
        waits(table, 3);
    } while (os_now_ns() < late_ns);
    ask(table, 0, false, COLLET_SUCCESS);
    timeout_s = 60;
    agree(table, others, 3);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(table->agreements[others[k]].decision->sum.code, COLLET_ERR_TIMEOUT);
        assert_non_null(strstr(table->agreements[others[k]].decision->sum.text, "for rank 2"));
    }
}

static void a_rank_without_memory_refuses_another_question_too(void **state) {
    struct table *table = *state;
    const int others[] = {0, 1, 3};
    agree(table, all_ranks, NRANKS);
    const struct agreement_terms another = {.boot = table->boots[2], .key = 78, .nranks = NRANKS};
    agreement_refuse(&another, COLLET_ERR_NO_MEMORY, "rank 2 has no memory");
    for (int k = 0; k < 3; k++)
        ask_about(table, another.key, others[k], false, COLLET_SUCCESS);
    agree(table, others, 3);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(table->agreements[others[k]].decision->sum.code, COLLET_ERR_NO_MEMORY);
        assert_string_equal(table->agreements[others[k]].decision->sum.text, "rank 2 has no memory");
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(all_that_live_get_the_payload_of_the_lowest),
        TEST(the_death_of_a_rank_that_has_voted_leaves_it_out),
        TEST(a_decision_that_one_survivor_has_had_is_that_of_all),
        TEST(a_coordinator_that_has_gone_on_still_answers),
        TEST(two_coordinators_may_die),
        TEST(a_decision_that_only_the_dead_had_is_forgotten),
        TEST(one_no_is_the_no_of_all_with_its_text),
        TEST(a_rank_that_gives_up_is_a_no_at_once),
        TEST(a_rank_that_has_voted_may_still_give_up),
        TEST(a_coordinator_that_gives_up_is_a_no_too),
        TEST(a_coordinator_that_comes_late_still_names_who_is_missing),
        TEST(a_rank_without_memory_refuses_another_question_too),
    };
    return cmocka_run_group_tests_name("agreement", tests, NULL, NULL);
}
