/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs: which of a host's eight ports a connection uses, counted in bytes (common/verbs_pair.h). Two hosts with a NIC for
 * each port; ring c goes out by NIC c.
 */
#define FAKE_DEVICES 8
#include "common/verbs_pair.h"

#include "common/emulated_gpu.h"
#include "program/program.h"
#include "topo/probe/chart.h"

#include <net/if.h>

/* ----------------------------------------------------------------------------------------------------------- two hosts */

struct job {
    struct topo *host, *topo;
    struct topo_rings *rings;
    struct chart chart; /* with these rings */
};

/* NIC k of both hosts is called what names[k] says, "mlx5_<k>" where that is NULL. */
static void job_init(struct job *job, const char *const *names) {
    int place[2], nic = 0;
    assert_int_equal(topo_synthetic("1 cpu : 8 nic 200", &job->host), COLLET_SUCCESS);
    for (int n = 0; n < job->host->nnodes; n++) {
        struct topo_node *node = &job->host->nodes[n];
        if (node->kind == TOPO_NIC)
            snprintf(node->nic.name, sizeof(node->nic.name), "mlx5_%d", nic);
        if (node->kind == TOPO_NIC && names != NULL && names[nic] != NULL)
            snprintf(node->nic.name, sizeof(node->nic.name), "%s", names[nic]);
        nic += node->kind == TOPO_NIC;
    }
    const struct topo *hosts[2] = {job->host, job->host};
    assert_int_equal(topo_fuse(hosts, 2, &job->topo), COLLET_SUCCESS);
    for (int h = 0; h < 2; h++)
        for (int n = job->topo->hosts[h].first_node; n < job->topo->hosts[h].end_node; n++)
            if (job->topo->nodes[n].kind == TOPO_CPU)
                place[h] = n;
    assert_int_equal(topo_search(job->topo, 2, place, &job->rings), COLLET_SUCCESS);
    assert_int_equal(job->rings->nrings, FAKE_DEVICES);
}

static void job_fini(struct job *job) {
    topo_rings_destroy(job->rings);
    topo_destroy(job->topo);
    topo_destroy(job->host);
}

static void pair_prepare(struct pair *pair, struct job *job, int channel, int nports) {
    pair_init(pair, (struct shape){8, 4096, nports, 1 + channel % 2, 0});
    if (job != NULL)
        job->chart = (struct chart){.rings = job->rings};
    for (int rank = 0; rank < 2; rank++) {
        pair->owners[rank].map = job == NULL ? NULL : &job->chart.map;
        pair->owners[rank].tied = job != NULL;
    }
    pair->producer.channel = pair->consumer.channel = channel;
}

static void pair_join(struct pair *pair) {
    assert_int_equal(transport_verbs.offer(&pair->consumer, &pair->blob), COLLET_SUCCESS);
    assert_int_equal(transport_verbs.accept(&pair->producer, &pair->blob), COLLET_SUCCESS);
    pair_connect(pair);
}

/* Moves slots. All that is written goes through the ports whose bits are given, and something through each of them. */
static void expect_ports(struct pair *pair, unsigned ports) {
    uint64_t before[FAKE_DEVICES];
    for (int k = 0; k < FAKE_DEVICES; k++)
        before[k] = fake.devices[k].written;
    move_slots(pair, 200);
    for (int k = 0; k < FAKE_DEVICES; k++)
        if ((fake.devices[k].written != before[k]) != (ports >> k & 1))
            fail_msg("channel %d: port %d wrote %llu bytes, but the ports to use are %#x", pair->producer.channel, k,
                     (unsigned long long)(fake.devices[k].written - before[k]), ports);
}

/* ---------------------------------------------------------------------------------------------------------------- cases */

static void every_channel_has_the_port_of_its_rings_nic_for_itself(void **state) {
    (void)state;
    struct job job;
    job_init(&job, NULL);
    for (int channel = 0; channel < 2 * FAKE_DEVICES; channel++) {
        struct pair pair;
        pair_prepare(&pair, &job, channel, FAKE_DEVICES);
        pair_join(&pair);
        expect_ports(&pair, 1u << channel % FAKE_DEVICES);
        pair_close(&pair);
    }
    job_fini(&job);
}

