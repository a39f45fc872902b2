/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings and trees: whether they are what they must be, on recorded and imagined machines, and how long finding them
 * takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "common/level.h"
#include "common/ring_order.h"
#include "topo/probe/paths.h"
#include "topo/probe/print_rings.h"
#include "topo/probe/search.h"
#include "topo/probe/tour.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct job {
    struct topo *topo;
    struct topo_rings *rings;
};

static struct job job_on(struct topo *topo, int per_host) {
    struct job job = {.topo = topo};
    int nranks, *place;
    assert_int_equal(topo_place_ranks(topo, per_host, &nranks, &place), COLLET_SUCCESS);
    if (topo_search(topo, nranks, place, &job.rings) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
    free(place);
    return job;
}

/* Two hosts that are recorded so. */
static struct job job_on_two(const char *text) {
    struct topo *host, *topo;
    assert_int_equal(topo_read_text(text, strlen(text), "test", TOPO_RECORDED, &host), COLLET_SUCCESS);
    assert_int_equal(topo_repeat(host, 2, &topo), COLLET_SUCCESS);
    topo_destroy(host);
    return job_on(topo, 0);
}

static struct job job_of(const char *machine, int per_host) {
    struct topo *topo;
    if (topo_synthetic(machine, &topo) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
    return job_on(topo, per_host);
}

static struct job job_of_file(const char *path, int nhosts) {
    struct topo *host, *topo;
    const struct topo *hosts[16];
    if (topo_read_file(path, TOPO_RECORDED, &host) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
    for (int h = 0; h < nhosts; h++)
        hosts[h] = host;
    assert_int_equal(topo_fuse(hosts, nhosts, &topo), COLLET_SUCCESS);
    topo_destroy(host);
    return job_on(topo, 0);
}

static void job_end(struct job *job) {
    topo_rings_destroy(job->rings);
    topo_destroy(job->topo);
}

static struct topo_path path_between(const struct topo *topo, int from, int to) {
    struct topo_paths *paths;
    assert_int_equal(topo_paths_from(topo, from, PATHS_IN_HOST, &paths), COLLET_SUCCESS);
    struct topo_path path = *topo_path_to(paths, to);
    free(paths);
    return path;
}

/* ------------------------------------------------------------------------------------------------ what always holds */

static void check_rings(const struct topo_rings *rings) {
    int *order = malloc((size_t)rings->nranks * sizeof *order), *seen = calloc((size_t)rings->nranks, sizeof *seen);
    assert_in_range(rings->nrings, 1, SEARCH_RINGS_MAX);
    for (int ring = 0; ring < rings->nrings; ring++) {
        ring_order(rings, ring, order);
        int changes = 0;
        for (int i = 0; i < rings->nranks; i++) {
            assert_in_range(order[i], 0, rings->nranks - 1);
            assert_int_equal(seen[order[i]]++, ring); /* every rank once in every ring */
            changes += rings->host_of[order[i]] != rings->host_of[order[(i + 1) % rings->nranks]];
        }
        assert_int_equal(changes, rings->nhosts > 1 ? rings->nhosts : 0); /* every host is entered and left once */
    }
    free(order);
    free(seen);
}

/* Every NIC is entered and left as often as any other. */
static void check_nics(const struct topo_rings *rings) {
    for (int c = 0; c < rings->ncrossings; c++) {
        const struct topo_crossing *crossing = &rings->crossings[c];
        const struct topo_host *host = &rings->topo->hosts[crossing->host];
        int nnics = topo_count(rings->topo, crossing->host, TOPO_NIC);
        for (int n = host->first_node; n < host->end_node; n++) {
            int in = 0, out = 0;
            for (int ring = 0; ring < crossing->nroutes; ring++) {
                in += crossing->routes[ring].nic_in == n - host->first_node;
                out += crossing->routes[ring].nic_out == n - host->first_node;
            }
            assert_int_equal(in, rings->topo->nodes[n].kind == TOPO_NIC ? crossing->nroutes / nnics : 0);
            assert_int_equal(out, in);
        }
    }
}

/* The ends of routes are as near to their NICs as any place of a rank. */
static void check_ends(const struct topo_rings *rings) {
    for (int c = 0; c < rings->ncrossings; c++) {
        const struct topo_crossing *crossing = &rings->crossings[c];
        int first_node = rings->topo->hosts[crossing->host].first_node;
        const int *ranks = &rings->ranks_by_host[rings->first[crossing->host]];
        for (int ring = 0; ring < crossing->nroutes; ring++) {
            const struct topo_route *route = &crossing->routes[ring];
            int ends[2][2] = {{route->nic_in, route->order[0]}, {route->nic_out, route->order[crossing->nlocal - 1]}};
            for (int e = 0; e < 2; e++) {
                int nic = first_node + ends[e][0];
                struct topo_path mine = path_between(rings->topo, nic, rings->place[ranks[ends[e][1]]]);
                for (int i = 0; i < crossing->nlocal; i++) {
                    struct topo_path other = path_between(rings->topo, nic, rings->place[ranks[i]]);
                    assert_true(mine.class < other.class || (mine.class == other.class && mine.gbps >= other.gbps));
                }
            }
        }
    }
}

/* What the bandwidth promises fits through every link: counted again, hop by hop. */
static void check_bandwidth(const struct topo_rings *rings) {
    double *load = calloc((size_t)rings->topo->nlinks, sizeof *load), worst = INFINITY;
    int *order = malloc((size_t)rings->nranks * sizeof *order);
    for (int ring = 0; ring < rings->nrings; ring++) {
        ring_order(rings, ring, order);
        for (int i = 0; i < rings->nranks; i++) {
            int from = order[i], to = order[(i + 1) % rings->nranks];
            bool same = rings->host_of[from] == rings->host_of[to], back_from, back_to;
            const struct topo_route *a = topo_route_of(rings, ring, rings->host_of[from], &back_from);
            const struct topo_route *b = topo_route_of(rings, ring, rings->host_of[to], &back_to);
            int legs[3][2] = {{rings->place[from], rings->place[to]}, {-1, -1}, {-1, -1}};
            if (!same) {
                int out = rings->topo->hosts[rings->host_of[from]].first_node + (back_from ? a->nic_in : a->nic_out);
                int in = rings->topo->hosts[rings->host_of[to]].first_node + (back_to ? b->nic_out : b->nic_in);
                memcpy(legs, (int[3][2]){{rings->place[from], out}, {out, in}, {in, rings->place[to]}}, sizeof legs);
            }
            for (int leg = 0; leg < 3 && legs[leg][0] >= 0; leg++) {
                struct topo_paths *paths;
                enum paths_scope scope = leg == 1 ? PATHS_ANYWHERE : PATHS_IN_HOST;
                assert_int_equal(topo_paths_from(rings->topo, legs[leg][0], scope, &paths), COLLET_SUCCESS);
                for (int l = topo_path_to(paths, legs[leg][1])->last_link; l >= 0;
                     l = topo_path_before(rings->topo, paths, l))
                    load[l]++;
                free(paths);
            }
        }
    }
    for (int l = 0; l < rings->topo->nlinks; l++)
        if (load[l] > 0)
            worst = fmin(worst, rings->topo->links[l].gbps / load[l]);
    assert_true(isinf(worst) ? isinf(rings->ring_gbps) : fabs(worst / rings->ring_gbps - 1) < 1e-9);
    free(load);
    free(order);
}

static int hops_of_class(const struct topo_rings *rings, int ring, int host, enum topo_class class) {
    bool unused;
    const struct topo_route *route = topo_route_of(rings, ring, host, &unused);
    const int *ranks = &rings->ranks_by_host[rings->first[host]];
    int n = rings->first[host + 1] - rings->first[host], count = 0;
    for (int i = 0; i + 1 < n; i++)
        count +=
            path_between(rings->topo, rings->place[ranks[route->order[i]]], rings->place[ranks[route->order[i + 1]]])
                .class
            == class;
    return count;
}

/* --------------------------------------------------------------------------------------------------------- machines */

static void linked_cliques_use_all_nics_and_cross_between_cpus_once(void **state) {
    (void)state;
    struct job job = job_of_file("tests/layers/topology/topo/two_cliques.xml", 3);
    check_rings(job.rings);
    check_nics(job.rings);
    check_ends(job.rings);
    check_bandwidth(job.rings);
    for (int ring = 0; ring < job.rings->nrings; ring++) {
        assert_int_equal(hops_of_class(job.rings, ring, 0, PATH_NVL), 6); /* three links in each clique … */
        assert_int_equal(hops_of_class(job.rings, ring, 0, PATH_SYS), 1); /* … and one way from one to the other */
    }
    /* Four rings that cross four links of 16 GB/s once each carry 64. More and narrower ones share all eight links. */
    assert_int_equal(job.rings->nrings % 4, 0);
    assert_true(job.rings->nrings * job.rings->ring_gbps > 80);
    job_end(&job);
}

static void switched_pairs_use_all_nics_and_stay_below_their_cpu_while_they_can(void **state) {
    (void)state;
    struct job job = job_of_file("tests/layers/topology/topo/switched_pairs.xml", 2);
    check_rings(job.rings);
    check_nics(job.rings);
    check_ends(job.rings);
    check_bandwidth(job.rings);
    for (int ring = 0; ring < job.rings->nrings; ring++) {
        assert_int_equal(hops_of_class(job.rings, ring, 0, PATH_PIX), 4);
        assert_int_equal(hops_of_class(job.rings, ring, 0, PATH_PHB), 2);
        assert_int_equal(hops_of_class(job.rings, ring, 0, PATH_SYS), 1);
    }
    job_end(&job);
}

static void machines_of_many_shapes_get_sound_rings(void **state) {
    (void)state;
    static const char *const machines[] = {
        "2 node : 8 gpu nvswitch : 8 nic 400",
        "3 node : 8 gpu pci : 4 nic 100",
        "4 node : 4 gpu mesh : 2 nic 200",
        "2 node : 1 gpu : 1 nic",
        "2 node : 2 gpu : 1 nic",
        "5 node : 3 gpu : 2 nic",
        "1 node : 8 gpu mesh",
        "1 node : 8 gpu nvswitch : 4 nic",
        "1 node : 1 gpu",
        "2 node : 4 gpu pci : 4 nic 100",
        "2 node : 1 gpu : 4 nic",
        "2 node : 6 gpu mesh : 3 nic : 3 cpu",
    };
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct job job = job_of(machines[i], 0);
        check_rings(job.rings);
        check_bandwidth(job.rings);
        if (job.rings->nhosts > 1)
            check_nics(job.rings);
        job_end(&job);
    }
}

/* As many as there can be: the complete directed graph of n places falls into n − 1 rings, but for n = 4 and 6 (Tillson 1980,
 * "A Hamiltonian decomposition of K*2m, 2m ≥ 8"). */
static void a_full_mesh_is_used_up(void **state) {
    (void)state;
    static const int sizes[] = {3, 5, 7, 8};
    for (int k = 0; k < 4; k++) {
        char machine[32];
        snprintf(machine, sizeof machine, "%d gpu mesh", sizes[k]);
        struct job job = job_of(machine, 0);
        check_rings(job.rings);
        assert_int_equal(job.rings->nrings, sizes[k] - 1);
        for (int link = 0; link < job.topo->nlinks; link++)
            if (job.topo->links[link].medium == MEDIUM_NVLINK) {
                assert_true(job.rings->ring_gbps <= job.topo->links[link].gbps);
                assert_true(1.001 * job.rings->ring_gbps >= job.topo->links[link].gbps);
            }
        job_end(&job);
    }
}

/* ------------------------------------------------------------------------------------- what is known of machines */

/* GPUs on one CPU; links[] names pairs of them and how many NVLinks of 20 GB/s they have. numbers[gpu]: another numbering. */
struct pair {
    int a, b, count;
};

static struct topo *linked_gpus(int ngpus, const struct pair *links, int nlinks, const int *numbers) {
    struct topo *topo;
    assert_int_equal(topo_create(&topo), COLLET_SUCCESS);
    struct topo_node cpu = topo_blank(TOPO_CPU, -1);
    topo_add_node(topo, &cpu);
    for (int g = 0; g < ngpus; g++) {
        struct topo_node gpu = topo_blank(TOPO_GPU, 0);
        snprintf(gpu.pci.busid, sizeof gpu.pci.busid, "0000:%02x:00.0", (unsigned)g);
        topo_add_node(topo, &gpu);
    }
    for (int i = 0; i < nlinks; i++) {
        int a = 1 + (numbers == NULL ? links[i].a : numbers[links[i].a]);
        int b = 1 + (numbers == NULL ? links[i].b : numbers[links[i].b]);
        topo_add_link(topo, a, b, MEDIUM_NVLINK, links[i].count, 20 * links[i].count);
    }
    assert_int_equal(topo_finish(topo), COLLET_SUCCESS);
    return topo;
}

/* Eight GPUs of six links each: two squares with diagonals, corner to corner. */
static const struct pair cube_mesh[] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                                        {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                                        {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};

/* Sixteen GPUs, two per package with four links between them; packages form a cube. */
static const struct pair packages[] = {
    {0, 1, 4}, {2, 3, 4}, {4, 5, 4},  {6, 7, 4},  {8, 9, 4},  {10, 11, 4}, {12, 13, 4}, {14, 15, 4},
    {0, 2, 1}, {1, 3, 1}, {4, 6, 1},  {5, 7, 1},  {8, 10, 1}, {9, 11, 1},  {12, 14, 1}, {13, 15, 1},
    {0, 4, 1}, {1, 5, 1}, {2, 6, 1},  {3, 7, 1},  {8, 12, 1}, {9, 13, 1},  {10, 14, 1}, {11, 15, 1},
    {0, 8, 1}, {1, 9, 1}, {2, 10, 1}, {3, 11, 1}, {4, 12, 1}, {5, 13, 1},  {6, 14, 1},  {7, 15, 1},
};

static double bus_gbps(struct job *job) {
    check_rings(job->rings);
    check_bandwidth(job->rings);
    double gbps = job->rings->nrings * job->rings->ring_gbps;
    job_end(job);
    return gbps;
}

#define LENGTH(array) (int)(sizeof(array) / sizeof *(array))

/* The bus bandwidth that is known to be there, in GB/s: six links of 20 used up by a DGX-1V, 12 by a DGX A100, and so on. */
static void machines_carry_what_is_known_of_them(void **state) {
    (void)state;
    static const struct {
        const char *what, *synthetic;
        const struct pair *links;
        int ngpus, nlinks;
        double known;
    } table[] = {
        {.what = "DGX-1V", .links = cube_mesh, .ngpus = 8, .nlinks = LENGTH(cube_mesh), .known = 120},
        {.what = "DGX-2", .synthetic = "16 gpu v100 nvswitch", .known = 120},
        {.what = "4 GPUs, all linked", .synthetic = "4 gpu mesh", .known = 240},
        {.what = "6 GPUs, all linked", .synthetic = "6 gpu mesh", .known = 200},
        {.what = "DGX A100", .synthetic = "8 gpu a100 nvswitch : 8 nic 200", .known = 240},
        {.what = "two DGX A100", .synthetic = "2 node : 8 gpu a100 nvswitch : 8 nic 200", .known = 200},
        {.what = "DGX H100", .synthetic = "8 gpu h100 nvswitch : 8 nic 400", .known = 370.8},
        {.what = "two DGX H100", .synthetic = "2 node : 8 gpu h100 nvswitch : 8 nic 400", .known = 400},
        {.what = "DGX B200", .synthetic = "8 gpu b200 nvswitch : 8 nic 400", .known = 721.8},
        {.what = "NVL72", .synthetic = "72 gpu b200 nvswitch : 72 nic 400 : 36 cpu", .known = 721.8},
    };
    for (int i = 0; i < LENGTH(table); i++) {
        struct job job = table[i].synthetic != NULL
                             ? job_of(table[i].synthetic, 0)
                             : job_on(linked_gpus(table[i].ngpus, table[i].links, table[i].nlinks, NULL), 0);
        double found = bus_gbps(&job);
        print_message("%-20s known %6.1f   found %6.1f GB/s\n", table[i].what, table[i].known, found);
        assert_true(fabs(found / table[i].known - 1) < 0.01);
    }
}

/* Numbers 0 … n − 1 in an order that the seed chooses. */
static void shuffle(int n, unsigned seed, int *numbers) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1103515245u + 12345u;
        int j = (int)(seed >> 16) % (i + 1);
        numbers[i] = numbers[j];
        numbers[j] = i;
    }
}

/* Every ring leaves every package, which has six links outwards: 120 GB/s is the most. A DGX-1V carries as much. */
static void rings_do_not_depend_on_how_gpus_are_numbered(void **state) {
    (void)state;
    static const struct {
        const struct pair *links;
        int ngpus, nlinks;
        unsigned numberings;
    } hosts[] = {{packages, 16, LENGTH(packages), 6}, {cube_mesh, 8, LENGTH(cube_mesh), 24}};
    const bool one_is_enough = level_now() == LEVEL_FAST && LEVEL_SLOWER > 1;
    for (int h = 0; h < LENGTH(hosts); h++)
        for (unsigned seed = 0; seed < (one_is_enough ? 1 : hosts[h].numberings); seed++) {
            int numbers[16];
            shuffle(hosts[h].ngpus, seed, numbers);
            struct job job = job_on(linked_gpus(hosts[h].ngpus, hosts[h].links, hosts[h].nlinks, numbers), 0);
            assert_true(fabs(bus_gbps(&job) - 120) < 0.1);
        }
}

/* By more than a hundredth: the search finds one of several sets of rings that are about as good. */
static void more_nics_are_never_worse(void **state) {
    (void)state;
    static const struct {
        const char *gpus;
        int most;
    } hosts[] = {{"8 gpu nvswitch", 16}, {"8 gpu pci", 8}, {"8 gpu mesh", 10}, {"4 gpu pci", 6}, {"4 gpu mesh", 10}};
    for (int h = 0; h < LENGTH(hosts); h++) {
        double before = 0;
        for (int nnics = 1; nnics <= hosts[h].most; nnics++) {
            char machine[64];
            snprintf(machine, sizeof machine, "2 node : %s : %d nic 200", hosts[h].gpus, nnics);
            struct job job = job_of(machine, 0);
            double gbps = bus_gbps(&job);
            assert_true(gbps > 0.99 * before);
            before = gbps;
        }
    }
}

/* A fast port behind one lane of 2.5 GT/s, beside a slower port with a good one. */
static void a_nic_counts_with_its_whole_path(void **state) {
    (void)state;
    static const char text[] =
        "<system><cpu numaid='0'>"
        "<pci busid='0000:01:00.0' class='0x030200' link_speed='16 GT/s' link_width='16'><gpu dev='0'/></pci>"
        "<pci busid='0000:02:00.0' class='0x020000' link_speed='2.5 GT/s' link_width='1'><nic>"
        "<net name='narrow' speed='100000'/></nic></pci>"
        "<pci busid='0000:03:00.0' class='0x020000' link_speed='8 GT/s' link_width='8'><nic>"
        "<net name='good' speed='10000'/></nic></pci></cpu></system>";
    struct job job = job_on_two(text);
    assert_true(fabs(bus_gbps(&job) - 1.25) < 1e-9);
}

static void where_every_gpu_has_its_nic_both_ends_are_nearest(void **state) {
    (void)state;
    struct job job = job_of("4 node : 8 gpu nvswitch : 8 nic 200", 0);
    check_nics(job.rings);
    check_ends(job.rings);
    assert_true(job.rings->nrings * job.rings->ring_gbps == 200);
    job_end(&job);
}

static void hops_between_hosts_stay_on_their_rail(void **state) {
    (void)state;
    struct job job = job_of("4 node : 8 gpu nvswitch : 8 nic 200", 0);
    for (int ring = 0; ring < job.rings->nrings; ring++)
        for (int h = 0; h < 4; h++) {
            bool back, next_back;
            const struct topo_route *a = topo_route_of(job.rings, ring, h, &back);
            const struct topo_route *b = topo_route_of(job.rings, ring, (h + 1) % 4, &next_back);
            assert_int_equal(back ? a->nic_in : a->nic_out, next_back ? b->nic_out : b->nic_in);
        }
    job_end(&job);
}

/* The rail of a NIC: its number on its host. */
static int rail_towards(const struct topo_rings *rings, int ring, int rank, int peer) {
    int nic = topo_nic_towards(rings, ring, rank, peer), host = rings->host_of[rank];
    if (host == rings->host_of[peer]) {
        assert_int_equal(nic, -1);
        return -1;
    }
    assert_int_equal(rings->topo->nodes[nic].kind, TOPO_NIC);
    assert_int_equal(rings->topo->nodes[nic].host, host);
    return nic - rings->topo->hosts[host].first_node;
}

/* The NIC by which the ring leaves (or enters) the host of a rank. */
static int rail_of_ring(const struct topo_rings *rings, int ring, int host, bool leaves) {
    bool backwards;
    const struct topo_route *route = topo_route_of(rings, ring, host, &backwards);
    return leaves != backwards ? route->nic_out : route->nic_in;
}

static void check_rails(const struct topo_rings *rings, int ring) {
    int *order = malloc((size_t)rings->nranks * sizeof *order);
    ring_order(rings, ring, order);
    for (int a = 0; a < rings->nranks; a++)
        for (int b = 0; b < rings->nranks; b++)
            assert_int_equal(rail_towards(rings, ring, a, b), rail_towards(rings, ring, b, a));
    for (int i = 0; i + 1 < rings->nranks; i++) {
        int host = rings->host_of[order[i]], next = rings->host_of[order[i + 1]];
        if (host == next)
            continue;
        assert_int_equal(rail_towards(rings, ring, order[i], order[i + 1]), rail_of_ring(rings, ring, host, true));
        assert_int_equal(rail_towards(rings, ring, order[i + 1], order[i]), rail_of_ring(rings, ring, next, false));
    }
    free(order);
}

static void all_ranks_stay_on_a_rail_and_neighbours_on_that_of_their_ring(void **state) {
    (void)state;
    static const char *const machines[] = {"4 node : 8 gpu nvswitch : 8 nic 200", "5 node : 4 gpu pci : 2 nic 100",
                                           "3 node : 1 gpu : 4 nic", "2 node : 2 cpu : 2 nic"};
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
        struct job job = job_of(machines[m], 0);
        for (int ring = 0; ring < job.rings->nrings; ring++)
            check_rails(job.rings, ring);
        job_end(&job);
    }
    struct job job = job_of_file("tests/layers/topology/topo/two_cliques.xml", 3);
    for (int ring = 0; ring < job.rings->nrings; ring++)
        check_rails(job.rings, ring);
    job_end(&job);
}

