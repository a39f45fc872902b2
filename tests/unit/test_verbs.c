/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs transport between two ends in one process, over a libibverbs that moves memory (common/fake_verbs.h), with the
 * executor's part (publish, consume) done by hand. What goes wrong here is what a real NIC would report.
 */
#include "common/fake_verbs.h"
#include "common/slots.h"

#include "base/err.h"
#include "base/os.h"
#include "kernels/exec.h"
#include "transport/verbs_end.h"
#include "transport/verbs_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

extern const struct transport transport_verbs;

#define TURNS_MAX 4000000 /* of progress() without an end in sight */

/* -------------------------------------------------------------------------------------------------- two ends, one process */

struct shape {
    uint32_t nslots, slot_bytes;
    int nrails, nqps;
    uint64_t first_step;
};

struct pair {
    struct config configs[2];
    struct boot *boots[2];
    struct peer_info peers[2];
    struct chan chans[2];
    struct conn producer, consumer; /* of rank 0 and rank 1 */
    struct conn_blob blob;
    int turns;
};

/* The process's devices were opened once; how many of them are used is up to each case. */
static void use_ports(int n) {
    struct verbs_host *host = verbs_host();
    assert_int_equal(host->nports, FAKE_DEVICES);
    for (int k = 0; k < host->nports; k++) {
        host->ports[k].kinds = k < n ? 1u << VERBS_ROCE_IPV4 : 0;
        host->ports[k].down = host->ports[k].device->removed = 0;
    }
}

static void pair_init(struct pair *pair, struct shape shape) {
    memset(pair, 0, sizeof(*pair));
    fake_repair();
    use_ports(shape.nrails);
    assert_int_equal(config_read(&pair->configs[0]), COLLET_SUCCESS);
    pair->configs[0].first_step = (int64_t)shape.first_step;
    pair->configs[0].ib_qps_per_connection = shape.nqps;
    pair->configs[1] = pair->configs[0];
    assert_int_equal(boot_join_local(2, NULL, pair->configs, pair->boots), COLLET_SUCCESS);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(boot_try_init(pair->boots[rank]), COLLET_SUCCESS);
        pair->peers[rank].rank = rank;
        pair->peers[rank].rdma = 1u << VERBS_ROCE_IPV4;
        snprintf(pair->peers[rank].host, sizeof(pair->peers[rank].host), "host%d", rank);
        pair->chans[rank] = (struct chan){
            .config = &pair->configs[rank], .boot = pair->boots[rank], .peers = pair->peers, .nranks = 2, .rank = rank};
        pair->chans[rank].layout = fifo_layout_of(shape.nslots, shape.slot_bytes, 256);
    }
    pair->producer = (struct conn){.side = CONN_PRODUCER, .peer = 1, .chan = &pair->chans[0]};
    pair->consumer = (struct conn){.side = CONN_CONSUMER, .peer = 0, .chan = &pair->chans[1]};
}

static void be_patient(struct pair *pair) {
    if (++pair->turns > TURNS_MAX)
        fail_msg("nothing came of it in %d turns", TURNS_MAX);
}

static void pair_connect(struct pair *pair) {
    enum collet_result mine, theirs;
    do {
        be_patient(pair);
        mine = transport_verbs.ready(&pair->producer);
        theirs = transport_verbs.ready(&pair->consumer);
        if (mine < 0 || theirs < 0)
            fail_msg("the ends do not connect: %s", err_last());
    } while (mine != COLLET_SUCCESS || theirs != COLLET_SUCCESS);
}

static void pair_open(struct pair *pair, struct shape shape) {
    pair_init(pair, shape);
    assert_int_equal(transport_verbs.offer(&pair->consumer, &pair->blob), COLLET_SUCCESS);
    assert_int_equal(transport_verbs.accept(&pair->producer, &pair->blob), COLLET_SUCCESS);
    pair_connect(pair);
}

static void conn_close(struct conn *conn) {
    transport_verbs.close(conn);
    conn->impl = NULL;
}

static void pair_close(struct pair *pair) {
    conn_close(&pair->producer);
    conn_close(&pair->consumer);
    for (int rank = 0; rank < 2; rank++)
        boot_destroy(pair->boots[rank]);
    if (fake_leftover() != NULL)
        fail_msg("%s", fake_leftover());
}

