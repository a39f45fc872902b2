/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that look now and then at what is on a list: not in a child of fork().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/fair.h"
#include "layers/patrol/patrol.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

static int *seen;   /* the list, whose entry counts rounds */
static int entries; /* of this process */

static uint64_t count_round(void) {
    if (seen == NULL)
        return PATROL_OVER;
    __atomic_add_fetch(seen, 1, __ATOMIC_RELAXED);
    return 1000000;
}

static struct patrol patrol = PATROL("test-patrol", count_round, &seen);

static enum collet_result begin_to_count(void) {
    patrol_lock(&patrol);
    seen = &entries;
    enum collet_result result = patrol_start(&patrol);
    pthread_mutex_unlock(&patrol.lock);
    while (result == COLLET_SUCCESS && __atomic_load_n(&entries, __ATOMIC_RELAXED) < 2)
        sched_yield();
    return result;
}

static void a_forked_child_has_an_empty_list_and_no_thread_at_it(void **state) {
    (void)state;
    int status;
    assert_int_equal(begin_to_count(), COLLET_SUCCESS);
    patrol_lock(&patrol); /* as any thread of the parent may */
    pid_t pid = fork();
    if (pid == 0) {
        fair_alarm(20);
        patrol_lock(&patrol);
        _exit(seen == NULL && !patrol.runs ? 0 : 1);
    }
    seen = NULL;
    pthread_mutex_unlock(&patrol.lock);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forked_child_has_an_empty_list_and_no_thread_at_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
