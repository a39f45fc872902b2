/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs between ranks on GPUs: how a GPU's memory is registered, and slots that lie there. The GPU is emulated, the NIC a fake
 * (common/verbs_pair.h) that keeps what it wrote into a GPU's memory to itself until something flushes it.
 */
#include "common/verbs_pair.h"

#include "base/config_read.h"
#include "common/emulated_gpu.h"
#include "transport/ipc/gpu_pages.h"
#include "transport/verbs/verbs_device.c"
#include "transport/verbs/verbs_memory.h"
#include "transport/verbs/verbs_near.h"

#include <sys/stat.h>

/* ------------------------------------------------------------------------------------------------------------- choosing */

static void gpu_memory_is_registered_by_dmabuf_then_peermem_then_staged(void **state) {
    (void)state;
    static const struct {
        struct verbs_memory_facts
            facts; /* gpu, exports_dmabuf, lib_dmabuf, nic_dmabuf, peermem, the last two failed, far */
        enum verbs_registration choice;
        const char *why;
    } table[] = {
        {{false, true, true, true, true, false, false, false}, VERBS_PLAIN, "host memory"},
        {{false, false, false, false, false, false, false, false}, VERBS_PLAIN, "host memory"},
        {{true, true, true, true, true, false, false, false}, VERBS_DMABUF, "exports dma-bufs"},
        {{true, true, true, true, false, false, false, false}, VERBS_DMABUF, "exports dma-bufs"},
        {{true, false, true, true, true, false, false, false}, VERBS_PEERMEM, "GPU's driver exports no"},
        {{true, true, false, false, true, false, false, false}, VERBS_PEERMEM, "no ibv_reg_dmabuf_mr"},
        {{true, true, true, false, true, false, false, false}, VERBS_PEERMEM, "NIC's driver takes no"},
        {{true, false, true, true, false, false, false, false}, VERBS_STAGED, "or load nvidia-peermem"},
        {{true, true, false, false, false, false, false, false}, VERBS_STAGED, "rdma-core 34"},
        {{true, true, true, false, false, false, false, false}, VERBS_STAGED, "NIC's driver takes no"},
        {{true, true, true, true, true, true, false, false}, VERBS_PEERMEM, "registering a dma-buf failed"},
        {{true, true, true, true, false, true, false, false}, VERBS_STAGED, "load nvidia-peermem"},
        {{true, true, true, true, true, true, true, false}, VERBS_STAGED, "neither as a dma-buf nor"},
        {{true, true, true, true, true, false, false, true}, VERBS_STAGED, "COLLET_NET_GDR_LEVEL"},
        {{false, true, true, true, true, false, false, true}, VERBS_PLAIN, "host memory"},
    };
    for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
        const char *why;
        assert_int_equal(verbs_memory_choose(&table[k].facts, &why), table[k].choice);
        if (strstr(why, table[k].why) == NULL)
            fail_msg("row %zu does not say '%s': %s", k, table[k].why, why);
    }
}

