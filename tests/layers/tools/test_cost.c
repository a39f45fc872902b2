/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model: simulated time against closed formulas, shared links, and ranks that stand for others.
 *
 * The costs here are round numbers, so that formulas are exact: a step takes 10 ns, a hop 100 ns, nothing else anything,
 * unless a test says so.
 */
#include "common/level.h"
#include "layers/tuner/cost.h"
#include "layers/tools/forecast/forecast.h"
#include "layers/tuner/sim.h"
#include "layers/tools/forecast/steady.h"
#include "layers/tools/forecast/symmetry.h"
#include "topo/probe/topo.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define STEP_NS 10.0
#define HOP_NS 100.0

static struct cost_table round_costs(void) {
    struct cost_table costs = {.gpu_blocks = 64};
    for (int class = 0; class < LINK_CLASS_COUNT; class ++)
        for (int protocol = 0; protocol < COSTS_PROTOCOLS; protocol++)
            costs.step[class][protocol] = (struct step_cost){.step_ns = STEP_NS, .alpha_ns = HOP_NS};
    return costs;
}

/* ---- a machine in which all ranks share one link ---- */

static const int the_link[] = {0};
static const double one_gbps[] = {1.0}; /* a byte takes a nanosecond */

static void over_the_link(const void *context, int channel, int from, int to, struct sim_route *route) {
    (void)context, (void)channel, (void)from, (void)to;
    *route = (struct sim_route){.class = LINK_GPU, .out = {the_link, 1}};
}

static void over_nothing(const void *context, int channel, int from, int to, struct sim_route *route) {
    (void)context, (void)channel, (void)from, (void)to;
    *route = (struct sim_route){.class = LINK_GPU};
}

static struct sim_machine machine_of(const struct cost_table *costs, bool shared) {
    return (struct sim_machine){.costs = costs,
                                .home = LINK_GPU,
                                .gpu = true,
                                .nlinks = 1,
                                .link_gbps = one_gbps,
                                .nslots = 8,
                                .route = shared ? over_the_link : over_nothing};
}

static struct sim_lengths uniform(double part_bytes, double chunk_bytes) {
    return (struct sim_lengths){.uniform = true, .part_bytes = part_bytes, .chunk_bytes = chunk_bytes};
}

static struct sim *staged(const struct sim_machine *machine, struct sim_cast cast, const struct algorithm *algorithm,
                          const struct sim_lengths *lengths) {
    int nranks = cast.nhosts * cast.nlocal;
    struct prog_shape shape = {.nranks = nranks, .nnodes = cast.nhosts, .node_ranks = cast.nlocal};
    struct sim *sim;
    assert_int_equal(sim_create(machine, &cast, &sim), COLLET_SUCCESS);
    assert_int_equal(sim_add_channel(sim, lengths), COLLET_SUCCESS);
    for (int player = 0; player < sim_nplayers(&cast); player++) {
        struct prog *prog;
        assert_int_equal(algorithm_build(algorithm, &shape, player, 0, &prog), COLLET_SUCCESS);
        assert_int_equal(sim_add_program(sim, prog), COLLET_SUCCESS);
        prog_destroy(prog);
    }
    return sim;
}

static double time_of(const struct sim_machine *machine, struct sim_cast cast, enum prog_collective collective,
                      const char *name, const struct sim_lengths *lengths, bool jumps) {
    struct sim *sim = staged(machine, cast, algorithm_find(collective, name), lengths);
    double ns;
    sim->skips = jumps ? &steady_skipper : NULL;
    assert_int_equal(sim_run(sim, PROTOCOL_SIMPLE, 16, &ns), COLLET_SUCCESS);
    sim_destroy(sim);
    return ns;
}

static struct sim_cast flat(int nranks) { return (struct sim_cast){SIM_EACH, 1, nranks}; }

/* ---- contention ---- */