static void credits_go_by_that_port_too(void **state) {
    (void)state;
    struct job job;
    struct pair pair;
    job_init(&job, NULL);
    pair_prepare(&pair, &job, 6, FAKE_DEVICES);
    pair_join(&pair);
    uint32_t before[VERBS_RAILS_MAX];
    for (int r = 0; r < VERBS_RAILS_MAX; r++)
        before[r] = end_of(&pair.consumer)->qps[r][0].posted;
    move_slots(&pair, 200);
    for (int r = 0; r < VERBS_RAILS_MAX; r++) {
        bool home = end_of(&pair.consumer)->rails[r].port == &verbs_host()->ports[6];
        assert_int_equal(home, r == end_of(&pair.consumer)->home);
        assert_int_equal(end_of(&pair.consumer)->qps[r][0].posted != before[r], home);
    }
    pair_close(&pair);
    job_fini(&job);
}

static void what_is_not_tied_takes_ports_by_turns(void **state) {
    (void)state;
    struct job job;
    struct pair pair;
    job_init(&job, NULL);
    pair_prepare(&pair, NULL, 6, FAKE_DEVICES);
    pair_join(&pair);
    expect_ports(&pair, 0xf);
    pair_close(&pair);
    pair_prepare(&pair, &job, 0, FAKE_DEVICES); /* messages have one channel */
    pair.producer.lane = pair.consumer.lane = PROG_LANE_P2P;
    pair_join(&pair);
    expect_ports(&pair, 0xf);
    pair_close(&pair);
    job_fini(&job);
}

static void a_nic_that_is_not_known_leaves_ports_to_be_taken_by_turns(void **state) {
    (void)state;
    static const char *const names[FAKE_DEVICES] = {[2] = "nosuch", [6] = "nosuch6"};
    struct job job;
    job_init(&job, names);
    for (int channel = 0; channel < FAKE_DEVICES; channel++) {
        struct pair pair;
        pair_prepare(&pair, &job, channel, FAKE_DEVICES);
        pair_join(&pair);
        expect_ports(&pair, channel % 4 == 2 ? 0xf : 1u << channel);
        pair_close(&pair);
    }
    job_fini(&job);
}

/* As where a device is called by another name on one of two hosts: the pairs of ports are as they always are, and one end's
 * wish alone ties nothing. */
static void both_ends_choose_alike_where_only_one_knows_its_nic(void **state) {
    (void)state;
    static const char *const unknown[FAKE_DEVICES] = {[2] = "nosuch", [6] = "nosuch"};
    static const char *const others[FAKE_DEVICES] = {[2] = "mlx5_3", [3] = "mlx5_2", [6] = "mlx5_7", [7] = "mlx5_6"};
    const char *const *const names[] = {unknown, others};
    struct job job;
    job_init(&job, NULL);
    for (int k = 0; k < 2 * 2 * 2; k++) {
        struct job wrong;
        struct pair pair;
        int channel = k & 1 ? 2 : 6;
        job_init(&wrong, names[k >> 2]);
        pair_prepare(&pair, &job, channel, FAKE_DEVICES);
        wrong.chart = (struct chart){.rings = wrong.rings};
        pair.owners[k >> 1 & 1].map = &wrong.chart.map;
        pair_join(&pair);
        assert_int_equal(end_of(&pair.producer)->home, -1);
        assert_int_equal(end_of(&pair.consumer)->home, -1);
        bool offered = channel == 6 && (k >> 1 & 1) == 0; /* by the consumer, which knows it */
        bool swapped = channel == 6 && (k >> 1 & 1) == 1 && k >> 2 == 1;
        expect_ports(&pair, offered ? 0x47 : swapped ? 0x87 : 0xf);
        pair_close(&pair);
        job_fini(&wrong);
    }
    job_fini(&job);
}

static void nics_may_go_by_the_names_of_their_interfaces(void **state) {
    (void)state;
    static const char *const names[FAKE_DEVICES] = {[5] = "lo"};
    struct job job;
    struct pair pair;
    job_init(&job, names);
    verbs_host()->ports[5].interface = if_nametoindex("lo");
    pair_prepare(&pair, &job, 5, FAKE_DEVICES);
    pair_join(&pair);
    expect_ports(&pair, 1u << 5);
    pair_close(&pair);
    verbs_host()->ports[5].interface = 0;
    job_fini(&job);
}

