/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs: rails that were lost, and are tested and used again (common/verbs_pair.h); and devices that never will be.
 */
#include "base/call_lock.h"
#include "common/fair.h"
#include "common/level.h"
#include "common/verbs_pair.h"
#include "transport/verbs/verbs_attend.c"

#include "chan/chan.h"
#include "exec/exec.h"

#include <sched.h>

enum disaster { DYING, ACKS_LOST, PORT_DOWN, DISASTERS };

static void port_event(int device, enum ibv_event_type type) {
    fake_event(device, (struct ibv_async_event){.element.port_num = 1, .event_type = type});
}

static void strike(enum disaster disaster, int device) {
    struct fake_device *d = &fake.devices[device];
    d->dying = disaster == DYING;
    d->lose_acks = disaster == ACKS_LOST;
    d->hanging = disaster == PORT_DOWN;
    if (disaster == PORT_DOWN)
        port_event(device, IBV_EVENT_PORT_ERR);
}

static void heal(enum disaster disaster, int device) {
    struct fake_device *d = &fake.devices[device];
    d->dying = d->lose_acks = d->hanging = false;
    if (disaster == PORT_DOWN)
        port_event(device, IBV_EVENT_PORT_ACTIVE);
}

static struct verbs_rail *rail_of(const struct conn *conn, int r) { return &end_of(conn)->rails[r]; }

/* Both ends have waited long enough. */
static void let_time_pass(const struct pair *pair) {
    for (int r = 0; r < end_of(&pair->producer)->nrails; r++)
        rail_of(&pair->producer, r)->due_ns = rail_of(&pair->consumer, r)->due_ns = 0;
}

static bool both_are(const struct pair *pair, int r, enum verbs_rail_state state) {
    return rail_of(&pair->producer, r)->state == state && rail_of(&pair->consumer, r)->state == state;
}

/* Slots are under way all the time. */
static void until_both_are(struct pair *pair, int r, enum verbs_rail_state state) {
    while (!both_are(pair, r, state))
        turn(pair, UINT64_MAX);
}

static void drain(struct pair *pair) { move_slots(pair, 0); }

static void returning_pair_open(struct pair *pair, struct shape shape) {
    pair_init(pair, shape);
    pair->configs[0].net_rail_wait = pair->configs[1].net_rail_wait = 3600; /* let_time_pass() alone ends it */
    assert_int_equal(transport_verbs.offer(&pair->consumer, &pair->blob), COLLET_SUCCESS);
    assert_int_equal(transport_verbs.accept(&pair->producer, &pair->blob), COLLET_SUCCESS);
    pair_connect(pair);
}

/* ---------------------------------------------------------------------------------------------------------------- return */

static void a_rail_that_recovers_carries_slots_again(void **state) {
    (void)state;
    for (int round = 0; round < 8 * DISASTERS; round++) {
        struct pair pair;
        const int device = round % 2;
        const enum disaster disaster = (enum disaster)(round / 2 % DISASTERS);
        uint64_t counters[2][CONN_COUNTERS] = {{0}};
        returning_pair_open(&pair, (struct shape){round % 3 == 0 ? 2 : 8, 400, 2, 1 + round % 3, UINT64_MAX - 100});
        pair.owners[0].counters = counters[0];
        pair.owners[1].counters = counters[1];
        for (uint32_t life = 1; life <= 3; life++) {
            move_slots(&pair, 50 + fake_random() % 50);
            strike(disaster, device);
            until_both_are(&pair, device, VERBS_RAIL_DOWN);
            heal(disaster, device);
            move_slots(&pair, 50);
            assert_true(both_are(&pair, device, VERBS_RAIL_DOWN));
            let_time_pass(&pair);
            until_both_are(&pair, device, VERBS_RAIL_UP);
            drain(&pair);
            const uint64_t before = fake.devices[device].written;
            move_slots(&pair, 50);
            assert_true(fake.devices[device].written > before);
            assert_int_equal(rail_of(&pair.producer, device)->life, life);
            assert_int_equal(rail_of(&pair.consumer, device)->life, life);
            for (int rank = 0; rank < 2; rank++) {
                assert_int_equal(counters[rank][CONN_RAILS_LOST], life);
                assert_int_equal(counters[rank][CONN_RAILS_RETURNED], life);
            }
        }
        pair_close(&pair);
    }
}

