/* SPDX-License-Identifier: Apache-2.0
 *
 * Machines as graphs: the line that imagines them, distances and bandwidths of paths, several hosts in one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "topo/probe/paths.h"
#include "topo/probe/speeds.h"
#include "topo/probe/topo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Node number `index` of a kind on host 0, from 0. */
static int nth(const struct topo *topo, enum topo_kind kind, int index) {
    for (int n = 0; n < topo->nnodes; n++)
        if (topo->nodes[n].kind == kind && index-- == 0)
            return n;
    fail_msg("no such node");
    return -1;
}

static struct topo *imagine(const char *text) {
    struct topo *topo = NULL;
    if (topo_synthetic(text, &topo) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
    return topo;
}

static struct topo_path path_between(const struct topo *topo, int from, int to, enum paths_scope scope) {
    struct topo_paths *paths;
    assert_int_equal(topo_paths_from(topo, from, scope, &paths), COLLET_SUCCESS);
    struct topo_path path = *topo_path_to(paths, to);
    int nlinks = 0;
    double narrowest = INFINITY;
    for (int l = path.last_link; l >= 0; l = topo_path_before(topo, paths, l)) {
        nlinks++;
        narrowest = fmin(narrowest, topo->links[l].gbps);
    }
    if (path.class != PATH_NONE) {
        assert_int_equal(nlinks, path.nlinks); /* what is said of a path is true of its links */
        assert_true(narrowest == path.gbps);
    }
    free(paths);
    return path;
}

static void assert_class(const struct topo *topo, int from, int to, enum topo_class class) {
    assert_string_equal(topo_class_name(path_between(topo, from, to, PATHS_IN_HOST).class), topo_class_name(class));
}

/* ------------------------------------------------------------------------------------------------- one line of text */

static void a_line_makes_the_machine_that_it_says(void **state) {
    (void)state;
    struct topo *topo = imagine("2 node : 8 gpu nvswitch : 4 nic 200");
    assert_int_equal(topo->nhosts, 2);
    for (int h = 0; h < 2; h++) {
        assert_int_equal(topo_count(topo, h, TOPO_GPU), 8);
        assert_int_equal(topo_count(topo, h, TOPO_NIC), 4);
        assert_int_equal(topo_count(topo, h, TOPO_PCI), 4);
        assert_int_equal(topo_count(topo, h, TOPO_CPU), 2);
        assert_int_equal(topo_count(topo, h, TOPO_NVS), 1);
    }
    assert_int_equal(topo->nodes[topo->net].kind, TOPO_NET);
    assert_true(speed_of_nic(&topo->nodes[nth(topo, TOPO_NIC, 0)]) == 25);
    topo_destroy(topo);

    topo = imagine("2 cpu");
    assert_int_equal(topo->nnodes, 2);
    assert_int_equal(topo->net, -1);
    topo_destroy(topo);

    topo = imagine("  1 nodes:4 gpus mesh:1 switch : 2 nics  ");
    assert_int_equal(topo_count(topo, 0, TOPO_PCI), 1);
    assert_int_equal(topo_count(topo, 0, TOPO_CPU), 1);
    assert_class(topo, nth(topo, TOPO_GPU, 0), nth(topo, TOPO_GPU, 3), PATH_NVL);
    assert_class(topo, nth(topo, TOPO_GPU, 0), nth(topo, TOPO_NIC, 1), PATH_PIX);
    topo_destroy(topo);
}

static void a_line_that_is_wrong_is_refused_with_the_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"", "at its end"},
        {"gpu", "\"gpu\" (character 1)"},
        {"2 gpus pci fast", "\"fast\" (character 12), expected \":\" or the end"},
        {"3 gpux", "\"gpux\" (character 3)"},
        {"0 gpu", "a number from 1 to"},
        {"-1 gpu", "a number from 1 to"},
        {"129 gpu", "a number from 1 to 128"},
        {"99999999999999999999 gpu", "a number from 1 to"},
        {"2 gpu : 1 node", "expected cpu, switch, gpu or nic"},
        {"2 node", "what a node has"},
        {"2 node :", "at its end"},
        {"2 gpu : : 1 nic", "\":\" (character 9)"},
        {"2 gpu : 2 gpu", "only once"},
        {"1 nic 0", "a number from 1 to 100000"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct topo *topo = NULL;
        assert_int_equal(topo_synthetic(wrong[i].text, &topo), COLLET_ERR_INVALID_ARGUMENT);
        assert_null(topo);
        if (strstr(err_last(), wrong[i].says) == NULL)
            fail_msg("\"%s\" was refused with: %s", wrong[i].text, err_last());
    }
}