/* The older one came with a driver of its own. */
static void peermem_is_found_by_both_of_its_names(void **state) {
    (void)state;
    static const char *const names[] = {"nvidia_peermem", "nv_peer_mem", "nvidia_drm"};
    char folder[] = "/tmp/collet-modules-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    for (int k = 0; k < 3; k++) {
        assert_false(verbs_peermem_is_in(folder));
        snprintf(path, sizeof path, "%s/%s", folder, names[k]);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(verbs_peermem_is_in(folder), k < 2);
        assert_int_equal(rmdir(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
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

/* --------------------------------------------------------------------------------------------------- slots in a GPU's memory */

/* Which ends are on a GPU, what that GPU does for NICs, and whether nvidia-peermem is loaded. */
struct gpus {
    bool producer, consumer;
    struct gpu_direct direct;
    bool peermem;
};

static struct gpu_rank gpus[2];

static void gpu_pair_init(struct pair *pair, struct shape shape, struct gpus with) {
    bool on[2] = {with.producer, with.consumer};
    pair_init(pair, shape);
    fake.is_gpu = emulated_gpu_owns;
    fake.gpu_ordered = with.direct.ordered;
    verbs_host()->peermem = with.peermem;
    emulated_gpu_set_direct(with.direct, fake_land_all);
    for (int rank = 0; rank < 2; rank++) {
        gpus[rank] = (struct gpu_rank){.driver = &emulated_gpu_driver, .ordinal = rank};
        pair->owners[rank].gpu = on[rank] ? &gpus[rank] : NULL;
    }
}

static void connect_ends(struct pair *pair) {
    assert_int_equal(transport_verbs.offer(&pair->consumer, &pair->blob), COLLET_SUCCESS);
    assert_int_equal(transport_verbs.accept(&pair->producer, &pair->blob), COLLET_SUCCESS);
    pair_connect(pair);
}

static void gpu_pair_open(struct pair *pair, struct shape shape, struct gpus with) {
    gpu_pair_init(pair, shape, with);
    connect_ends(pair);
}

static bool is_direct(const struct conn *conn) {
    bool direct = end_of(conn)->direct.memory != NULL;
    assert_int_equal(emulated_gpu_owns(conn->end.slots[PROTOCOL_SIMPLE]), direct);
    assert_false(emulated_gpu_owns(conn->end.slots[PROTOCOL_LL]) || emulated_gpu_owns(conn->end.tail));
    return direct;
}

static const struct gpu_direct exports = {.exports_dmabuf = true};

static void slots_of_gpus_are_in_their_memory_and_arrive(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {8, 4096, 1, 1, 0}, {8, 100000, 2, 2, 0}, {2, 5000, 2, 2, UINT64_MAX - 500},
        {1, 3000, 2, 1, 0}, {16, 64, 1, 8, 0},
    };
    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++)
        for (int on = 1; on < 4; on++) {
            struct pair pair;
            gpu_pair_open(&pair, shapes[k], (struct gpus){on & 1, on & 2, exports, false});
            assert_int_equal(is_direct(&pair.producer), on & 1);
            assert_int_equal(is_direct(&pair.consumer), on >> 1);
            move_slots(&pair, shapes[k].slot_bytes > 50000 ? 100 : 1000);
            assert_int_equal(fcntl(fake.dmabuf_fd, F_GETFD), -1); /* nothing needs it any more */
            assert_true(!(on & 2) || fake.nlanded > 0);
            pair_close(&pair);
        }
}

/* Of a job's thousand connections each would else take 2 MiB at least. */
static void short_connections_share_a_block_of_a_gpus_memory(void **state) {
    (void)state;
    enum { PAIRS = 3 };
    static struct pair pairs[PAIRS];
    for (int k = 0; k < PAIRS; k++)
        gpu_pair_open(&pairs[k], (struct shape){8, 4096, 1, 1, 0}, (struct gpus){true, true, exports, false});
    for (int k = 1; k < PAIRS; k++) {
        const char *before = end_of(&pairs[k - 1].consumer)->direct.memory;
        assert_ptr_equal(end_of(&pairs[k].consumer)->direct.memory, before + GPU_PAGE_BYTES);
        assert_int_equal(end_of(&pairs[k].consumer)->direct.bytes, GPU_PAGE_BYTES);
    }
    for (int k = 0; k < PAIRS; k++)
        move_slots(&pairs[k], 300);
    const char *free_now = end_of(&pairs[1].consumer)->direct.memory;
    conn_close(&pairs[1].producer);
    conn_close(&pairs[1].consumer);
    assert_int_equal(transport_verbs.offer(&pairs[1].consumer, &pairs[1].blob), COLLET_SUCCESS);
    assert_ptr_equal(end_of(&pairs[1].consumer)->direct.memory, free_now);
    for (int k = 0; k < PAIRS; k++) {
        conn_close(&pairs[k].producer);
        conn_close(&pairs[k].consumer);
        boot_destroy(pairs[k].boots[0]);
        boot_destroy(pairs[k].boots[1]);
    }
    assert_null(fake_leftover());
    assert_false(emulated_gpu_owns(free_now));
}

/* A call's first slot has a frame, which travels apart; the others are one write each. */
static void of_a_slot_in_a_gpu_the_frame_is_a_write_before_the_payloads(void **state) {
    (void)state;
    struct pair pair;
    gpu_pair_open(&pair, (struct shape){8, 4096, 1, 1, 0}, (struct gpus){true, true, {true, true, false}, false});
    slots_pattern.whole = true;
    settle(&pair);
    uint64_t nwrites = fake.nwrites, ninline = fake.ninline, calls = 1;
    for (uint64_t step = 0; step < 8; step++) {
        calls += step > 0 && call_of(step) != call_of(step - 1);
        slots_publish(&pair.producer);
    }
    progress(&pair.producer);
    assert_int_equal(fake.nwrites - nwrites, 8 + calls);
    assert_int_equal(fake.ninline - ninline, calls);
    move_slots(&pair, 100);
    slots_pattern.whole = false;
    pair_close(&pair);
}

static void what_is_not_flushed_is_not_delivered(void **state) {
    (void)state;
    struct pair pair;
    gpu_pair_open(&pair, (struct shape){8, 4096, 1, 1, 0}, (struct gpus){false, true, exports, false});
    slots_pattern.whole = true;
    fake.reads_hang = true;
    for (int k = 0; k < 4; k++)
        slots_publish(&pair.producer);
    settle(&pair);
    assert_true(fake.landing != NULL);
    assert_false(fifo_has_data(&pair.consumer.end));
    fake.reads_hang = false;
    move_slots(&pair, 100);
    pair_close(&pair);
    slots_pattern.whole = false;
}

static void one_read_flushes_all_that_came_before_it(void **state) {
    (void)state;
    struct pair pair;
    gpu_pair_open(&pair, (struct shape){8, 4096, 1, 1, 0}, (struct gpus){true, true, exports, false});
    slots_pattern.whole = true;
    for (int k = 0; k < 8; k++)
        slots_publish(&pair.producer);
    settle(&pair);
    assert_in_range(fake.nreads, 1, 8);
    assert_true(fake.landing == NULL);
    for (int k = 0; k < 8; k++)
        slots_consume(&pair.consumer);
    move_slots(&pair, 500);
    slots_pattern.whole = false;
    pair_close(&pair);
}

static void a_gpu_that_orders_writes_needs_no_flush(void **state) {
    (void)state;
    struct pair pair;
    gpu_pair_open(&pair, (struct shape){8, 4096, 1, 1, 0}, (struct gpus){true, true, {true, true, true}, false});
    assert_int_equal(end_of(&pair.consumer)->direct.flush, VERBS_FLUSH_NONE);
    move_slots(&pair, 500);
    assert_int_equal(fake.nreads, 0);
    pair_close(&pair);
}

static void a_nic_without_a_queue_pair_to_itself_leaves_flushing_to_the_driver(void **state) {
    (void)state;
    struct pair pair;
    gpu_pair_init(&pair, (struct shape){8, 4096, 2, 1, 0}, (struct gpus){true, true, {true, false, true}, false});
    fake.no_loop = true;
    connect_ends(&pair);
    assert_int_equal(end_of(&pair.consumer)->direct.flush, VERBS_FLUSH_DRIVER);
    move_slots(&pair, 500);
    assert_int_equal(fake.nreads, 0);
    assert_true(fake.nlanded > 0);
    pair_close(&pair);

    gpu_pair_init(&pair, (struct shape){8, 4096, 2, 1, 0}, (struct gpus){true, true, exports, false});
    fake.no_loop = true;
    connect_ends(&pair);
    assert_true(is_direct(&pair.producer));
    assert_false(is_direct(&pair.consumer)); /* nothing would flush */
    move_slots(&pair, 500);
    pair_close(&pair);
}

static void a_registration_that_fails_falls_back_to_the_next_way(void **state) {
    (void)state;
    static const struct {
        int dmabuf_errno, gpu_errno;
        bool exports, peermem, direct;
    } table[] = {
        {0, ENOMEM, true, true, true},       /* dma-buf */
        {EINVAL, 0, true, true, true},       /* then peermem */
        {EINVAL, EFAULT, true, true, false}, /* then pinned host memory */
        {EINVAL, 0, true, false, false},     {EINVAL, 0, false, true, true}, {0, 0, false, false, false},
    };
    for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
        struct pair pair;
        struct gpus with = {true, true, {.exports_dmabuf = table[k].exports}, table[k].peermem};
        gpu_pair_init(&pair, (struct shape){8, 4096, 2, 1, 0}, with);
        fake.reg_dmabuf_errno = table[k].dmabuf_errno;
        fake.reg_gpu_errno = table[k].gpu_errno;
        connect_ends(&pair);
        assert_int_equal(is_direct(&pair.producer), table[k].direct);
        assert_int_equal(is_direct(&pair.consumer), table[k].direct);
        move_slots(&pair, 300);
        pair_close(&pair);
    }
}