/* What a case that failed has left behind is not the next one's fault. */
static int forget(void **state) {
    (void)state;
    memset(fake.qps, 0, sizeof(fake.qps));
    memset(fake.mrs, 0, sizeof(fake.mrs));
    fake.ncqs = 0;
    fake.fault = NULL;
    return 0;
}

static struct verbs_end *end_of(const struct conn *conn) { return conn->impl; }

/* Calls of up to a few dozen steps; which step is the first of one follows no pattern of the slots. */
static uint64_t call_of(uint64_t step) { return step / 29 + (slots_mix(step / 29) % 29 < step % 29); }

static bool progress(struct conn *conn) {
    enum collet_result result = transport_verbs.progress(conn);
    if (result < 0)
        fail_msg("progress failed: %s", err_last());
    return result == COLLET_SUCCESS;
}

static void settle(struct pair *pair) {
    for (int quiet = 0; quiet < 2000; quiet++) {
        if ((int)progress(&pair->producer) | (int)progress(&pair->consumer))
            quiet = 0;
        be_patient(pair);
    }
}

/* One turn of producer and consumer, who act in a random order. */
static void turn(struct pair *pair, uint64_t end) {
    uint64_t chance = fake_random();
    be_patient(pair);
    if (chance % 4 != 0 && pair->producer.end.step != end && fifo_has_credit(&pair->producer.end))
        slots_publish(&pair->producer);
    if (chance % 3 == 0)
        progress(&pair->producer);
    if (chance % 5 < 3)
        progress(&pair->consumer);
    if (chance % 7 < 4 && fifo_has_data(&pair->consumer.end))
        slots_consume(&pair->consumer);
}

static void move_slots(struct pair *pair, uint64_t n) {
    uint64_t end = pair->producer.end.step + n;
    while (pair->consumer.end.step != end || !transport_verbs.idle(&pair->producer) ||
           !transport_verbs.idle(&pair->consumer))
        turn(pair, end);
}

/* Progress until it fails; the error must say each of the texts. */
static void expect_broken(struct pair *pair, struct conn *conn, const char *what, const char *where) {
    enum collet_result result;
    while ((result = transport_verbs.progress(conn)) >= 0)
        be_patient(pair);
    char rank[32];
    snprintf(rank, sizeof(rank), "rank %d (host host%d)", conn->peer, conn->peer);
    assert_int_equal(result, COLLET_ERR_REMOTE);
    if (strstr(err_last(), rank) == NULL || strstr(err_last(), what) == NULL || strstr(err_last(), where) == NULL)
        fail_msg("the error does not say '%s', '%s' and '%s': %s", rank, what, where, err_last());
    assert_int_equal(transport_verbs.progress(conn), COLLET_ERR_REMOTE); /* and it stays broken */
}

/* -------------------------------------------------------------------------------------------------------------- moving slots */

static void slots_of_all_sizes_and_protocols_arrive_in_order(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {8, 4096, 1, 1, 0},
        {8, 4096, 1, 3, 0},
        {8, 4096, 2, 1, 0},
        {8, 100000, 2, 2, 0},
        {2, 5000, 2, 2, 0},
        {16, 64, 2, 8, 0},
        {8, 4072, 2, 1, UINT64_MAX - 500},
        {4, 1 << 20, 2, 1, 5},
        {8, 2000, 1, 2, 0x3fffffff - 300},
        {1, 3000, 2, 2, 0},
    };
    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
        struct pair pair;
        pair_open(&pair, shapes[k]);
        move_slots(&pair, shapes[k].slot_bytes > 50000 ? 100 : 2000);
        pair_close(&pair);
    }
}

