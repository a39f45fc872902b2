/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs: devices, ports, GIDs, and which of them two ranks use (common/verbs_pair.h).
 */
#include "base/config_read.h"
#include "common/verbs_pair.h"
#include "transport/verbs/verbs_device.c"

#include <sys/stat.h>

static void verbs_host_close(struct verbs_host *host) {
    for (int k = 0; k < host->ndevices; k++) {
        host->lib.dealloc_pd(host->devices[k].pd);
        host->lib.close_device(host->devices[k].context);
    }
    host->ndevices = host->nports = host->nplaces[0] = host->nplaces[1] = 0;
    host->kinds = 0;
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
    struct config config = {.ib_gid_index = -1};
    verbs_port_choose(&port, gids, 5, &config);
    assert_int_equal(port.gid_index[VERBS_ROCE_IPV4], 3);
    assert_int_equal(port.gid_index[VERBS_ROCE_LINK], 0);
    assert_int_equal(port.gid_index[VERBS_ROCE_V1], 2);
    assert_int_equal(port.gid_index[VERBS_ROCE_IPV6], -1);
    verbs_gid_text(&port.gids[VERBS_ROCE_IPV4], text);
    assert_string_equal(text, "10.0.0.3");
    config.ib_gid_index = 9; /* COLLET_IB_GID_INDEX */
    verbs_port_choose(&port, gids, 5, &config);
    assert_int_equal(port.kinds, 1u << VERBS_ROCE_IPV4);
    assert_int_equal(port.gid_index[VERBS_ROCE_IPV4], 9);
    config.ib_gid_index = 7;
    verbs_port_choose(&port, gids, 5, &config);
    assert_int_equal(port.kinds, 0);
}

static void addresses_outside_the_range_are_not_taken(void **state) {
    (void)state;
    static const struct {
        const char *range;
        int v4, v6; /* which GID is taken */
    } table[] = {
        {"", 0, 2},
        {"10.2.0.0/16", 1, -1},
        {"10.0.0.0/8", 0, -1},
        {"10.2.3.4/32", 1, -1},
        {"192.168.0.0/16", -1, -1},
        {"fd00::/8", -1, 3},
        {"2001:db8::/32", -1, 2},
        {"::/0", 0, 2},
        {"0.0.0.0/0", 0, -1},
        {"10.3.0.0/15", 1, -1},
    };
    static const char *const addresses[] = {"::ffff:10.1.2.3", "::ffff:10.2.3.4", "2001:db8::1", "fd00::1"};
    struct ibv_gid_entry gids[4] = {{{.raw = {0}}, 0, 0, 0, 0}};
    for (uint32_t k = 0; k < 4; k++) {
        gids[k] = (struct ibv_gid_entry){.gid_index = k, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
        inet_pton(AF_INET6, addresses[k], gids[k].gid.raw);
    }
    for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
        struct verbs_port port = {.number = 1};
        struct config config = {.ib_gid_index = -1};
        strcpy(config.ib_addr_range, table[k].range);
        verbs_port_choose(&port, gids, 4, &config);
        if (port.gid_index[VERBS_ROCE_IPV4] != table[k].v4 || port.gid_index[VERBS_ROCE_IPV6] != table[k].v6)
            fail_msg("of %s GIDs %d and %d are taken", table[k].range, port.gid_index[VERBS_ROCE_IPV4],
                     port.gid_index[VERBS_ROCE_IPV6]);
    }
}

static void a_range_that_is_none_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"10.1.0.0", "10.1.0.0/33", "10.1.0/16", "fd00::/129",
                                        "/8",       "10.1.0.0/8 ", "here/8"};
    static struct config config;
    for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
        setenv("COLLET_IB_ADDR_RANGE", wrong[k], 1);
        assert_int_equal(config_read(&config), COLLET_ERR_INVALID_USAGE);
        assert_non_null(strstr(err_last(), "COLLET_IB_ADDR_RANGE"));
        assert_non_null(strstr(err_last(), "10.1.0.0/16"));
    }
    unsetenv("COLLET_IB_ADDR_RANGE");
}

/* Of a rank with these kinds of network, and with usable ports by bits: 0x0<Ethernet><InfiniBand>. */
static uint64_t card(uint32_t kinds, uint64_t ethernet, uint64_t infiniband) {
    return kinds | ethernet << 32 | infiniband << 8;
}

