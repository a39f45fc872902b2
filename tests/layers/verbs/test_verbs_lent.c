/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs: payloads that NICs read from memory of the program, and write into it (common/verbs_pair.h).
 */
#include "common/verbs_pair.h"
#include "layers/memory/loan.h"

#include "layers/memory/registration.h"
#include "transport/verbs/verbs_land.c"

/* ------------------------------------------------------------------------------------------------------------ the program's memory */

#define PLACES 64 /* more than there are slots: a place is filled anew when its step has been consumed */
#define PLACE_BYTES 9000u

static char program[PLACES * PLACE_BYTES];
static struct registration *registered;

static void register_all(void) {
    assert_int_equal(registration_make(program, sizeof program, &registered), COLLET_SUCCESS);
}

static void deregister_all(void) {
    registration_end(registered);
    registered = NULL;
}

/* At odd addresses too. */
static char *place_of(uint64_t step) { return program + step % PLACES * PLACE_BYTES + slots_mix(step) % 64; }

/* Once its call is over, the program does with its memory what it likes. */
static void scribble(void) { memset(program, (int)fake_random(), sizeof program); }

/* As slots_publish() of a Simple slot, but the payload stays in memory of the program. The slot has something else. */
static void publish_lent(struct conn *conn) {
    uint64_t step = conn->end.position;
    struct fifo_slot_header *header = fifo_header(&conn->end);
    char *place = place_of(step);
    *header = slots_header(conn, step);
    memset(fifo_slot_at(&conn->end, PROTOCOL_SIMPLE, step), 0x55, slots_bytes(conn, step));
    for (uint32_t i = 0; i < slots_bytes(conn, step); i++)
        place[i] = (char)(step * 7 + i);
    conn->end.loans.lending = (uintptr_t)place;
    header->word = fifo_word(PROTOCOL_DIRECT, slots_bytes(conn, step));
    direct_note(&conn->end.loans, &header->loan, step + 1);
    fifo_publish(&conn->end);
}

static void publish(struct conn *conn) {
    const uint64_t step = conn->end.position;
    if (slots_mix(step + 5) % 3 == 0 || fifo_word_protocol(slots_header(conn, step).word) != PROTOCOL_SIMPLE)
        slots_publish(conn);
    else
        publish_lent(conn);
}

/* As turn() and move_slots(), with payloads that are lent among others. */
static void turn_lent(struct pair *pair, uint64_t end) {
    if (fake_random() % 4 != 0 && pair->producer.end.position != end && fifo_has_credit(&pair->producer.end))
        publish(&pair->producer);
    turn(pair, pair->producer.end.position);
}

static void move_lent(struct pair *pair, uint64_t n) {
    uint64_t end = pair->producer.end.position + n;
    while (!is_over(pair, end))
        turn_lent(pair, end);
    scribble();
}

static char arrivals[PLACES * PLACE_BYTES]; /* of the consumer's program */

static int is_of_programs(uint64_t address, uint32_t bytes) {
    const uint64_t sent = (uintptr_t)program, received = (uintptr_t)arrivals;
    return (address >= sent && address + bytes <= sent + sizeof program) ||
           (address >= received && address + bytes <= received + sizeof arrivals);
}

/* As other ranks' waiting does, and the thread collet-attend. */
static void attend_both(struct pair *pair) {
    for (int k = 0; k < 1000; k++) {
        transport_verbs.attend(&pair->consumer);
        transport_verbs.attend(&pair->producer);
    }
}

static bool has_lent(const struct pair *pair) {
    for (int r = 0; r < end_of(&pair->producer)->nrails; r++)
        if (end_of(&pair->producer)->qps[r][0].lent != 0)
            return true;
    return false;
}

/* ------------------------------------------------------------------------------------------------------------------ sending */

