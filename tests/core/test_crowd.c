/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranks have a CPU of their own, and how much of a cache (chan/crowd.h).
 */
#include "chan/crowd.h"

#include <sched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static struct peer_info peer(int node, uint64_t cpus) { return (struct peer_info){.node = node, .cpus = {{cpus}}}; }

static void ranks_bound_to_a_cpu_each_are_not_crowded(void **state) {
    (void)state;
    const struct peer_info peers[] = {peer(0, 1), peer(0, 2), peer(0, 4)};
    for (int rank = 0; rank < 3; rank++)
        assert_false(crowd_around(peers, 3, rank, 0));
    assert_int_equal(crowd_cpus_of_node(peers, 3, 0), 3);
}

static void unbound_ranks_are_crowded_when_they_outnumber_the_cpus(void **state) {
    (void)state;
    const struct peer_info peers[] = {peer(0, 3), peer(0, 3), peer(0, 3)};
    assert_false(crowd_around(peers, 2, 1, 0));
    assert_true(crowd_around(peers, 3, 1, 0));
}

static void two_ranks_bound_to_one_cpu_are_crowded_and_their_neighbour_is_not(void **state) {
    (void)state;
    const struct peer_info peers[] = {peer(0, 1), peer(0, 1), peer(0, 6)};
    assert_true(crowd_around(peers, 3, 0, 0));
    assert_true(crowd_around(peers, 3, 1, 0));
    assert_false(crowd_around(peers, 3, 2, 0));
}

static void a_rank_shares_with_those_that_are_bound_inside_its_cpus(void **state) {
    (void)state;
    const struct peer_info peers[] = {peer(0, 3), peer(0, 1), peer(0, 2), peer(0, 12)};
    assert_true(crowd_around(peers, 4, 0, 0));
    assert_false(crowd_around(peers, 4, 3, 0));
}

static void ranks_of_other_nodes_do_not_count(void **state) {
    (void)state;
    const struct peer_info peers[] = {peer(0, 1), peer(1, 1), peer(1, 2)};
    for (int rank = 0; rank < 3; rank++)
        assert_false(crowd_around(peers, 3, rank, 0));
    assert_int_equal(crowd_cpus_of_node(peers, 3, 1), 2);
}

static void a_given_number_of_cpus_overrides_the_sets(void **state) {
    (void)state;
    const struct peer_info peers[] = {peer(0, 1), peer(0, 1)};
    assert_false(crowd_around(peers, 2, 0, 2));
    assert_true(crowd_around(peers, 2, 0, 1));
}

static void data_goes_from_cpu_to_cpu_unless_ranks_share_one_or_a_process(void **state) {
    (void)state;
    struct peer_info a = peer(0, 1), b = peer(0, 2);
    assert_false(crowd_apart(&a, &b)); /* one process */
    b.process[1] = 1;
    assert_true(crowd_apart(&a, &b));
    b.cpus.word[0] = 1;
    assert_false(crowd_apart(&a, &b)); /* bound to one CPU */
    a.cpus.word[0] = b.cpus.word[0] = 3;
    assert_true(crowd_apart(&a, &b)); /* free to run anywhere */
    b.node = 1;
    assert_false(crowd_apart(&a, &b)); /* over a network, if at all */
}

static void the_calling_threads_cpus_are_those_it_is_bound_to(void **state) {
    (void)state;
    struct os_cpu_set all, one;
    cpu_set_t before, single;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    os_cpu_set_get(&all);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&single);
    CPU_SET(cpu, &single);
    assert_int_equal(sched_setaffinity(0, sizeof(single), &single), 0);
    os_cpu_set_get(&one);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(os_cpu_set_count(&one), 1);
    assert_true(one.word[cpu / 64] == 1ull << cpu % 64);
    assert_true(os_cpu_set_within(&one, &all));
    assert_int_equal(os_cpu_set_count(&all), CPU_COUNT(&before));
}

static void a_cache_is_shared_by_the_ranks_on_its_cpus(void **state) {
    (void)state;
    const struct os_cache all = {1 << 20, 4}, pair = {1 << 20, 2};
    const struct peer_info peers[] = {peer(0, 15), peer(0, 15), peer(0, 15), peer(0, 15), peer(1, 3)};
    assert_int_equal(crowd_cache_share(peers, 5, 0, &all), 1 << 18);
    assert_int_equal(crowd_cache_share(peers, 5, 0, &pair), 1 << 19);
    assert_int_equal(crowd_cache_share(peers, 5, 4, &all), 1 << 20);
}

static void the_last_cache_of_this_machine_is_read(void **state) {
    (void)state;
    struct os_cache cache;
    os_last_cache_get(&cache);
    assert_in_range(cache.bytes, 1 << 16, 1ull << 40);
    assert_in_range(cache.cpus, 1, OS_CPUS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_bound_to_a_cpu_each_are_not_crowded),
        cmocka_unit_test(unbound_ranks_are_crowded_when_they_outnumber_the_cpus),
        cmocka_unit_test(a_cache_is_shared_by_the_ranks_on_its_cpus),
        cmocka_unit_test(the_last_cache_of_this_machine_is_read),
        cmocka_unit_test(two_ranks_bound_to_one_cpu_are_crowded_and_their_neighbour_is_not),
        cmocka_unit_test(a_rank_shares_with_those_that_are_bound_inside_its_cpus),
        cmocka_unit_test(ranks_of_other_nodes_do_not_count),
        cmocka_unit_test(a_given_number_of_cpus_overrides_the_sets),
        cmocka_unit_test(data_goes_from_cpu_to_cpu_unless_ranks_share_one_or_a_process),
        cmocka_unit_test(the_calling_threads_cpus_are_those_it_is_bound_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