/* The ports of a rank's host whose bits are given are usable. */
static void set_ports(struct pair *pair, int rank, unsigned ports) {
    struct verbs_host *host = verbs_host();
    for (int k = 0; k < FAKE_DEVICES; k++)
        host->ports[k].kinds = (ports >> k & 1) != 0 ? 1u << VERBS_ROCE_IPV4 : 0;
    set_card(&pair->peers[rank]);
    for (int k = 0; k < FAKE_DEVICES; k++)
        host->ports[k].kinds = 1u << VERBS_ROCE_IPV4;
}

/* The port of each rail. */
static unsigned ports_of(const struct conn *conn) {
    const struct verbs_end *end = end_of(conn);
    unsigned ports = 0;
    for (int r = 0; r < end->nrails; r++)
        ports |= 1u << (end->rails[r].port - verbs_host()->ports);
    return ports;
}

/* Cables are out, on one host only. What is left pairs ports of the same number, which may be networks of their own. */
static void a_port_that_is_down_on_one_host_moves_no_other(void **state) {
    (void)state;
    static const struct {
        unsigned usable[2], rails[2];
    } cases[] = {
        {{0xff, 0xfe}, {0x1e, 0x1e}}, {{0xfe, 0xff}, {0x1e, 0x1e}}, {{0xf5, 0x5f}, {0x55, 0x55}},
        {{0xf0, 0xff}, {0xf0, 0xf0}}, {{0x01, 0xff}, {0x01, 0x01}}, {{0x01, 0x02}, {0x01, 0x02}},
        {{0x03, 0x0c}, {0x03, 0x0c}}, {{0xf0, 0x02}, {0x10, 0x02}},
    };
    for (unsigned k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct pair pair;
        pair_prepare(&pair, NULL, 0, FAKE_DEVICES);
        set_ports(&pair, 0, cases[k].usable[0]);
        set_ports(&pair, 1, cases[k].usable[1]);
        pair_join(&pair);
        assert_int_equal(ports_of(&pair.producer), cases[k].rails[0]);
        assert_int_equal(ports_of(&pair.consumer), cases[k].rails[1]);
        move_slots(&pair, 50);
        pair_close(&pair);
    }
}

/* The one host has eight ports, the other three. */
static void hosts_with_fewer_ports_are_tied_by_those_that_both_have(void **state) {
    (void)state;
    struct job job;
    job_init(&job, NULL);
    for (int fewer = 0; fewer < 2; fewer++) /* the producer, the consumer */
        for (int channel = 0; channel < FAKE_DEVICES; channel++) {
            struct pair pair;
            pair_prepare(&pair, &job, channel, FAKE_DEVICES);
            set_ports(&pair, fewer, 7);
            pair_join(&pair);
            expect_ports(&pair, channel < 3 ? 1u << channel : 7);
            pair_close(&pair);
        }
    job_fini(&job);
}

static void a_port_that_is_down_leaves_the_others_to_be_taken_by_turns(void **state) {
    (void)state;
    struct job job;
    job_init(&job, NULL);
    for (int channel = 0; channel < FAKE_DEVICES; channel += 3) {
        struct pair pair;
        unsigned rails = channel < 4 ? 0xf : 0x7;
        pair_prepare(&pair, &job, channel, FAKE_DEVICES);
        verbs_host()->ports[channel].down = 1;
        fake.devices[channel].hanging = true;
        pair_join(&pair);
        expect_ports(&pair, rails & ~(1u << channel));
        pair_close(&pair);
    }
    job_fini(&job);
}

static void when_the_port_dies_those_in_reserve_take_over_until_it_is_back(void **state) {
    (void)state;
    struct job job;
    job_init(&job, NULL);
    for (int channel = 0; channel < FAKE_DEVICES; channel++) {
        struct pair pair;
        unsigned reserve = channel < 4 ? 0xfu & ~(1u << channel) : 0x7;
        pair_prepare(&pair, &job, channel, FAKE_DEVICES);
        pair_join(&pair);
        expect_ports(&pair, 1u << channel);
        fake.devices[channel].dying = true;
        move_slots(&pair, 100); /* through the port's death */
        expect_ports(&pair, reserve);
        const int home = end_of(&pair.producer)->home;
        fake.devices[channel].dying = false;
        end_of(&pair.producer)->rails[home].due_ns = end_of(&pair.consumer)->rails[home].due_ns = 0;
        while (end_of(&pair.producer)->rails[home].state != VERBS_RAIL_UP)
            settle(&pair);
        expect_ports(&pair, 1u << channel);
        pair_close(&pair);
    }
    job_fini(&job);
}