/* Few slots and many, odd lengths, one port and two, counters that wrap around. */
static const struct shape shapes[] = {
    {8, 8900, 1, 1, 0},
    {8, 8900, 2, 2, 0},
    {2, 5001, 2, 1, 0},
    {16, 64, 2, 8, 0},
    {8, 4072, 2, 1, UINT64_MAX - 500},
    {1, 3000, 2, 2, 0},
    {8, 2000, 1, 2, 0x3ffffff - 300},
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static void payloads_of_all_sizes_are_sent_from_where_they_are(void **state) {
    (void)state;
    for (size_t k = 0; k < SHAPES; k++) {
        struct pair pair;
        register_all();
        pair_open(&pair, shapes[k]);
        for (int call = 0; call < 40; call++)
            move_lent(&pair, 1 + (uint64_t)call);
        assert_true(has_lent(&pair));
        deregister_all();
        pair_close(&pair);
    }
}

static void with_checksums_they_arrive_too(void **state) {
    setenv("COLLET_CHECKSUM", "1", 1);
    payloads_of_all_sizes_are_sent_from_where_they_are(state);
    unsetenv("COLLET_CHECKSUM");
}

static void a_nic_is_told_of_a_registration_once_and_forgets_it_with_the_registration(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 8900, 2, 1, 0});
    const uint64_t fifos = fake.nregistered;
    for (uint64_t times = 1; times <= 3; times++) {
        register_all();
        move_lent(&pair, 100);
        move_lent(&pair, 100);
        assert_int_equal(fake.nregistered - fifos, 2 * times); /* one per NIC */
        deregister_all();
    }
    pair_close(&pair); /* looks for registrations that are left */
}

static void what_is_not_registered_goes_through_slots(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 8900, 2, 1, 0});
    assert_false(direct_is_worth(&pair.producer.end.loans, (uintptr_t)program, PLACE_BYTES));
    move_lent(&pair, 200);
    assert_false(has_lent(&pair));
    register_all();
    const struct loan_end *loans = &pair.producer.end.loans;
    assert_true(direct_is_worth(loans, (uintptr_t)program, PLACE_BYTES));
    assert_false(direct_is_worth(loans, (uintptr_t)program, LOAN_WIRE_BYTES - 1));
    assert_true(direct_is_worth(loans, (uintptr_t)program + sizeof program - PLACE_BYTES, PLACE_BYTES));
    assert_false(direct_is_worth(loans, (uintptr_t)program + sizeof program - PLACE_BYTES + 1, PLACE_BYTES));
    assert_false(direct_is_worth(loans, (uintptr_t)program - 1, PLACE_BYTES));
    deregister_all();
    assert_false(direct_is_worth(loans, (uintptr_t)program, PLACE_BYTES));
    pair_close(&pair);
}

static void what_a_nic_does_not_register_goes_through_slots(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 8900, 2, 1, 0});
    register_all();
    fake.reg_mr_errno = ENOMEM;
    publish_lent(&pair.producer); /* by the one rail */
    settle(&pair);
    fake.reg_mr_errno = 0;
    slots_consume(&pair.consumer);
    const uint64_t registered = fake.nregistered;
    move_lent(&pair, 200); /* by the other one, its payloads are lent */
    assert_int_equal(fake.nregistered, registered + 1);
    assert_int_equal((end_of(&pair.producer)->qps[0][0].lent != 0) + (end_of(&pair.producer)->qps[1][0].lent != 0), 1);
    deregister_all();
    pair_close(&pair);
}

/* --------------------------------------------------------------------------------------------------------------- the end of a call */

static void a_call_is_not_over_before_its_memory_is_acknowledged(void **state) {
    (void)state;
    struct pair pair;
    register_all();
    pair_open(&pair, (struct shape){8, 8900, 1, 1, 0});
    for (int k = 0; k < 50; k++) {
        slots_publish(&pair.producer);
        progress(&pair.producer);
        assert_true(transport_verbs.idle(&pair.producer)); /* what is in slots, the NIC delivers */
        publish_lent(&pair.producer);
        progress(&pair.producer);
        const struct verbs_qp *qp = &end_of(&pair.producer)->qps[0][0];
        while (!transport_verbs.idle(&pair.producer)) {
            assert_int_not_equal(qp->completed, qp->lent);
            progress(&pair.producer);
        }
        assert_int_equal(qp->completed, qp->lent);
        scribble();
        move_lent(&pair, 0);
    }
    deregister_all();
    pair_close(&pair);
}

