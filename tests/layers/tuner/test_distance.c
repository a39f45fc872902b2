/* SPDX-License-Identifier: Apache-2.0
 *
 * Which CPUs of a node are measured, what COLLET_CPU_DISTANCE overrides, and what becomes of it: links, stores, choices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/comm.h"
#include "base/config_read.h"
#include "base/err.h"
#include "common/fair.h"
#include "common/level.h"
#include "common/ranks.h"
#include "layers/tuner/distance.h"
#include "layers/tuner/host.h"
#include "layers/tuner/host_find.h"
#include "layers/tuner/line_probe.h"
#include "layers/tuner/on_cpus.h"
#include "topo/probe/chart.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NRANKS 4

/* Of a process of its own on node 0, bound to these CPUs. */
static struct peer_info peer(int rank, uint64_t cpus) {
    return (struct peer_info){.rank = rank, .process = {1, (uint64_t)rank}, .cpus = {{cpus}}};
}

/* ---- pairs ---- */

static void the_first_cpu_is_measured_with_the_last_the_middle_and_the_next(void **state) {
    (void)state;
    const struct peer_info peers[] = {peer(0, 0xff0), peer(1, 0xff0)};
    struct distance_pair pairs[DISTANCE_PAIRS_MAX];
    static const int others[] = {11, 8, 5};
    assert_int_equal(distance_pairs(peers, 2, 0, pairs), 3);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(pairs[k].a, 4);
        assert_int_equal(pairs[k].b, others[k]);
    }
}

static void two_cpus_are_one_pair_and_three_are_two(void **state) {
    (void)state;
    const struct peer_info two[] = {peer(0, 1), peer(1, 2), peer(2, 1), peer(3, 2)};
    const struct peer_info three[] = {peer(0, 1), peer(1, 2), peer(2, 4)};
    struct distance_pair pairs[DISTANCE_PAIRS_MAX];
    assert_int_equal(distance_pairs(two, NRANKS, 0, pairs), 1);
    assert_int_equal(pairs[0].a, 0);
    assert_int_equal(pairs[0].b, 1);
    assert_int_equal(distance_pairs(three, 3, 0, pairs), 2);
}

static void nothing_is_measured_where_nothing_goes_from_cpu_to_cpu(void **state) {
    (void)state;
    struct peer_info alone[] = {peer(0, 0xf)};
    struct peer_info one_process[] = {peer(0, 0xf), peer(0, 0xf)};
    struct peer_info one_cpu[] = {peer(0, 4), peer(1, 4)};
    struct peer_info other_nodes[] = {peer(0, 0xf), peer(1, 0xf)};
    struct peer_info on_gpus[] = {peer(0, 0xf), peer(1, 0xf)};
    struct distance_pair pairs[DISTANCE_PAIRS_MAX];
    other_nodes[1].node = 1;
    on_gpus[0].device = on_gpus[1].device = COLLET_DEVICE_CUDA(0);
    assert_int_equal(distance_pairs(alone, 1, 0, pairs), 0);
    assert_int_equal(distance_pairs(one_process, 2, 0, pairs), 0);
    assert_int_equal(distance_pairs(one_cpu, 2, 0, pairs), 0);
    assert_int_equal(distance_pairs(other_nodes, 2, 0, pairs), 0);
    assert_int_equal(distance_pairs(on_gpus, 2, 0, pairs), 0);
}

/* ---- the probe ---- */

static void a_cpu_that_is_not_there_cannot_be_probed(void **state) {
    (void)state;
    struct line_trips trips;
    assert_false(line_probe(0, CPU_SETSIZE - 1, 1000, &trips));
    assert_false(line_probe(CPU_SETSIZE - 1, 0, 1000, &trips));
}

/* Stands for a thread whose CPU is always given to others: it cannot end before it may use another one. */
struct starved {
    int told, freed;
};