/* Now the one rail, now the other, at any moment: while it is tested, too. */
static void rails_that_flap_lose_and_repeat_nothing(void **state) {
    (void)state;
    uint32_t lives = 0;
    for (int round = 0; round < 60; round++) {
        struct pair pair;
        returning_pair_open(&pair, (struct shape){round % 3 == 0 ? 2 : 8, 400, 2, 1 + round % 3, 0});
        fake.chance += (uint64_t)round * 0x9e3779b97f4a7c15ull;
        for (int flap = 0; flap < 20; flap++) {
            const int device = (int)(fake_random() % 2);
            const enum disaster disaster = (enum disaster)(fake_random() % DISASTERS);
            until_both_are(&pair, 1 - device, VERBS_RAIL_UP);
            strike(disaster, device);
            for (uint64_t turns = fake_random() % 3000; turns > 0; turns--)
                turn(&pair, UINT64_MAX);
            if (fake_random() % 2)
                let_time_pass(&pair);
            for (uint64_t turns = fake_random() % 3000; turns > 0; turns--)
                turn(&pair, UINT64_MAX);
            if (rail_of(&pair.producer, device)->state == VERBS_RAIL_UP ||
                rail_of(&pair.consumer, device)->state == VERBS_RAIL_UP)
                until_both_are(&pair, device, VERBS_RAIL_DOWN);
            heal(disaster, device);
            for (int r = 0; r < 2; r++)
                while (!both_are(&pair, r, VERBS_RAIL_UP)) {
                    let_time_pass(&pair);
                    turn(&pair, UINT64_MAX);
                }
        }
        drain(&pair);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(rail_of(&pair.producer, r)->life, rail_of(&pair.consumer, r)->life);
            lives += rail_of(&pair.producer, r)->life;
        }
        pair_close(&pair);
    }
    assert_true(lives >= 60 * 20);
}

static void a_test_that_fails_changes_nothing_and_makes_the_next_one_wait_longer(void **state) {
    (void)state;
    struct pair pair;
    returning_pair_open(&pair, (struct shape){8, 4096, 2, 2, 0});
    move_slots(&pair, 50);
    strike(DYING, 0);
    until_both_are(&pair, 0, VERBS_RAIL_DOWN);
    for (uint32_t test = 1; test <= 12; test++) {
        const uint32_t life = rail_of(&pair.producer, 0)->life;
        let_time_pass(&pair);
        while (rail_of(&pair.producer, 0)->life == life || rail_of(&pair.producer, 0)->state != VERBS_RAIL_DOWN)
            turn(&pair, UINT64_MAX);
        until_both_are(&pair, 0, VERBS_RAIL_DOWN);
        assert_true(rail_of(&pair.producer, 0)->due_ns >
                    os_now_ns() + (3000000000000ull << (test < 10 ? test : 10)) / 60 * 59);
    }
    assert_int_equal(rail_of(&pair.producer, 0)->losses, 1);
    assert_int_equal(rail_of(&pair.producer, 0)->returns, 0);
    drain(&pair);
    pair_close(&pair);
}

/* The only rail that is up is lost while the other one is tested: at the end that does not know yet how that ends, or at the other. */
static void what_is_only_tested_takes_over_if_it_can(void **state) {
    (void)state;
    for (int round = 0; round < 4; round++) {
        struct pair pair;
        struct conn *loser = round % 2 ? &pair.producer : &pair.consumer;
        returning_pair_open(&pair, (struct shape){8, 4096, 2, 1, 0});
        strike(DYING, 0);
        until_both_are(&pair, 0, VERBS_RAIL_DOWN);
        heal(DYING, 0);
        fake.devices[0].hanging = true;
        let_time_pass(&pair);
        until_both_are(&pair, 0, VERBS_RAIL_TESTED);
        verbs_rail_lost(loser, 1, "is lost in a test");
        if (round < 2) {
            heal(PORT_DOWN, 0);
            until_both_are(&pair, 0, VERBS_RAIL_UP);
            until_both_are(&pair, 1, VERBS_RAIL_DOWN);
            move_slots(&pair, 100);
        } else {
            verbs_rail_lost(loser, 0, "is lost in a test, too");
            expect_both_broken(&pair);
            expect_broken(loser, "is lost in a test, too", "");
        }
        pair_close(&pair);
    }
}

