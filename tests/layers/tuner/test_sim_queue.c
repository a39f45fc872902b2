/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue of simulated events, against one that looks at all of them each time.
 */
#include "layers/tuner/sim_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#define EVENTS 500

/* Those that wait, in the order in which they were put in. */
static struct sim_event waiting[EVENTS];
static int nwaiting;

static uint64_t seed;
static uint64_t draw(uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static void put(struct sim_queue *queue, int64_t at_ps, int32_t worker) {
    waiting[nwaiting++] = (struct sim_event){at_ps, worker};
    sim_queue_put(queue, waiting[nwaiting - 1]);
}

/* The time of what was taken. */
static int64_t take(struct sim_queue *queue) {
    struct sim_event event;
    int first = 0;
    for (int k = 1; k < nwaiting; k++)
        first = waiting[k].at_ps < waiting[first].at_ps ? k : first;
    assert_true(sim_queue_take(queue, &event));
    assert_true(event.at_ps == waiting[first].at_ps);
    assert_int_equal(event.worker, waiting[first].worker);
    for (int k = first; k + 1 < nwaiting; k++)
        waiting[k] = waiting[k + 1];
    nwaiting--;
    return event.at_ps;
}

/* Fills up and empties out several times; times are far apart or near each other, many of them equal. */
static void exercise(uint64_t apart, bool delays) {
    struct sim_queue *queue = sim_queue_create(EVENTS);
    struct sim_event event;
    int64_t now_ps = 0;
    assert_non_null(queue);
    nwaiting = 0;
    for (int32_t k = 0; k < 20000; k++) {
        bool filling = k / (2 * EVENTS) % 2 == 0;
        if (nwaiting < EVENTS && (nwaiting == 0 || draw(4) < (filling ? 3 : 1)))
            put(queue, now_ps + (int64_t)draw(apart), k);
        else
            now_ps = take(queue);
        if (delays && draw(50) == 0) {
            int64_t by_ps = (int64_t)draw(UINT64_C(1) << 30);
            sim_queue_delay(queue, by_ps);
            now_ps += by_ps;
            for (int w = 0; w < nwaiting; w++)
                waiting[w].at_ps += by_ps;
        }
    }
    while (nwaiting > 0)
        take(queue);
    assert_false(sim_queue_take(queue, &event));
    sim_queue_reset(queue);
    put(queue, 0, 7); /* time 0 again */
    assert_true(take(queue) == 0);
    sim_queue_destroy(queue);
}

static void the_earliest_comes_first_and_of_equals_the_one_put_first(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        exercise(1, false);
        exercise(3, false);
        exercise(1000, false);
        exercise(UINT64_C(1) << 31, false);
    }
}

static void a_delay_changes_no_order(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        exercise(3, true);
        exercise(UINT64_C(1) << 31, true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_comes_first_and_of_equals_the_one_put_first),
        cmocka_unit_test(a_delay_changes_no_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