static void a_failed_call_sends_nothing_of_its_memory_any_more(void **state) {
    (void)state;
    struct pair pair;
    for (int lent = 0; lent < 2; lent++) {
        register_all();
        pair_open(&pair, (struct shape){8, 8900, 2, 1, 0});
        move_lent(&pair, 30);
        fake.devices[0].hanging = fake.devices[1].hanging = true;
        for (int k = 0; k < 4; k++)
            lent ? publish_lent(&pair.producer) : slots_publish(&pair.producer);
        progress(&pair.producer);
        transport_verbs.stop(&pair.producer);
        scribble();
        deregister_all();
        fake.devices[0].hanging = fake.devices[1].hanging = false;
        for (int k = 0; k < 1000; k++)
            transport_verbs.progress(&pair.consumer);
        assert_int_equal(fifo_has_data(&pair.consumer.end), !lent);
        if (lent)
            expect_broken(&pair.producer, "in the middle of memory of the program", "");
        pair_close(&pair);
    }
}

/* What went by it may be in the network yet, and would be sent once more. */
static void a_failed_call_sends_nothing_more_by_a_rail_that_is_lost(void **state) {
    (void)state;
    struct pair pair;
    register_all();
    pair_open(&pair, (struct shape){8, 8900, 2, 1, 0});
    fake.is_registered = is_of_programs;
    fake.devices[0].hanging = true;
    publish_lent(&pair.producer); /* by rail 0 */
    progress(&pair.producer);
    assert_true(end_of(&pair.producer)->qps[0][0].lent != 0);
    verbs_rail_lost(&pair.producer, 0, "is lost in a test");
    transport_verbs.stop(&pair.producer);
    scribble();
    fake.devices[0].hanging = false;
    attend_both(&pair);
    assert_int_equal(fake.nlent, 0);
    expect_broken(&pair.producer, "in the middle of memory of the program", "");
    deregister_all();
    pair_close(&pair);
}

/* ----------------------------------------------------------------------------------------------------------------- failover */

/* The memory stays as it is until the other rail has brought it. */
static void another_rail_sends_what_is_lent_once_more(void **state) {
    (void)state;
    for (int round = 0; round < 120; round++) {
        struct pair pair;
        struct fake_device *device = &fake.devices[round % 2];
        register_all();
        pair_open(&pair, (struct shape){round % 3 == 0 ? 2 : 8, 500, 2, 1 + round % 3, UINT64_MAX - 100});
        fake.chance += (uint64_t)round * 0x9e3779b97f4a7c15ull;
        move_lent(&pair, fake_random() % 200);
        uint64_t end = pair.producer.end.position + 30, when = fake_random() % 30;
        while (pair.producer.end.position != end - 30 + when)
            turn_lent(&pair, end);
        if (round % 4 < 2)
            device->dying = true;
        else
            device->lose_acks = true;
        move_lent(&pair, 30 - when);
        move_lent(&pair, 100);
        assert_int_equal(end_of(&pair.producer)->rails[round % 2].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&pair.producer)->rails[1 - round % 2].state, VERBS_RAIL_UP);
        deregister_all();
        pair_close(&pair);
    }
}

/* ------------------------------------------------------------------------------------------------------------------ landings */

static struct registration *offered;
static bool spreads; /* does the network route adaptively? */

static void offer_all(void) {
    assert_int_equal(registration_make(arrivals, sizeof arrivals, &offered), COLLET_SUCCESS);
}

static void offer_none(void) {
    registration_end(offered);
    offered = NULL;
}

static char *landing_place(uint64_t step) { return arrivals + step % PLACES * PLACE_BYTES + slots_mix(step + 8) % 64; }