static void gpudirect_can_be_switched_off(void **state) {
    (void)state;
    struct pair pair;
    gpu_pair_init(&pair, (struct shape){8, 4096, 1, 1, 0}, (struct gpus){true, true, exports, false});
    pair.configs[1].net_gdr = 0;
    connect_ends(&pair);
    assert_true(is_direct(&pair.producer));
    assert_false(is_direct(&pair.consumer));
    move_slots(&pair, 300);
    pair_close(&pair);
}

/* NIC 0 shares a switch with GPU 0 and a CPU with GPU 2; NIC 1 is behind the other CPU, with GPU 1. */
static const char two_cpus[] =
    "<system version=\"1\">\n"
    "<cpu numaid=\"0\" affinity=\"0000ffff\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">\n"
    "<pci busid=\"0000:30:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
    "<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
    "<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"100000\" port=\"1\"/></nic>\n"
    "</pci>\n"
    "<pci busid=\"0000:03:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
    "</cpu>\n"
    "<cpu numaid=\"1\" affinity=\"ffff0000\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">\n"
    "<pci busid=\"0000:40:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
    "<pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
    "<nic><net name=\"mlx5_1\" dev=\"1\" speed=\"100000\" port=\"1\"/></nic>\n"
    "</pci>\n"
    "</cpu>\n"
    "</system>\n";