static void a_full_fifo_waits_until_half_of_it_is_consumed(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 2, 0});
    while (fifo_has_credit(&pair.producer.end))
        slots_publish(&pair.producer);
    assert_int_equal(pair.producer.end.step, 8);
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
        small += slots_bytes(&pair.producer, pair.producer.end.step) + sizeof(struct verbs_frame) <= 192;
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
        uint64_t sent = pair.producer.end.step;
        while (!transport_verbs.idle(&pair.producer))
            progress(&pair.producer);
        conn_close(&pair.producer);
        boot_destroy(pair.boots[0]);
        pair.boots[0] = NULL;
        while (pair.consumer.end.step != sent) {
            be_patient(&pair);
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

static void gpu_memory_is_registered_by_dmabuf_then_peermem_then_staged(void **state) {
    (void)state;
    static const struct {
        struct verbs_memory_facts facts; /* gpu, exports_dmabuf, lib_dmabuf, nic_dmabuf, peermem */
        enum verbs_registration choice;
        const char *why;
    } table[] = {
        {{false, true, true, true, true}, VERBS_PLAIN, "host memory"},
        {{false, false, false, false, false}, VERBS_PLAIN, "host memory"},
        {{true, true, true, true, true}, VERBS_DMABUF, "exports dma-bufs"},
        {{true, true, true, true, false}, VERBS_DMABUF, "exports dma-bufs"},
        {{true, false, true, true, true}, VERBS_PEERMEM, "GPU's driver exports no"},
        {{true, true, false, false, true}, VERBS_PEERMEM, "no ibv_reg_dmabuf_mr"},
        {{true, true, true, false, true}, VERBS_PEERMEM, "NIC's driver takes no"},
        {{true, false, true, true, false}, VERBS_STAGED, "or load nvidia-peermem"},
        {{true, true, false, false, false}, VERBS_STAGED, "rdma-core 34"},
        {{true, true, true, false, false}, VERBS_STAGED, "NIC's driver takes no"},
    };
    for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
        const char *why;
        assert_int_equal(verbs_memory_choose(&table[k].facts, &why), table[k].choice);
        if (strstr(why, table[k].why) == NULL)
            fail_msg("row %zu does not say '%s': %s", k, table[k].why, why);
    }
}

static void whether_a_device_takes_dmabufs_is_asked_of_its_driver(void **state) {
    (void)state;
    static struct verbs_host host, without;
    host = without = *verbs_host();
    without.lib.reg_dmabuf_mr = NULL;
    assert_true(verbs_memory_facts(&host, &host.devices[0], true, true).nic_dmabuf);
    fake.takes_no_dmabuf = true;
    assert_false(verbs_memory_facts(&host, &host.devices[0], true, true).nic_dmabuf);
    assert_true(verbs_memory_facts(&host, &host.devices[0], true, true).lib_dmabuf);
    fake.takes_no_dmabuf = false;
    assert_false(verbs_memory_facts(&without, &host.devices[0], true, true).lib_dmabuf);
    assert_false(verbs_memory_facts(&without, &host.devices[0], true, true).nic_dmabuf);
}

/* --------------------------------------------------------------------------------------------------- narrow devices */

static void queues_are_cut_to_what_the_device_has(void **state) {
    (void)state;
    struct pair pair;
    for (int narrow = 0; narrow < 3; narrow++) {
        pair_init(&pair, (struct shape){8, 4096, 2, 2, 0});
        fake.max_qp_wr = narrow == 0 ? 18 : 1024;
        fake.max_cqe = narrow == 1 ? 40 : 4096;
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
    fake.max_cqe = 8 * 19;
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
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_ERR_SYSTEM);
        assert_non_null(strstr(err_last(), "mlx5_0 port 1 does not connect to 10.0.0.2"));
        assert_non_null(strstr(err_last(), "GID 3"));
        assert_non_null(strstr(err_last(), "timed out"));
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
    ((struct verbs_hello *)(void *)pair.blob.data)->nrails = 99;
    assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_ERR_INTERNAL);
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

static void a_lid_is_enough_within_an_infiniband_subnet(void **state) {
    (void)state;
    struct pair pair;
    struct verbs_host *host = verbs_host();
    for (int same_subnet = 0; same_subnet < 2; same_subnet++) {
        pair_init(&pair, (struct shape){8, 4096, 1, 1, 0});
        struct verbs_port saved = host->ports[0];
        host->ports[0].kinds = pair.peers[0].rdma = pair.peers[1].rdma = 1u << VERBS_INFINIBAND;
        host->ports[0].gid_index[VERBS_INFINIBAND] = 0;
        host->ports[0].lid = 7;
        assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
        if (!same_subnet)
            ((struct verbs_hello *)(void *)pair.blob.data)->rails[0].gid[0] ^= 1;
        assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
        assert_int_equal(((const struct fake_qp *)(const void *)end_of(&pair.producer)->qps[0][0].qp)->global,
                         !same_subnet);
        host->ports[0] = saved;
        pair_close(&pair);
    }
}

/* ------------------------------------------------------------------------------------------------------------- one rail */