/* As rails of hierarchical algorithms do: rank k of a host with rank k of the others. */
static void ranks_of_one_number_meet_by_the_nic_nearest_to_them(void **state) {
    (void)state;
    struct job job = job_of("2 node : 8 gpu pci : 4 nic 100", 0);
    int uses[4] = {0};
    for (int ring = 0; ring < job.rings->nrings; ring++)
        for (int rank = 0; rank < 8; rank++) {
            struct topo_paths *paths;
            int nic = topo_nic_towards(job.rings, ring, rank, 8 + rank);
            assert_int_equal(topo_paths_from(job.topo, nic, PATHS_IN_HOST, &paths), COLLET_SUCCESS);
            assert_int_equal(topo_path_to(paths, job.rings->place[rank])->class, PATH_PIX);
            uses[job.topo->nodes[nic].nic.dev]++;
            free(paths);
        }
    for (int nic = 1; nic < 4; nic++)
        assert_int_equal(uses[nic], uses[0]);
    job_end(&job);
}

/* As many as each NIC has ranks next to it. */
static void messages_go_by_the_nic_next_to_the_rank_that_gets_them(void **state) {
    (void)state;
    struct job job = job_of("2 node : 8 gpu nvswitch : 8 nic 200", 0);
    assert_int_equal(job.rings->nranks, 16);
    int uses[16] = {0};
    for (int receiver = 0; receiver < 16; receiver++)
        for (int sender = 0; sender < 16; sender++) {
            const int there = topo_nic_of_message(job.rings, 0, receiver, sender, receiver);
            const int here = topo_nic_of_message(job.rings, 0, sender, receiver, receiver);
            if (sender / 8 == receiver / 8) {
                assert_int_equal(there, -1);
                continue;
            }
            struct topo_paths *paths;
            assert_int_equal(here - job.topo->hosts[sender / 8].first_node,
                             there - job.topo->hosts[receiver / 8].first_node);
            assert_int_equal(topo_paths_from(job.topo, there, PATHS_IN_HOST, &paths), COLLET_SUCCESS);
            assert_int_equal(topo_path_to(paths, job.rings->place[receiver])->class, PATH_PIX);
            free(paths);
            uses[job.topo->nodes[there].nic.dev]++;
        }
    for (int nic = 1; nic < 8; nic++)
        assert_int_equal(uses[nic], uses[0]);
    job_end(&job);
    job = job_of("2 node : 1 cpu : 4 nic 200", 1); /* one rank per host: its messages take all NICs */
    assert_int_equal(topo_nic_of_message(job.rings, 0, 0, 1, 1), -1);
    job_end(&job);
}