static char topo_path[] = "/tmp/collet-verbs-gpu-XXXXXX";

static void slots_are_in_a_gpu_only_if_every_nic_is_near(void **state) {
    (void)state;
    static const struct {
        const char *level;
        int nrails, producer, consumer; /* GPUs */
        bool producer_direct, consumer_direct;
    } table[] = {
        {"PHB", 1, 0, 1, true, false}, {"PHB", 1, 2, 1, true, false}, {"phb", 2, 0, 2, false, false},
        {"PXB", 1, 0, 2, true, false}, {"PIX", 1, 0, 2, true, false}, {"LOC", 1, 0, 2, false, false},
        {"SYS", 1, 0, 1, true, true},  {"SYS", 2, 1, 2, true, true},  {"PHB", 1, 7, 0, true, true}, /* 7: not known */
    };
    for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
        struct pair pair;
        gpu_pair_init(&pair, (struct shape){8, 4096, table[k].nrails, 1, 0}, (struct gpus){true, true, exports, false});
        for (int rank = 0; rank < 2; rank++) {
            strcpy(pair.configs[rank].topo_file, topo_path);
            strcpy(pair.configs[rank].net_gdr_level, table[k].level);
            gpus[rank].ordinal = rank == 0 ? table[k].producer : table[k].consumer;
        }
        connect_ends(&pair);
        assert_int_equal(is_direct(&pair.producer), table[k].producer_direct);
        assert_int_equal(is_direct(&pair.consumer), table[k].consumer_direct);
        move_slots(&pair, 300);
        pair_close(&pair);
    }
}

static void the_distance_of_a_nic_is_that_of_its_path(void **state) {
    (void)state;
    struct config config;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    strcpy(config.topo_file, topo_path);
    assert_int_equal(verbs_path_to_gpu(&config, "mlx5_0", 0), PATH_PIX);
    assert_int_equal(verbs_path_to_gpu(&config, "mlx5_0", 2), PATH_PHB);
    assert_int_equal(verbs_path_to_gpu(&config, "mlx5_0", 1), PATH_SYS);
    assert_int_equal(verbs_path_to_gpu(&config, "mlx5_1", 1), PATH_PIX);
    assert_int_equal(verbs_path_to_gpu(&config, "mlx5_9", 0), PATH_NONE);
    assert_int_equal(verbs_path_to_gpu(&config, "mlx5_0", 7), PATH_NONE);
}

static void a_level_that_is_none_is_refused(void **state) {
    (void)state;
    struct config config;
    setenv("COLLET_NET_GDR_LEVEL", "NEAR", 1);
    assert_int_equal(config_read(&config), COLLET_ERR_INVALID_USAGE);
    assert_non_null(strstr(err_last(), "COLLET_NET_GDR_LEVEL"));
    unsetenv("COLLET_NET_GDR_LEVEL");
    setenv("NCCL_NET_GDR_LEVEL", "sys", 1);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_true(verbs_is_near(&config, PATH_SYS));
    unsetenv("NCCL_NET_GDR_LEVEL");
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_true(verbs_is_near(&config, PATH_PHB) && !verbs_is_near(&config, PATH_SYS));
    assert_true(verbs_is_near(&config, PATH_NONE));
}

