/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs: failures of one rail, and rails that take over from one that died (common/verbs_pair.h).
 */
#include "common/verbs_pair.h"

#include "exec/exec.h"

/* ------------------------------------------------------------------------------------------------------------- one rail */

static void a_peer_that_does_not_answer_is_named_with_everything_that_helps(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    move_slots(&pair, 10);
    fake.devices[0].dying = true;
    slots_publish(&pair.producer);
    expect_broken(&pair.producer, "peer 10.0.0.2 is unreachable or loses packets (retry count exceeded)",
                  "GID 3 on mlx5_0 port 1, rank 1");
    assert_non_null(strstr(err_last(), "queue pair "));
    pair_close(&pair);
}

static void slots_that_came_before_a_failure_stay_consumable(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    for (int k = 0; k < 4; k++)
        slots_publish(&pair.producer);
    settle(&pair);
    verbs_host()->devices[0].removed = 1;
    while (end_of(&pair.consumer)->broken[0] == '\0') {
        be_patient();
        assert_true(transport_verbs.progress(&pair.consumer) >= 0);
    }
    for (int k = 0; k < 4; k++) {
        assert_true(transport_verbs.progress(&pair.consumer) >= 0);
        slots_consume(&pair.consumer);
    }
    expect_broken(&pair.consumer, "device has failed or was removed", "mlx5_0");
    pair_close(&pair);
}

static void other_failures_are_told_apart(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    ((struct fake_qp *)(void *)end_of(&pair.consumer)->qps[0][0].qp)->nreceives = 0;
    slots_publish(&pair.producer);
    expect_broken(&pair.producer, "no receive posted (RNR", "mlx5_0");
    pair_close(&pair);

    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    struct verbs_address *theirs = &end_of(&pair.producer)->theirs.rails[0];
    theirs->rkey = theirs->slots_rkey ^= 77;
    slots_publish(&pair.producer);
    expect_broken(&pair.producer, "remote access error", "mlx5_0");
    expect_broken(&pair.consumer, "queue pair went into error", "local access violation");
    pair_close(&pair);

    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    while (slots_bytes(&pair.producer, pair.producer.end.position) < 1000) { /* inline data need no registration */
        slots_publish(&pair.producer);
        settle(&pair);
        slots_consume(&pair.consumer);
    }
    for (int k = 0; k < FAKE_MRS; k++)
        fake.mrs[k].used &= &fake.mrs[k].mr != end_of(&pair.producer)->rails[0].mr;
    slots_publish(&pair.producer);
    expect_broken(&pair.producer, "memory is not registered", "mlx5_0");
    pair_close(&pair);
}

static void a_port_that_goes_down_for_a_while_is_no_failure_where_there_is_one(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    move_slots(&pair, 10);
    fake.devices[0].hanging = true; /* the NIC goes on trying */
    fake_event(0, (struct ibv_async_event){.element.port_num = 1, .event_type = IBV_EVENT_PORT_ERR});
    slots_publish(&pair.producer);
    for (int k = 0; k < 5000; k++)
        progress(&pair.producer);
    assert_int_equal(verbs_host()->ports[0].down, 1);
    fake_event(0, (struct ibv_async_event){.element.port_num = 1, .event_type = IBV_EVENT_PORT_ACTIVE});
    fake.devices[0].hanging = false;
    move_slots(&pair, 2000);
    for (int k = 0; k < 5000; k++)
        progress(&pair.producer);
    assert_int_equal(verbs_host()->ports[0].down, 0);
    pair_close(&pair);
}

static void tell_of_failed_queue(const struct conn *conn, int rail) {
    fake_event(rail,
               (struct ibv_async_event){.element.cq = end_of(conn)->rails[rail].cq, .event_type = IBV_EVENT_CQ_ERR});
}

static void a_completion_queue_that_fails_is_named(void **state) {
    (void)state;
    for (int side = 0; side < 2; side++) {
        struct pair pair;
        struct conn *conn = side == 0 ? &pair.producer : &pair.consumer;
        pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
        move_slots(&pair, 10);
        tell_of_failed_queue(conn, 0);
        expect_broken(conn, "the completion queue has failed", "mlx5_0");
        pair_close(&pair);
    }
}