/* Payloads, their frames and what flushes them. */
static void slots_of_gpus_go_by_the_same_ports(void **state) {
    (void)state;
    static struct gpu_rank gpus[2] = {{.driver = &emulated_gpu_driver, .ordinal = 0},
                                      {.driver = &emulated_gpu_driver, .ordinal = 1}};
    struct job job;
    job_init(&job, NULL);
    fake.is_gpu = emulated_gpu_owns;
    emulated_gpu_set_direct((struct gpu_direct){.exports_dmabuf = true}, fake_land_all);
    for (int channel = 0; channel < FAKE_DEVICES; channel++) {
        struct pair pair;
        pair_prepare(&pair, &job, channel, FAKE_DEVICES);
        for (int rank = 0; rank < 2; rank++)
            pair.owners[rank].gpu = &gpus[rank];
        pair_join(&pair);
        assert_non_null(end_of(&pair.producer)->direct.memory);
        assert_non_null(end_of(&pair.consumer)->direct.memory);
        expect_ports(&pair, 1u << channel);
        for (int r = 0; r < VERBS_RAILS_MAX; r++)
            assert_int_equal(end_of(&pair.consumer)->direct.rails[r].slots != NULL, r == end_of(&pair.consumer)->home);
        for (int r = 0; r < VERBS_RAILS_MAX; r++)
            assert_int_equal(end_of(&pair.consumer)->direct.rails[r].flushed != 0, r == end_of(&pair.consumer)->home);
        fake.devices[channel].dying = true;
        move_slots(&pair, 100);
        expect_ports(&pair, channel < 4 ? 0xfu & ~(1u << channel) : 0x7);
        pair_close(&pair);
    }
    fake.is_gpu = NULL;
    job_fini(&job);
}

/* Nobody needed it, so nothing is sent again; both ends know. */
static void a_port_in_reserve_that_dies_changes_nothing(void **state) {
    (void)state;
    struct job job;
    struct pair pair;
    job_init(&job, NULL);
    pair_prepare(&pair, &job, 6, FAKE_DEVICES);
    pair_join(&pair);
    move_slots(&pair, 50);
    fake_event(1, (struct ibv_async_event){.element.port_num = 1, .event_type = IBV_EVENT_PORT_ERR});
    fake.devices[1].hanging = true;
    while (end_of(&pair.producer)->rails[1].state != VERBS_RAIL_DOWN ||
           end_of(&pair.consumer)->rails[1].state != VERBS_RAIL_DOWN)
        settle(&pair);
    expect_ports(&pair, 1u << 6);
    pair_close(&pair);
    job_fini(&job);
}

/* ------------------------------------------------------------------------------------------------------------- in reserve */

/* What devices have given out. */
static void expect_made(int nqps, int ncqs, int nmrs) {
    int qps = 0, mrs = 0;
    for (int k = 0; k < FAKE_QPS; k++)
        qps += fake.qps[k] != NULL;
    for (int k = 0; k < FAKE_MRS; k++)
        mrs += fake.mrs[k].used;
    assert_int_equal(qps, nqps);
    assert_int_equal(fake.ncqs, ncqs);
    assert_int_equal(mrs, nmrs);
}

static void until_reserves_are_up(struct pair *pair) {
    for (int r = 0; r < VERBS_RAILS_MAX; r++)
        while (r != end_of(&pair->producer)->home && (end_of(&pair->producer)->rails[r].state != VERBS_RAIL_UP ||
                                                      end_of(&pair->consumer)->rails[r].state != VERBS_RAIL_UP))
            settle(pair);
}

static void a_rail_in_reserve_has_nothing_before_it_is_needed(void **state) {
    (void)state;
    struct job job;
    job_init(&job, NULL);
    for (int channel = 0; channel < FAKE_DEVICES; channel++) {
        struct pair pair;
        uint64_t counters[CONN_COUNTERS] = {0};
        pair_prepare(&pair, &job, channel, FAKE_DEVICES);
        pair.owners[0].counters = counters;
        pair_join(&pair);
        move_slots(&pair, 50);
        const int nqps = end_of(&pair.producer)->nqps;
        expect_made(2 * nqps, 2, 2);
        fake.devices[channel].dying = true;
        move_slots(&pair, 100);
        until_reserves_are_up(&pair);
        expect_made(2 * 3 * nqps, 2 * 3, 2 * 4); /* of the home rail, memory is still registered */
        assert_int_equal(counters[CONN_RAILS_LOST], 1);
        assert_int_equal(counters[CONN_RAILS_RETURNED], 0);
        pair_close(&pair);
    }
    job_fini(&job);
}