/* ------------------------------------------------------------------------------------------------------------ paths */

static void distance_is_the_farthest_thing_on_the_way(void **state) {
    (void)state;
    struct topo *topo = imagine("8 gpu pci : 4 nic 100");
    int gpu = nth(topo, TOPO_GPU, 0);
    assert_class(topo, gpu, gpu, PATH_LOC);
    assert_class(topo, gpu, nth(topo, TOPO_GPU, 1), PATH_PIX); /* behind the same switch */
    assert_class(topo, gpu, nth(topo, TOPO_GPU, 2), PATH_PHB); /* another one below the same CPU */
    assert_class(topo, gpu, nth(topo, TOPO_GPU, 4), PATH_SYS);
    assert_class(topo, gpu, nth(topo, TOPO_NIC, 0), PATH_PIX);
    assert_class(topo, gpu, nth(topo, TOPO_CPU, 0), PATH_PHB);
    assert_class(topo, gpu, nth(topo, TOPO_CPU, 1), PATH_SYS);
    assert_class(topo, nth(topo, TOPO_CPU, 0), nth(topo, TOPO_CPU, 1), PATH_SYS);
    topo_destroy(topo);
}

static void switches_in_a_row_are_a_class_of_their_own(void **state) {
    (void)state;
    struct topo *topo;
    assert_int_equal(topo_read_file("tests/layers/topology/topo/two_cliques.xml", TOPO_RECORDED, &topo),
                     COLLET_SUCCESS);
    assert_class(topo, nth(topo, TOPO_GPU, 0), nth(topo, TOPO_NIC, 0), PATH_PXB);
    assert_class(topo, nth(topo, TOPO_GPU, 0), nth(topo, TOPO_GPU, 1), PATH_NVL);
    assert_class(topo, nth(topo, TOPO_GPU, 0), nth(topo, TOPO_GPU, 4), PATH_SYS);
    topo_destroy(topo);
}

static void the_narrowest_link_is_the_bandwidth(void **state) {
    (void)state;
    struct topo *topo = imagine("8 gpu pci : 4 nic 100");
    struct topo_path near = path_between(topo, nth(topo, TOPO_GPU, 0), nth(topo, TOPO_GPU, 1), PATHS_IN_HOST);
    struct topo_path far = path_between(topo, nth(topo, TOPO_GPU, 0), nth(topo, TOPO_GPU, 4), PATHS_IN_HOST);
    assert_true(fabs(near.gbps - 25.2) < 0.1); /* 16 lanes of 16 GT/s, 128/130, four fifths */
    assert_true(far.gbps == speed_of_sys(&topo->nodes[0].cpu));
    topo_destroy(topo);
}

static void a_gpu_link_is_taken_even_where_pci_is_wider(void **state) {
    (void)state;
    struct topo *topo = imagine("8 gpu mesh"); /* one link of 20 GB/s between any two, PCI of 25 */
    struct topo_path path = path_between(topo, nth(topo, TOPO_GPU, 0), nth(topo, TOPO_GPU, 1), PATHS_IN_HOST);
    assert_int_equal(path.class, PATH_NVL);
    assert_true(path.gbps == 20);
    topo_destroy(topo);
}