static void wait_for_another_cpu(void *starved_, int k) {
    struct starved *starved = starved_;
    cpu_set_t mine;
    for (const uint64_t begun_ns = fair_now_ns(); k == 0 && fair_now_ns() - begun_ns < 10000000000u; usleep(1000))
        if (sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_COUNT(&mine) > 1) {
            __atomic_store_n(&starved->freed, 1, __ATOMIC_RELEASE);
            return;
        }
}

static void tell_to_end(void *starved) { __atomic_store_n(&((struct starved *)starved)->told, 1, __ATOMIC_RELEASE); }

/* A rank waited for such a thread for many seconds, and all others for that rank. */
static void a_pinned_thread_that_gets_no_cpu_is_freed(void **state) {
    (void)state;
    struct starved starved = {0};
    const int cpus[] = {0, 1};
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0 || !CPU_ISSET(0, &mine) || !CPU_ISSET(1, &mine))
        skip();
    assert_false(on_cpus_run(cpus, 2, 10e6, wait_for_another_cpu, tell_to_end, &starved));
    assert_int_equal(starved.told, 1);
    assert_int_equal(starved.freed, 1);
}

static void what_is_said_is_not_measured(void **state) {
    (void)state;
    const struct peer_info peers[] = {peer(0, 3), peer(1, 3)};
    struct config config = {.cpu_distance = "far"};
    assert_true(distance_is_far(&config, peers, 2, 0));
    strcpy(config.cpu_distance, "NEAR");
    assert_false(distance_is_far(&config, peers, 2, 0));
}

static int cpu_count(void) {
    struct os_cpu_set set;
    os_cpu_set_get(&set);
    return os_cpu_set_count(&set);
}

static void what_cannot_be_measured_is_near(void **state) {
    (void)state;
    const struct peer_info peers[] = {peer(0, 3ull << 62), peer(1, 3ull << 62)};
    struct config config = {.cpu_distance = "auto"};
    if (cpu_count() >= 63)
        skip();
    assert_false(distance_is_far(&config, peers, 2, 0));
}

/* ---- how fast all CPUs are at once ---- */