/* One pair of ranks, or several, each sending to its own peer over the same link; all in one round. */
static double pairs_over_one_link(int npairs, double bytes, double chunk) {
    struct cost_table costs = round_costs();
    struct sim_machine machine = machine_of(&costs, true);
    struct sim_cast cast = flat(2 * npairs);
    struct prog_shape shape = PROG_FLAT(2 * npairs);
    struct sim_lengths lengths = uniform(bytes, chunk);
    struct sim *sim;
    double ns;
    assert_int_equal(sim_create(&machine, &cast, &sim), COLLET_SUCCESS);
    assert_int_equal(sim_add_channel(sim, &lengths), COLLET_SUCCESS);
    for (int rank = 0; rank < 2 * npairs; rank++) {
        struct prog *prog;
        const struct algorithm *half = algorithm_find(rank % 2 == 0 ? PROG_SEND : PROG_RECV, "direct");
        assert_int_equal(algorithm_build(half, &shape, rank, rank ^ 1, &prog), COLLET_SUCCESS);
        assert_int_equal(sim_add_program(sim, prog), COLLET_SUCCESS);
        prog_destroy(prog);
    }
    assert_int_equal(sim_run(sim, PROTOCOL_SIMPLE, 1000, &ns), COLLET_SUCCESS);
    double load;
    assert_int_equal(sim_load(sim, PROTOCOL_SIMPLE, &load), COLLET_SUCCESS);
    assert_true(fabs(load - npairs * bytes) < 1e-6 * bytes);
    sim_destroy(sim);
    return ns;
}

static void one_flow_has_the_whole_link(void **state) {
    (void)state;
    /* step, bytes over the link, hop, step of the receiver */
    assert_true(fabs(pairs_over_one_link(1, 1000, 1000) - (STEP_NS + 1000 + HOP_NS + STEP_NS)) < 1e-3);
}

static void two_flows_that_share_a_link_have_half_of_it_each(void **state) {
    (void)state;
    double alone = pairs_over_one_link(1, 100000, 1000), together = pairs_over_one_link(2, 100000, 1000);
    assert_true(fabs(alone - (100000 + HOP_NS + 2 * STEP_NS)) < 1e-3);
    assert_true(fabs(together - (200000 + HOP_NS + 2 * STEP_NS)) < 1e-3);
    double five = pairs_over_one_link(5, 100000, 1000);
    assert_true(fabs(five - (500000 + HOP_NS + 2 * STEP_NS)) < 1e-3);
}

/* ---- loans ---- */

static void by_loans(const void *context, int channel, int from, int to, struct sim_route *route) {
    (void)context, (void)channel, (void)from, (void)to;
    *route = (struct sim_route){.class = LINK_MEMORY, .loan = {.class = LINK_LENT_CMA, .least_bytes = 1000}};
}

/* The reader pays for the loan. The root has nothing else to do, so it moves half of the bytes; and it need not move any before the reader
 * can begin. */
static void a_payload_that_is_lent_costs_its_reader_what_loans_cost(void **state) {
    (void)state;
    struct cost_table costs = round_costs();
    costs.step[LINK_MEMORY][PROTOCOL_SIMPLE].byte_ns = 1; /* at both ends */
    costs.step[LINK_LENT_CMA][PROTOCOL_SIMPLE] = (struct step_cost){.peer_ns = 50, .byte_ns = 0.25, .alpha_ns = HOP_NS};
    struct sim_machine machine = machine_of(&costs, false);
    machine.gpu = false;
    machine.route = by_loans;
    for (int lent = 0; lent <= 4; lent++) { /* quarters of all messages */
        machine.lent = lent / 4.0;
        for (double bytes = 900; bytes <= 1100; bytes += 100) {
            struct sim_lengths lengths = uniform(bytes, bytes);
            const double lent = bytes < 1000 ? 0 : machine.lent, bytes_ns = bytes + lent * (0.25 / 2 - 1) * bytes;
            const double root_ns = bytes_ns, reader_ns = bytes_ns + lent * 50;
            double formula = 2 * STEP_NS + HOP_NS + (1 - lent) * root_ns + reader_ns, busiest;
            struct sim *sim = staged(&machine, flat(2), algorithm_find(PROG_BROADCAST, "chain"), &lengths);
            assert_int_equal(sim_busiest(sim, PROTOCOL_SIMPLE, &busiest), COLLET_SUCCESS);
            sim_destroy(sim);
            assert_true(fabs(busiest - STEP_NS - reader_ns) < 1e-3);
            double ns = time_of(&machine, flat(2), PROG_BROADCAST, "chain", &lengths, false);
            assert_true(fabs(ns - formula) < 1e-3);
        }
    }
}

