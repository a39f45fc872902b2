/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs: slots that move, and how ends come to be (common/verbs_pair.h).
 */
#include "common/verbs_pair.h"

/* -------------------------------------------------------------------------------------------------------------- moving slots */

static void slots_of_all_sizes_and_protocols_arrive_in_order(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {8, 4096, 1, 1, 0},    {8, 4096, 1, 3, 0},
        {8, 4096, 2, 1, 0},    {8, 100000, 2, 2, 0},
        {2, 5000, 2, 2, 0},    {16, 64, 2, 8, 0},
        {2, 256, 2, 1, 0},     {8, 4072, 2, 1, UINT64_MAX - 500},
        {4, 1 << 20, 2, 1, 5}, {8, 2000, 1, 2, 0x3fffffff - 300},
        {1, 3000, 2, 2, 0},
    };
    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
        struct pair pair;
        pair_open(&pair, shapes[k]);
        move_slots(&pair, shapes[k].slot_bytes > 50000 ? 100 : 2000);
        pair_close(&pair);
    }
}

/* ---- COLLET_CHECKSUM ---- */

static void with_checksums_slots_of_all_sizes_arrive_too(void **state) {
    setenv("COLLET_CHECKSUM", "1", 1);
    slots_of_all_sizes_and_protocols_arrive_in_order(state);
    unsetenv("COLLET_CHECKSUM");
}

/* Payloads and frames; each of them is the newest when it changes, and its call's first or a later one. */
static void data_that_a_rail_changes_break_the_connection_and_name_the_rail(void **state) {
    (void)state;
    setenv("COLLET_CHECKSUM", "1", 1);
    for (uint32_t nth = 1; nth <= 60; nth++) {
        struct pair pair;
        slots_pattern.call_of = nth % 2 ? NULL : call_of;
        pair_open(&pair, (struct shape){8, 4096, 2, 2, 0});
        fake.flip_in = nth;
        fake.flip_byte = nth * nth;
        while (transport_verbs.progress(&pair.consumer) >= 0) {
            if (fifo_has_credit(&pair.producer.end))
                slots_publish(&pair.producer);
            progress(&pair.producer);
            if (fifo_has_data(&pair.consumer.end))
                slots_consume(&pair.consumer); /* what came before is right */
        }
        assert_non_null(strstr(err_last(),
                               "data changed on the way from rank 0 (host host0) to rank 1 (host host1), by verbs, "
                               "rail "));
        assert_non_null(strstr(err_last(), "its CRC32C differs"));
        assert_int_equal(fake.flip_in, 0);
        pair_close(&pair);
    }
    slots_pattern.call_of = NULL;
    unsetenv("COLLET_CHECKSUM");
}

/* ---- order ---- */

static void set_relaxed(bool relaxed) {
    for (int k = 0; k < FAKE_DEVICES; k++)
        verbs_host()->devices[k].relaxed = relaxed;
}

/* What a NIC says by completions may be in memory in any order before. */
static void data_may_come_to_memory_in_any_order(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) { /* as wished; not wished; refused by the device */
        struct pair pair;
        set_relaxed(kind != 1);
        pair_init(&pair, (struct shape){8, 4096, 2, 2, 0});
        fake.refuses_relaxed = kind == 2;
        assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
        pair_connect(&pair);
        move_slots(&pair, 1000);
        assert_int_equal(fake.nrelaxed > 0, kind == 0);
        pair_close(&pair);
    }
    set_relaxed(true);
}

static void set_adaptive(const char *on, const char *threshold) {
    setenv("COLLET_IB_ADAPTIVE_ROUTING", on, 1);
    setenv("COLLET_IB_AR_THRESHOLD", threshold, 1);
}

static void unset_adaptive(void) {
    unsetenv("COLLET_IB_ADAPTIVE_ROUTING");
    unsetenv("COLLET_IB_AR_THRESHOLD");
}