static struct peer_info says(uint32_t kinds) {
    struct peer_info peer = {.rank = 0};
    const bool infiniband = kinds & 1u << VERBS_INFINIBAND;
    peer.cards[transport_number(&transport_verbs)] = card(kinds, kinds != 0, infiniband);
    return peer;
}

static void two_ranks_use_the_first_kind_that_both_have(void **state) {
    (void)state;
    const uint32_t ib = 1u << VERBS_INFINIBAND, v4 = 1u << VERBS_ROCE_IPV4, v6 = 1u << VERBS_ROCE_IPV6;
    struct peer_info a = says(v4 | v6), b = says(v6), c = says(ib), none = says(0);
    const char *why = "";
    assert_int_equal(verbs_common_kind(card(v4 | v6, 1, 0), card(v4 | v6, 1, 0)), VERBS_ROCE_IPV4);
    assert_int_equal(verbs_common_kind(card(v4 | v6, 1, 0), card(v6 | ib, 1, 1)), VERBS_ROCE_IPV6);
    /* one InfiniBand port for storage beside eight ports for the job */
    assert_int_equal(verbs_common_kind(card(v4 | ib, 0xff, 1), card(v4 | ib, 0xff, 1)), VERBS_ROCE_IPV4);
    assert_int_equal(verbs_common_kind(card(v4 | ib, 0xff, 1), card(v4 | ib, 1, 1)), VERBS_INFINIBAND);
    assert_true(transport_verbs.reaches(&a, &b, &why));
    assert_true(transport_verbs.reaches(&b, &a, &why));
    assert_false(transport_verbs.reaches(&a, &c, &why));
    assert_non_null(strstr(why, "differ"));
    assert_false(transport_verbs.reaches(&a, &none, &why));
    assert_false(transport_verbs.reaches(&none, &a, &why));
    assert_non_null(strstr(why, "no RDMA port"));
}

/* Opens the fake's devices anew. */
static void reopen(struct verbs_host *host) {
    static struct config config;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    verbs_host_open(host, &config);
}

static void a_slow_port_beside_a_fast_one_is_not_used(void **state) {
    (void)state;
    static struct verbs_host host;
    struct fake saved = fake;
    fake_reset();
    fake.devices[0].speed = 32; /* 25 Gbit/s per lane */
    fake.devices[1].speed = 128;
    fake.devices[0].width = 1;
    fake.devices[1].width = 2; /* 4 lanes */
    reopen(&host);
    assert_int_equal(host.ports[0].mbits, 25000);
    assert_int_equal(host.ports[1].mbits, 400000);
    assert_int_equal(verbs_card_ports(verbs_host_card(&host), VERBS_ROCE_IPV4), 2);
    assert_non_null(strstr(host.ports[0].why, "slower"));
    verbs_host_close(&host);
    fake.devices[0].width = 8; /* 12 lanes: 300 Gbit/s */
    reopen(&host);
    assert_int_equal(verbs_card_ports(verbs_host_card(&host), VERBS_ROCE_IPV4), 3);
    verbs_host_close(&host);
    fake = saved;
}

/* The last of them is the one that is wanted. */
static void a_device_may_have_very_many_gids(void **state) {
    (void)state;
    static struct verbs_host host;
    static struct fake saved;
    saved = fake;
    fake_reset();
    struct fake_device *device = &fake.devices[0];
    device->ngids = 0;
    while (device->ngids < VERBS_GIDS_MAX - 1)
        fake_add_gid(device, "fe80::1", IBV_GID_TYPE_ROCE_V1);
    fake_add_gid(device, "::ffff:10.0.0.2", IBV_GID_TYPE_ROCE_V2);
    reopen(&host);
    assert_int_equal(host.ports[0].gid_index[VERBS_ROCE_IPV4], VERBS_GIDS_MAX - 1);
    verbs_host_close(&host);
    fake_add_gid(device, "::ffff:10.0.0.3", IBV_GID_TYPE_ROCE_V2);
    reopen(&host);
    assert_int_equal(host.ports[0].kinds, 0);
    assert_non_null(strstr(host.ports[0].why, "does not list its GIDs"));
    assert_true(host.ports[1].kinds != 0);
    verbs_host_close(&host);
    fake = saved;
}