/* The numbers of the NICs by which a rank of the first host gets messages on so many channels, as bits. */
static unsigned nics_of_receiver(const struct topo_rings *rings, int rank, int nchannels) {
    const int peer = rings->nranks - 1;
    unsigned bits = 0;
    for (int channel = 0; channel < nchannels; channel++) {
        const int nic = topo_nic_of_message(rings, channel, rank, peer, rank);
        const int there = topo_nic_of_message(rings, channel, peer, rank, rank);
        if (nic < 0 || there < 0)
            fail_msg("rank %d takes all NICs by turns", rank);
        assert_int_equal(rings->topo->nodes[there].nic.dev, rings->topo->nodes[nic].nic.dev);
        bits |= 1u << rings->topo->nodes[nic].nic.dev;
    }
    return bits;
}

/* Whether there are more NICs than GPUs, or fewer; of two that are equally near, channels take both. */
static void a_gpu_gets_messages_by_its_own_nics_however_many_there_are(void **state) {
    (void)state;
    static const char two_each[] =
        "<system><cpu numaid='0'>"
        "<pci busid='0000:01:00.0' class='0x060400' link_speed='32 GT/s' link_width='16'>"
        "<pci busid='0000:02:00.0' class='0x030200' link_speed='32 GT/s' link_width='16'><gpu dev='0'/></pci>"
        "<pci busid='0000:03:00.0' class='0x020000'><nic><net name='a' dev='0' speed='100000'/></nic></pci>"
        "<pci busid='0000:04:00.0' class='0x020000'><nic><net name='b' dev='1' speed='100000'/></nic></pci></pci>"
        "<pci busid='0000:11:00.0' class='0x060400' link_speed='32 GT/s' link_width='16'>"
        "<pci busid='0000:12:00.0' class='0x030200' link_speed='32 GT/s' link_width='16'><gpu dev='1'/></pci>"
        "<pci busid='0000:13:00.0' class='0x020000'><nic><net name='c' dev='2' speed='100000'/></nic></pci>"
        "<pci busid='0000:14:00.0' class='0x020000'><nic><net name='d' dev='3' speed='100000'/></nic></pci></pci>"
        "</cpu></system>";
    struct job job = job_on_two(two_each);
    assert_int_equal(nics_of_receiver(job.rings, 0, 4), 0x3);
    assert_int_equal(nics_of_receiver(job.rings, 1, 4), 0xc);
    job_end(&job);
    job = job_of("2 node : 4 gpu mesh : 8 nic 200", 0);
    for (int rank = 0; rank < 4; rank++)
        assert_int_equal(nics_of_receiver(job.rings, rank, 8), 1u << 2 * rank);
    job_end(&job);
    job = job_of("2 node : 8 gpu nvswitch : 6 nic 200", 0);
    for (int rank = 0; rank < 8; rank++)
        assert_int_equal(nics_of_receiver(job.rings, rank, 1) & (rank < 4 ? 0x7u : 0x38u),
                         nics_of_receiver(job.rings, rank, 1));
    job_end(&job);
}