/* However many read a payload, its producer says only once to each of them where it is. */
static void a_root_that_lends_to_many_is_done_at_once(void **state) {
    (void)state;
    struct cost_table costs = round_costs();
    costs.step[LINK_MEMORY][PROTOCOL_SIMPLE].byte_ns = 1;
    costs.step[LINK_LENT_CMA][PROTOCOL_SIMPLE] = (struct step_cost){.byte_ns = 1, .alpha_ns = HOP_NS};
    struct sim_machine machine = machine_of(&costs, false);
    struct sim_lengths lengths = uniform(100000, 100000);
    machine.gpu = false;
    machine.route = by_loans;
    for (int n = 3; n <= 9; n += 3) {
        machine.lent = 0;
        const double slots_ns = time_of(&machine, flat(n), PROG_BROADCAST, "direct", &lengths, false);
        machine.lent = 1;
        const double lent_ns = time_of(&machine, flat(n), PROG_BROADCAST, "direct", &lengths, false);
        assert_true(slots_ns > 100000.0 * n);                     /* the root writes n − 1 slots, then one is read */
        assert_true(lent_ns < 100000 + 2 * STEP_NS + 2 * HOP_NS); /* all read at once */
    }
}

/* ---- fences ---- */

/* oneshot has two steps: to all others, and from all others. */
static void a_step_pays_for_one_fence_whatever_the_number_of_its_peers(void **state) {
    (void)state;
    struct cost_table costs = round_costs();
    costs.step[LINK_GPU][PROTOCOL_SIMPLE].fence_ns = 1000;
    struct sim_machine machine = machine_of(&costs, false);
    struct sim_lengths lengths = uniform(64, 64);
    for (int n = 2; n <= 9; n++) {
        double ns = time_of(&machine, flat(n), PROG_ALLREDUCE, "oneshot", &lengths, false);
        assert_true(fabs(ns - (2 * (STEP_NS + 1000) + HOP_NS)) < 1e-3);
    }
}

/* ---- formulas ---- */

static void ring_takes_as_many_hops_as_its_formula_says(void **state) {
    (void)state;
    struct cost_table costs = round_costs();
    struct sim_machine machine = machine_of(&costs, false);
    struct sim_lengths lengths = uniform(64, 64);
    for (int n = 2; n <= 33; n++) {
        double formula = 2 * (n - 1) * (STEP_NS + HOP_NS) + STEP_NS;
        assert_true(fabs(time_of(&machine, flat(n), PROG_ALLREDUCE, "ring", &lengths, false) - formula) < 1e-3);
        formula = (n - 1) * (STEP_NS + HOP_NS) + STEP_NS;
        assert_true(fabs(time_of(&machine, flat(n), PROG_ALLGATHER, "ring", &lengths, false) - formula) < 1e-3);
    }
}

static void ring_moves_its_bytes_as_fast_as_engines_do(void **state) {
    (void)state;
    struct cost_table costs = round_costs();
    double byte_ns = 0.5;
    for (int class = 0; class < LINK_CLASS_COUNT; class ++)
        costs.step[class][PROTOCOL_SIMPLE].byte_ns = byte_ns;
    struct sim_machine machine = machine_of(&costs, false);
    double piece = 1 << 20;
    struct sim_lengths lengths = uniform(piece, piece);
    int n = 8;
    /* Buffers that a step touches: 2 in the first and last, 3 in all others, 4 where the turn is. */
    double formula = 2 * (n - 1) * (STEP_NS + HOP_NS) + STEP_NS + (2 + 3 * (2 * n - 4) + 4 + 2 + 0.0) * piece * byte_ns;
    double ns = time_of(&machine, flat(n), PROG_ALLREDUCE, "ring", &lengths, false);
    assert_true(fabs(ns - formula) < 1e-6 * formula);
}

static void broadcast_tree_takes_a_hop_a_level(void **state) {
    (void)state;
    struct cost_table costs = round_costs();
    struct sim_machine machine = machine_of(&costs, false);
    struct sim_lengths lengths = uniform(64, 64);
    for (int levels = 1; levels <= 9; levels++) { /* the root above a full tree of 2^levels − 1 others */
        double formula = levels * (STEP_NS + HOP_NS) + STEP_NS;
        double ns = time_of(&machine, flat(1 << levels), PROG_BROADCAST, "tree", &lengths, false);
        assert_true(fabs(ns - formula) < 1e-3);
    }
}