/* As an executor would: of some slots ahead. Now and then of one less than there are. */
static void say_landings(struct conn *conn) {
    struct loan_end *loans = &conn->end.loans;
    uint64_t from = (int64_t)(loans->landings_end - conn->end.position) > 0 ? loans->landings_end : conn->end.position;
    uint64_t end = conn->end.position + conn->end.nslots - fake_random() % 2;
    for (uint64_t step = from; (int64_t)(end - step) > 0; step++) {
        bool lands = slots_mix(step + 11) % 4 != 0;
        loan_land(loans, (struct loan_landing){lands ? landing_place(step) : NULL, step, slots_bytes(conn, step)});
    }
}

/* As slots_consume(), where the payload may have landed. Its place is the program's again. */
static int consume_landed(struct conn *conn) {
    uint64_t step = conn->end.position;
    struct fifo_slot_header *header = fifo_header(&conn->end);
    const uint32_t bytes = slots_bytes(conn, step), word = slots_header(conn, step).word;
    char *slot = fifo_slot_at(&conn->end, fifo_word_protocol(word), step);
    bool landed = direct_is_lent(header);
    if (landed) {
        assert_int_equal(fifo_word_bytes(header->word), bytes);
        header->word = word;
        assert_ptr_equal((char *)(uintptr_t)header->loan.address, landing_place(step));
        memcpy(slot, landing_place(step), bytes);
        memset(landing_place(step), 0x77, bytes);
    }
    slots_consume(conn);
    return landed;
}

/* Moves steps; returns how many have landed. */
static int move_landing(struct pair *pair, uint64_t n, bool says) {
    uint64_t end = pair->producer.end.position + n;
    int landed = 0;
    while (!is_over(pair, end)) {
        if (says && fake_random() % 3 != 0)
            say_landings(&pair->consumer);
        if (fake_random() % 4 == 0 && pair->producer.end.position != end && fifo_has_credit(&pair->producer.end))
            publish(&pair->producer);
        progress(&pair->producer);
        if (fake_random() % 5 < 3)
            progress(&pair->consumer);
        if (fake_random() % 3 == 0 && fifo_has_data(&pair->consumer.end))
            landed += consume_landed(&pair->consumer);
    }
    return landed;
}

/* What was consumed is the program's again: nothing may be written there any more. */
static void expect_untouched(const struct pair *pair) {
    for (uint64_t k = 1; k <= pair->consumer.end.nslots; k++) {
        uint64_t step = pair->consumer.end.position - k;
        const char *place = landing_place(step);
        for (uint32_t i = 0; i < slots_bytes(&pair->consumer, step); i++)
            if (place[i] != 0x77)
                fail_msg("byte %u of step %llu was written later", i, (unsigned long long)step);
    }
}

static void payloads_land_in_memory_that_was_offered_in_time(void **state) {
    (void)state;
    for (size_t k = 0; k < SHAPES; k++) {
        struct pair pair;
        register_all();
        offer_all();
        pair_open(&pair, shapes[k]);
        fake.spreads = spreads;
        memset(arrivals, 0x77, sizeof arrivals);
        assert_true(move_landing(&pair, 1000, true) > 100);
        expect_untouched(&pair);
        move_landing(&pair, shapes[k].nslots, false); /* of some of these, something was said */
        assert_int_equal(move_landing(&pair, 100, false), 0);
        expect_untouched(&pair);
        deregister_all();
        offer_none();
        pair_close(&pair);
    }
}

static void with_checksums_they_land_too(void **state) {
    setenv("COLLET_CHECKSUM", "1", 1);
    payloads_land_in_memory_that_was_offered_in_time(state);
    unsetenv("COLLET_CHECKSUM");
}

static void with_adaptive_routing_they_land_too(void **state) {
    setenv("COLLET_IB_ADAPTIVE_ROUTING", "1", 1);
    setenv("COLLET_IB_AR_THRESHOLD", "64", 1);
    spreads = true;
    payloads_land_in_memory_that_was_offered_in_time(state);
    assert_true(fake.nspread > 0);
    spreads = false;
    unsetenv("COLLET_IB_AR_THRESHOLD");
    unsetenv("COLLET_IB_ADAPTIVE_ROUTING");
}