/* Where the setting is 0. */
static void a_rail_need_not_return(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 2, 1, 0});
    move_slots(&pair, 50);
    strike(DYING, 0);
    until_both_are(&pair, 0, VERBS_RAIL_DOWN);
    heal(DYING, 0);
    assert_true(rail_of(&pair.producer, 0)->due_ns == UINT64_MAX);
    assert_true(rail_of(&pair.consumer, 0)->due_ns == UINT64_MAX);
    drain(&pair);
    pair_close(&pair);
}

static void a_rail_that_was_down_from_the_beginning_joins(void **state) {
    (void)state;
    struct pair pair;
    pair_init(&pair, (struct shape){8, 4096, 2, 2, 0});
    pair.configs[0].net_rail_wait = pair.configs[1].net_rail_wait = 3600;
    verbs_host()->ports[0].down = 1;
    fake.devices[0].hanging = true;
    assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
    assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
    pair_connect(&pair);
    move_slots(&pair, 100);
    assert_true(both_are(&pair, 0, VERBS_RAIL_DOWN));
    heal(PORT_DOWN, 0);
    let_time_pass(&pair);
    until_both_are(&pair, 0, VERBS_RAIL_UP);
    drain(&pair);
    pair_close(&pair);
}

/* The consumer has begun a test, and now the producer cannot. */
static void an_end_that_cannot_any_more_ends_the_test(void **state) {
    (void)state;
    struct pair pair;
    returning_pair_open(&pair, (struct shape){8, 4096, 2, 1, 0});
    strike(DYING, 0);
    until_both_are(&pair, 0, VERBS_RAIL_DOWN);
    heal(DYING, 0);
    let_time_pass(&pair);
    while (rail_of(&pair.consumer, 0)->state != VERBS_RAIL_TESTED) {
        if (!rail_of(&pair.consumer, 0)->invited)
            progress(&pair.producer);
        progress(&pair.consumer);
    }
    verbs_host()->ports[0].down = 1;
    while (rail_of(&pair.producer, 0)->life == 0)
        progress(&pair.producer);
    verbs_host()->ports[0].down = 0;
    until_both_are(&pair, 0, VERBS_RAIL_DOWN);
    assert_int_equal(rail_of(&pair.producer, 0)->life, 1);
    assert_int_equal(rail_of(&pair.consumer, 0)->life, 1);
    let_time_pass(&pair);
    until_both_are(&pair, 0, VERBS_RAIL_UP);
    drain(&pair);
    pair_close(&pair);
}

/* ------------------------------------------------------------------------------------------------- devices that have failed */

/* What it was given never completes, and may be written as long as there are queue pairs. */
static void a_device_that_has_failed_is_left_alone(void **state) {
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct pair pair;
        returning_pair_open(&pair, (struct shape){round % 2 ? 2 : 8, 400, 2, 1 + round % 3, 0});
        for (uint64_t turns = 200 + fake_random() % 500; turns > 0; turns--)
            turn(&pair, UINT64_MAX);
        fake_remove(round % 2);
        until_both_are(&pair, round % 2, VERBS_RAIL_DOWN);
        let_time_pass(&pair);
        for (int k = 0; k < 2000; k++)
            turn(&pair, UINT64_MAX);
        drain(&pair);
        assert_true(both_are(&pair, round % 2, VERBS_RAIL_DOWN));
        assert_true(both_are(&pair, 1 - round % 2, VERBS_RAIL_UP));
        pair_close(&pair);
    }
}