static void chain_is_a_pipeline(void **state) {
    (void)state;
    struct cost_table costs = round_costs();
    struct sim_machine machine = machine_of(&costs, false);
    int n = 6, rounds = 500; /* most of them not simulated */
    struct sim_lengths lengths = uniform(64.0 * rounds, 64);
    double stage = 8 * STEP_NS > HOP_NS + 2 * STEP_NS ? STEP_NS : (HOP_NS + 2 * STEP_NS) / 8; /* 8 slots */
    double formula = (n - 1) * (STEP_NS + HOP_NS) + STEP_NS + (rounds - 1) * stage;
    double ns = time_of(&machine, flat(n), PROG_BROADCAST, "chain", &lengths, false);
    assert_true(fabs(ns - formula) < 0.02 * formula);
}

/* ---- steps that only pass on ---- */

static void a_relay_is_as_long_as_what_it_passes_on(void **state) {
    (void)state;
    struct cost_table costs = round_costs();
    struct sim_machine machine = machine_of(&costs, true);
    struct sim_cast cast = {SIM_EACH, 4, 2};
    struct sim_lengths lengths = {.elem_bytes = 1};
    uint64_t count = 256;
    lengths.geometry = geometry_of(8 * count, count, 64, 0, 1);
    struct sim *sim = staged(&machine, cast, algorithm_find(PROG_ALLTOALL, "hier"), &lengths);
    double ns, load;
    assert_int_equal(sim_run(sim, PROTOCOL_SIMPLE, 16, &ns), COLLET_SUCCESS);
    assert_int_equal(sim_load(sim, PROTOCOL_SIMPLE, &load), COLLET_SUCCESS);
    sim_destroy(sim);
    /* Of each rank: 6 blocks to other nodes, 1 in the node, and 3 that change rails first. All hosts have the link. */
    assert_true(fabs(load - 2 * (6 + 1 + 3) * (double)count) < 1e-6);
}

/* ---- loads ---- */

static void lengths_that_are_all_the_same_load_as_each_of_them(void **state) {
    (void)state;
    struct cost_table costs = round_costs();
    struct sim_machine machine = machine_of(&costs, true);
    struct sim_cast cast = {SIM_EACH, 4, 2};
    for (uint64_t count = 64; count <= 64000; count *= 10) { /* blocks of less than a round, of one and of many */
        struct sim_lengths exact = {.elem_bytes = 1, .geometry = geometry_of(8 * count, count, 640, 0, 1)};
        struct sim_lengths same = uniform((double)count, 640);
        struct sim *one = staged(&machine, cast, algorithm_find(PROG_ALLGATHER, "ring"), &same);
        struct sim *all = staged(&machine, cast, algorithm_find(PROG_ALLGATHER, "ring"), &exact);
        double load, exact_load, busiest, exact_busiest;
        for (enum protocol protocol = PROTOCOL_SIMPLE; protocol <= PROTOCOL_LL; protocol++) {
            assert_int_equal(sim_load(one, protocol, &load), COLLET_SUCCESS);
            assert_int_equal(sim_load(all, protocol, &exact_load), COLLET_SUCCESS);
            assert_true(fabs(load - exact_load) <= 1e-9 * exact_load && load > 0);
            assert_int_equal(sim_busiest(one, protocol, &busiest), COLLET_SUCCESS);
            assert_int_equal(sim_busiest(all, protocol, &exact_busiest), COLLET_SUCCESS);
            assert_true(fabs(busiest - exact_busiest) <= 1e-9 * exact_busiest && busiest > 0);
        }
        same = uniform(2.0 * (double)count, 640);
        sim_set(one, 0, &same);
        assert_int_equal(sim_load(one, PROTOCOL_LL, &load), COLLET_SUCCESS);
        assert_true(fabs(load - 2 * exact_load) <= 1e-9 * load);
        sim_destroy(one);
        sim_destroy(all);
    }
}

/* ---- steady states ---- */

static void skipped_periods_take_the_same_time(void **state) {
    (void)state;
    struct cost_table costs = costs_default;
    struct sim_machine machine = machine_of(&costs, true);
    static const char *const names[] = {"ring", "halving"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct sim_lengths lengths = uniform(1234, 4096);
        struct sim_cast cast = {k == 0 ? SIM_SHIFT : SIM_XOR, 1024, 4};
        double skipped = time_of(&machine, cast, PROG_ALLREDUCE, names[k], &lengths, true);
        double stepped = time_of(&machine, cast, PROG_ALLREDUCE, names[k], &lengths, false);
        assert_true(skipped == stepped);
    }
}