static void a_slow_nic_is_left_out_but_not_a_second_fast_one(void **state) {
    (void)state;
    struct topo *host, *topo;
    assert_int_equal(topo_create(&host), COLLET_SUCCESS);
    struct topo_node cpu = topo_blank(TOPO_CPU, -1);
    topo_add_node(host, &cpu);
    static const int mbits[] = {100000, 1000, 100000};
    for (int k = 0; k < 3; k++) {
        struct topo_node nic = topo_blank(TOPO_NIC, 0);
        nic.nic.mbits = mbits[k];
        topo_add_node(host, &nic);
    }
    assert_int_equal(topo_finish(host), COLLET_SUCCESS);
    const struct topo *hosts[] = {host, host};
    assert_int_equal(topo_fuse(hosts, 2, &topo), COLLET_SUCCESS);
    topo_destroy(host);
    struct job job = job_on(topo, 2);
    assert_int_equal(job.rings->nrings, 2);
    assert_int_equal(job.rings->crossings[0].routes[0].nic_in, 1);
    assert_int_equal(job.rings->crossings[0].routes[1].nic_in, 3);
    assert_true(job.rings->ring_gbps == 12.5);
    job_end(&job);
}

static void different_hosts_share_rings(void **state) {
    (void)state;
    struct topo *small, *large, *topo;
    assert_int_equal(topo_synthetic("4 gpu pci : 1 nic 100", &small), COLLET_SUCCESS);
    assert_int_equal(topo_synthetic("8 gpu nvswitch : 2 nic 100", &large), COLLET_SUCCESS);
    const struct topo *hosts[] = {large, small, large};
    assert_int_equal(topo_fuse(hosts, 3, &topo), COLLET_SUCCESS);
    topo_destroy(small);
    topo_destroy(large);
    struct job job = job_on(topo, 0);
    assert_int_equal(job.rings->ncrossings, 2);
    assert_int_equal(job.rings->nrings, 2);
    check_rings(job.rings);
    assert_true(job.rings->ring_gbps == 6.25); /* both rings through the one NIC of the small host */
    job_end(&job);
}