static void nothing_is_forwarded_through_a_gpu(void **state) {
    (void)state;
    /* A chain of GPU links 0 – 1 – 2 is no path from 0 to 2: that is over PCI. */
    struct topo *topo;
    assert_int_equal(topo_create(&topo), COLLET_SUCCESS);
    struct topo_node cpu = topo_blank(TOPO_CPU, -1);
    topo_add_node(topo, &cpu);
    for (int g = 0; g < 3; g++) {
        struct topo_node gpu = topo_blank(TOPO_GPU, 0);
        snprintf(gpu.pci.busid, sizeof gpu.pci.busid, "0000:0%d:00.0", g);
        topo_add_node(topo, &gpu);
    }
    topo_add_link(topo, 1, 2, MEDIUM_NVLINK, 1, 100);
    topo_add_link(topo, 2, 3, MEDIUM_NVLINK, 1, 100);
    assert_int_equal(topo_finish(topo), COLLET_SUCCESS);
    assert_class(topo, 1, 2, PATH_NVL);
    assert_class(topo, 2, 1, PATH_NVL); /* the other direction came by itself */
    assert_class(topo, 1, 3, PATH_PHB);
    topo_destroy(topo);
}

static void the_widest_way_around_is_taken_then_the_shortest(void **state) {
    (void)state;
    struct topo *topo;
    assert_int_equal(topo_create(&topo), COLLET_SUCCESS);
    for (int c = 0; c < 4; c++) {
        struct topo_node cpu = topo_blank(TOPO_CPU, -1);
        cpu.cpu.numaid = c;
        topo_add_node(topo, &cpu);
    }
    assert_int_equal(topo_finish(topo), COLLET_SUCCESS);
    for (int l = 0; l < topo->nlinks;
         l++) { /* 0 – 3 is narrow; 0 – 1 – 3 and 0 – 2 – 1 – 3 are as wide as each other */
        int from = topo->links[l].from, to = topo->links[l].to;
        topo->links[l].gbps = from + to == 3 && from * to == 0                   ? 1
                              : (from == 2 && to == 3) || (from == 3 && to == 2) ? 2
                                                                                 : 9;
    }
    struct topo_path path = path_between(topo, 0, 3, PATHS_IN_HOST);
    assert_true(path.gbps == 9);
    assert_int_equal(path.nlinks, 2);
    topo_destroy(topo);
}

static void hosts_meet_at_the_net_and_only_there(void **state) {
    (void)state;
    struct topo *topo = imagine("3 node : 2 gpu : 1 nic 80");
    int gpu = nth(topo, TOPO_GPU, 0), other = -1;
    for (int n = topo->hosts[2].first_node; n < topo->hosts[2].end_node; n++)
        if (topo->nodes[n].kind == TOPO_GPU)
            other = n;
    struct topo_path path = path_between(topo, gpu, other, PATHS_ANYWHERE);
    assert_int_equal(path.class, PATH_NET);
    assert_true(path.gbps == 10);
    assert_int_equal(path.nlinks, 6); /* switch, NIC, net, NIC, switch, GPU */
    assert_int_equal(topo->hosts[2].shape, 0);
    topo_destroy(topo);
}

static void a_host_without_a_nic_gets_one(void **state) {
    (void)state;
    struct topo *one = imagine("2 cpu"), *topo;
    const struct topo *hosts[] = {one, one};
    assert_int_equal(topo_fuse(hosts, 2, &topo), COLLET_SUCCESS);
    assert_int_equal(topo_count(topo, 1, TOPO_NIC), 1);
    assert_int_equal(path_between(topo, 0, topo->hosts[1].first_node, PATHS_ANYWHERE).class, PATH_NET);
    topo_destroy(one);
    topo_destroy(topo);
}