static void periods_are_really_skipped(void **state) {
    (void)state;
    struct cost_table costs = costs_default;
    struct sim_machine machine = machine_of(&costs, true);
    struct sim_lengths lengths = uniform(1234, 4096);
    struct sim *sim =
        staged(&machine, (struct sim_cast){SIM_SHIFT, 8192, 2}, algorithm_find(PROG_ALLREDUCE, "ring"), &lengths);
    double ns;
    sim->skips = &steady_skipper;
    assert_int_equal(sim_run(sim, PROTOCOL_SIMPLE, 16, &ns), COLLET_SUCCESS);
    assert_true(sim->nevents < 2 * 2 * 16384 / 4); /* of 2 ranks, 2·16384 steps each */
    sim_destroy(sim);
}

/* ---- ranks that stand for others ---- */

struct job {
    struct topo *topo;
    struct forecast_job *forecast;
};

static struct job open_job(const char *host, int nhosts) {
    struct topo *one;
    struct job job;
    assert_int_equal(topo_synthetic(host, &one), COLLET_SUCCESS);
    const struct topo *hosts[] = {one, one};
    assert_int_equal(topo_fuse(hosts, 2, &job.topo), COLLET_SUCCESS);
    topo_destroy(one);
    assert_int_equal(forecast_open(job.topo, nhosts, 0, &job.forecast), COLLET_SUCCESS);
    return job;
}

static void close_job(struct job *job) {
    forecast_close(job->forecast);
    topo_destroy(job->topo);
}

static struct sim *net_sim(const struct job *job, const struct algorithm *algorithm, enum sim_grouping grouping,
                           const struct sim_lengths *lengths) {
    struct net *net = job->forecast->net;
    struct sim_machine machine = {.costs = &costs_default,
                                  .home = LINK_GPU,
                                  .gpu = true,
                                  .nlinks = net->nlinks,
                                  .link_gbps = net->link_gbps,
                                  .nslots = 8,
                                  .route = net_route,
                                  .context = net};
    return staged(&machine, (struct sim_cast){grouping, job->forecast->nhosts, net->nranks}, algorithm, lengths);
}

/* Time and load of one host for all against every rank for itself, over real links. */
static void compare_grouping(enum prog_collective collective, const char *name, int nhosts, double bytes,
                             enum sim_grouping expected) {
    struct job job = open_job("4 gpu nvswitch : 2 nic 200", nhosts);
    const struct algorithm *algorithm = algorithm_find(collective, name);
    struct prog_shape shape = {.nranks = job.forecast->nranks, .nnodes = nhosts, .node_ranks = 4};
    enum sim_grouping grouping;
    assert_int_equal(symmetry_find(algorithm, &shape, nhosts, &grouping), COLLET_SUCCESS);
    assert_int_equal(grouping, expected);
    struct sim_lengths lengths = uniform(bytes, 4096);
    struct sim *all = net_sim(&job, algorithm, SIM_EACH, &lengths), *one = net_sim(&job, algorithm, grouping, &lengths);
    double all_ns, one_ns, all_load[256], one_load[256];
    assert_int_equal(sim_run(all, PROTOCOL_SIMPLE, 12, &all_ns), COLLET_SUCCESS);
    assert_int_equal(sim_run(one, PROTOCOL_SIMPLE, 12, &one_ns), COLLET_SUCCESS);
    assert_true(fabs(one_ns - all_ns) <= 0.03 * all_ns); /* ties between messages may be broken otherwise */
    assert_int_equal(sim_load(all, PROTOCOL_SIMPLE, all_load), COLLET_SUCCESS);
    assert_int_equal(sim_load(one, PROTOCOL_SIMPLE, one_load), COLLET_SUCCESS);
    for (int link = 0; link < job.forecast->net->nlinks; link++)
        assert_true(fabs(one_load[link] - all_load[link]) <= 1e-9 * all_load[link]);
    sim_destroy(all);
    sim_destroy(one);
    close_job(&job);
}

