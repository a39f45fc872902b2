/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that may never return: what is too late? A thread that waits for a CPU is not. One that waits in its call, or computes without end, is.
 * Before, a busy machine made files of this host into files that do not answer, and lines of the log were lost with their process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/os.h"
#include "common/patience.h"
#include "layers/outlet/apart.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define LIMIT_NS (20 * MS)
#define LONG_NS (10 * LIMIT_NS) /* what a call takes that may be too late */
#define CLOCK_NS (600000 * MS)

static int freed, over;

static void free_job(struct apart *job) {
    (void)job;
    __atomic_store_n(&freed, 1, __ATOMIC_RELEASE);
}

static void compute_until(uint64_t end_ns) {
    while (os_now_ns() < end_ns && !__atomic_load_n(&over, __ATOMIC_ACQUIRE))
        os_cpu_relax();
}

static void compute_without_end(struct apart *job) {
    (void)job;
    compute_until(UINT64_MAX);
}

static void sleep_long(struct apart *job) {
    (void)job;
    nanosleep(&(struct timespec){.tv_nsec = (long)LONG_NS}, NULL);
}

/* ---- a thread without a CPU ---- */

static void go_to_the_first_cpu(void) {
    cpu_set_t all, first;
    int cpu = 0;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    assert_int_equal(sched_setaffinity(0, sizeof first, &first), 0);
}

static pid_t busy; /* a process that wants the first CPU all the time */

static int begin_to_be_busy(void **state) {
    (void)state;
    const pid_t parent = getpid();
    busy = fork();
    if (busy == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        go_to_the_first_cpu();
        while (getppid() == parent)
            ;
        _exit(0);
    }
    return busy < 0 ? -1 : 0;
}

static int end_to_be_busy(void **state) {
    (void)state;
    kill(busy, SIGKILL);
    return waitpid(busy, NULL, 0) == busy ? 0 : -1;
}

/* Beside the busy process, such a thread has less than one percent of the CPU. */
static void be_starved(struct apart *job) {
    (void)job;
    go_to_the_first_cpu();
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){.sched_priority = 0});
    compute_until(os_now_ns() + LONG_NS);
}

/* ---- verdicts ---- */

static bool call(void (*act)(struct apart *), uint64_t clock_ns, struct apart *job) {
    freed = over = 0;
    *job = (struct apart){.name = "test-apart", .act = act, .free_job = free_job};
    return apart_call(job, LIMIT_NS, clock_ns);
}

static void await_its_end(void) {
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    patience_begin();
    while (!__atomic_load_n(&freed, __ATOMIC_ACQUIRE)) {
        be_patient();
        sched_yield();
    }
}

static void a_thread_that_has_no_cpu_is_waited_for(void **state) {
    (void)state;
    struct apart job;
    const uint64_t begun_ns = os_now_ns();
    assert_true(call(be_starved, CLOCK_NS, &job));
    assert_true(os_now_ns() - begun_ns >= LONG_NS);
    apart_free(&job);
}

static void but_not_beyond_the_limit_by_the_clock(void **state) {
    (void)state;
    struct apart job;
    assert_false(call(be_starved, LONG_NS / 2, &job));
    await_its_end();
}

static void a_thread_that_waits_in_its_call_is_left_alone(void **state) {
    (void)state;
    struct apart job;
    assert_false(call(sleep_long, CLOCK_NS, &job));
    await_its_end();
}

static void a_thread_that_computes_without_end_is_left_alone(void **state) {
    (void)state;
    struct apart job;
    assert_false(call(compute_without_end, CLOCK_NS, &job));
    await_its_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_thread_that_has_no_cpu_is_waited_for, begin_to_be_busy, end_to_be_busy),
        cmocka_unit_test_setup_teardown(but_not_beyond_the_limit_by_the_clock, begin_to_be_busy, end_to_be_busy),
        cmocka_unit_test(a_thread_that_waits_in_its_call_is_left_alone),
        cmocka_unit_test(a_thread_that_computes_without_end_is_left_alone),
    };
    return cmocka_run_group_tests_name("apart", tests, NULL, NULL);
}
