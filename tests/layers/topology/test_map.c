/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of a communicator: graphs travel as bytes and come back as they were, ranks are found where they are, and what
 * channels make of the rings is right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "common/ring_order.h"
#include "topo/probe/atlas.h"
#include "topo/probe/chart.h"
#include "layers/gpu/nvlink.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 8, NODE_RANKS_MAX = 8, RANKS_MAX = NODES_MAX * NODE_RANKS_MAX };

/* Nodes of one communicator, of one host each, with ranks on its GPUs, dealt node by node or round. */
struct job {
    int nnodes, node_ranks, nranks;
    bool round;
    struct peer_info peers[RANKS_MAX];
    int32_t place[NODE_RANKS_MAX];
    struct topo *host;
    void *atlas;
    size_t size;
    struct map *map;
};

static int node_of(const struct job *job, int rank) { return job->round ? rank % job->nnodes : rank / job->node_ranks; }

static void list_ranks(struct job *job) {
    int lowest[NODES_MAX];
    for (int rank = job->nranks - 1; rank >= 0; rank--)
        lowest[node_of(job, rank)] = rank;
    for (int rank = 0; rank < job->nranks; rank++)
        job->peers[rank] = (struct peer_info){.rank = rank, .node = lowest[node_of(job, rank)]};
    for (int n = 0; n < job->host->nnodes; n++)
        if (job->host->nodes[n].kind == TOPO_GPU && job->host->nodes[n].gpu.dev < job->node_ranks)
            job->place[job->host->nodes[n].gpu.dev] = n;
}

static void draw(struct job *job, const char *machine, int nnodes, int node_ranks, bool round) {
    struct atlas_node nodes[NODES_MAX];
    char *graph;
    *job = (struct job){.nnodes = nnodes, .node_ranks = node_ranks, .nranks = nnodes * node_ranks, .round = round};
    assert_int_equal(topo_synthetic(machine, &job->host), COLLET_SUCCESS);
    list_ranks(job);
    assert_int_equal(topo_share(job->host, node_ranks, job->place, &graph), COLLET_SUCCESS);
    for (int n = 0; n < nnodes; n++)
        nodes[n] = (struct atlas_node){.graph = graph,
                                       .graph_bytes = strlen(graph),
                                       .nlocal = node_ranks,
                                       .facts = {.far = n % 2 == 1,
                                                 .measured = n == 2,
                                                 .kernel_copies = n % 2 == 0,
                                                 .joined = n % 3 == 0,
                                                 .blocks = 132,
                                                 .turns = n % 2 == 0},
                                       .place = job->place};
    assert_int_equal(atlas_pack(nodes, nnodes, &costs_default, &job->atlas, &job->size), COLLET_SUCCESS);
    free(graph);
    if (chart_create(job->peers, job->nranks, job->atlas, job->size, &job->map) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
}

static void end(struct job *job) {
    chart_destroy(job->map);
    topo_destroy(job->host);
    free(job->atlas);
}

/* ---- graphs as texts ---- */

static void assert_same_name(const struct topo *a, int at_a, const struct topo *b, int at_b) {
    char name_a[TOPO_NAME_BYTES + 16], name_b[TOPO_NAME_BYTES + 16];
    assert_string_equal(topo_node_name(a, at_a, name_a), topo_node_name(b, at_b, name_b));
}

static void a_graph_comes_back_as_it_was(void **state) {
    (void)state;
    static const char *const machines[] = {"8 gpu nvswitch : 4 nic 200", "4 gpu mesh : 2 nic", "3 cpu",
                                           "8 gpu : 8 nic"};
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
        struct topo *topo, *back;
        char *text, *again;
        int32_t place[2] = {0, 0};
        assert_int_equal(topo_synthetic(machines[m], &topo), COLLET_SUCCESS);
        place[1] = topo->nnodes - 1;
        assert_int_equal(topo_share(topo, 2, place, &text), COLLET_SUCCESS);
        assert_int_equal(topo_read_text(text, strlen(text), "text", TOPO_RECORDED, &back), COLLET_SUCCESS);
        assert_int_equal(back->nlinks, topo->nlinks);
        assert_same_name(topo, 0, back, place[0]);
        assert_same_name(topo, topo->nnodes - 1, back, place[1]);
        assert_int_equal(topo_share(back, 0, NULL, &again), COLLET_SUCCESS);
        assert_string_equal(text, again);
        free(text);
        free(again);
        topo_destroy(topo);
        topo_destroy(back);
    }
}