static void a_rail_whose_reads_fail_is_lost_and_its_slots_come_again(void **state) {
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct pair pair;
        gpu_pair_open(&pair, (struct shape){8, 400, 2, 1, 0}, (struct gpus){round & 1, true, exports, false});
        fake.chance += (uint64_t)round * 0x9e3779b97f4a7c15ull;
        move_slots(&pair, 20 + (uint64_t)round);
        end_of(&pair.consumer)->direct.rails[0].slots->rkey ^= 77; /* the next read is refused */
        move_slots(&pair, 300);
        assert_int_equal(end_of(&pair.producer)->rails[0].state, VERBS_RAIL_DOWN);
        assert_int_equal(end_of(&pair.consumer)->rails[0].state, VERBS_RAIL_DOWN);
        end_of(&pair.consumer)->direct.rails[0].slots->rkey ^= 77;
        pair_close(&pair);
    }
}

static void a_rail_that_dies_under_slots_in_gpus_is_replaced(void **state) {
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct pair pair;
        gpu_pair_open(&pair, (struct shape){8, 400, 2, 1 + round % 2, UINT64_MAX - 100},
                      (struct gpus){round % 3 > 0, true, exports, false});
        fake.chance += (uint64_t)round * 0x9e3779b97f4a7c15ull;
        move_slots(&pair, 20 + (uint64_t)round);
        if (round % 2) {
            fake.devices[round / 2 % 2].dying = true;
        } else {
            fake.devices[round / 2 % 2].hanging = true;
            fake_event(round / 2 % 2, (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
        }
        move_slots(&pair, 300);
        pair_close(&pair);
    }
}

static void a_device_that_has_failed_takes_no_slots_of_gpus(void **state) {
    (void)state;
    struct pair pair;
    gpu_pair_init(&pair, (struct shape){8, 4096, 2, 1, 0}, (struct gpus){true, true, exports, false});
    fake_remove(0);
    verbs_device_look(verbs_host(), &verbs_host()->devices[0]);
    connect_ends(&pair);
    assert_true(is_direct(&pair.producer) && is_direct(&pair.consumer));
    assert_null(end_of(&pair.consumer)->direct.rails[0].slots);
    move_slots(&pair, 100);
    pair_close(&pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(gpu_memory_is_registered_by_dmabuf_then_peermem_then_staged, forget),
        cmocka_unit_test_setup(peermem_is_found_by_both_of_its_names, forget),
        cmocka_unit_test_setup(whether_a_device_takes_dmabufs_is_asked_of_its_driver, forget),
        cmocka_unit_test_setup(slots_of_gpus_are_in_their_memory_and_arrive, forget),
        cmocka_unit_test_setup(short_connections_share_a_block_of_a_gpus_memory, forget),
        cmocka_unit_test_setup(of_a_slot_in_a_gpu_the_frame_is_a_write_before_the_payloads, forget),
        cmocka_unit_test_setup(what_is_not_flushed_is_not_delivered, forget),
        cmocka_unit_test_setup(one_read_flushes_all_that_came_before_it, forget),
        cmocka_unit_test_setup(a_gpu_that_orders_writes_needs_no_flush, forget),
        cmocka_unit_test_setup(a_nic_without_a_queue_pair_to_itself_leaves_flushing_to_the_driver, forget),
        cmocka_unit_test_setup(a_registration_that_fails_falls_back_to_the_next_way, forget),
        cmocka_unit_test_setup(gpudirect_can_be_switched_off, forget),
        cmocka_unit_test_setup(the_distance_of_a_nic_is_that_of_its_path, forget),
        cmocka_unit_test_setup(slots_are_in_a_gpu_only_if_every_nic_is_near, forget),
        cmocka_unit_test_setup(a_level_that_is_none_is_refused, forget),
        cmocka_unit_test_setup(a_rail_whose_reads_fail_is_lost_and_its_slots_come_again, forget),
        cmocka_unit_test_setup(a_rail_that_dies_under_slots_in_gpus_is_replaced, forget),
        cmocka_unit_test_setup(a_device_that_has_failed_takes_no_slots_of_gpus, forget),
    };
    int fd = mkstemp(topo_path);
    if (fd < 0 || write(fd, two_cpus, strlen(two_cpus)) != (ssize_t)strlen(two_cpus) || close(fd) != 0)
        return 1;
    gpu_driver_use(&emulated_gpu_driver);
    fake_reset();
    slots_pattern.call_of = call_of;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(topo_path);
    return failures;
}