static void one_host_stands_for_all(void **state) {
    (void)state;
    static const int hosts[] = {2, 3, 8, 13, 64, 100};
    for (int k = 0; k < (level_now() == LEVEL_FAST ? 4 : 6); k++)
        for (int big = 0; big < 2; big++) {
            double bytes = big ? 20000 : 300;
            compare_grouping(PROG_ALLREDUCE, "ring", hosts[k], bytes, SIM_SHIFT);
            compare_grouping(PROG_ALLREDUCE, "hier", hosts[k], bytes, SIM_SHIFT);
            compare_grouping(PROG_ALLGATHER, "ring", hosts[k], bytes, SIM_SHIFT);
            compare_grouping(PROG_ALLGATHER, "pat", hosts[k], bytes, SIM_SHIFT);
            compare_grouping(PROG_REDUCESCATTER, "pat", hosts[k], bytes, SIM_SHIFT);
            compare_grouping(PROG_ALLTOALL, "hier", hosts[k], bytes, SIM_SHIFT);
            if ((hosts[k] & (hosts[k] - 1)) == 0)
                compare_grouping(PROG_ALLREDUCE, "halving", hosts[k], bytes, hosts[k] == 2 ? SIM_SHIFT : SIM_XOR);
        }
}

/* Up to 4096 ranks. Where each rank talks to each, or has as many steps as there are ranks in the reductions of halving, half
 * as many ranks are some hundred million steps already; so here two pieces must do. */
static void one_host_stands_for_a_thousand(void **state) {
    (void)state;
    if (level_now() != LEVEL_FULL)
        skip();
    compare_grouping(PROG_ALLREDUCE, "ring", 1024, 8000, SIM_SHIFT);
    compare_grouping(PROG_ALLREDUCE, "hier", 1024, 8000, SIM_SHIFT);
    compare_grouping(PROG_ALLGATHER, "ring", 1024, 8000, SIM_SHIFT);
    compare_grouping(PROG_ALLGATHER, "pat", 1024, 8000, SIM_SHIFT);
    compare_grouping(PROG_REDUCESCATTER, "pat", 512, 8000, SIM_SHIFT);
    compare_grouping(PROG_ALLTOALL, "hier", 512, 8000, SIM_SHIFT);
    compare_grouping(PROG_ALLREDUCE, "halving", 512, 8000, SIM_XOR);
}

static void who_has_a_root_stands_for_itself(void **state) {
    (void)state;
    static const struct {
        enum prog_collective collective;
        const char *name;
        int nhosts;
    } cases[] = {{PROG_ALLREDUCE, "tree", 8},
                 {PROG_ALLREDUCE, "hiertree", 8},
                 {PROG_BROADCAST, "chain", 100},
                 {PROG_ALLREDUCE, "halving", 6},
                 {PROG_REDUCE, "tree", 100}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct prog_shape shape = {.nranks = 4 * cases[k].nhosts, .nnodes = cases[k].nhosts, .node_ranks = 4};
        enum sim_grouping grouping;
        assert_int_equal(
            symmetry_find(algorithm_find(cases[k].collective, cases[k].name), &shape, cases[k].nhosts, &grouping),
            COLLET_SUCCESS);
        assert_int_equal(grouping, SIM_EACH);
    }
}

/* ---- forecasts ---- */

static struct forecast forecast_of(struct forecast_job *job, enum prog_collective collective, const char *name,
                                   uint64_t bytes) {
    const struct algorithm *algorithm = algorithm_find(collective, name);
    struct forecast_stage *stage;
    struct forecast forecast;
    struct plan_choice choice = {algorithm, PROTOCOL_SIMPLE, 1, 128 << 10, 0};
    assert_int_equal(forecast_stage_open(job, algorithm, &stage), COLLET_SUCCESS);
    assert_int_equal(forecast_run(stage, &choice, bytes, true, &forecast), COLLET_SUCCESS);
    forecast_stage_close(stage);
    return forecast;
}

static void fewer_hosts_foretell_more(void **state) {
    (void)state;
    static const char *const trees[] = {"tree", "hiertree"};
    struct job job = open_job("4 gpu nvswitch : 2 nic 200", level_now() == LEVEL_FULL ? 1024 : 256);
    for (int k = 0; k < 2; k++)
        for (uint64_t bytes = 1 << 10; bytes <= 1 << 22; bytes <<= 6) {
            job.forecast->steps_max = 1e9;
            struct forecast all = forecast_of(job.forecast, PROG_ALLREDUCE, trees[k], bytes);
            job.forecast->steps_max = 2e6;
            struct forecast fewer = forecast_of(job.forecast, PROG_ALLREDUCE, trees[k], bytes);
            assert_int_equal(all.kind, FORECAST_EACH);
            assert_int_equal(fewer.kind, FORECAST_EXTENDED);
            assert_true(fabs(fewer.choice.predicted_ns - all.choice.predicted_ns) <= 0.15 * all.choice.predicted_ns);
        }
    close_job(&job);
}