static void new_connections_do_without_a_device_that_has_failed(void **state) {
    (void)state;
    struct pair pair;
    for (int known = 0; known < 2; known++) { /* when the ranks told each other of their ports */
        pair_init(&pair, (struct shape){8, 4096, 2, 1, 0});
        fake_remove(0);
        verbs_device_look(verbs_host(), &verbs_host()->devices[0]);
        for (int rank = 0; rank < 2 && known; rank++)
            set_card(&pair.peers[rank]);
        assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
        pair_connect(&pair);
        assert_int_equal(end_of(&pair.consumer)->nrails, 2 - known);
        move_slots(&pair, 100);
        pair_close(&pair);
    }
}

static void without_another_device_it_is_an_error(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    move_slots(&pair, 10);
    fake_remove(0);
    slots_publish(&pair.producer);
    expect_broken(&pair.producer, "device has failed or was removed", "mlx5_0");
    pair_close(&pair);
}

/* There is no other proof that nothing more is written. */
static void queue_pairs_that_cannot_be_destroyed_are_an_error(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 2, 1, 0});
    move_slots(&pair, 10);
    fake.destroy_errno = EBUSY;
    port_event(0, IBV_EVENT_PORT_ERR);
    expect_broken(&pair.consumer, "mlx5_0 does not destroy the queue pairs", "");
    expect_broken(&pair.producer, "mlx5_0 does not destroy the queue pairs", "");
    pair_close(&pair);
}

/* ------------------------------------------------------------------------------------------------------- nobody is in a call */

/* The consumer's rank computes, and nobody calls collet for it. */
static void a_rail_is_settled_while_its_rank_computes(void **state) {
    (void)state;
    static struct pair pair;
    struct call_lock lock = {0};
    pair_open(&pair, (struct shape){8, 4096, 2, 1, 0});
    move_slots(&pair, 50);
    pair.consumer.state = CONN_READY;
    pair.owners[1].first = &pair.consumer;
    static struct chan chan;
    chan = (struct chan){.owner = pair.owners[1]};
    assert_int_equal(verbs_attend_list(&chan, &lock), COLLET_SUCCESS);
    verbs_attend_start();
    strike(ACKS_LOST, 0);
    for (int k = 0; k < 4; k++)
        slots_publish(&pair.producer);
    const uint64_t deadline_ns = fair_now_ns() + 3 * LEVEL_SOON_NS;
    for (; !transport_verbs.idle(&pair.producer) && fair_now_ns() < deadline_ns; sched_yield()) {
        FAKE_LOCKED; /* fake_random() and be_patient() are this thread's alone */
        progress(&pair.producer);
    }
    assert_true(transport_verbs.idle(&pair.producer));
    assert_true(call_lock_acquire(&lock, 0));
    verbs_attend_unlist(&chan);
    assert_true(both_are(&pair, 0, VERBS_RAIL_DOWN));
    drain(&pair);
    pair_close(&pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_rail_that_recovers_carries_slots_again, forget),
        cmocka_unit_test_setup(rails_that_flap_lose_and_repeat_nothing, forget),
        cmocka_unit_test_setup(a_test_that_fails_changes_nothing_and_makes_the_next_one_wait_longer, forget),
        cmocka_unit_test_setup(what_is_only_tested_takes_over_if_it_can, forget),
        cmocka_unit_test_setup(a_rail_need_not_return, forget),
        cmocka_unit_test_setup(a_rail_that_was_down_from_the_beginning_joins, forget),
        cmocka_unit_test_setup(an_end_that_cannot_any_more_ends_the_test, forget),
        cmocka_unit_test_setup(a_device_that_has_failed_is_left_alone, forget),
        cmocka_unit_test_setup(new_connections_do_without_a_device_that_has_failed, forget),
        cmocka_unit_test_setup(without_another_device_it_is_an_error, forget),
        cmocka_unit_test_setup(queue_pairs_that_cannot_be_destroyed_are_an_error, forget),
        cmocka_unit_test_setup(a_rail_is_settled_while_its_rank_computes, forget),
    };
    fake_reset();
    slots_pattern.call_of = call_of;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