/* The NIC has written a part of the next landing for this slot already. */
static void a_landing_that_is_half_another_one_is_not_used(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    struct verbs_landing *landing = &end_of(&pair.producer)->landings[3];
    *landing = (struct verbs_landing){.step = 3, .address = 4096, .bytes = 100, .rails = 1, .keys = {7}};
    landing->check = verbs_landing_check(landing);
    verbs_take_landing(&pair.producer, 3);
    assert_non_null(verbs_landing_of(&pair.producer, 3, 100, 0));
    landing->keys[0] = 8;
    landing->step = 11;
    verbs_take_landing(&pair.producer, 11);
    assert_null(verbs_landing_of(&pair.producer, 11, 100, 0));
    pair_close(&pair);
}

static void nothing_lands_in_memory_that_is_not_registered_or_by_devices_with_short_queues(void **state) {
    (void)state;
    for (int narrow = 0; narrow < 2; narrow++) {
        struct pair pair;
        pair_init(&pair, (struct shape){8, 8900, 2, 1, 0});
        fake.max_qp_wr = narrow ? 18 : 1024;
        if (narrow)
            offer_all();
        assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
        pair_connect(&pair);
        assert_int_equal(move_landing(&pair, 500, true), 0);
        offer_none();
        pair_close(&pair);
    }
}

static void a_failed_call_receives_nothing_into_its_memory_any_more(void **state) {
    (void)state;
    struct pair pair;
    offer_all();
    pair_open(&pair, (struct shape){8, 8900, 2, 1, 0});
    move_landing(&pair, 100, true);
    say_landings(&pair.consumer);
    for (int k = 0; k < 200; k++)
        (void)((int)progress(&pair.consumer) | (int)progress(&pair.producer));
    fake.devices[0].hanging = fake.devices[1].hanging = true;
    for (int k = 0; k < 6; k++)
        slots_publish(&pair.producer);
    progress(&pair.producer); /* they are on their way */
    transport_verbs.stop(&pair.consumer);
    memset(arrivals, 0x77, sizeof arrivals);
    fake.devices[0].hanging = fake.devices[1].hanging = false;
    for (int k = 0; k < 1000; k++)
        transport_verbs.progress(&pair.producer);
    for (size_t k = 0; k < sizeof arrivals; k++)
        assert_int_equal(arrivals[k], 0x77);
    expect_broken(&pair.consumer, "in the middle of memory of the program", "");
    offer_none();
    pair_close(&pair);
}

/* It was published, or said, and nobody has made progress since. */
static void a_failed_call_begins_nothing_in_its_memory_any_more(void **state) {
    (void)state;
    for (int stopped = 0; stopped < 2; stopped++) {
        struct pair pair;
        register_all();
        offer_all();
        pair_open(&pair, (struct shape){8, 8900, 2, 1, 0});
        fake.is_registered = is_of_programs;
        stopped == 0 ? publish_lent(&pair.producer) : say_landings(&pair.consumer);
        transport_verbs.stop(stopped == 0 ? &pair.producer : &pair.consumer);
        attend_both(&pair);
        for (int k = 0; k < 4 && stopped == 1; k++)
            slots_publish(&pair.producer);
        attend_both(&pair);
        assert_int_equal(fake.nlent, 0);
        assert_int_equal(fake.nlandings, 0);
        deregister_all();
        offer_none();
        pair_close(&pair);
    }
}

static void a_payload_in_memory_that_was_not_offered_breaks_the_connection(void **state) {
    (void)state;
    struct pair pair;
    offer_all();
    pair_open(&pair, (struct shape){8, 8900, 1, 1, 0});
    const uint32_t bytes = slots_bytes(&pair.producer, 0);
    struct verbs_landing *forged = &end_of(&pair.producer)->known[0];
    *forged = (struct verbs_landing){.address = end_of(&pair.producer)->theirs.slots, .bytes = bytes, .rails = 1};
    forged->keys[0] = end_of(&pair.producer)->theirs.rails[0].slots_rkey;
    slots_publish(&pair.producer);
    for (int k = 0; k < 100; k++)
        progress(&pair.producer);
    expect_broken(&pair.consumer, "in memory that was not offered", "");
    offer_none();
    pair_close(&pair);
}