/* A port keeps its number when another one is down, but not when COLLET_IB_HCA leaves that out. */
static void ports_are_numbered_whatever_their_state(void **state) {
    (void)state;
    static struct verbs_host host;
    static struct config config;
    struct fake saved = fake;
    fake_reset();
    fake.devices[0].state = IBV_PORT_DOWN;
    reopen(&host);
    assert_int_equal(host.ports[1].place, 1);
    assert_int_equal(verbs_card_ports(verbs_host_card(&host), VERBS_ROCE_IPV4), 2);
    verbs_host_close(&host);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    strcpy(config.ib_hca, "mlx5_1");
    verbs_host_open(&host, &config);
    assert_int_equal(host.ports[1].place, 0);
    assert_int_equal(verbs_card_ports(verbs_host_card(&host), VERBS_ROCE_IPV4), 1);
    verbs_host_close(&host);
    fake = saved;
}

/* libibverbs may list them in any order. */
static void devices_are_in_the_order_of_their_places(void **state) {
    (void)state;
    static struct verbs_host host;
    struct fake saved = fake;
    char folder[] = "/tmp/collet-verbs-XXXXXX", path[256], place[200];
    fake_reset();
    assert_non_null(mkdtemp(folder));
    for (int k = 0; k < 2; k++) { /* mlx5_0 is at 0000:81:00.0, mlx5_1 at 0000:3b:00.0 */
        snprintf(fake.devices[k].device.ibdev_path, sizeof(fake.devices[k].device.ibdev_path), "%s/mlx5_%d", folder, k);
        snprintf(place, sizeof(place), "%s/0000:%s:00.0", folder, k == 0 ? "81" : "3b");
        snprintf(path, sizeof(path), "%s/mlx5_%d/device", folder, k);
        assert_int_equal(mkdir(place, 0700), 0);
        assert_int_equal(mkdir(fake.devices[k].device.ibdev_path, 0700), 0);
        assert_int_equal(symlink(place, path), 0);
    }
    snprintf(path, sizeof(path), "%s/local_cpulist", place); /* next to mlx5_1 */
    FILE *list = fopen(path, "w");
    assert_non_null(list);
    fputs("0-3,8\n", list);
    fclose(list);
    reopen(&host);
    assert_string_equal(host.devices[0].name, "mlx5_1");
    assert_string_equal(host.devices[1].name, "mlx5_0");
    assert_false(host.devices[0].software);                /* a PCI function is behind it */
    assert_int_equal(host.devices[0].cpus.word[0], 0x10f); /* 0-3,8 */
    assert_int_equal(os_cpu_set_count(&host.devices[1].cpus), 0);
    verbs_host_close(&host);
    fake = saved;
    snprintf(path, sizeof(path), "rm -r %s", folder);
    assert_int_equal(system(path), 0);
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

static uint16_t last_dlid, last_pkey_index; /* of the queue pair of is_global() */

/* Is a queue pair of the first port addressed by GID, to a port of the same InfiniBand subnet? */
static bool is_global(const struct config *config, uint8_t other_subnet) {
    static struct verbs_host host;
    struct verbs_depths depths = {.sends = 4, .receives = 4};
    struct verbs_address to = {.lid = 9, .mtu = IBV_MTU_1024};
    struct verbs_qp qp;
    verbs_host_open(&host, config);
    const struct verbs_port *port = &host.ports[0];
    struct ibv_cq *cq = host.lib.create_cq(port->device->context, 8, NULL, NULL, 0);
    to.gid = port->gids[VERBS_INFINIBAND];
    to.gid.raw[7] ^= other_subnet;
    assert_int_equal(verbs_qp_create(&host, port, cq, &depths, &qp), COLLET_SUCCESS);
    assert_int_equal(verbs_qp_connect(&host, &qp, port, VERBS_INFINIBAND, &to, 0, 0, config), COLLET_SUCCESS);
    bool global = ((const struct fake_qp *)(const void *)qp.qp)->global;
    last_dlid = ((const struct fake_qp *)(const void *)qp.qp)->dlid;
    last_pkey_index = ((const struct fake_qp *)(const void *)qp.qp)->pkey_index;
    verbs_qp_destroy(&host, &qp);
    host.lib.destroy_cq(cq);
    verbs_host_close(&host);
    return global;
}

/* An InfiniBand port with LID 7 and these GIDs. */
static void make_infiniband(const char *gid, const char *other_gid) {
    fake.devices[0].ngids = 0;
    fake_add_gid(&fake.devices[0], gid, IBV_GID_TYPE_IB);
    if (other_gid != NULL)
        fake_add_gid(&fake.devices[0], other_gid, IBV_GID_TYPE_IB);
    fake.devices[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
    fake.devices[0].lid = 7;
}

static void a_port_that_demands_a_gid_is_never_addressed_by_a_lid_alone(void **state) {
    (void)state;
    static struct config config;
    struct fake saved = fake;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    fake_reset();
    make_infiniband("fe80::1", NULL);
    assert_false(is_global(&config, 0));
    assert_int_equal(last_dlid, 9);
    fake.devices[0].flags = IBV_QPF_GRH_REQUIRED;
    assert_true(is_global(&config, 0));
    fake = saved;
}

/* fec0 │ 0 │ FLID │ subnet. */
static void a_port_of_another_subnet_is_reached_by_its_flid(void **state) {
    (void)state;
    static struct config config;
    struct fake saved = fake;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    fake_reset();
    make_infiniband("fe80::1", "fec0:0:1234:5::1"); /* the one with a FLID is taken */
    assert_false(is_global(&config, 0));
    assert_int_equal(last_dlid, 9);
    assert_true(is_global(&config, 1));
    assert_int_equal(last_dlid, 0x1234);
    make_infiniband("fec0:0:0:5::1", NULL);
    assert_true(is_global(&config, 1));
    assert_int_equal(last_dlid, 9);
    fake = saved;
}

static void a_partition_key_is_found_in_the_ports_table(void **state) {
    (void)state;
    static const struct {
        int64_t wanted;
        int index; /* −1: the port is not used */
    } table[] = {{0, 0}, {0x8012, 2}, {0x12, 2}, {0x7fff, 0}, {0xffff, 0}, {0x8013, 3}, {0x14, -1}};
    static struct config config;
    struct fake saved = fake;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
        static struct verbs_host host;
        fake_reset();
        make_infiniband("fe80::1", NULL);
        memcpy(fake.devices[0].pkeys, (uint16_t[]){0xffff, 0x0012, 0x8012, 0x0013}, 8); /* a full member has bit 15 */
        fake.devices[0].npkeys = 4;
        config.ib_pkey = table[k].wanted;
        verbs_host_open(&host, &config);
        assert_int_equal(host.ports[0].kinds != 0, table[k].index >= 0);
        assert_true(table[k].index >= 0 || strstr(host.ports[0].why, "COLLET_IB_PKEY") != NULL);
        assert_int_not_equal(host.ports[1].kinds, 0); /* Ethernet has no partitions */
        verbs_host_close(&host);
        if (table[k].index < 0)
            continue;
        assert_false(is_global(&config, 0));
        assert_int_equal(last_pkey_index, table[k].index);
    }
    fake = saved;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_kind_of_a_gid_follows_from_its_type_and_address, forget),
        cmocka_unit_test_setup(of_each_kind_the_first_gid_of_the_port_is_taken, forget),
        cmocka_unit_test_setup(addresses_outside_the_range_are_not_taken, forget),
        cmocka_unit_test_setup(a_range_that_is_none_is_refused, forget),
        cmocka_unit_test_setup(two_ranks_use_the_first_kind_that_both_have, forget),
        cmocka_unit_test_setup(a_slow_port_beside_a_fast_one_is_not_used, forget),
        cmocka_unit_test_setup(a_device_may_have_very_many_gids, forget),
        cmocka_unit_test_setup(ports_are_numbered_whatever_their_state, forget),
        cmocka_unit_test_setup(devices_are_in_the_order_of_their_places, forget),
        cmocka_unit_test_setup(a_list_of_devices_says_which_ports_are_used, forget),
        cmocka_unit_test_setup(a_host_without_usable_ports_says_why, forget),
        cmocka_unit_test_setup(a_port_of_another_subnet_is_reached_by_its_flid, forget),
        cmocka_unit_test_setup(a_partition_key_is_found_in_the_ports_table, forget),
        cmocka_unit_test_setup(a_port_that_demands_a_gid_is_never_addressed_by_a_lid_alone, forget),
    };
    fake_reset();
    slots_pattern.call_of = call_of;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