/* The network puts plain writes in any order, and only immediates hold them together. */
static void plain_writes_may_come_in_any_order_between_immediates(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {8, 4096, 1, 1, 0}, {8, 4096, 2, 2, 0}, {2, 5000, 2, 1, UINT64_MAX - 500},
        {1, 3000, 1, 1, 0}, {16, 900, 2, 8, 0},
    };
    for (size_t k = 0; k < 2 * sizeof(shapes) / sizeof(shapes[0]); k++) {
        struct pair pair;
        set_adaptive("1", k % 3 == 0 ? "0" : "100");
        if (k % 2)
            setenv("COLLET_CHECKSUM", "1", 1);
        pair_open(&pair, shapes[k / 2]);
        fake.spreads = true;
        move_slots(&pair, 2000);
        assert_true(fake.nspread > 500);
        assert_int_equal(end_of(&pair.producer)->spread_bytes, k % 3 == 0 ? 0 : 100);
        pair_close(&pair);
        unsetenv("COLLET_CHECKSUM");
    }
    unset_adaptive();
}

static void with_adaptive_routing_no_long_payload_has_an_immediate(void **state) {
    (void)state;
    for (int on = 0; on < 2; on++) {
        struct pair pair;
        set_adaptive(on ? "1" : "0", "8192");
        pair_open(&pair, (struct shape){8, 100000, 2, 2, 0});
        move_slots(&pair, 100);
        assert_int_equal(fake.nheavy > 0, !on);
        pair_close(&pair);
    }
    unset_adaptive();
}

/* A network that treated payloads of immediates like plain writes, too. Without the mode that shows; with it there are none. */
static void data_that_an_immediate_brings_along_are_not_relied_on_with_adaptive_routing(void **state) {
    (void)state;
    setenv("COLLET_CHECKSUM", "1", 1);
    for (int on = 0; on < 2; on++) {
        struct pair pair;
        set_adaptive(on ? "1" : "0", "40");
        pair_open(&pair, (struct shape){8, 4096, 1, 2, 0});
        fake.spreads = fake.spreads_all = true;
        if (on)
            move_slots(&pair, 1000);
        while (!on && transport_verbs.progress(&pair.consumer) >= 0) {
            if (fifo_has_credit(&pair.producer.end))
                slots_publish(&pair.producer);
            progress(&pair.producer);
            if (fifo_has_data(&pair.consumer.end)) /* what is intact by chance */
                slots_consume(&pair.consumer);
        }
        assert_true(on || strstr(err_last(), "data changed on the way") != NULL);
        pair_close(&pair);
    }
    unset_adaptive();
    unsetenv("COLLET_CHECKSUM");
}

static void a_full_fifo_waits_until_half_of_it_is_consumed(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 2, 0});
    while (fifo_has_credit(&pair.producer.end))
        slots_publish(&pair.producer);
    assert_int_equal(pair.producer.end.position, 8);
    settle(&pair);
    for (int k = 0; k < 3; k++)
        slots_consume(&pair.consumer);
    settle(&pair);
    assert_true(transport_verbs.idle(&pair.consumer));
    assert_false(fifo_has_credit(&pair.producer.end));
    slots_consume(&pair.consumer);
    assert_false(transport_verbs.idle(&pair.consumer)); /* a credit is due */
    settle(&pair);
    for (int k = 0; k < 4; k++) {
        assert_true(fifo_has_credit(&pair.producer.end));
        slots_publish(&pair.producer);
    }
    assert_false(fifo_has_credit(&pair.producer.end));
    move_slots(&pair, 0);
    pair_close(&pair);
}