static void equal_hosts_have_equal_texts(void **state) {
    (void)state;
    struct topo *topo;
    char *one, *other;
    assert_int_equal(topo_synthetic("1 cpu : 1 gpu : 1 nic", &topo), COLLET_SUCCESS);
    assert_int_equal(topo_share(topo, 0, NULL, &one), COLLET_SUCCESS);
    for (int n = 0; n < topo->nnodes; n++) {
        struct topo_node *node = &topo->nodes[n];
        if (node->kind == TOPO_CPU)
            node->cpu.affinity_words = 1;
        if (node->kind == TOPO_GPU)
            node->gpu.rank = 7;
        if (node->kind == TOPO_NIC) {
            node->nic.guid = 99;
            strcpy(node->nic.gid, "fe80::1");
        }
    }
    assert_int_equal(topo_share(topo, 0, NULL, &other), COLLET_SUCCESS);
    assert_string_equal(one, other);
    free(one);
    free(other);
    topo_destroy(topo);
}

/* ---- where ranks are ---- */

static void a_rank_is_found_by_its_gpu_by_the_file_and_by_its_cpus(void **state) {
    (void)state;
    struct topo *topo;
    assert_int_equal(topo_create(&topo), COLLET_SUCCESS);
    for (int c = 0; c < 2; c++) {
        struct topo_node cpu = topo_blank(TOPO_CPU, -1), gpu = topo_blank(TOPO_GPU, -1);
        cpu.cpu.numaid = c;
        cpu.cpu.affinity[c] = 0x0ff0;
        cpu.cpu.affinity_words = c + 1;
        gpu.parent = topo_add_node(topo, &cpu);
        snprintf(gpu.pci.busid, sizeof gpu.pci.busid, "0000:%d1:00.0", c);
        gpu.gpu.rank = c == 1 ? 7 : -1;
        topo_add_node(topo, &gpu);
    }
    assert_int_equal(topo_finish(topo), COLLET_SUCCESS); /* CPU 0, GPU 1, CPU 2, GPU 3 */
    assert_int_equal(topo_locate(topo, &(struct topo_whereabouts){.busid = "0000:01:00.0", .rank = 7}), 1);
    assert_int_equal(topo_locate(topo, &(struct topo_whereabouts){.rank = 7, .cpus = {0x10}}), 3);
    assert_int_equal(topo_locate(topo, &(struct topo_whereabouts){.rank = 0, .cpus = {0x10, 0x30}}), 2);
    assert_int_equal(topo_locate(topo, &(struct topo_whereabouts){.rank = 0, .cpus = {~0u, ~0u}}), 0);
    assert_int_equal(topo_locate(topo, &(struct topo_whereabouts){.rank = 0, .busid = "0000:02:00.0"}), 0);
    topo_destroy(topo);
}

/* ---- maps ---- */

static void every_order_lists_ranks_node_by_node_along_its_ring(void **state) {
    (void)state;
    static const char *const machines[] = {"8 gpu nvswitch : 4 nic 200", "8 gpu nvswitch : 8 nic 200",
                                           "8 gpu mesh : 2 nic"};
    for (int m = 0; m < 6; m++) {
        struct job job;
        int order[RANKS_MAX];
        draw(&job, machines[m % 3], 3, 8, m >= 3);
        assert_int_equal(job.map->norders, chart_of(job.map)->rings->nrings);
        for (int k = 0; k < job.map->norders; k++) {
            const struct prog_shape *shape = &job.map->shapes[k];
            ring_order(chart_of(job.map)->rings, k, order);
            assert_true(shape->chains);
            for (int place = 0; place < job.nranks; place++)
                assert_int_equal(prog_shape_rank(shape, prog_shape_turn(shape, place)), order[place]);
        }
        end(&job);
    }
}

static void rails_are_adapters_that_carry_rings(void **state) {
    (void)state;
    struct job job;
    draw(&job, "8 gpu nvswitch : 4 nic 200", 2, 8, false);
    assert_int_equal(job.map->nrails, 4);
    end(&job);
    draw(&job, "8 gpu nvswitch : 4 nic 200", 1, 8, false);
    assert_int_equal(job.map->nrails, 1); /* nothing goes out of one host */
    end(&job);
}

static void every_rank_knows_what_every_node_has_said_of_itself(void **state) {
    (void)state;
    struct job job;
    draw(&job, "4 gpu mesh : 2 nic 100", 3, 4, false);
    for (int rank = 0; rank < job.nranks; rank++) { /* as draw() has it */
        assert_int_equal(job.map->facts[rank].far, rank / 4 == 1);
        assert_int_equal(job.map->facts[rank].measured, rank / 4 == 2);
        assert_int_equal(job.map->facts[rank].joined, rank / 4 == 0);
        assert_int_equal(job.map->facts[rank].turns, rank / 4 != 1);
    }
    end(&job);
}

/* ---- GPUs that are joined ---- */

enum { GPUS = 4 };

