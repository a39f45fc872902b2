/* SPDX-License-Identifier: Apache-2.0
 *
 * What a machine says of itself: the kernel's files about NICs and interfaces, the library of GPUs about their links.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "common/topo_links.h"
#include "topo/probe/gpus.c"
#include "topo/probe/sysfs.h"
#include "topo/probe/topo.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- an imitation of the kernel's files ---- */

static char root[64];

static void put(const char *path, const char *content) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", content);
    fclose(file);
}

static int make_root(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/collet-sysfs-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static int remove_root(void **state) {
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int add_function(struct topo *topo, enum topo_kind kind, const char *busid) {
    struct topo_node node = topo_blank(kind, 0);
    snprintf(node.pci.busid, sizeof node.pci.busid, "%s", busid);
    return topo_add_node(topo, &node);
}

static struct topo *one_cpu(void) {
    struct topo *topo;
    struct topo_node cpu = topo_blank(TOPO_CPU, -1);
    assert_int_equal(topo_create(&topo), COLLET_SUCCESS);
    topo_add_node(topo, &cpu);
    return topo;
}

#define DEVICES "bus/pci/devices/"

static void the_kernel_knows_links_and_ports(void **state) {
    (void)state;
    put(DEVICES "0000:01:00.0/max_link_speed", "16.0 GT/s PCIe");
    put(DEVICES "0000:01:00.0/max_link_width", "8");
    put(DEVICES "0000:01:00.0/class", "0x020700");
    put(DEVICES "0000:01:00.0/vendor", "0x15b3");
    put(DEVICES "0000:01:00.0/net/ib0/speed", "1");
    put(DEVICES "0000:01:00.0/infiniband/mlx5_3/sys_image_guid", "506b:4b03:00d5:4b9e");
    put(DEVICES "0000:01:00.0/infiniband/mlx5_3/ports/2/rate", "200 Gb/sec (4X HDR)");
    put(DEVICES "0000:01:00.0/infiniband/mlx5_3/ports/2/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000");
    put(DEVICES "0000:01:00.0/infiniband/mlx5_3/ports/2/gids/1", "fe80:0000:0000:0000:506b:4b03:00d5:4b9e");
    put(DEVICES "0000:02:00.0/max_link_speed", "Unknown");
    put(DEVICES "0000:02:00.0/max_link_width", "255");
    put(DEVICES "0000:02:00.0/net/eth7/speed", "25000");
    put(DEVICES "0000:03:00.0/net/eth8/speed", "-1");
    struct topo *topo = one_cpu();
    int rdma = add_function(topo, TOPO_NIC, "0000:01:00.0"), ethernet = add_function(topo, TOPO_NIC, "0000:02:00.0");
    int unknown = add_function(topo, TOPO_NIC, "0000:03:00.0"), absent = add_function(topo, TOPO_NIC, "0000:04:00.0");
    topo_read_sysfs(topo, root);
    assert_int_equal(topo_finish(topo), COLLET_SUCCESS);

    const struct topo_node *node = &topo->nodes[rdma];
    assert_string_equal(node->nic.name, "mlx5_3");
    assert_int_equal(node->nic.mbits, 200000);
    assert_int_equal(node->nic.port, 2);
    assert_int_equal(node->nic.guid, 0x506b4b0300d54b9e);
    assert_string_equal(node->nic.gid, "fe80:0000:0000:0000:506b:4b03:00d5:4b9e");
    assert_int_equal(node->pci.vendor, 0x15b3);
    assert_true(fabs(link_between(topo, rdma, 0, MEDIUM_PCI)->gbps - 12.6) < 0.1);

    assert_string_equal(topo->nodes[ethernet].nic.name, "eth7");
    assert_int_equal(topo->nodes[ethernet].nic.mbits, 25000);
    assert_true(topo->nodes[ethernet].pci.link_gts == 0);
    assert_string_equal(topo->nodes[unknown].nic.name, "eth8");
    assert_int_equal(topo->nodes[unknown].nic.mbits, 0);
    assert_string_equal(topo->nodes[absent].nic.name, "");
    topo_destroy(topo);
}

static void the_interface_of_a_nic_is_found(void **state) {
    (void)state;
    char interface[TOPO_NAME_BYTES];
    put("class/infiniband/mlx5_0/device/net/ens1/speed", "100000");
    put("class/infiniband/mlx5_0/device/net/ens1v0/speed", "100000");
    assert_true(topo_find_interface("mlx5_0", root, interface));
    assert_string_equal(interface, "ens1");
    assert_true(topo_find_interface("lo", root, interface));
    assert_string_equal(interface, "lo");
    assert_false(topo_find_interface("mlx5_1", root, interface));
    assert_false(topo_find_interface("", root, interface));
    assert_false(topo_find_interface("../infiniband/mlx5_0", root, interface));
}

static void a_nic_without_a_link_is_down(void **state) {
    (void)state;
    put("class/net/up0/operstate", "up");
    put("class/net/quiet0/operstate", "unknown"); /* drivers need not say */
    put("class/net/down0/operstate", "down");
    put("class/net/lower0/operstate", "lowerlayerdown");
    put("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
    put("class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
    put("class/infiniband/mlx5_2/ports/1/state", "2: INIT");
    put("class/infiniband/mlx5_3/ports/1/state", "1: DOWN");
    put("class/infiniband/mlx5_3/ports/2/state", "4: ACTIVE");
    assert_true(topo_nic_is_down("down0", root) && topo_nic_is_down("lower0", root));
    assert_true(topo_nic_is_down("mlx5_1", root) && topo_nic_is_down("mlx5_2", root));
    assert_false(topo_nic_is_down("up0", root) || topo_nic_is_down("quiet0", root));
    assert_false(topo_nic_is_down("mlx5_0", root) || topo_nic_is_down("mlx5_3", root));
    assert_false(topo_nic_is_down("nosuch0", root) || topo_nic_is_down("", root));
}

static void without_a_card_interfaces_count(void **state) {
    (void)state;
    put("class/net/lo/flags", "0x9");
    put("class/net/lo/carrier", "1");
    put("class/net/down0/flags", "0x1002");
    put("class/net/down0/carrier", "0");
    put("class/net/br0/flags", "0x1003");
    put("class/net/br0/carrier", "1");
    put("class/net/br0/bridge/bridge_id", "x");
    put("class/net/veth1/flags", "0x1003");
    put("class/net/veth1/carrier", "1");
    put("class/net/veth1/speed", "10000");
    put("class/net/veth0/flags", "0x1003");
    put("class/net/veth0/carrier", "1");
    struct topo *topo = one_cpu();
    topo_add_interfaces(topo, root);
    assert_int_equal(topo_finish(topo), COLLET_SUCCESS);
    assert_int_equal(topo_count(topo, 0, TOPO_NIC), 2);
    assert_string_equal(topo->nodes[1].nic.name, "veth0");
    assert_int_equal(topo->nodes[2].nic.mbits, 10000);
    topo_destroy(topo);
}

static void put_interface(const char *name, const char *mark) {
    char path[128];
    snprintf(path, sizeof path, "class/net/%s/flags", name);
    put(path, "0x1003");
    snprintf(path, sizeof path, "class/net/%s/carrier", name);
    put(path, "1");
    snprintf(path, sizeof path, "class/net/%s/%s", name, mark);
    put(path, "x");
}

static void interfaces_of_guests_are_no_way_out(void **state) {
    (void)state;
    put_interface("virbr0", "bridge/bridge_id");
    put_interface("veth7", "brport/port_id");
    put_interface("tap0", "tun_flags");
    put_interface("calico1", "iflink"); /* virtual, and the only way out if there is no card */
    struct topo *topo = one_cpu();
    topo_add_interfaces(topo, root);
    assert_int_equal(topo_finish(topo), COLLET_SUCCESS);
    assert_int_equal(topo_count(topo, 0, TOPO_NIC), 1);
    assert_string_equal(topo->nodes[1].nic.name, "calico1");
    topo_destroy(topo);
    put_interface("eth0", "device/vendor");
    topo = one_cpu();
    topo_add_interfaces(topo, root);
    assert_int_equal(topo_finish(topo), COLLET_SUCCESS);
    assert_int_equal(topo_count(topo, 0, TOPO_NIC), 1);
    assert_string_equal(topo->nodes[1].nic.name, "eth0");
    topo_destroy(topo);
}

/* ---- an imitation of the GPUs' library, with three GPUs ---- */

/* GPUs 0 and 1 are linked with each other twice, GPU 2 with something that is no GPU, and by one link that is down. */
static int gpu_ids[3] = {0, 1, 2};

static int imitated_count(unsigned *count) {
    *count = 3;
    return 0;
}
static int imitated_handle(unsigned index, void **device) {
    *device = &gpu_ids[index];
    return 0;
}
static int imitated_pci(void *device, struct gpus_pci *pci) {
    *pci = (struct gpus_pci){.bus = 0x10u + (unsigned)*(int *)device};
    return 0;
}
static int imitated_capability(void *device, int *major, int *minor) {
    (void)device;
    *major = 8;
    *minor = 6;
    return 0;
}
static int imitated_state(void *device, unsigned link, unsigned *is_active) {
    *is_active = *(int *)device == 2 ? link == 3 : link < 2;
    return link < 4 ? 0 : 2;
}
static int imitated_remote(void *device, unsigned link, struct gpus_pci *pci) {
    (void)link;
    int id = *(int *)device;
    *pci = (struct gpus_pci){.bus = id == 2 ? 0x99 : 0x10u + (unsigned)(1 - id)};
    return 0;
}
static int imitated_peer(void *device, void *peer, unsigned capability, unsigned *status) {
    (void)capability;
    *status = device == &gpu_ids[2] || peer == &gpu_ids[2];
    return 0;
}

static void the_library_of_gpus_knows_their_links(void **state) {
    (void)state;
    const struct gpus_nvml nvml = {.DeviceGetCount_v2 = imitated_count,
                                   .DeviceGetHandleByIndex_v2 = imitated_handle,
                                   .DeviceGetPciInfo_v3 = imitated_pci,
                                   .DeviceGetCudaComputeCapability = imitated_capability,
                                   .DeviceGetNvLinkState = imitated_state,
                                   .DeviceGetNvLinkRemotePciInfo_v2 = imitated_remote,
                                   .DeviceGetP2PStatus = imitated_peer};
    struct topo *topo = one_cpu();
    int third = add_function(topo, TOPO_GPU, "0000:12:00.0"), second = add_function(topo, TOPO_GPU, "0000:11:00.0");
    int first = add_function(topo, TOPO_GPU, "0000:10:00.0");
    topo_add_gpus(topo, &nvml);
    assert_int_equal(topo_finish(topo), COLLET_SUCCESS);
    assert_int_equal(topo->nodes[first].gpu.dev, 0);
    assert_int_equal(topo->nodes[second].gpu.dev, 1);
    assert_int_equal(topo->nodes[third].gpu.dev, 2);
    assert_int_equal(topo->nodes[third].gpu.sm, 86);
    assert_int_equal(link_between(topo, first, second, MEDIUM_NVLINK)->count, 2);
    assert_true(link_between(topo, second, first, MEDIUM_NVLINK)->gbps == 24);
    int nvs = topo->nnodes - 1;
    assert_int_equal(topo->nodes[nvs].kind, TOPO_NVS);
    assert_int_equal(link_between(topo, nvs, third, MEDIUM_NVLINK)->count, 1);
    topo_destroy(topo);
}

/* ---- this machine ---- */

static void this_machine_has_a_cpu(void **state) {
    (void)state;
    struct topo *topo;
    if (topo_probe(TOPO_CLOCK_S, &topo) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
    assert_true(topo_count(topo, 0, TOPO_CPU) >= 1);
    assert_true(topo->nodes[0].cpu.affinity_words > 0);
    topo_destroy(topo);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_interface_of_a_nic_is_found, make_root, remove_root),
        cmocka_unit_test_setup_teardown(the_kernel_knows_links_and_ports, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_nic_without_a_link_is_down, make_root, remove_root),
        cmocka_unit_test_setup_teardown(without_a_card_interfaces_count, make_root, remove_root),
        cmocka_unit_test_setup_teardown(interfaces_of_guests_are_no_way_out, make_root, remove_root),
        cmocka_unit_test(the_library_of_gpus_knows_their_links),
        cmocka_unit_test(this_machine_has_a_cpu),
    };
    return cmocka_run_group_tests_name("topo_machine", tests, NULL, NULL);
}