static void a_slot_is_one_write_and_a_list_of_them_one_doorbell(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    settle(&pair);
    uint64_t nwrites = fake.nwrites, nposts = fake.nposts, nsignalled = fake.nsignalled, ninline = fake.ninline;
    uint32_t small = 0;
    for (int k = 0; k < 8; k++) {
        small += slots_bytes(&pair.producer, pair.producer.end.position) + sizeof(struct verbs_frame) <= 192;
        slots_publish(&pair.producer);
    }
    progress(&pair.producer);
    assert_int_equal(fake.nwrites - nwrites, 8);
    assert_int_equal(fake.nposts - nposts, 1);
    assert_in_range(fake.nsignalled - nsignalled, 1, 2);
    assert_int_equal(fake.ninline - ninline, small);
    assert_in_range(small, 1, 7);
    move_slots(&pair, 0);
    pair_close(&pair);
}

static void the_steps_go_through_all_queue_pairs_of_all_rails(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 2, 2, 0});
    uint32_t before[2][2];
    for (int k = 0; k < 4; k++)
        before[k / 2][k % 2] = end_of(&pair.producer)->qps[k / 2][k % 2].posted;
    move_slots(&pair, 400);
    for (int k = 0; k < 4; k++)
        assert_int_equal(end_of(&pair.producer)->qps[k / 2][k % 2].posted - before[k / 2][k % 2], 100);
    pair_close(&pair);
}

static void what_a_producer_sent_before_it_left_arrives(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct pair pair;
        pair_open(&pair, (struct shape){8, 30000, 1, 2, 0});
        move_slots(&pair, 20);
        while (fifo_has_credit(&pair.producer.end))
            slots_publish(&pair.producer);
        uint64_t sent = pair.producer.end.position;
        while (!transport_verbs.idle(&pair.producer))
            progress(&pair.producer);
        conn_close(&pair.producer);
        boot_destroy(pair.boots[0]);
        pair.boots[0] = NULL;
        while (pair.consumer.end.position != sent) {
            progress(&pair.consumer);
            if (fifo_has_data(&pair.consumer.end))
                slots_consume(&pair.consumer);
        }
        for (int k = 0; k < 3000; k++) /* its credits come to nothing, and that is no failure */
            progress(&pair.consumer);
        assert_true(transport_verbs.idle(&pair.consumer));
        pair_close(&pair);
    }
}

/* ------------------------------------------------------------------------------------------------------- registration */

static void each_end_registers_its_memory_once_a_rail(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 2, 2, 0});
    assert_int_equal(fake.nregistered, 4);
    move_slots(&pair, 2000);
    assert_int_equal(fake.nregistered, 4);
    pair_close(&pair);
}

/* --------------------------------------------------------------------------------------------------- narrow devices */

static void queues_are_cut_to_what_the_device_has(void **state) {
    (void)state;
    struct pair pair;
    for (int narrow = 0; narrow < 3; narrow++) {
        pair_init(&pair, (struct shape){8, 4096, 2, 2, 0});
        fake.max_qp_wr = narrow == 0 ? 18 : 1024;
        fake.max_cqe = narrow == 1 ? 42 : 4096;
        fake.max_inline = narrow == 2 ? 0 : 60;
        assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
        pair_connect(&pair);
        move_slots(&pair, 1000);
        pair_close(&pair);
    }
}

static void expect_refusal(struct pair *pair, enum collet_result code, const char *what, const char *remedy) {
    assert_int_equal(transport_verbs.offer(&pair->consumer, &pair->blob), code);
    if (strstr(err_last(), what) == NULL || strstr(err_last(), remedy) == NULL)
        fail_msg("the error does not say '%s' and '%s': %s", what, remedy, err_last());
    pair_close(pair);
}