/* A rank on each of the first GPUs of a host, where all say that they are joined. */
static void deal_cards(const struct topo *host, struct nvlink_card cards[GPUS], int32_t place[GPUS]) {
    int n = 0;
    memset(cards, 0, GPUS * sizeof *cards);
    for (int node = 0; node < host->nnodes && n < GPUS; node++)
        if (host->nodes[node].kind == TOPO_GPU)
            place[n++] = node;
    for (int a = 0; a < GPUS; a++) {
        cards[a] = (struct nvlink_card){.on_gpu = 1, .capability = 90, .gpu = 100 + (uint64_t)a, .nseen = GPUS};
        cards[a].joined = 0xf;
        for (int b = 0; b < GPUS; b++)
            cards[a].seen[b] = 100 + (uint64_t)b;
    }
}

static void gpus_are_joined_by_nvlink_and_not_by_pci(void **state) {
    (void)state;
    static const struct {
        const char *machine;
        bool joined;
    } hosts[] = {{"4 gpu nvswitch", true}, {"4 gpu mesh", true}, {"4 gpu", false}, {"2 cpu : 4 gpu", false}};
    for (size_t h = 0; h < sizeof hosts / sizeof *hosts; h++) {
        struct nvlink_card cards[GPUS];
        struct topo *host;
        int32_t place[GPUS];
        assert_int_equal(topo_synthetic(hosts[h].machine, &host), COLLET_SUCCESS);
        deal_cards(host, cards, place);
        assert_int_equal(nvlink_joins_all(host, place, cards, GPUS), hosts[h].joined);
        assert_true(nvlink_joins_all(host, place, cards, 1));
        topo_destroy(host);
    }
}

/* A graph may say too much, and so may a driver. */
static void no_driver_may_deny_that_gpus_are_joined(void **state) {
    (void)state;
    struct nvlink_card cards[GPUS];
    struct topo *host;
    int32_t place[GPUS];
    assert_int_equal(topo_synthetic("4 gpu nvswitch", &host), COLLET_SUCCESS);
    for (int a = 0; a < GPUS; a++) {
        deal_cards(host, cards, place);
        cards[a].joined &= ~(1u << (a + 1) % GPUS);
        assert_false(nvlink_joins_all(host, place, cards, GPUS));
        cards[a].joined = 0xffffffffu;
        cards[a].nseen = 0xffffffffu; /* what came in a letter */
        assert_true(nvlink_joins_all(host, place, cards, GPUS));
    }
    deal_cards(host, cards, place);
    place[2] = 0; /* a CPU: the graph does not know the GPU */
    assert_false(nvlink_joins_all(host, place, cards, GPUS));
    cards[1].on_gpu = 0;
    assert_false(nvlink_joins_all(host, place, cards, 2));
    topo_destroy(host);
}

/* As under Slurm: each process is shown one GPU. */
static void gpus_that_do_not_see_each_other_are_joined_if_the_graph_says_so(void **state) {
    (void)state;
    struct nvlink_card cards[GPUS];
    struct topo *host;
    int32_t place[GPUS];
    for (int nvlink = 0; nvlink < 2; nvlink++) {
        assert_int_equal(topo_synthetic(nvlink ? "4 gpu nvswitch" : "4 gpu", &host), COLLET_SUCCESS);
        deal_cards(host, cards, place);
        for (int a = 0; a < GPUS; a++) {
            cards[a].nseen = 1;
            cards[a].seen[0] = cards[a].gpu;
        }
        assert_int_equal(nvlink_joins_all(host, place, cards, GPUS), nvlink);
        topo_destroy(host);
    }
}

static void lines_are_for_gpus_of_one_kind_that_stores_them_whole(void **state) {
    (void)state;
    static const struct {
        uint32_t capability, of_last;
        bool fits;
    } kinds[] = {{70, 70, true},  {80, 80, true},  {90, 90, true},  {100, 100, true}, {72, 72, false},
                 {75, 75, false}, {86, 86, false}, {89, 89, false}, {80, 90, false}};
    struct nvlink_card cards[GPUS];
    struct topo *host;
    int32_t place[GPUS];
    assert_int_equal(topo_synthetic("4 gpu nvswitch", &host), COLLET_SUCCESS);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        deal_cards(host, cards, place);
        for (int a = 0; a < GPUS; a++)
            cards[a].capability = a == GPUS - 1 ? kinds[k].of_last : kinds[k].capability;
        assert_int_equal(nvlink_joins_all(host, place, cards, GPUS), kinds[k].fits);
    }
    topo_destroy(host);
}

/* Two parts of one GPU are at one place, and do not reach each other. */
static void ranks_on_one_gpu_are_joined_whatever_the_graph(void **state) {
    (void)state;
    struct nvlink_card cards[GPUS];
    struct topo *host;
    int32_t place[GPUS] = {0, 0, 0, 0};
    assert_int_equal(topo_synthetic("1 cpu", &host), COLLET_SUCCESS);
    memset(cards, 0, sizeof cards);
    for (int k = 0; k < GPUS; k++)
        cards[k] = (struct nvlink_card){.on_gpu = 1, .capability = 90, .gpu = 0x4a00};
    assert_true(nvlink_joins_all(host, place, cards, GPUS));
    cards[3].gpu++;
    assert_false(nvlink_joins_all(host, place, cards, GPUS));
    topo_destroy(host);
}