/* Late writes of a rail that died come to nothing, also those into the program's memory. */
static void another_rail_lands_what_has_not_come(void **state) {
    (void)state;
    int landed = 0;
    for (int round = 0; round < 120; round++) {
        struct pair pair;
        struct fake_device *device = &fake.devices[round % 2];
        register_all();
        offer_all();
        pair_open(&pair, (struct shape){round % 3 == 0 ? 2 : 8, 500, 2, 1 + round % 3, UINT64_MAX - 100});
        fake.chance += (uint64_t)round * 0x9e3779b97f4a7c15ull;
        memset(arrivals, 0x77, sizeof arrivals);
        move_landing(&pair, 40 + fake_random() % 100, true);
        if (round % 4 < 2)
            device->dying = true;
        else
            device->lose_acks = true;
        landed += move_landing(&pair, 200, true);
        settle(&pair);
        expect_untouched(&pair);
        assert_int_equal(end_of(&pair.producer)->rails[round % 2].state, VERBS_RAIL_DOWN);
        deregister_all();
        offer_none();
        pair_close(&pair);
    }
    assert_true(landed > 1000);
}

/* What a case that failed has left behind is not the next one's fault. */
static int forget_all(void **state) {
    deregister_all();
    offer_none();
    fake.is_registered = NULL;
    slots_pattern.simple = false;
    return forget(state);
}

/* For tests that lend the payload of the next slot, whichever that is. */
static int forget_all_but_simple(void **state) {
    const int failed = forget_all(state);
    slots_pattern.simple = true;
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(payloads_of_all_sizes_are_sent_from_where_they_are, forget_all),
        cmocka_unit_test_setup(with_checksums_they_arrive_too, forget_all),
        cmocka_unit_test_setup(a_nic_is_told_of_a_registration_once_and_forgets_it_with_the_registration, forget_all),
        cmocka_unit_test_setup(what_is_not_registered_goes_through_slots, forget_all),
        cmocka_unit_test_setup(what_a_nic_does_not_register_goes_through_slots, forget_all_but_simple),
        cmocka_unit_test_setup(a_call_is_not_over_before_its_memory_is_acknowledged, forget_all_but_simple),
        cmocka_unit_test_setup(a_failed_call_sends_nothing_of_its_memory_any_more, forget_all_but_simple),
        cmocka_unit_test_setup(a_failed_call_sends_nothing_more_by_a_rail_that_is_lost, forget_all_but_simple),
        cmocka_unit_test_setup(another_rail_sends_what_is_lent_once_more, forget_all),
        cmocka_unit_test_setup(payloads_land_in_memory_that_was_offered_in_time, forget_all),
        cmocka_unit_test_setup(with_checksums_they_land_too, forget_all),
        cmocka_unit_test_setup(with_adaptive_routing_they_land_too, forget_all),
        cmocka_unit_test_setup(a_landing_that_is_half_another_one_is_not_used, forget_all),
        cmocka_unit_test_setup(nothing_lands_in_memory_that_is_not_registered_or_by_devices_with_short_queues,
                               forget_all),
        cmocka_unit_test_setup(a_failed_call_receives_nothing_into_its_memory_any_more, forget_all),
        cmocka_unit_test_setup(a_failed_call_begins_nothing_in_its_memory_any_more, forget_all_but_simple),
        cmocka_unit_test_setup(a_payload_in_memory_that_was_not_offered_breaks_the_connection, forget_all),
        cmocka_unit_test_setup(another_rail_lands_what_has_not_come, forget_all),
    };
    fake_reset();
    slots_pattern.call_of = call_of;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