static void a_peer_that_does_not_answer_is_named_with_everything_that_helps(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    move_slots(&pair, 10);
    fake.devices[0].dying = true;
    slots_publish(&pair.producer);
    expect_broken(&pair, &pair.producer, "peer 10.0.0.2 is unreachable or loses packets (retry count exceeded)",
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
        be_patient(&pair);
        assert_true(transport_verbs.progress(&pair.consumer) >= 0);
    }
    for (int k = 0; k < 4; k++) {
        assert_true(transport_verbs.progress(&pair.consumer) >= 0);
        slots_consume(&pair.consumer);
    }
    expect_broken(&pair, &pair.consumer, "device has failed or was removed", "mlx5_0");
    pair_close(&pair);
}

static void other_failures_are_told_apart(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    ((struct fake_qp *)(void *)end_of(&pair.consumer)->qps[0][0].qp)->nreceives = 0;
    slots_publish(&pair.producer);
    expect_broken(&pair, &pair.producer, "no receive posted (RNR", "mlx5_0");
    pair_close(&pair);

    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    end_of(&pair.producer)->theirs.rails[0].rkey ^= 77;
    slots_publish(&pair.producer);
    expect_broken(&pair, &pair.producer, "remote access error", "mlx5_0");
    expect_broken(&pair, &pair.consumer, "queue pair went into error", "local access violation");
    pair_close(&pair);

    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    for (int k = 0; k < FAKE_MRS; k++)
        fake.mrs[k].used &= &fake.mrs[k].mr != end_of(&pair.producer)->rails[0].mr;
    while (slots_bytes(&pair.producer, pair.producer.end.step) < 1000) { /* inline data need no registration */
        slots_publish(&pair.producer);
        settle(&pair);
        slots_consume(&pair.consumer);
    }
    slots_publish(&pair.producer);
    expect_broken(&pair, &pair.producer, "memory is not registered", "mlx5_0");
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

static void counters_that_cannot_be_break_the_connection(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    assert_true(verbs_post_counter(&pair.consumer, 0, 1)); /* a credit, and nothing was sent */
    expect_broken(&pair, &pair.producer, "credits for slots that were not sent", "");
    pair_close(&pair);

    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    assert_true(verbs_post_counter(&pair.producer, 0, 0)); /* a slot without a frame */
    expect_broken(&pair, &pair.consumer, "which call its first slot is of", "");
    pair_close(&pair);

    pair_open(&pair, (struct shape){8, 4096, 1, 1, 0});
    end_of(&pair.producer)->sent = pair.producer.end.step = 9; /* step 9, when 0 … 7 are due */
    *pair.producer.end.tail = 9;
    slots_publish(&pair.producer);
    while (end_of(&pair.consumer)->broken[0] == '\0') {
        be_patient(&pair);
        transport_verbs.progress(&pair.producer);
        transport_verbs.progress(&pair.consumer);
    }
    expect_broken(&pair, &pair.consumer, "a step that was not due", "");
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
    case REMOVED:
        d->hanging = true;
        fake_event(device, (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
        break;
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
        uint64_t end = pair.producer.end.step + 400, when = 20 + fake_random() % 300;
        while (pair.producer.end.step != end - 400 + when)
            turn(&pair, end);
        strike((enum disaster)(round / 2 % 4), device);
        while (pair.consumer.end.step != end || !transport_verbs.idle(&pair.producer) ||
               !transport_verbs.idle(&pair.consumer))
            turn(&pair, end);
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

/* Everything that the producer sent has come and is consumed, but the acknowledgements were lost: the consumer's rank is in
 * its next call, on other connections, and the producer's call cannot end before the rail is settled. */
struct stranded {
    struct pair pair;
    struct exec_program sending, next;
    struct conn *conns[1];
    int first_worker[1];
    struct exec_call calls[2];
};

static void strand(struct stranded *s) {
    struct pair *pair = &s->pair;
    pair_open(pair, (struct shape){8, 4096, 2, 1, 0});
    move_slots(pair, 50);
    strike(ACKS_LOST, 0);
    slots_publish(&pair->producer); /* step 50: by rail 0, and no credit is due yet */
    while (pair->consumer.end.step != pair->producer.end.step) {
        be_patient(pair);
        end_of(&pair->producer)->turns = 1; /* it sends, and looks at nothing */
        if (end_of(&pair->producer)->sent != pair->producer.end.step)
            progress(&pair->producer);
        progress(&pair->consumer);
        if (fifo_has_data(&pair->consumer.end))
            slots_consume(&pair->consumer);
    }
    for (int rank = 0; rank < 2; rank++) {
        struct conn *conn = rank == 0 ? &pair->producer : &pair->consumer;
        conn->transport = &transport_verbs;
        conn->state = CONN_READY;
        pair->chans[rank].first = conn;
        pair->chans[rank].timeout_ms = 60000;
    }
    s->conns[0] = &pair->producer;
    s->sending = (struct exec_program){
        .conns = s->conns, .nconns = 1, .nready = 1, .nremote = 1, .first_worker = s->first_worker};
    s->next = (struct exec_program){.first_worker = s->first_worker};
    s->calls[0] = (struct exec_call){.program = &s->sending, .chan = &pair->chans[0], .after = -1, .told_peer = -1};
    s->calls[1] = (struct exec_call){.program = &s->next, .chan = &pair->chans[1], .after = 0, .told_peer = -1};
}

static void a_rail_is_settled_by_a_rank_that_is_in_another_call(void **state) {
    (void)state;
    static struct stranded s;
    for (int other_communicator = 0; other_communicator < 2; other_communicator++) {
        struct call_lock lock = {0};
        memset(&s, 0, sizeof(s));
        strand(&s);
        if (other_communicator)
            chan_list(&s.pair.chans[1], &lock);
        assert_false(transport_verbs.idle(&s.pair.producer));
        assert_true(transport_verbs.idle(&s.pair.consumer));
        assert_int_equal(exec_run(s.calls, other_communicator ? 1 : 2), COLLET_SUCCESS);
        assert_int_equal(end_of(&s.pair.producer)->rails[0].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&s.pair.consumer)->rails[0].state, VERBS_RAIL_DOWN);
        move_slots(&s.pair, 50);
        chan_unlist(&s.pair.chans[1]);
        pair_close(&s.pair);
    }
}

static void a_call_that_only_waits_for_a_connection_to_be_idle_names_its_rank(void **state) {
    (void)state;
    static struct stranded s;
    memset(&s, 0, sizeof(s));
    strand(&s);
    s.calls[0].state = EXEC_RUNNING;
    assert_int_equal(exec_check_wait(&s.calls[0], 59ull * 1000000000), COLLET_SUCCESS);
    assert_int_equal(exec_check_wait(&s.calls[0], 61ull * 1000000000), COLLET_ERR_TIMEOUT);
    assert_non_null(strstr(err_last(), "waiting for rank 1:"));
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
    expect_broken(&pair, &pair.producer, "unreachable", "mlx5_1");
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
    expect_broken(&pair, &pair.producer, "unreachable", "mlx5_0");
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
    assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_ERR_SYSTEM);
    assert_non_null(strstr(err_last(), "no RDMA port between rank 0 and rank 1"));
    pair_close(&pair);
}

/* ------------------------------------------------------------------------------------------------------------ addressing */

static void the_kind_of_a_gid_follows_from_its_type_and_address(void **state) {
    (void)state;
    static const struct {
        const char *address;
        enum ibv_gid_type type;
        int kind;
    } table[] = {
        {"fe80::1", IBV_GID_TYPE_IB, VERBS_INFINIBAND},
        {"::ffff:10.1.2.3", IBV_GID_TYPE_ROCE_V2, VERBS_ROCE_IPV4},
        {"::ffff:169.254.1.1", IBV_GID_TYPE_ROCE_V2, VERBS_ROCE_LINK},
        {"::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2, -1},
        {"2001:db8::1", IBV_GID_TYPE_ROCE_V2, VERBS_ROCE_IPV6},
        {"fd00::1", IBV_GID_TYPE_ROCE_V2, VERBS_ROCE_IPV6},
        {"fe80::1", IBV_GID_TYPE_ROCE_V2, VERBS_ROCE_LINK},
        {"::1", IBV_GID_TYPE_ROCE_V2, -1},
        {"::ffff:10.1.2.3", IBV_GID_TYPE_ROCE_V1, VERBS_ROCE_V1},
    };
    for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
        struct ibv_gid_entry entry = {.gid_type = table[k].type};
        inet_pton(AF_INET6, table[k].address, entry.gid.raw);
        if (verbs_gid_kind(&entry) != table[k].kind)
            fail_msg("%s of type %u is of kind %d", table[k].address, table[k].type, verbs_gid_kind(&entry));
    }
}

static void of_each_kind_the_first_gid_of_the_port_is_taken(void **state) {
    (void)state;
    struct verbs_port port = {.number = 1};
    struct ibv_gid_entry gids[] = {
        {.gid_index = 9, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2},
        {.gid_index = 3, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2},
        {.gid_index = 1, .port_num = 2, .gid_type = IBV_GID_TYPE_ROCE_V2},
        {.gid_index = 0, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2},
        {.gid_index = 2, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V1},
    };
    char text[VERBS_GID_TEXT_BYTES];
    inet_pton(AF_INET6, "::ffff:10.0.0.9", gids[0].gid.raw);
    inet_pton(AF_INET6, "::ffff:10.0.0.3", gids[1].gid.raw);
    inet_pton(AF_INET6, "::ffff:10.0.0.1", gids[2].gid.raw);
    inet_pton(AF_INET6, "fe80::1", gids[3].gid.raw);
    inet_pton(AF_INET6, "fe80::1", gids[4].gid.raw);
    verbs_port_choose(&port, gids, 5, -1);
    assert_int_equal(port.gid_index[VERBS_ROCE_IPV4], 3);
    assert_int_equal(port.gid_index[VERBS_ROCE_LINK], 0);
    assert_int_equal(port.gid_index[VERBS_ROCE_V1], 2);
    assert_int_equal(port.gid_index[VERBS_ROCE_IPV6], -1);
    verbs_gid_text(&port.gids[VERBS_ROCE_IPV4], text);
    assert_string_equal(text, "10.0.0.3");
    verbs_port_choose(&port, gids, 5, 9); /* COLLET_IB_GID_INDEX */
    assert_int_equal(port.kinds, 1u << VERBS_ROCE_IPV4);
    assert_int_equal(port.gid_index[VERBS_ROCE_IPV4], 9);
    verbs_port_choose(&port, gids, 5, 7);
    assert_int_equal(port.kinds, 0);
}

static void two_ranks_use_the_first_kind_that_both_have(void **state) {
    (void)state;
    const uint32_t ib = 1u << VERBS_INFINIBAND, v4 = 1u << VERBS_ROCE_IPV4, v6 = 1u << VERBS_ROCE_IPV6;
    struct peer_info a = {.rdma = v4 | v6}, b = {.rdma = v6}, c = {.rdma = ib}, none = {.rdma = 0};
    const char *why = "";
    assert_int_equal(verbs_common_kind(v4 | v6, v4 | v6), VERBS_ROCE_IPV4);
    assert_int_equal(verbs_common_kind(v4 | v6, v6 | ib), VERBS_ROCE_IPV6);
    assert_true(transport_verbs.reaches(&a, &b, &why));
    assert_true(transport_verbs.reaches(&b, &a, &why));
    assert_false(transport_verbs.reaches(&a, &c, &why));
    assert_non_null(strstr(why, "differ"));
    assert_false(transport_verbs.reaches(&a, &none, &why));
    assert_false(transport_verbs.reaches(&none, &a, &why));
    assert_non_null(strstr(why, "no RDMA port"));
}

static void a_list_of_devices_says_which_ports_are_used(void **state) {
    (void)state;
    assert_true(verbs_port_listed("", "mlx5_0", 1));
    assert_true(verbs_port_listed("mlx5", "mlx5_0", 1));
    assert_true(verbs_port_listed("mlx4_0,mlx5_0:1", "mlx5_0", 1));
    assert_false(verbs_port_listed("mlx5_0:2", "mlx5_0", 1));
    assert_false(verbs_port_listed("=mlx5_1", "mlx5_10", 1));
    assert_true(verbs_port_listed("=mlx5_1", "mlx5_1", 2));
    assert_true(verbs_port_listed("=mlx5_1:2", "mlx5_1", 2));
    assert_false(verbs_port_listed("^mlx5_1", "mlx5_1", 1));
    assert_false(verbs_port_listed("^mlx5_1:1", "mlx5_1", 1));
    assert_true(verbs_port_listed("^mlx5_1:1", "mlx5_1", 2));
}

static void expect_no_ports(const struct config *config, const char *why) {
    static struct verbs_host host;
    verbs_host_open(&host, config);
    assert_int_equal(host.kinds, 0);
    if (strstr(host.why, why) == NULL)
        fail_msg("it does not say '%s': %s", why, host.why);
    verbs_host_close(&host);
}

static void a_host_without_usable_ports_says_why(void **state) {
    (void)state;
    static struct config config;
    struct fake saved = fake;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    fake_reset();
    config.ib_disable = 1;
    expect_no_ports(&config, "COLLET_IB_DISABLE");
    config.ib_disable = 0;
    fake.absent = true;
    expect_no_ports(&config, "the fake has no device");
    fake.absent = false;
    strcpy(config.ib_hca, "^mlx5");
    expect_no_ports(&config, "excluded by COLLET_IB_HCA");
    config.ib_hca[0] = '\0';
    config.ib_gid_index = 77;
    expect_no_ports(&config, "COLLET_IB_GID_INDEX");
    config.ib_gid_index = -1;
    fake.devices[0].state = fake.devices[1].state = IBV_PORT_DOWN;
    expect_no_ports(&config, "ip link set");
    fake.devices[0].state = fake.devices[1].state = IBV_PORT_INIT;
    expect_no_ports(&config, "opensm");
    fake.devices[0].state = fake.devices[1].state = IBV_PORT_ACTIVE;
    fake.devices[0].ngids = fake.devices[1].ngids = 0;
    expect_no_ports(&config, "IP address");
    fake.devices[0].device.transport_type = fake.devices[1].device.transport_type = IBV_TRANSPORT_IWARP;
    expect_no_ports(&config, "neither InfiniBand nor RoCE");
    assert_int_equal(fake.npds, 0);
    fake = saved;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(slots_of_all_sizes_and_protocols_arrive_in_order, forget),
        cmocka_unit_test_setup(a_full_fifo_waits_until_half_of_it_is_consumed, forget),
        cmocka_unit_test_setup(a_slot_is_one_write_and_a_list_of_them_one_doorbell, forget),
        cmocka_unit_test_setup(the_steps_go_through_all_queue_pairs_of_all_rails, forget),
        cmocka_unit_test_setup(what_a_producer_sent_before_it_left_arrives, forget),
        cmocka_unit_test_setup(each_end_registers_its_memory_once_a_rail, forget),
        cmocka_unit_test_setup(gpu_memory_is_registered_by_dmabuf_then_peermem_then_staged, forget),
        cmocka_unit_test_setup(whether_a_device_takes_dmabufs_is_asked_of_its_driver, forget),
        cmocka_unit_test_setup(queues_are_cut_to_what_the_device_has, forget),
        cmocka_unit_test_setup(what_a_device_refuses_is_an_error_with_its_cause, forget),
        cmocka_unit_test_setup(queue_pairs_that_do_not_connect_are_an_error_with_both_addresses, forget),
        cmocka_unit_test_setup(an_offer_that_makes_no_sense_is_refused, forget),
        cmocka_unit_test_setup(the_mtu_of_a_path_is_the_smaller_one, forget),
        cmocka_unit_test_setup(a_lid_is_enough_within_an_infiniband_subnet, forget),
        cmocka_unit_test_setup(a_peer_that_does_not_answer_is_named_with_everything_that_helps, forget),
        cmocka_unit_test_setup(slots_that_came_before_a_failure_stay_consumable, forget),
        cmocka_unit_test_setup(other_failures_are_told_apart, forget),
        cmocka_unit_test_setup(a_port_that_goes_down_for_a_while_is_no_failure_where_there_is_one, forget),
        cmocka_unit_test_setup(counters_that_cannot_be_break_the_connection, forget),
        cmocka_unit_test_setup(another_rail_takes_over_and_every_slot_comes_once, forget),
        cmocka_unit_test_setup(a_rail_is_settled_by_a_rank_that_is_in_another_call, forget),
        cmocka_unit_test_setup(a_call_that_only_waits_for_a_connection_to_be_idle_names_its_rank, forget),
        cmocka_unit_test_setup(when_the_last_rail_dies_too_it_is_an_error, forget),
        cmocka_unit_test_setup(without_failover_a_dead_rail_is_an_error, forget),
        cmocka_unit_test_setup(a_rail_that_is_down_from_the_beginning_is_left_out, forget),
        cmocka_unit_test_setup(the_kind_of_a_gid_follows_from_its_type_and_address, forget),
        cmocka_unit_test_setup(of_each_kind_the_first_gid_of_the_port_is_taken, forget),
        cmocka_unit_test_setup(two_ranks_use_the_first_kind_that_both_have, forget),
        cmocka_unit_test_setup(a_list_of_devices_says_which_ports_are_used, forget),
        cmocka_unit_test_setup(a_host_without_usable_ports_says_why, forget),
    };
    fake_reset();
    slots_pattern.call_of = call_of;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