/* A device may take some of a list, as many as it has room for. */
static void receives_that_were_refused_are_not_counted(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    struct verbs_qp *qp = &end_of(&pair.consumer)->qps[0][0];
    struct fake_qp *real = (struct fake_qp *)(void *)qp->qp;
    for (uint32_t taken = 0; taken < qp->depths.receives; taken++) {
        qp->receives = 0;
        real->nreceives = 0;
        fake.refuse_in = taken + 1;
        assert_false(verbs_qp_post_receives(qp, verbs_receive_id(0)));
        assert_int_equal(qp->receives, taken);
        assert_int_equal(real->nreceives, taken);
        assert_true(verbs_qp_post_receives(qp, verbs_receive_id(0)));
        assert_int_equal(real->nreceives, qp->depths.receives);
    }
    move_slots(&pair, 100);
    fake.refuse_in = 2;
    while (end_of(&pair.consumer)->broken[0] == '\0') {
        be_patient();
        transport_verbs.progress(&pair.producer);
        transport_verbs.progress(&pair.consumer);
        if (fifo_has_credit(&pair.producer.end) && end_of(&pair.producer)->broken[0] == '\0')
            slots_publish(&pair.producer);
        if (fifo_has_data(&pair.consumer.end))
            slots_consume(&pair.consumer);
    }
    while (fifo_has_data(&pair.consumer.end))
        slots_consume(&pair.consumer);
    expect_broken(&pair.consumer, "the device takes no receives", "mlx5_0");
    pair_close(&pair);
}

static void counters_that_cannot_be_break_the_connection(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    assert_true(verbs_post_counter(&pair.consumer, 0, 1)); /* a credit, and nothing was sent */
    expect_broken(&pair.producer, "credits for slots that were not sent", "");
    pair_close(&pair);

    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    assert_true(verbs_post_counter(&pair.producer, 0, 0)); /* a slot without a frame */
    expect_broken(&pair.consumer, "which call its first slot is of", "");
    pair_close(&pair);

    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    end_of(&pair.producer)->sent = pair.producer.end.position = 9; /* step 9, when 0 … 7 are due */
    *pair.producer.end.tail = 9;
    slots_publish(&pair.producer);
    while (end_of(&pair.consumer)->broken[0] == '\0') {
        be_patient();
        transport_verbs.progress(&pair.producer);
        transport_verbs.progress(&pair.consumer);
    }
    expect_broken(&pair.consumer, "a step that was not due", "");
    pair_close(&pair);
}

/* ------------------------------------------------------------------------------------------------------------- failover */

enum disaster { DYING, ACKS_LOST, PORT_DOWN, REMOVED };

static void strike(enum disaster disaster, int device) {
    struct fake_device *d = &fake.devices[device];
    switch (disaster) {
    case DYING: d->dying = true; break;
    case ACKS_LOST: d->lose_acks = true; break;
    case PORT_DOWN:
        d->hanging = true;
        fake_event(device, (struct ibv_async_event){.element.port_num = 1, .event_type = IBV_EVENT_PORT_ERR});
        break;
    case REMOVED: fake_remove(device); break;
    }
}

static void another_rail_takes_over_and_every_slot_comes_once(void **state) {
    (void)state;
    uint64_t ghosts = 0, executed = 0;
    for (int round = 0; round < 200; round++) {
        struct pair pair;
        int device = round % 2;
        pair_open(&pair, (struct shape){round % 3 == 0 ? 2 : 8, 400, 2, 1 + round % 3, UINT64_MAX - 100});
        fake.chance += (uint64_t)round * 0x9e3779b97f4a7c15ull;
        uint64_t end = pair.producer.end.position + 400, when = 20 + fake_random() % 300;
        while (pair.producer.end.position != end - 400 + when)
            turn(&pair, end);
        strike((enum disaster)(round / 2 % 4), device);
        move_slots(&pair, 400 - when);
        assert_int_equal(end_of(&pair.producer)->rails[device].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&pair.consumer)->rails[device].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&pair.producer)->rails[1 - device].state, VERBS_RAIL_UP);
        ghosts += fake.nghosts;
        executed += fake.nexecuted;
        pair_close(&pair);
    }
    assert_true(executed > 0);
    print_message("late writes that found their queue pair still open: %llu\n", (unsigned long long)ghosts);
}

