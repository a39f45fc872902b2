/* SPDX-License-Identifier: Apache-2.0
 *
 * When is unmapped what ranks of a process have detached on a GPU? On a driver that counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/emulated_gpu.h"
#include "gpu/gpu.h"

static int unmapped[2], swept; /* how often: what a GPU has mapped; all */
static bool works;             /* what is in streams is not done */

static void unmap(int ordinal) { unmapped[ordinal]++; }
static void sweep(void) { swept++; }
static enum collet_result query(void *event) {
    (void)event;
    return works ? COLLET_IN_PROGRESS : COLLET_SUCCESS;
}

static struct gpu_driver driver;
static struct gpu_memory memory;
static struct gpu_sharing sharing;
static struct gpu_streams streams;
static struct gpu_rank *own, *other; /* both on GPU 0 */

static int create_ranks(void **state) {
    (void)state;
    driver = emulated_gpu_driver;
    memory = *driver.memory;
    memory.sweep = sweep;
    sharing = *driver.sharing;
    sharing.sweep = unmap;
    streams = *driver.streams;
    streams.query = query;
    driver.memory = &memory;
    driver.sharing = &sharing;
    driver.streams = &streams;
    gpu_driver_use(&driver);
    works = false;
    if (gpu_rank_create(0, &own) != COLLET_SUCCESS || gpu_rank_create(0, &other) != COLLET_SUCCESS)
        return 1;
    unmapped[0] = unmapped[1] = swept = 0;
    return 0;
}

static int destroy_ranks(void **state) {
    (void)state;
    gpu_rank_destroy(own);
    gpu_rank_destroy(other);
    return 0;
}

static const struct gpu_place in_stream = {.stream = NULL, .id = 1},
                              in_capture = {.stream = NULL, .id = 1, .capture = 1};

static void begin(struct gpu_rank *rank) { assert_int_equal(gpu_rank_before(rank, &in_stream), COLLET_SUCCESS); }
static void end(struct gpu_rank *rank) { assert_int_equal(gpu_rank_after(rank, &in_stream), COLLET_SUCCESS); }

static void expect_unmapped(bool is) {
    unmapped[0] = 0;
    assert_int_equal(gpu_rank_detach_all(own), is);
    assert_int_equal(unmapped[0], is);
    assert_int_equal(unmapped[1] + swept, 0);
}

static void what_is_detached_is_unmapped_where_no_other_rank_works(void **state) {
    (void)state;
    expect_unmapped(true);
    begin(other);
    end(other);
    works = true;
    expect_unmapped(false);
    works = false;
    expect_unmapped(true);
}

/* It may be on the GPU already, though the stream does not say so yet. */
static void work_that_is_being_put_counts(void **state) {
    (void)state;
    begin(other);
    expect_unmapped(false);
    end(other);
    expect_unmapped(true);
}

static void a_graph_counts_as_long_as_its_rank_lives(void **state) {
    (void)state;
    begin(other);
    assert_int_equal(gpu_rank_after(other, &in_capture), COLLET_SUCCESS);
    expect_unmapped(false);
    gpu_rank_destroy(other);
    other = NULL;
    expect_unmapped(true);
}

static void work_of_the_own_rank_and_on_another_gpu_does_not_count(void **state) {
    struct gpu_rank *far;
    (void)state;
    assert_int_equal(gpu_rank_create(1, &far), COLLET_SUCCESS);
    unmapped[1] = 0;
    begin(own);
    begin(far);
    expect_unmapped(true);
    gpu_rank_destroy(far);
}

static void a_rank_that_comes_unmaps_what_was_kept(void **state) {
    struct gpu_rank *next;
    (void)state;
    assert_int_equal(gpu_rank_create(0, &next), COLLET_SUCCESS);
    assert_int_equal(unmapped[0], 1);
    begin(other);
    gpu_rank_destroy(next);
    assert_int_equal(gpu_rank_create(0, &next), COLLET_SUCCESS);
    assert_int_equal(unmapped[0], 1);
    gpu_rank_destroy(next);
}

static void a_rank_that_goes_waits_for_nothing_unless_it_is_the_last(void **state) {
    (void)state;
    gpu_rank_destroy(own);
    assert_int_equal(unmapped[0] + swept, 0);
    gpu_rank_destroy(other);
    assert_int_equal(swept, 1);
    own = other = NULL;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, create_ranks, destroy_ranks)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(what_is_detached_is_unmapped_where_no_other_rank_works),
        CASE(work_that_is_being_put_counts),
        CASE(a_graph_counts_as_long_as_its_rank_lives),
        CASE(work_of_the_own_rank_and_on_another_gpu_does_not_count),
        CASE(a_rank_that_comes_unmaps_what_was_kept),
        CASE(a_rank_that_goes_waits_for_nothing_unless_it_is_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
