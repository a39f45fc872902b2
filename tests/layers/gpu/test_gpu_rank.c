/* SPDX-License-Identifier: Apache-2.0
 *
 * When is unmapped what ranks of a process have detached on a GPU? Which event stands behind an operation, and which stream waits for it? On a
 * driver that counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/child.h"
#include "common/emulated_gpu.h"
#include "layers/gpu/gpu.h"

#include <fcntl.h>
#include <stdbool.h>

static int unmapped[2], swept; /* how often: what a GPU has mapped; all */
static bool works;             /* what is in streams is not done */

static void unmap(int ordinal) { unmapped[ordinal]++; }
static void sweep(void) { swept++; }
static enum collet_result query(void *event) {
    (void)event;
    return works ? COLLET_IN_PROGRESS : COLLET_SUCCESS;
}

static int records;             /* how often an event was recorded */
static void *recorded, *waited; /* the newest event of either kind */
static bool externally;         /* was it waited for? */

static enum collet_result record(void *event, void *stream, bool external) {
    (void)stream;
    (void)external;
    records++;
    recorded = event;
    return COLLET_SUCCESS;
}
static enum collet_result wait_for(void *stream, void *event, bool external) {
    (void)stream;
    waited = event;
    externally = external;
    return COLLET_SUCCESS;
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
    streams.record = record;
    streams.wait = wait_for;
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

static const struct gpu_place in_stream = {.stream = NULL, .id = 1}, in_another = {.stream = NULL, .id = 2},
                              in_capture = {.stream = NULL, .capture = 1};

static void begin(struct gpu_rank *rank) { assert_int_equal(gpu_rank_before(rank, &in_stream), COLLET_SUCCESS); }
static void end(struct gpu_rank *rank) { assert_int_equal(gpu_ranks_after(&rank, 1, &in_stream), COLLET_SUCCESS); }

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
    assert_int_equal(gpu_ranks_after(&other, 1, &in_capture), COLLET_SUCCESS);
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

/* ---- order ---- */

/* An operation of both ranks. Returns the event behind it. */
static void *run_both(const struct gpu_place *place) {
    struct gpu_rank *both[] = {own, other};
    assert_int_equal(gpu_rank_before(own, place), COLLET_SUCCESS);
    assert_int_equal(gpu_rank_before(other, place), COLLET_SUCCESS);
    assert_int_equal(gpu_ranks_after(both, 2, place), COLLET_SUCCESS);
    return recorded;
}

static void *waits_for(struct gpu_rank *rank, const struct gpu_place *place) {
    waited = NULL;
    assert_int_equal(gpu_rank_before(rank, place), COLLET_SUCCESS);
    return waited;
}

static void one_event_stands_behind_an_operation_of_several_ranks(void **state) {
    (void)state;
    records = 0;
    void *event = run_both(&in_stream);
    assert_int_equal(records, 1);
    assert_ptr_equal(waits_for(own, &in_stream), NULL);
    assert_ptr_equal(waits_for(own, &in_another), event);
    assert_ptr_equal(waits_for(other, &in_another), event);
}

/* One rank has gone on alone. The other one still waits for the operation of both, whatever the first one does. */
static void it_is_recorded_again_when_no_rank_waits_for_it(void **state) {
    (void)state;
    void *event = run_both(&in_stream);
    begin(own);
    end(own);
    assert_ptr_not_equal(recorded, event);
    assert_ptr_equal(waits_for(other, &in_another), event);
    void *next = run_both(&in_stream);
    assert_ptr_not_equal(next, event);
    assert_ptr_equal(run_both(&in_stream), event);
}

/* Replays wait for what comes before the capture, and for nothing that came later. */
static void what_a_graph_waits_for_is_not_recorded_again(void **state) {
    (void)state;
    void *event = run_both(&in_stream);
    assert_int_equal(gpu_rank_before(own, &in_capture), COLLET_SUCCESS);
    assert_true(externally);
    assert_ptr_not_equal(waited, event); /* its own, which later operations record */
    assert_int_equal(gpu_ranks_after(&own, 1, &in_capture), COLLET_SUCCESS);
    for (int k = 0; k < 4; k++)
        assert_ptr_not_equal(run_both(&in_stream), event);
}

/* A replay may have come between two operations of one stream. */
static void a_rank_in_graphs_waits_in_its_own_stream_too(void **state) {
    (void)state;
    begin(own);
    assert_int_equal(gpu_ranks_after(&own, 1, &in_capture), COLLET_SUCCESS);
    begin(own);
    end(own);
    void *done = recorded;
    assert_ptr_equal(waits_for(own, &in_stream), done);
}

/* What the driver keeps of its first opening, as that of a real GPU keeps its device. */
static int kept;
static enum collet_result keep_one(int ordinal) {
    (void)ordinal;
    kept = open("/dev/null", O_RDWR);
    return COLLET_SUCCESS;
}

static void open_without_a_terminal(void) {
    struct gpu_rank *rank;
    struct gpu_driver keeping = emulated_gpu_driver;
    const int out = dup(STDOUT_FILENO);
    keeping.open = keep_one;
    gpu_driver_use(&keeping);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    const enum collet_result result = gpu_rank_create(0, &rank);
    const bool closed = fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0;
    dup2(out, STDOUT_FILENO);
    EXPECT(result == COLLET_SUCCESS && kept > STDERR_FILENO && closed);
    gpu_rank_destroy(rank);
}
static void a_driver_gets_no_descriptor_of_a_terminal(void **state) {
    (void)state;
    child_run(open_without_a_terminal);
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
        CASE(one_event_stands_behind_an_operation_of_several_ranks),
        CASE(it_is_recorded_again_when_no_rank_waits_for_it),
        CASE(what_a_graph_waits_for_is_not_recorded_again),
        CASE(a_rank_in_graphs_waits_in_its_own_stream_too),
        cmocka_unit_test(a_driver_gets_no_descriptor_of_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