/* All candidates, against those that bounds do not spare. */
static void what_is_spared_is_not_faster(void **state) {
    (void)state;
    struct job job = open_job("8 gpu pci : 4 nic 100", level_now() == LEVEL_FULL   ? 512
                                                       : level_now() == LEVEL_FAST ? 2
                                                                                   : 16);
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (uint64_t bytes = 1 << 10; bytes <= 1 << 28 && !prog_is_p2p(a->collective); bytes <<= 6) {
            struct tuner_try tries[TUNER_TRIES_MAX];
            struct forecast_stage *stage;
            struct forecast best, one;
            double least = INFINITY;
            if (!algorithm_applies(a, job.forecast->machine.whole))
                continue;
            assert_int_equal(forecast_stage_open(job.forecast, a, &stage), COLLET_SUCCESS);
            assert_int_equal(forecast_best(stage, bytes, &best), COLLET_SUCCESS);
            int n =
                tuner_list(&job.forecast->limits, stage->whole->cost, simulated_count(stage->whole, bytes), 1, tries);
            for (int k = 0; k < n; k++) {
                assert_int_equal(forecast_run(stage, &tries[k].choice, bytes, false, &one), COLLET_SUCCESS);
                least = fmin(least, one.choice.predicted_ns);
            }
            forecast_stage_close(stage);
            assert_true(best.choice.predicted_ns >= least && best.choice.predicted_ns <= 1.01 * least);
        }
    close_job(&job);
}

/* 100 hosts have no grouping for halving, 64, 32 and 16 have one: these do not tell of those. */
static void what_cannot_be_foretold_has_no_time(void **state) {
    (void)state;
    struct job job = open_job("4 gpu nvswitch : 2 nic 200", 100);
    job.forecast->steps_max = 1e6;
    struct forecast f = forecast_of(job.forecast, PROG_ALLREDUCE, "halving", 1 << 20);
    assert_int_equal(f.kind, FORECAST_NONE);
    job.forecast->steps_max = 1e9;
    f = forecast_of(job.forecast, PROG_ALLREDUCE, "halving", 1 << 20);
    assert_int_equal(f.kind, FORECAST_EACH);
    assert_true(f.choice.predicted_ns > 0);
    close_job(&job);
}

static void no_forecast_is_below_its_bounds(void **state) {
    (void)state;
    struct job job = open_job("8 gpu pci : 4 nic 100", 4);
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (uint64_t bytes = 1 << 8; bytes <= 1 << 28 && !prog_is_p2p(a->collective); bytes <<= 5) {
            struct forecast f = forecast_of(job.forecast, a->collective, a->name, bytes);
            assert_true(f.kind == FORECAST_EACH || f.kind == FORECAST_GROUPED);
            double ns = f.choice.predicted_ns;
            assert_true(ns >= f.bounds.link_ns && ns >= f.bounds.engine_ns);
            assert_true(f.bounds.link_ns > 0 && f.bounds.engine_ns > 0);
        }
    close_job(&job);
}

/* What ranks want is a setting, which all know of each other; what the kernel permits is not. It copies nothing for a root that
 * reduces. */
static void loans_are_priced_where_they_are_wanted(void **state) {
    (void)state;
    static const struct {
        enum prog_collective collective;
        const char *name;
        bool lends, priced;
    } cases[] = {{PROG_ALLGATHER, "ring", true, true},
                 {PROG_ALLREDUCE, "twoshot", true, true},
                 {PROG_REDUCE, "direct", true, false},
                 {PROG_ALLREDUCE, "doubling", false, false}};
    enum { CASES = sizeof(cases) / sizeof(*cases) };
    double ns[2][CASES];
    for (int wanted = 0; wanted < 2; wanted++) {
        setenv("COLLET_KERNEL_COPIES", wanted ? "faster" : "slower", 1);
        struct job job = open_job("4 cpu", 1);
        for (int k = 0; k < CASES; k++) {
            struct forecast_stage *stage;
            const struct algorithm *algorithm = algorithm_find(cases[k].collective, cases[k].name);
            assert_int_equal(forecast_stage_open(job.forecast, algorithm, &stage), COLLET_SUCCESS);
            assert_true(stage->whole->cost->lent / stage->whole->cost->sent == cases[k].lends);
            forecast_stage_close(stage);
            ns[wanted][k] = forecast_of(job.forecast, cases[k].collective, cases[k].name, 16 << 20).choice.predicted_ns;
        }
        close_job(&job);
    }
    unsetenv("COLLET_KERNEL_COPIES");
    for (int k = 0; k < CASES; k++)
        assert_int_equal(ns[1][k] != ns[0][k], cases[k].priced);
}

