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
#include "common/ranks.h"
#include "layers/tuner/copy_probe.h"
#include "layers/tuner/distance.h"
#include "layers/tuner/kernel_copies.h"
#include "layers/tuner/line_probe.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* ---- copies by the kernel ---- */

static bool measured(copy_probe_fn *past_caches, struct copy_times *times) {
    bool good = copy_probe(0, 1, past_caches, times);
    for (int k = 0; k < 1500 && !good; k++) { /* somebody else may have the CPUs, for half a minute */
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        good = copy_probe(0, 1, past_caches, times);
    }
    return good;
}

static void both_ways_to_copy_are_measured(void **state) {
    (void)state;
    struct copy_times times = {0};
    if (cpu_count() < 2)
        skip();
    assert_true(measured(memcpy, &times) && times.slots_ns > 0 && times.kernel_ns > 0);
    assert_false(copy_probe(0, CPU_SETSIZE - 1, memcpy, &times));
    assert_false(copy_probe(CPU_SETSIZE - 1, 0, memcpy, &times));
}

#define SLOW_NS 300000 /* of a slot */
static int slow_copies;

static void *copy_slowly(void *to, const void *from, size_t bytes) {
    nanosleep(&(struct timespec){.tv_nsec = SLOW_NS}, NULL);
    slow_copies++;
    return memcpy(to, from, bytes);
}

/* As slots do: where the one is slow, they are written the other way. */
static void slots_past_the_caches_are_measured_and_the_sooner_way_counts(void **state) {
    (void)state;
    struct copy_times times = {0};
    if (cpu_count() < 2)
        skip();
    assert_true(measured(copy_slowly, &times));
    assert_true(slow_copies > 0 && times.slots_ns < 4.0 * SLOW_NS); /* a payload has four slots */
}

static void what_is_said_of_the_kernel_is_not_measured(void **state) {
    (void)state;
    const struct peer_info peers[] = {peer(0, 3), peer(1, 3)}, alone[] = {peer(0, 3)};
    struct config config = {.kernel_copies = "faster"};
    assert_true(kernel_copies_pay(&config, peers, 2, 0));
    strcpy(config.kernel_copies, "slower");
    assert_false(kernel_copies_pay(&config, peers, 2, 0));
    strcpy(config.kernel_copies, "auto");
    strcpy(config.direct, "process,shared,cma");
    assert_false(kernel_copies_pay(&config, alone, 1, 0));
    strcpy(config.direct, "process,shared"); /* nobody wants to know */
    assert_false(kernel_copies_pay(&config, peers, 2, 0));
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
        cmocka_unit_test(what_is_said_is_not_measured),
        cmocka_unit_test(what_cannot_be_measured_is_near),
        cmocka_unit_test(both_ways_to_copy_are_measured),
        cmocka_unit_test(slots_past_the_caches_are_measured_and_the_sooner_way_counts),
        cmocka_unit_test(what_is_said_of_the_kernel_is_not_measured),
        cmocka_unit_test(all_ranks_go_by_what_rank_0_was_told),
        cmocka_unit_test(a_word_that_is_none_is_refused),
    };
    return cmocka_run_group_tests_name("distance", tests, NULL, NULL);
}