static void ranks_without_gpus_visit_numa_nodes_one_after_another(void **state) {
    (void)state;
    struct job job = job_of("2 node : 4 cpu : 2 nic 100", 10);
    int order[20];
    check_rings(job.rings);
    check_bandwidth(job.rings);
    assert_int_equal(job.rings->nranks, 20);
    for (int ring = 0; ring < job.rings->nrings; ring++) {
        ring_order(job.rings, ring, order);
        int changes = 0;
        for (int i = 0; i < 20; i++)
            changes += job.rings->place[order[i]] != job.rings->place[order[(i + 1) % 20]];
        assert_int_equal(changes, 8); /* each of eight NUMA nodes is entered once */
    }
    job_end(&job);
}

static void ranks_may_be_numbered_across_hosts(void **state) {
    (void)state;
    struct topo *topo;
    struct job job;
    int nranks, *place, mixed[8];
    assert_int_equal(topo_synthetic("2 node : 4 gpu mesh : 2 nic", &topo), COLLET_SUCCESS);
    assert_int_equal(topo_place_ranks(topo, 0, &nranks, &place), COLLET_SUCCESS);
    for (int r = 0; r < 8; r++)
        mixed[r] = place[r % 2 * 4 + r / 2]; /* even ranks on host 0, odd ones on host 1 */
    job.topo = topo;
    assert_int_equal(topo_search(topo, nranks, mixed, &job.rings), COLLET_SUCCESS);
    check_rings(job.rings);
    assert_int_equal(job.rings->host_of[5], 1);
    free(place);
    job_end(&job);
}