static void fewer_bytes_than_ranks_are_a_call_of_one(void **state) {
    (void)state;
    struct job job = open_job("8 gpu nvswitch : 4 nic 200", 2);
    struct forecast_stage *stage;
    assert_int_equal(forecast_stage_open(job.forecast, algorithm_find(PROG_ALLGATHER, "ring"), &stage), COLLET_SUCCESS);
    assert_int_equal(simulated_count(stage->whole, 8), 1);
    forecast_stage_close(stage);
    assert_true(forecast_of(job.forecast, PROG_ALLGATHER, "ring", 8).bounds.engine_ns > 0);
    close_job(&job);
}

static void equal_questions_have_equal_answers(void **state) {
    (void)state;
    struct job job = open_job("8 gpu nvswitch : 4 nic 200", 8);
    struct forecast first = forecast_of(job.forecast, PROG_ALLREDUCE, "tree", 1 << 22);
    for (int k = 0; k < 3; k++) {
        struct forecast again = forecast_of(job.forecast, PROG_ALLREDUCE, "tree", 1 << 22);
        assert_true(again.choice.predicted_ns == first.choice.predicted_ns && again.bounds.link == first.bounds.link);
    }
    close_job(&job);
}

static void hosts_that_differ_are_refused(void **state) {
    (void)state;
    struct topo *a, *b, *both;
    struct forecast_job *job;
    assert_int_equal(topo_synthetic("4 gpu : 1 nic", &a), COLLET_SUCCESS);
    assert_int_equal(topo_synthetic("2 gpu : 1 nic", &b), COLLET_SUCCESS);
    const struct topo *hosts[] = {a, b};
    assert_int_equal(topo_fuse(hosts, 2, &both), COLLET_SUCCESS);
    assert_int_equal(forecast_open(both, 2, 0, &job), COLLET_ERR_INVALID_ARGUMENT);
    topo_destroy(a);
    topo_destroy(b);
    topo_destroy(both);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_flow_has_the_whole_link),
        cmocka_unit_test(two_flows_that_share_a_link_have_half_of_it_each),
        cmocka_unit_test(a_payload_that_is_lent_costs_its_reader_what_loans_cost),
        cmocka_unit_test(a_root_that_lends_to_many_is_done_at_once),
        cmocka_unit_test(a_step_pays_for_one_fence_whatever_the_number_of_its_peers),
        cmocka_unit_test(ring_takes_as_many_hops_as_its_formula_says),
        cmocka_unit_test(ring_moves_its_bytes_as_fast_as_engines_do),
        cmocka_unit_test(broadcast_tree_takes_a_hop_a_level),
        cmocka_unit_test(chain_is_a_pipeline),
        cmocka_unit_test(a_relay_is_as_long_as_what_it_passes_on),
        cmocka_unit_test(lengths_that_are_all_the_same_load_as_each_of_them),
        cmocka_unit_test(skipped_periods_take_the_same_time),
        cmocka_unit_test(periods_are_really_skipped),
        cmocka_unit_test(one_host_stands_for_all),
        cmocka_unit_test(one_host_stands_for_a_thousand),
        cmocka_unit_test(who_has_a_root_stands_for_itself),
        cmocka_unit_test(fewer_hosts_foretell_more),
        cmocka_unit_test(what_is_spared_is_not_faster),
        cmocka_unit_test(what_cannot_be_foretold_has_no_time),
        cmocka_unit_test(no_forecast_is_below_its_bounds),
        cmocka_unit_test(loans_are_priced_where_they_are_wanted),
        cmocka_unit_test(fewer_bytes_than_ranks_are_a_call_of_one),
        cmocka_unit_test(equal_questions_have_equal_answers),
        cmocka_unit_test(hosts_that_differ_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