static void another_rail_takes_over_from_one_without_queues(void **state) {
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct pair pair;
        const bool refuses = round % 2, producer = round / 2 % 2;
        pair_open(&pair, (struct shape){8, 400, 2, 1 + round % 3, 0});
        fake.chance += (uint64_t)round * 0x9e3779b97f4a7c15ull;
        move_slots(&pair, 50);
        if (refuses) {
            fake.refuse_in = 1 + (uint32_t)round;
        } else {
            fake.devices[0].hanging = true; /* nothing more is reported */
            tell_of_failed_queue(producer ? &pair.producer : &pair.consumer, 0);
        }
        move_slots(&pair, 400);
        const int lost = end_of(&pair.producer)->rails[0].state == VERBS_RAIL_UP;
        assert_true(refuses || lost == 0);
        assert_int_equal(end_of(&pair.producer)->rails[lost].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&pair.consumer)->rails[lost].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&pair.producer)->rails[1 - lost].state, VERBS_RAIL_UP);
        pair_close(&pair);
    }
}

/* Everything that the producer sent has come and is consumed, but the acknowledgements were lost: the consumer's rank is in
 * its next call, on other connections, and the producer's call cannot end before the rail is settled. */
struct stranded {
    struct pair pair;
    struct exec_program sending;
    struct conn *conns[1];
    int first_worker[1];
    struct interp_op ops[1];
    struct exec_call call;
    struct chan chans[2];
};

static void strand(struct stranded *s) {
    struct pair *pair = &s->pair;
    pair_open(pair, (struct shape){8, 4096, 2, 1, 0});
    move_slots(pair, 50);
    while (*pair->consumer.end.head + 1 - end_of(&pair->consumer)->credit >= 4)
        move_slots(pair, 2);
    strike(ACKS_LOST, 0);
    slots_publish(&pair->producer); /* an even step: by rail 0, and no credit will be due for it */
    while (pair->consumer.end.position != pair->producer.end.position) {
        end_of(&pair->producer)->turns = 1; /* it sends, and looks at nothing */
        if (end_of(&pair->producer)->sent != pair->producer.end.position)
            progress(&pair->producer);
        progress(&pair->consumer);
        if (fifo_has_data(&pair->consumer.end))
            slots_consume(&pair->consumer);
    }
    for (int rank = 0; rank < 2; rank++) {
        struct conn *conn = rank == 0 ? &pair->producer : &pair->consumer;
        conn->state = CONN_READY;
        pair->owners[rank].first = conn;
        s->chans[rank] = (struct chan){.owner = pair->owners[rank], .timeout_ms = 60000, .name = ""};
    }
    s->conns[0] = &pair->producer;
    s->sending = (struct exec_program){.conns = s->conns,
                                       .nconns = 1,
                                       .nready = 1,
                                       .nremote = 1,
                                       .visits = exec_visits_of(true, false),
                                       .first_worker = s->first_worker,
                                       .ops = s->ops};
    s->call =
        (struct exec_call){.program = &s->sending, .chan = &s->chans[0], .state = EXEC_CONNECTING, .waits_for = -1};
}

/* One rank drives the call that cannot end, as src/api/engine.c does; the other one only attends. busy: they are never idle. */
static void drive_to_the_end(struct stranded *s, bool busy) {
    struct waiter waiter = {.spin = 100};
    uint64_t now_ns = 0;
    for (bool moved = false; exec_call_try(&s->call, &moved) != COLLET_SUCCESS;)
        if (wait_pause(&waiter)) {
            now_ns += busy ? 1000000 : 0;
            for (int rank = 0; rank < 2; rank++)
                chan_attend(&s->chans[rank], busy ? 0 : wait_idle_ns(&waiter), now_ns);
        }
}

/* While its rank is in no call at all: test_verbs_return.c. */
static void a_rail_is_settled_by_a_rank_that_is_in_another_call(void **state) {
    (void)state;
    static struct stranded s;
    for (int busy = 0; busy < 2; busy++) {
        memset(&s, 0, sizeof(s));
        strand(&s);
        assert_false(transport_verbs.idle(&s.pair.producer));
        assert_true(transport_verbs.idle(&s.pair.consumer));
        drive_to_the_end(&s, busy);
        assert_int_equal(end_of(&s.pair.producer)->rails[0].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&s.pair.consumer)->rails[0].state, VERBS_RAIL_DOWN);
        move_slots(&s.pair, 50);
        pair_close(&s.pair);
    }
}