static void places_that_are_none_are_refused(void **state) {
    (void)state;
    struct topo *topo;
    struct topo_rings *rings = NULL;
    assert_int_equal(topo_synthetic("2 node : 2 gpu : 1 nic", &topo), COLLET_SUCCESS);
    assert_int_equal(topo_search(topo, 0, (int[]){0}, &rings), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(topo_search(topo, 1, (int[]){-1}, &rings), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(topo_search(topo, 1, (int[]){topo->nnodes}, &rings), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(topo_search(topo, 1, (int[]){topo->net}, &rings), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(topo_search(topo, 1, (int[]){0}, &rings), COLLET_ERR_INVALID_ARGUMENT); /* none on host 1 */
    assert_non_null(strstr(err_last(), "host 1"));
    assert_null(rings);
    topo_destroy(topo);
}

static void the_same_job_gets_the_same_rings(void **state) {
    (void)state;
    struct job a = job_of("2 node : 8 gpu mesh : 4 nic", 0), b = job_of("2 node : 8 gpu mesh : 4 nic", 0);
    int one[16], other[16];
    assert_int_equal(a.rings->nrings, b.rings->nrings);
    for (int ring = 0; ring < a.rings->nrings; ring++) {
        ring_order(a.rings, ring, one);
        ring_order(b.rings, ring, other);
        assert_memory_equal(one, other, sizeof one);
    }
    job_end(&a);
    job_end(&b);
}

static void a_job_prints_with_its_reasons(void **state) {
    (void)state;
    struct job job = job_of("2 node : 4 gpu mesh : 2 nic 100", 0);
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(topo_print_rings(job.rings, out), COLLET_SUCCESS);
    assert_int_equal(topo_print_trees(job.rings, out), COLLET_SUCCESS);
    assert_int_equal(topo_print_bandwidth(job.rings, out), COLLET_SUCCESS);
    assert_int_equal(topo_print_reasons(job.rings, out), COLLET_SUCCESS);
    fclose(out);
    assert_non_null(strstr(text, "NIC nic0 ─PIX▶ 0 ─NVL▶"));
    assert_non_null(strstr(text, "bound by NET NIC nic0 ▶ NET, 12.5 GB/s for the data of 1"));
    assert_non_null(strstr(text, "ring 0  comes in to GPU 0: PIX"));
    free(text);
    job_end(&job);
}

/* ------------------------------------------------------------------------------------------------------------- time */

/* Of CPU: other programs do not count. */
static double seconds_of(const char *machine) {
    clock_t start = clock();
    struct job job = job_of(machine, 0);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    check_rings(job.rings);
    job_end(&job);
    return seconds;
}

static void eight_by_eight_takes_less_than_a_second(void **state) {
    (void)state;
    assert_true(seconds_of("2 node : 8 gpu nvswitch : 8 nic 200") < 1 * LEVEL_SLOWER);
    assert_true(seconds_of("2 node : 8 gpu pci : 8 nic 200") < 1 * LEVEL_SLOWER);
}

static void sixteen_by_sixteen_takes_less_than_five_seconds(void **state) {
    (void)state;
    if (level_now() == LEVEL_FAST && LEVEL_SLOWER > 1)
        skip();
    assert_true(seconds_of("2 node : 16 gpu pci : 16 nic 200") < 5 * LEVEL_SLOWER);
}

static void sixteen_thousand_equal_hosts_cost_as_much_as_one(void **state) {
    (void)state;
    struct job job = job_of("16384 node : 8 gpu nvswitch : 4 nic 200", 0);
    assert_int_equal(job.rings->nranks, 131072);
    assert_int_equal(job.rings->ncrossings, 1);
    job_end(&job);
}

/* ------------------------------------------------------------------------------------------------------------ tours */

struct worth {
    int by_class[TOPO_CLASS_COUNT]; /* farthest last */
    double strain;
};

static struct worth worth_of(int n, const struct tour_hop *hops, bool cycle, const int *order) {
    struct worth worth = {0};
    for (int i = 0; i < (cycle ? n : n - 1); i++) {
        const struct tour_hop *hop = &hops[order[i] * n + order[(i + 1) % n]];
        if (hop->class > PATH_NVL)
            worth.by_class[hop->class]++;
        worth.strain += hop->strain;
    }
    return worth;
}

static int compare(const struct worth *a, const struct worth *b) {
    for (int c = TOPO_CLASS_COUNT - 1; c >= 0; c--)
        if (a->by_class[c] != b->by_class[c])
            return a->by_class[c] - b->by_class[c];
    return a->strain < b->strain ? -1 : a->strain > b->strain;
}

/* The best of all orders that begin with the first `fixed` stops of order, by trying them all. */
static void try_all(int n, const struct tour_hop *hops, int last, int *order, int fixed, struct worth *best,
                    bool *any) {
    if (fixed == n) {
        struct worth worth = worth_of(n, hops, last < 0, order);
        if ((last < 0 || order[n - 1] == last) && (!*any || compare(&worth, best) < 0)) {
            *best = worth;
            *any = true;
        }
        return;
    }
    for (int i = fixed; i < n; i++) {
        int a = order[fixed], b = order[i];
        order[fixed] = b;
        order[i] = a;
        try_all(n, hops, last, order, fixed + 1, best, any);
        order[fixed] = a;
        order[i] = b;
    }
}

static unsigned random_state = 1;
static unsigned next_random(void) { return (random_state = random_state * 1103515245u + 12345u) >> 8; }

static void tours_are_as_good_as_the_best_of_all_orders(void **state) {
    (void)state;
    static const enum topo_class classes[] = {PATH_NVL, PATH_PIX, PATH_PHB, PATH_SYS};
    for (int round = 0; round < 60; round++) {
        int n = 2 + round % 6, order[8], all[8];
        struct tour_hop hops[64];
        for (int i = 0; i < n * n; i++)
            hops[i] = (struct tour_hop){classes[next_random() % 4], 1 + next_random() % 8};
        int first = (int)(next_random() % (unsigned)n), last = round % 2 == 0 ? -1 : (first + 1) % n;
        for (int i = 0; i < n; i++)
            all[i] = (first + i) % n;
        struct worth best = {0};
        int64_t steps = 0;
        bool any = false;
        try_all(n, hops, last, all, 1, &best, &any);
        assert_int_equal(tour_find(n, hops, first, last, order, &steps), COLLET_SUCCESS);
        struct worth found = worth_of(n, hops, last < 0, order);
        assert_int_equal(order[0], first);
        assert_true(last < 0 || order[n - 1] == last);
        assert_int_equal(compare(&found, &best), 0);
    }
}

static void tours_of_many_stops_keep_neighbours_together(void **state) {
    (void)state;
    enum { N = 40, GROUP = 5 };
    static struct tour_hop hops[N * N];
    int order[N], seen[N] = {0}, far = 0;
    int64_t steps = 0;
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++)
            hops[a * N + b] = (struct tour_hop){a % (N / GROUP) == b % (N / GROUP) ? PATH_PIX : PATH_SYS, 1};
    assert_int_equal(tour_find(N, hops, 3, 6, order, &steps), COLLET_SUCCESS);
    assert_int_equal(order[0], 3);
    assert_int_equal(order[N - 1], 6);
    for (int i = 0; i < N; i++) {
        assert_int_equal(seen[order[i]]++, 0);
        far += i + 1 < N && hops[order[i] * N + order[i + 1]].class == PATH_SYS;
    }
    assert_int_equal(far, N / GROUP - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linked_cliques_use_all_nics_and_cross_between_cpus_once),
        cmocka_unit_test(switched_pairs_use_all_nics_and_stay_below_their_cpu_while_they_can),
        cmocka_unit_test(machines_of_many_shapes_get_sound_rings),
        cmocka_unit_test(a_full_mesh_is_used_up),
        cmocka_unit_test(machines_carry_what_is_known_of_them),
        cmocka_unit_test(rings_do_not_depend_on_how_gpus_are_numbered),
        cmocka_unit_test(more_nics_are_never_worse),
        cmocka_unit_test(a_nic_counts_with_its_whole_path),
        cmocka_unit_test(where_every_gpu_has_its_nic_both_ends_are_nearest),
        cmocka_unit_test(hops_between_hosts_stay_on_their_rail),
        cmocka_unit_test(all_ranks_stay_on_a_rail_and_neighbours_on_that_of_their_ring),
        cmocka_unit_test(ranks_of_one_number_meet_by_the_nic_nearest_to_them),
        cmocka_unit_test(messages_go_by_the_nic_next_to_the_rank_that_gets_them),
        cmocka_unit_test(a_gpu_gets_messages_by_its_own_nics_however_many_there_are),
        cmocka_unit_test(a_slow_nic_is_left_out_but_not_a_second_fast_one),
        cmocka_unit_test(different_hosts_share_rings),
        cmocka_unit_test(ranks_without_gpus_visit_numa_nodes_one_after_another),
        cmocka_unit_test(ranks_may_be_numbered_across_hosts),
        cmocka_unit_test(places_that_are_none_are_refused),
        cmocka_unit_test(the_same_job_gets_the_same_rings),
        cmocka_unit_test(a_job_prints_with_its_reasons),
        cmocka_unit_test(eight_by_eight_takes_less_than_a_second),
        cmocka_unit_test(sixteen_by_sixteen_takes_less_than_five_seconds),
        cmocka_unit_test(sixteen_thousand_equal_hosts_cost_as_much_as_one),
        cmocka_unit_test(tours_are_as_good_as_the_best_of_all_orders),
        cmocka_unit_test(tours_of_many_stops_keep_neighbours_together),
    };
    return cmocka_run_group_tests_name("topo_search", tests, NULL, NULL);
}