static void what_a_device_refuses_is_an_error_with_its_cause(void **state) {
    (void)state;
    static const struct shape shape = {8, 4096, 1, 8, 0};
    struct pair pair;
    pair_init(&pair, shape);
    fake.max_cqe = 8 * 20;
    expect_refusal(&pair, COLLET_ERR_UNSUPPORTED, "mlx5_0 has queues of", "COLLET_IB_QPS_PER_CONNECTION");
    pair_init(&pair, shape);
    fake.max_qp_wr = 10;
    expect_refusal(&pair, COLLET_ERR_UNSUPPORTED, "queues of 10", "COLLET_IB_HCA");
    pair_init(&pair, shape);
    fake.reg_mr_errno = EINVAL;
    expect_refusal(&pair, COLLET_ERR_SYSTEM, "mlx5_0 cannot register", "Invalid argument");
    pair_init(&pair, shape);
    fake.create_cq_errno = ENOSPC;
    expect_refusal(&pair, COLLET_ERR_SYSTEM, "completion queue", "No space left");
    pair_init(&pair, shape);
    fake.modify_errno = EPERM;
    fake.modify_fails_to = IBV_QPS_INIT;
    expect_refusal(&pair, COLLET_ERR_SYSTEM, "mlx5_0 port 1", "Operation not permitted");
}

static void queue_pairs_that_do_not_connect_are_an_error_with_both_addresses(void **state) {
    (void)state;
    static const enum ibv_qp_state steps[] = {IBV_QPS_RTR, IBV_QPS_RTS};
    for (size_t k = 0; k < 2; k++) {
        struct pair pair;
        pair_init(&pair, (struct shape){8, 4096, 1, 1, 0});
        assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
        fake.modify_errno = ETIMEDOUT;
        fake.modify_fails_to = steps[k];
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
        assert_non_null(strstr(end_of(&pair.producer)->lost, "mlx5_0 port 1 does not connect to 10.0.0.2"));
        assert_non_null(strstr(end_of(&pair.producer)->lost, "GID 3"));
        assert_non_null(strstr(end_of(&pair.producer)->lost, "timed out"));
        expect_unreachable(&pair, "carries anything");
        pair_close(&pair);
    }
}

static void an_offer_that_makes_no_sense_is_refused(void **state) {
    (void)state;
    struct pair pair;
    pair_init(&pair, (struct shape){8, 4096, 1, 1, 0});
    assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
    pair.blob.bytes--;
    assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_ERR_INTERNAL);
    pair.blob.bytes++;
    struct verbs_hello *hello = (struct verbs_hello *)(void *)pair.blob.data;
    hello->nrails = 99;
    assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_ERR_INTERNAL);
    hello->nrails = 1;
    for (int mtu = 0; mtu < 256; mtu += 85) { /* 85, 170, 255: of no device, and none is 0 */
        hello->rails[0].mtu = (uint8_t)mtu;
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_ERR_INTERNAL);
    }
    assert_int_equal(transport_verbs.ready(&pair.consumer), COLLET_IN_PROGRESS);
    pair_close(&pair);
}

static void the_mtu_of_a_path_is_the_smaller_one(void **state) {
    (void)state;
    struct pair pair;
    struct verbs_port *port = &verbs_host()->ports[0];
    pair_init(&pair, (struct shape){8, 4096, 1, 1, 0});
    port->mtu = IBV_MTU_1024;
    assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
    port->mtu = IBV_MTU_4096;
    assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
    const struct fake_qp *qp = (const struct fake_qp *)(const void *)end_of(&pair.producer)->qps[0][0].qp;
    assert_int_equal(qp->path_mtu, IBV_MTU_1024);
    assert_true(qp->global); /* RoCE is always addressed by GID */
    pair_close(&pair);
}