static void what_cannot_be_fused_is_refused(void **state) {
    (void)state;
    struct topo *two = imagine("2 node : 1 cpu"), *topo = NULL;
    const struct topo *hosts[] = {two};
    assert_int_equal(topo_fuse(hosts, 1, &topo), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(topo_fuse(hosts, 0, &topo), COLLET_ERR_INVALID_ARGUMENT);
    assert_null(topo);
    topo_destroy(two);
}

static void a_graph_without_a_cpu_is_no_machine(void **state) {
    (void)state;
    struct topo *topo;
    assert_int_equal(topo_create(&topo), COLLET_SUCCESS);
    assert_int_equal(topo_finish(topo), COLLET_ERR_INVALID_ARGUMENT);
    topo_destroy(topo);
    topo_destroy(NULL);
}

static void a_host_has_only_so_many_nodes(void **state) {
    (void)state;
    struct topo *topo;
    struct topo_node cpu = topo_blank(TOPO_CPU, -1);
    assert_int_equal(topo_create(&topo), COLLET_SUCCESS);
    for (int n = 0; n < TOPO_HOST_NODES_MAX; n++)
        assert_int_equal(topo_add_node(topo, &cpu), n);
    assert_int_equal(topo_add_node(topo, &cpu), -1);
    assert_int_equal(topo_finish(topo), COLLET_ERR_INVALID_ARGUMENT);
    topo_destroy(topo);
}

static void lanes_are_guessed_from_a_bandwidth(void **state) {
    (void)state;
    static const struct {
        double raw, gts;
        int lanes;
    } links[] = {{15.753846, 8, 16}, {31.507692, 16, 16}, {3.938462, 8, 4}, {63.015384, 32, 16}, {0.25, 2.5, 1}};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        struct topo_pci pci = {0}, exact = {.link_gts = links[i].gts, .link_lanes = links[i].lanes};
        speed_guess_lanes(links[i].raw, &pci);
        assert_true(fabs(speed_of_pci(&pci) / speed_of_pci(&exact) - 1) < 0.02); /* 8 × 16 lanes is as good as 16 × 8 */
    }
}

static void a_graph_prints_each_node_and_each_wire_once(void **state) {
    (void)state;
    struct topo *topo = imagine("2 node : 2 gpu nvswitch : 1 nic 100");
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    topo_print_dot(topo, out);
    topo_print(topo, out);
    fclose(out);
    int wires = 0;
    for (const char *at = strstr(text, " -- "); at != NULL; at = strstr(at + 1, " -- "))
        wires++;
    assert_int_equal(wires, topo->nlinks / 2);
    assert_non_null(strstr(text, "label=\"NIC nic0\""));
    assert_non_null(strstr(text, "host 0, and 1 more that are equal to it"));
    free(text);
    topo_destroy(topo);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_makes_the_machine_that_it_says),
        cmocka_unit_test(a_line_that_is_wrong_is_refused_with_the_place),
        cmocka_unit_test(distance_is_the_farthest_thing_on_the_way),
        cmocka_unit_test(switches_in_a_row_are_a_class_of_their_own),
        cmocka_unit_test(the_narrowest_link_is_the_bandwidth),
        cmocka_unit_test(a_gpu_link_is_taken_even_where_pci_is_wider),
        cmocka_unit_test(nothing_is_forwarded_through_a_gpu),
        cmocka_unit_test(the_widest_way_around_is_taken_then_the_shortest),
        cmocka_unit_test(hosts_meet_at_the_net_and_only_there),
        cmocka_unit_test(a_host_without_a_nic_gets_one),
        cmocka_unit_test(what_cannot_be_fused_is_refused),
        cmocka_unit_test(a_graph_without_a_cpu_is_no_machine),
        cmocka_unit_test(a_host_has_only_so_many_nodes),
        cmocka_unit_test(lanes_are_guessed_from_a_bandwidth),
        cmocka_unit_test(a_graph_prints_each_node_and_each_wire_once),
    };
    return cmocka_run_group_tests_name("topo_graph", tests, NULL, NULL);
}