static void a_call_that_only_waits_for_a_connection_to_be_idle_names_its_rank(void **state) {
    (void)state;
    static struct stranded s;
    memset(&s, 0, sizeof(s));
    strand(&s);
    s.call.state = EXEC_RUNNING;
    assert_int_equal(exec_look(&s.call, 1), COLLET_SUCCESS);
    assert_int_equal(exec_look(&s.call, 1 + 59ull * 1000000000), COLLET_SUCCESS);
    assert_int_equal(exec_look(&s.call, 1 + 61ull * 1000000000), COLLET_ERR_TIMEOUT);
    assert_non_null(strstr(err_last(), "waiting for rank 1"));
    fake_repair();
    move_slots(&s.pair, 50);
    pair_close(&s.pair);
}

static void when_the_last_rail_dies_too_it_is_an_error(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 2, 1, 0});
    move_slots(&pair, 50);
    strike(DYING, 0);
    move_slots(&pair, 50);
    strike(DYING, 1);
    slots_publish(&pair.producer);
    expect_broken(&pair.producer, "unreachable", "mlx5_1");
    pair_close(&pair);
}

static void without_failover_a_dead_rail_is_an_error(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 2, 1, 0});
    pair.configs[0].net_failover = pair.configs[1].net_failover = 0;
    move_slots(&pair, 50);
    strike(DYING, 0);
    slots_publish(&pair.producer);
    slots_publish(&pair.producer);
    expect_broken(&pair.producer, "unreachable", "mlx5_0");
    pair_close(&pair);
}

static void a_rail_that_is_down_from_the_beginning_is_left_out(void **state) {
    (void)state;
    struct pair pair;
    pair_init(&pair, (struct shape){8, 4096, 2, 2, 0});
    verbs_host()->ports[0].down = 1;
    fake.devices[0].hanging = true;
    assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
    assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
    pair_connect(&pair);
    move_slots(&pair, 500);
    pair_close(&pair);

    pair_init(&pair, (struct shape){8, 4096, 1, 2, 0});
    verbs_host()->ports[0].down = 1;
    assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
    assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
    expect_unreachable(&pair, "all are down");
    pair_close(&pair);
}

/* Its link is up, and leads nowhere. */
static void a_rail_that_carries_no_greeting_is_left_out(void **state) {
    (void)state;
    for (int k = 0; k < 2 * 2 * 20; k++) {
        struct pair pair;
        const int device = k % 2;
        pair_init(&pair, (struct shape){8, 4096, 2, 1 + k / 2 % 2, 0});
        strike(k % 3 == 0 ? ACKS_LOST : DYING, device);
        assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
        pair_connect(&pair);
        move_slots(&pair, 200);
        settle(&pair);
        assert_int_equal(end_of(&pair.producer)->rails[device].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&pair.consumer)->rails[device].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&pair.producer)->rails[1 - device].state, VERBS_RAIL_UP);
        pair_close(&pair);
    }
}

/* As where the other port has no address any more: one end cannot even connect its queue pair. */
static void a_rail_that_one_end_cannot_connect_is_left_out(void **state) {
    (void)state;
    for (int k = 0; k < 2 * 2; k++) {
        struct pair pair;
        uint64_t counters[2][CONN_COUNTERS] = {{0}};
        pair_init(&pair, (struct shape){8, 4096, 2, 2, 0});
        pair.owners[0].counters = counters[0];
        pair.owners[1].counters = counters[1];
        fake.modify_fails_on = &fake.devices[k % 2].context;
        fake.modify_fails_to = IBV_QPS_RTR;
        assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
        fake.modify_errno = k / 2 == 0 ? ETIMEDOUT : 0;
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
        fake.modify_errno = k / 2 == 1 ? ETIMEDOUT : 0;
        pair_connect(&pair);
        move_slots(&pair, 200);
        settle(&pair);
        assert_int_equal(end_of(&pair.producer)->rails[k % 2].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&pair.consumer)->rails[k % 2].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&pair.producer)->rails[k % 2].doublings, 1);
        assert_int_equal(end_of(&pair.consumer)->rails[k % 2].doublings, 1);
        assert_int_equal(counters[0][CONN_RAILS_LOST] + counters[1][CONN_RAILS_LOST], 0); /* it was never used */
        pair_close(&pair);
    }
}

static void where_no_rail_carries_a_greeting_both_ends_know(void **state) {
    (void)state;
    for (int lost = 0; lost < 2;
         lost++) { /* with acknowledgements, each greeting arrives, and its sender does not know */
        struct pair pair;
        pair_init(&pair, (struct shape){8, 4096, 2, 1, 0});
        strike(lost ? ACKS_LOST : DYING, 0);
        strike(lost ? ACKS_LOST : DYING, 1);
        assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
        expect_unreachable(&pair, "carries anything: peer 10.0.");
        pair_close(&pair);
        fake_repair();
    }
}