/* Skips a test that nothing can be measured for. Somebody else may have the CPUs, or each step takes too long under a sanitizer. */
static void measure_or_skip(host_probe_copy *past_caches, struct host_times *times) {
    static const int both[] = {0, 1};
    bool may_fail = LEVEL_SLOWER > 1;
    for (int k = 0; !host_probe(both, 2, past_caches, true, times); k++) {
        may_fail |= fair_share() < 1;
        if (k == 500 && may_fail)
            skip();
        assert_true(k < 500);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

static void every_way_to_pass_on_is_measured(void **state) {
    (void)state;
    static const int gone[] = {0, CPU_SETSIZE - 1}, gone_first[] = {CPU_SETSIZE - 1, 0};
    struct host_times times = {0};
    if (cpu_count() < 2)
        skip();
    measure_or_skip(memcpy, &times);
    assert_true(times.line > 0 && times.lent > 0 && times.own > 0 && times.memory_gbps > 0);
    for (int size = 0; size < PROBE_SIZES; size++)
        assert_true(times.slots[size] > 0 && times.past[size] > 0 && times.kernel[size] > 0);
    assert_true(times.slots[PROBE_LONG] > times.slots[PROBE_SHORT]);
    assert_false(host_probe(gone, 2, memcpy, true, &times));
    assert_false(host_probe(gone_first, 2, memcpy, true, &times));
}

#define SLOW_NS 100000 /* of a payload */
static int slow_copies;

static void *copy_slowly(void *to, const void *from, size_t bytes) {
    nanosleep(&(struct timespec){.tv_nsec = SLOW_NS}, NULL);
    __atomic_add_fetch(&slow_copies, 1, __ATOMIC_RELAXED);
    return memcpy(to, from, bytes);
}

/* Slots are written the way that is sooner. */
static void slots_past_the_caches_are_measured_and_the_sooner_way_counts(void **state) {
    (void)state;
    struct host_times times = {0};
    if (cpu_count() < 2)
        skip();
    measure_or_skip(copy_slowly, &times);
    assert_true(slow_copies > 0 && times.past[PROBE_SHORT] >= SLOW_NS && times.past[PROBE_LONG] >= SLOW_NS);
    times.slots[PROBE_SHORT] = 1000; /* whatever else ran here */
    times.slots[PROBE_LONG] = 20000;
    assert_true(host_speed_of(&times, 2).slot_byte_ns < 1);
}

static void what_is_said_of_the_kernel_is_not_measured(void **state) {
    (void)state;
    const struct peer_info peers[] = {peer(0, 3), peer(1, 3)}, alone[] = {peer(0, 3)};
    struct config config = {.kernel_copies = "faster", .cpu_distance = "near"};
    assert_true(host_find(&config, peers, 2, 0).kernel_copies);
    strcpy(config.kernel_copies, "slower");
    assert_false(host_find(&config, peers, 2, 0).kernel_copies);
    strcpy(config.kernel_copies, "auto");
    strcpy(config.direct, "process,shared,cma");
    assert_false(host_find(&config, alone, 1, 0).kernel_copies);
    strcpy(config.direct, "process,shared"); /* nobody wants to know */
    assert_false(host_find(&config, peers, 2, 0).kernel_copies);
}

/* These ranks' CPUs are not there: so nothing is measured, and what is found was kept. */
static void what_was_measured_holds_for_all_communicators_of_those_cpus(void **state) {
    (void)state;
    const uint64_t four = 0xfull << 60;
    const struct peer_info all[] = {peer(0, four), peer(1, four), peer(2, four), peer(3, four)};
    const struct peer_info half[] = {peer(0, four / 2 & four), peer(1, four / 2 & four)},
                           others[] = {peer(0, 3), peer(1, 3)};
    const struct host_found found = {.far = true, .kernel_copies = true, .speed = {.line_ns = 321}};
    struct config config = {.cpu_distance = "auto", .kernel_copies = "auto", .direct = "cma"};
    if (cpu_count() >= 60)
        skip();
    assert_true(host_find(&config, all, 4, 0).speed.line_ns == 0); /* cannot be measured */
    host_keep(all, 4, 0, &found);
    assert_true(host_find(&config, others, 2, 0).speed.line_ns == 0);
    struct host_found again = host_find(&config, all, 4, 0);
    assert_true(again.far && again.kernel_copies && again.speed.line_ns == 321);
    again = host_find(&config, half, 2, 0);
    assert_true(again.far && again.kernel_copies && again.speed.line_ns == 321);
    strcpy(config.kernel_copies, "slower");
    strcpy(config.cpu_distance, "near");
    again = host_find(&config, all, 4, 0);
    assert_true(!again.far && !again.kernel_copies && again.speed.line_ns == 0);
}

/* ---- a job ---- */

struct seen {
    const char *distance, *kernel_copies; /* of rank 0's environment */
    bool far, pays;
};

/* Every rank goes by what rank 0 was told. */
static void plan_where_told(struct ranks *ranks, int rank) {
    const struct seen *seen = ranks->argument;
    setenv("COLLET_CPU_DISTANCE", rank == 0 ? seen->distance : "auto", 1);
    setenv("COLLET_KERNEL_COPIES", rank == 0 ? seen->kernel_copies : "auto", 1);
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    ranks_check(ranks, rank, comm->map->facts[rank].far == seen->far);
    ranks_check(ranks, rank, comm->map->facts[rank].kernel_copies == seen->pays);
    ranks_check(ranks, rank, (comm->chan->owner.kernel_from > 0) == seen->pays);
    ranks_check(ranks, rank, comm->chan->far == seen->far);
    float data[1024];
    for (int k = 0; k < 1024; k++)
        data[k] = (float)rank;
    ranks_try(ranks, rank, collet_allreduce(data, data, 1024, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    ranks_check(ranks, rank, data[0] == 6 && data[1023] == 6);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void all_ranks_go_by_what_rank_0_was_told(void **state) {
    (void)state;
    static const struct seen cases[] = {{"near", "faster", false, true}, {"far", "slower", true, false}};
    char why[RANKS_TEXT_BYTES];
    for (size_t k = 0; k < 2; k++) {
        struct seen seen = cases[k];
        struct ranks_job job = {.processes = NRANKS, .run = plan_where_told, .argument = &seen};
        if (!ranks_run(&job, why))
            fail_msg("%s: %s", seen.distance, why);
    }
}

static const struct host_speed known_speed = {300, 900, 0.1, 0.05, 2000, 0.1, 0.02, 50, 2 << 20};

/* What the lowest rank of the host knows of its CPUs, all ranks plan with. */
static void plan_with_what_is_known(struct ranks *ranks, int rank) {
    struct peer_info here = {.rank = 0};
    os_cpu_set_get(&here.cpus);
    if (rank == 0)
        host_keep(&here, 1, 0, &(struct host_found){.kernel_copies = true, .speed = known_speed});
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    const struct cost_table *costs = &chart_of(comm->map)->costs;
    ranks_check(ranks, rank, comm->map->facts[rank].measured == 1 && comm->map->facts[rank].kernel_copies == 1);
    ranks_check(ranks, rank, memcmp(&costs->host, &known_speed, sizeof known_speed) == 0);
    ranks_check(ranks, rank, costs->step[LINK_LENT][PROTOCOL_SIMPLE].byte_ns == known_speed.lent_byte_ns);
    float data[4096], out[4096];
    for (int k = 0; k < 4096; k++)
        data[k] = (float)(rank + k);
    ranks_try(ranks, rank, collet_allreduce(data, out, 4096, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    ranks_check(ranks, rank, out[0] == 6 && out[4095] == 6 + 4 * 4095);
    struct collet_comm *half;
    ranks_try(ranks, rank, collet_comm_split(comm, rank / 2, rank, &half, NULL));
    ranks_check(ranks, rank, half->map->facts[rank % 2].measured == 1); /* nobody has measured that */
    ranks_try(ranks, rank, collet_comm_destroy(half));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void all_ranks_plan_with_what_the_lowest_one_knows(void **state) {
    (void)state;
    char why[RANKS_TEXT_BYTES];
    struct ranks_job job = {.processes = NRANKS, .run = plan_with_what_is_known};
    if (!ranks_run(&job, why))
        fail_msg("%s", why);
}

static void a_word_that_is_none_is_refused(void **state) {
    (void)state;
    struct config config;
    setenv("COLLET_CPU_DISTANCE", "nearby", 1);
    assert_int_equal(config_read(&config), COLLET_ERR_INVALID_USAGE);
    assert_non_null(strstr(err_last(), "COLLET_CPU_DISTANCE=nearby"));
    unsetenv("COLLET_CPU_DISTANCE");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_cpu_is_measured_with_the_last_the_middle_and_the_next),
        cmocka_unit_test(two_cpus_are_one_pair_and_three_are_two),
        cmocka_unit_test(nothing_is_measured_where_nothing_goes_from_cpu_to_cpu),
        cmocka_unit_test(a_cpu_that_is_not_there_cannot_be_probed),
        cmocka_unit_test(a_pinned_thread_that_gets_no_cpu_is_freed),
        cmocka_unit_test(what_is_said_is_not_measured),
        cmocka_unit_test(what_cannot_be_measured_is_near),
        cmocka_unit_test(every_way_to_pass_on_is_measured),
        cmocka_unit_test(slots_past_the_caches_are_measured_and_the_sooner_way_counts),
        cmocka_unit_test(what_is_said_of_the_kernel_is_not_measured),
        cmocka_unit_test(what_was_measured_holds_for_all_communicators_of_those_cpus),
        cmocka_unit_test(all_ranks_go_by_what_rank_0_was_told),
        cmocka_unit_test(all_ranks_plan_with_what_the_lowest_one_knows),
        cmocka_unit_test(a_word_that_is_none_is_refused),
    };
    return cmocka_run_group_tests_name("distance", tests, NULL, NULL);
}