/* The connection begins with those in reserve, whatever is wrong with the home rail: it leads nowhere, or a port of it is down. */
static void where_the_home_rail_does_not_work_a_connection_begins_with_the_others(void **state) {
    (void)state;
    struct job job;
    job_init(&job, NULL);
    for (int k = 0; k < 2 * FAKE_DEVICES; k++) {
        struct pair pair;
        const int channel = k / 2;
        pair_prepare(&pair, &job, channel, FAKE_DEVICES);
        fake.devices[channel].dying = k % 2;
        verbs_host()->ports[channel].down = !(k % 2);
        pair_join(&pair);
        expect_ports(&pair, channel < 4 ? 0xfu & ~(1u << channel) : 0x7);
        pair_close(&pair);
    }
    job_fini(&job);
}

static void where_no_rail_works_at_all_another_transport_may_be_tried(void **state) {
    (void)state;
    struct job job;
    struct pair pair;
    job_init(&job, NULL);
    pair_prepare(&pair, &job, 6, FAKE_DEVICES);
    for (int k = 0; k < FAKE_DEVICES; k++)
        fake.devices[k].dying = true;
    assert_int_equal(transport_verbs.offer(&pair.consumer, &pair.blob), COLLET_SUCCESS);
    assert_int_equal(transport_verbs.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
    expect_unreachable(&pair, "no RDMA port between");
    pair_close(&pair);
    job_fini(&job);
}

static void when_no_rail_in_reserve_works_both_ends_give_up(void **state) {
    (void)state;
    struct job job;
    job_init(&job, NULL);
    for (int k = 0; k < 2 * FAKE_DEVICES; k++) {
        struct pair pair;
        const int channel = k / 2;
        pair_prepare(&pair, &job, channel, FAKE_DEVICES);
        pair_join(&pair);
        move_slots(&pair, 50);
        fake.devices[channel].dying = true;
        for (int device = 0; device < FAKE_DEVICES && k % 2; device++)
            fake.devices[device].dying = true; /* their greetings come to nothing */
        if (k % 2 == 0)
            fake.create_cq_errno = ENOMEM; /* they cannot be opened */
        slots_publish(&pair.producer);
        expect_both_broken(&pair);
        fake.create_cq_errno = 0;
        pair_close(&pair);
    }
    job_fini(&job);
}

/* ---------------------------------------------------------------------------------------------------------------- messages */

/* Two hosts of eight GPUs with a NIC each. Ranks 0 and 1 are on GPU number g of one each. */
static void job_of_gpus(struct job *job, int g) {
    int place[16], n = 2, gpus = 0, nic = 0;
    assert_int_equal(topo_synthetic("8 gpu nvswitch : 8 nic 200", &job->host), COLLET_SUCCESS);
    for (int k = 0; k < job->host->nnodes; k++)
        if (job->host->nodes[k].kind == TOPO_NIC)
            snprintf(job->host->nodes[k].nic.name, sizeof(job->host->nodes[k].nic.name), "mlx5_%d", nic++);
    const struct topo *hosts[2] = {job->host, job->host};
    assert_int_equal(topo_fuse(hosts, 2, &job->topo), COLLET_SUCCESS);
    for (int k = 0; k < job->topo->nnodes; k++)
        if (job->topo->nodes[k].kind == TOPO_GPU) {
            const int number = gpus++;
            place[number == g ? 0 : number == 8 + g ? 1 : n++] = k;
        }
    assert_int_equal(n, 16);
    assert_int_equal(topo_search(job->topo, 16, place, &job->rings), COLLET_SUCCESS);
}

/* Whatever its channel: a long message of GPUs has several (tests/layers/gpu/test_emulated_gpu.c). And even if channels are fewer than
 * NICs, so that collectives take them by turns. */
static void messages_between_gpus_go_by_the_nic_next_to_the_one_that_gets_them(void **state) {
    (void)state;
    static struct gpu_rank gpus[2] = {{.driver = &emulated_gpu_driver, .ordinal = 0},
                                      {.driver = &emulated_gpu_driver, .ordinal = 1}};
    fake.is_gpu = emulated_gpu_owns;
    emulated_gpu_set_direct((struct gpu_direct){.exports_dmabuf = true}, fake_land_all);
    for (int k = 0; k < 4 * FAKE_DEVICES; k++) {
        struct job job;
        struct pair pair;
        job_of_gpus(&job, k / 4);
        pair_prepare(&pair, &job, k % 4, FAKE_DEVICES);
        pair.producer.lane = pair.consumer.lane = PROG_LANE_P2P;
        for (int rank = 0; rank < 2; rank++)
            pair.owners[rank].gpu = &gpus[rank];
        pair.owners[0].tied = pair.owners[1].tied = k % 2;
        pair_join(&pair);
        expect_ports(&pair, 1u << k / 4);
        pair_close(&pair);
        job_fini(&job);
    }
    fake.is_gpu = NULL;
}

/* Of one message over two ports, neither carries more than a slot more than the other one. */
static void a_message_goes_by_all_ports_evenly(void **state) {
    (void)state;
    enum { SLOTS = 200, SLOT_BYTES = 4096 };
    for (int nports = 2; nports <= 4; nports++) {
        struct pair pair;
        uint64_t before[4], least = UINT64_MAX, most = 0;
        pair_prepare(&pair, NULL, 0, nports);
        pair.producer.lane = pair.consumer.lane = PROG_LANE_P2P;
        pair_join(&pair);
        for (int k = 0; k < nports; k++)
            before[k] = fake.devices[k].written;
        move_slots(&pair, SLOTS);
        for (int k = 0; k < nports; k++) {
            const uint64_t bytes = fake.devices[k].written - before[k];
            least = bytes < least ? bytes : least;
            most = bytes > most ? bytes : most;
        }
        assert_true(least > 0);
        if (most - least > (uint64_t)SLOTS * SLOT_BYTES / 20)
            fail_msg("of %d ports one carries %llu bytes, another one %llu", nports, (unsigned long long)most,
                     (unsigned long long)least);
        pair_close(&pair);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_channel_has_the_port_of_its_rings_nic_for_itself, forget),
        cmocka_unit_test_setup(credits_go_by_that_port_too, forget),
        cmocka_unit_test_setup(what_is_not_tied_takes_ports_by_turns, forget),
        cmocka_unit_test_setup(a_nic_that_is_not_known_leaves_ports_to_be_taken_by_turns, forget),
        cmocka_unit_test_setup(both_ends_choose_alike_where_only_one_knows_its_nic, forget),
        cmocka_unit_test_setup(nics_may_go_by_the_names_of_their_interfaces, forget),
        cmocka_unit_test_setup(hosts_with_fewer_ports_are_tied_by_those_that_both_have, forget),
        cmocka_unit_test_setup(a_port_that_is_down_on_one_host_moves_no_other, forget),
        cmocka_unit_test_setup(a_port_that_is_down_leaves_the_others_to_be_taken_by_turns, forget),
        cmocka_unit_test_setup(when_the_port_dies_those_in_reserve_take_over_until_it_is_back, forget),
        cmocka_unit_test_setup(slots_of_gpus_go_by_the_same_ports, forget),
        cmocka_unit_test_setup(a_port_in_reserve_that_dies_changes_nothing, forget),
        cmocka_unit_test_setup(a_rail_in_reserve_has_nothing_before_it_is_needed, forget),
        cmocka_unit_test_setup(where_the_home_rail_does_not_work_a_connection_begins_with_the_others, forget),
        cmocka_unit_test_setup(where_no_rail_works_at_all_another_transport_may_be_tried, forget),
        cmocka_unit_test_setup(when_no_rail_in_reserve_works_both_ends_give_up, forget),
        cmocka_unit_test_setup(messages_between_gpus_go_by_the_nic_next_to_the_one_that_gets_them, forget),
        cmocka_unit_test_setup(a_message_goes_by_all_ports_evenly, forget),
    };
    fake_reset();
    slots_pattern.call_of = call_of;
    gpu_driver_use(&emulated_gpu_driver);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