/* The network drops RDMA, though there are ports: the connections of both directions fall back to tcp, at both ends. */
static void where_no_rail_works_connections_go_by_tcp(void **state) {
    (void)state;
    struct pair pair;
    struct chan *chans[2];
    struct conn *conns[4];
    pair_init(&pair, (struct shape){8, 4096, 2, 1, 0});
    strike(DYING, 0);
    strike(DYING, 1);
    for (int rank = 0; rank < 2; rank++) {
        struct peer_info *peers = (struct peer_info *)boot_peers(pair.boots[rank]);
        set_card(&peers[0]);
        set_card(&peers[1]);
        strcpy(pair.configs[rank].transport, "verbs,tcp");
        const struct chan_options options = {
            .boot = pair.boots[rank], .config = &pair.configs[rank], .nranks = 2, .rank = rank};
        assert_int_equal(chan_create(&options, &chans[rank]), COLLET_SUCCESS);
        for (int side = 0; side < 2; side++) {
            struct conn **conn = &conns[2 * rank + side];
            assert_int_equal(conn_get(chans[rank], 1 - rank, 0, 0, (enum conn_side)side, conn), COLLET_SUCCESS);
            assert_ptr_equal((*conn)->transport, &transport_verbs);
        }
    }
    for (int ready = 0; ready < 4;) {
        ready = 0;
        be_patient();
        for (int k = 0; k < 4; k++) {
            enum collet_result result = conn_try(conns[k]);
            if (result < 0)
                fail_msg("the ends do not connect: %s", err_last());
            ready += result == COLLET_SUCCESS;
        }
    }
    for (int k = 0; k < 4; k++)
        assert_string_equal(conns[k]->transport->name, "tcp");
    const uint64_t posts = fake.nposts; /* the next connections do not even try */
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(conn_get(chans[rank], 1 - rank, 1, 0, (enum conn_side)rank, &conns[rank]), COLLET_SUCCESS);
    while (((int)conn_try(conns[0]) | (int)conn_try(conns[1])) != COLLET_SUCCESS)
        be_patient();
    assert_string_equal(conns[0]->transport->name, "tcp");
    assert_int_equal(fake.nposts, posts);
    for (int rank = 0; rank < 2; rank++)
        chan_destroy(chans[rank]);
    pair_close(&pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_peer_that_does_not_answer_is_named_with_everything_that_helps, forget),
        cmocka_unit_test_setup(slots_that_came_before_a_failure_stay_consumable, forget),
        cmocka_unit_test_setup(other_failures_are_told_apart, forget),
        cmocka_unit_test_setup(a_port_that_goes_down_for_a_while_is_no_failure_where_there_is_one, forget),
        cmocka_unit_test_setup(a_completion_queue_that_fails_is_named, forget),
        cmocka_unit_test_setup(receives_that_were_refused_are_not_counted, forget),
        cmocka_unit_test_setup(another_rail_takes_over_from_one_without_queues, forget),
        cmocka_unit_test_setup(counters_that_cannot_be_break_the_connection, forget),
        cmocka_unit_test_setup(another_rail_takes_over_and_every_slot_comes_once, forget),
        cmocka_unit_test_setup(a_rail_is_settled_by_a_rank_that_is_in_another_call, forget),
        cmocka_unit_test_setup(a_call_that_only_waits_for_a_connection_to_be_idle_names_its_rank, forget),
        cmocka_unit_test_setup(when_the_last_rail_dies_too_it_is_an_error, forget),
        cmocka_unit_test_setup(without_failover_a_dead_rail_is_an_error, forget),
        cmocka_unit_test_setup(a_rail_that_is_down_from_the_beginning_is_left_out, forget),
        cmocka_unit_test_setup(a_rail_that_carries_no_greeting_is_left_out, forget),
        cmocka_unit_test_setup(a_rail_that_one_end_cannot_connect_is_left_out, forget),
        cmocka_unit_test_setup(where_no_rail_carries_a_greeting_both_ends_know, forget),
        cmocka_unit_test_setup(where_no_rail_works_connections_go_by_tcp, forget),
    };
    fake_reset();
    slots_pattern.call_of = call_of;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