/* The programs of every channel, on a machine where rings zigzag and trees are chains. */
static void programs_along_every_order_are_right(void **state) {
    (void)state;
    struct job job;
    char why[256];
    draw(&job, "4 gpu nvswitch : 4 nic 100", 3, 4, true);
    assert_true(chart_of(job.map)->rings->zigzag);
    for (int k = 0; k < job.map->norders; k++) {
        const struct prog_shape *shape = &job.map->shapes[k];
        for (const struct algorithm *a = algorithms; a->name != NULL; a++)
            if (algorithm_applies(a, shape) && !prog_check(a, shape, 5, 2, false, why, sizeof why))
                fail_msg("%s_%s along ring %d: %s", prog_collective_name(a->collective), a->name, k, why);
    }
    end(&job);
}

static void a_map_that_does_not_fit_the_ranks_is_refused(void **state) {
    (void)state;
    struct job job;
    struct map *map;
    draw(&job, "4 gpu mesh : 2 nic 100", 2, 4, false);
    uint32_t *counts = job.atlas;
    for (size_t cut = 0; cut < job.size; cut += 5)
        assert_true(chart_create(job.peers, job.nranks, job.atlas, cut, &map) < 0);
    assert_int_equal(chart_create(job.peers, job.nranks - 1, job.atlas, job.size, &map), COLLET_ERR_INTERNAL);
    counts[1]++;
    assert_int_equal(chart_create(job.peers, job.nranks, job.atlas, job.size, &map), COLLET_ERR_INTERNAL);
    counts[1]--;
    const int32_t nowhere = 10000; /* as the place of the last rank */
    memcpy((char *)job.atlas + job.size - sizeof nowhere, &nowhere, sizeof nowhere);
    assert_int_equal(chart_create(job.peers, job.nranks, job.atlas, job.size, &map), COLLET_ERR_INTERNAL);
    end(&job);
}

static void equal_hosts_are_packed_once(void **state) {
    (void)state;
    struct job one, eight;
    draw(&one, "8 gpu nvswitch : 4 nic 200", 1, 8, false);
    draw(&eight, "8 gpu nvswitch : 4 nic 200", 8, 8, false);
    assert_int_equal(eight.size - one.size, 7 * (sizeof(uint32_t) + sizeof(struct node_facts) + 8 * sizeof(int32_t)));
    assert_int_equal(chart_of(eight.map)->rings->ncrossings, 1);
    end(&one);
    end(&eight);
}

static void channels_are_tied_to_adapters_if_each_gets_equally_many(void **state) {
    (void)state;
    struct job job;
    draw(&job, "8 gpu nvswitch : 4 nic 200", 2, 8, false);
    for (int nchannels = 1; nchannels <= 16; nchannels++)
        assert_int_equal(map_ties(job.map, nchannels), nchannels % 4 == 0);
    end(&job);
    draw(&job, "8 gpu nvswitch : 1 nic 200", 2, 8, false);
    assert_false(map_ties(job.map, 4));
    end(&job);
    draw(&job, "8 gpu nvswitch : 4 nic 200", 1, 8, false);
    assert_false(map_ties(job.map, 4));
    end(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_comes_back_as_it_was),
        cmocka_unit_test(equal_hosts_have_equal_texts),
        cmocka_unit_test(a_rank_is_found_by_its_gpu_by_the_file_and_by_its_cpus),
        cmocka_unit_test(every_order_lists_ranks_node_by_node_along_its_ring),
        cmocka_unit_test(rails_are_adapters_that_carry_rings),
        cmocka_unit_test(every_rank_knows_what_every_node_has_said_of_itself),
        cmocka_unit_test(gpus_are_joined_by_nvlink_and_not_by_pci),
        cmocka_unit_test(no_driver_may_deny_that_gpus_are_joined),
        cmocka_unit_test(gpus_that_do_not_see_each_other_are_joined_if_the_graph_says_so),
        cmocka_unit_test(lines_are_for_gpus_of_one_kind_that_stores_them_whole),
        cmocka_unit_test(ranks_on_one_gpu_are_joined_whatever_the_graph),
        cmocka_unit_test(programs_along_every_order_are_right),
        cmocka_unit_test(a_map_that_does_not_fit_the_ranks_is_refused),
        cmocka_unit_test(equal_hosts_are_packed_once),
        cmocka_unit_test(channels_are_tied_to_adapters_if_each_gets_equally_many),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