/* Whether a PCI function is behind a device, its folder in sysfs says: that of the imitation has none. */
static void cards_try_longer_than_software(void **state) {
    (void)state;
    static const struct {
        bool software;
        int64_t timeout, retries;
        int expected_timeout, expected_retries;
    } cases[] = {{true, 0, -1, 17, 6}, {false, 0, -1, 20, 7}, {true, 14, 0, 14, 0}, {false, 14, 0, 14, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct pair pair;
        struct verbs_device *device = &verbs_host()->devices[0];
        pair_init(&pair, (struct shape){8, 4096, 1, 1, 0});
        assert_true(device->software);
        device->software = cases[k].software;
        pair.configs[0].ib_timeout = cases[k].timeout;
        pair.configs[0].ib_retry_cnt = cases[k].retries;
        assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
        const struct fake_qp *qp = (const struct fake_qp *)(const void *)end_of(&pair.producer)->qps[0][0].qp;
        assert_int_equal(qp->timeout, cases[k].expected_timeout);
        assert_int_equal(qp->retry_cnt, cases[k].expected_retries);
        device->software = true;
        pair_close(&pair);
    }
}

static void a_lid_is_enough_within_an_infiniband_subnet(void **state) {
    (void)state;
    struct pair pair;
    struct verbs_host *host = verbs_host();
    for (int same_subnet = 0; same_subnet < 2; same_subnet++) {
        pair_init(&pair, (struct shape){8, 4096, 1, 1, 0});
        struct verbs_port saved = host->ports[0];
        host->ports[0].kinds = 1u << VERBS_INFINIBAND;
        host->ports[0].infiniband = true;
        host->kinds = 1u << VERBS_INFINIBAND;
        set_card(&pair.peers[0]);
        set_card(&pair.peers[1]);
        host->ports[0].gid_index[VERBS_INFINIBAND] = 0;
        host->ports[0].lid = 7;
        assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
        if (!same_subnet)
            ((struct verbs_hello *)(void *)pair.blob.data)->rails[0].gid.raw[0] ^= 1;
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
        assert_int_equal(((const struct fake_qp *)(const void *)end_of(&pair.producer)->qps[0][0].qp)->global,
                         !same_subnet);
        assert_int_equal(end_of(&pair.producer)->spread_bytes, 8192); /* InfiniBand's switches may route adaptively */
        host->ports[0] = saved;
        pair_close(&pair);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(slots_of_all_sizes_and_protocols_arrive_in_order, forget),
        cmocka_unit_test_setup(with_checksums_slots_of_all_sizes_arrive_too, forget),
        cmocka_unit_test_setup(data_that_a_rail_changes_break_the_connection_and_name_the_rail, forget),
        cmocka_unit_test_setup(data_may_come_to_memory_in_any_order, forget),
        cmocka_unit_test_setup(plain_writes_may_come_in_any_order_between_immediates, forget),
        cmocka_unit_test_setup(with_adaptive_routing_no_long_payload_has_an_immediate, forget),
        cmocka_unit_test_setup(data_that_an_immediate_brings_along_are_not_relied_on_with_adaptive_routing, forget),
        cmocka_unit_test_setup(a_full_fifo_waits_until_half_of_it_is_consumed, forget),
        cmocka_unit_test_setup(a_slot_is_one_write_and_a_list_of_them_one_doorbell, forget),
        cmocka_unit_test_setup(the_steps_go_through_all_queue_pairs_of_all_rails, forget),
        cmocka_unit_test_setup(what_a_producer_sent_before_it_left_arrives, forget),
        cmocka_unit_test_setup(each_end_registers_its_memory_once_a_rail, forget),
        cmocka_unit_test_setup(queues_are_cut_to_what_the_device_has, forget),
        cmocka_unit_test_setup(what_a_device_refuses_is_an_error_with_its_cause, forget),
        cmocka_unit_test_setup(queue_pairs_that_do_not_connect_are_an_error_with_both_addresses, forget),
        cmocka_unit_test_setup(an_offer_that_makes_no_sense_is_refused, forget),
        cmocka_unit_test_setup(the_mtu_of_a_path_is_the_smaller_one, forget),
        cmocka_unit_test_setup(cards_try_longer_than_software, forget),
        cmocka_unit_test_setup(a_lid_is_enough_within_an_infiniband_subnet, forget),
    };
    fake_reset();
    slots_pattern.call_of = call_of;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
