/* SPDX-License-Identifier: Apache-2.0
 *
 * Slabs of a GPU's memory, with a driver of the host's.
 */
#include "transport/ipc/gpu_fifos.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES ((size_t)4096)

static size_t largest; /* that the GPU has room for */
static int creates, destroys, clears;

static enum collet_result create(size_t bytes, void **memory_p) {
    if (bytes > largest)
        return err_set(COLLET_ERR_NO_MEMORY, "no room for %zu bytes", bytes);
    creates++;
    *memory_p = calloc(1, bytes);
    return COLLET_SUCCESS;
}

static void destroy(void *memory) {
    destroys++;
    free(memory);
}

static enum collet_result clear(void *memory, size_t bytes) {
    clears++;
    memset(memory, 0, bytes);
    return COLLET_SUCCESS;
}

static const struct gpu_memory memory = {.create = create, .destroy = destroy, .clear = clear};
static const struct gpu_driver driver = {.memory = &memory};

static int begin(void **state) {
    (void)state;
    largest = SIZE_MAX;
    creates = destroys = clears = 0;
    return 0;
}

static void take(void **fifos, int n, int ordinal) {
    for (int k = 0; k < n; k++) {
        assert_int_equal(gpu_fifo_take(&driver, ordinal, BYTES, &fifos[k]), COLLET_SUCCESS);
        for (size_t at = 0; at < BYTES; at++)
            assert_int_equal(((char *)fifos[k])[at], 0);
        memset(fifos[k], 1 + k % 100, BYTES);
    }
}

static void give_back(void **fifos, int n) {
    for (int k = 0; k < n; k++) {
        assert_int_equal(((char *)fifos[k])[BYTES - 1], 1 + k % 100); /* no other has written there */
        gpu_fifo_give_back(&driver, fifos[k]);
    }
}

static void a_hundred_connections_take_few_slabs(void **state) {
    (void)state;
    void *fifos[100];
    take(fifos, 100, 0);
    assert_in_range(creates, 1, 5);
    give_back(fifos, 100);
    assert_int_equal(destroys, creates);
    assert_int_equal(clears, 0);
}

static void what_another_has_written_is_cleared(void **state) {
    (void)state;
    void *fifos[2], *again;
    take(fifos, 2, 0);
    gpu_fifo_give_back(&driver, fifos[1]);
    take(&again, 1, 0);
    assert_ptr_equal(again, fifos[1]);
    assert_int_equal(clears, 1);
    gpu_fifo_give_back(&driver, again);
    gpu_fifo_give_back(&driver, fifos[0]);
    assert_int_equal(destroys, 1);
}

static void each_gpu_has_slabs_of_its_own(void **state) {
    (void)state;
    void *here, *there;
    take(&here, 1, 0);
    take(&there, 1, 1);
    assert_int_equal(creates, 2);
    give_back(&here, 1);
    assert_int_equal(destroys, 1);
    give_back(&there, 1);
}

static void a_gpu_without_room_for_many_may_have_it_for_one(void **state) {
    (void)state;
    void *fifo;
    largest = BYTES;
    take(&fifo, 1, 0);
    largest = 0;
    void *other = NULL;
    assert_int_equal(gpu_fifo_take(&driver, 0, BYTES, &other), COLLET_ERR_NO_MEMORY);
    assert_null(other);
    give_back(&fifo, 1);
    assert_int_equal(destroys, creates);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_hundred_connections_take_few_slabs, begin),
        cmocka_unit_test_setup(what_another_has_written_is_cleared, begin),
        cmocka_unit_test_setup(each_gpu_has_slabs_of_its_own, begin),
        cmocka_unit_test_setup(a_gpu_without_room_for_many_may_have_it_for_one, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
