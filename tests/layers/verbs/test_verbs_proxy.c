/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole calls over verbs in one process: executors on emulated GPUs or the host, proxies, and NICs that are fakes
 * (common/fake_verbs.h), which deliver in random order and keep what they wrote into a GPU's memory until it is flushed.
 */
#include "common/emulated_gpu.h"
#include "common/fair.h"
#include "common/fake_verbs.h"
#include "common/level.h"
#include "common/trial.h"

#include "api/comm.h"
#include "boot/process.h"
#include "layers/gpu/proxy.h"
#include "transport/verbs/verbs_end.h"

#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define RANKS 3

struct team {
    struct collet_comm *comms[RANKS];
    void *streams[RANKS];
    bool gpus;
};

static void team_init(struct team *team, bool gpus) {
    int devices[RANKS];
    team->gpus = gpus;
    fake_repair();
    fake.is_gpu = emulated_gpu_owns;
    gpu_driver_use(&emulated_gpu_driver);
    for (int rank = 0; rank < RANKS; rank++) {
        devices[rank] = gpus ? COLLET_DEVICE_CUDA(rank % 2) : COLLET_DEVICE_HOST;
        team->streams[rank] = gpus ? emulated_stream_create() : NULL;
    }
    if (collet_comm_init_all(team->comms, RANKS, devices) != COLLET_SUCCESS)
        fail_msg("%s", collet_last_error(NULL));
}

static void team_fini(struct team *team) {
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(collet_comm_destroy(team->comms[rank]), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS && team->gpus; rank++)
        emulated_stream_destroy(team->streams[rank]);
    if (fake_leftover() != NULL)
        fail_msg("%s", fake_leftover());
}

static void wait_for(const struct team *team) {
    for (int rank = 0; rank < RANKS && team->gpus; rank++)
        emulated_stream_wait(team->streams[rank]);
}

/* Not the fake's, which threads draw from. */
static uint64_t chance(void) {
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 8;
}

static struct trial_call random_call(uint64_t seed) {
    static const size_t counts[] = {1, 129, 2000, 20000};
    struct trial_call call = {.nranks = RANKS, .seed = seed};
    call.collective = (enum prog_collective)(chance() % PROG_ALLGATHERV);
    call.type = (enum collet_type)(chance() % COLLET_TYPE_COUNT);
    call.op = trial_op(call.type, chance());
    call.count = 1 + chance() % counts[chance() % 4];
    call.root = trial_has_root(call.collective) ? (int)(chance() % RANKS) : 0;
    call.in_place = trial_may_be_in_place(call.collective) && chance() % 2;
    return call;
}

/* Which ranks register their buffers; those of other ranks go through slots. */
static unsigned registered;

/* Their buffers in this call. The fake asks with its lock held, so it may not ask the library. */
static struct { uint64_t address, bytes; } lent[2 * RANKS];

static int is_lent(uint64_t address, uint32_t bytes) {
    for (int k = 0; k < 2 * RANKS; k++) {
        uint64_t offset = address - __atomic_load_n(&lent[k].address, __ATOMIC_RELAXED);
        uint64_t room = __atomic_load_n(&lent[k].bytes, __ATOMIC_RELAXED);
        if (offset < room && bytes <= room - offset)
            return 1;
    }
    return 0;
}

static void note_lent(int k, const struct guard *guard, bool is_registered) {
    __atomic_store_n(&lent[k].bytes, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&lent[k].address, (uintptr_t)guard->memory, __ATOMIC_RELAXED);
    __atomic_store_n(&lent[k].bytes, is_registered && guard->memory != NULL ? guard->total_bytes : 0, __ATOMIC_RELAXED);
}

static void register_buffers(const struct team *team, const struct trial *trial, int rank,
                             struct collet_registration *handles[2]) {
    const struct guard *guards[2] = {&trial->in.guard, &trial->out.guard};
    for (int k = 0; k < 2; k++) {
        handles[k] = NULL;
        note_lent(2 * rank + k, guards[k], registered & 1u << rank);
        if ((registered & 1u << rank) && guards[k]->memory != NULL && !guards[k]->in_heap)
            assert_int_equal(
                collet_comm_register(team->comms[rank], guards[k]->memory, guards[k]->total_bytes, &handles[k]),
                COLLET_SUCCESS);
    }
}

static void run_call(struct team *team, uint64_t seed) {
    struct collet_registration *handles[RANKS][2];
    struct trial trials[RANKS];
    char why[TRIAL_WHY_BYTES], name[TRIAL_NAME_BYTES];
    struct trial_call call = random_call(seed);
    trial_name(&call, name);
    for (int rank = 0; rank < RANKS; rank++) {
        guard_in_heap = (registered & 1u << rank) && seed % 3 == 0;
        trial_prepare(&trials[rank], &call, rank);
    }
    guard_in_heap = false;
    for (int rank = 0; rank < RANKS; rank++)
        register_buffers(team, &trials[rank], rank, handles[rank]);
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(trial_run_in(&trials[rank], team->comms[rank], team->streams[rank]), COLLET_SUCCESS);
    if (collet_group_end() != COLLET_SUCCESS)
        fail_msg("%s: %s", name, collet_last_error(NULL));
    wait_for(team);
    for (int rank = 0; rank < RANKS; rank++) {
        for (int k = 0; k < 2; k++)
            assert_int_equal(collet_comm_deregister(team->comms[rank], handles[rank][k]), COLLET_SUCCESS);
        if (!trial_check(&trials[rank], why))
            fail_msg("%s, rank %d: %s", name, rank, why);
        trial_destroy(&trials[rank]);
    }
}

static void run_calls(bool gpus) {
    struct team team;
    team_init(&team, gpus);
    for (int k = 0; k < (level_now() == LEVEL_FAST ? 10 : level_now() == LEVEL_NORMAL ? 40 : 400); k++)
        run_call(&team, (uint64_t)k);
    team_fini(&team);
}

static void calls_of_host_ranks_are_carried_by_a_proxy(void **state) {
    (void)state;
    setenv("COLLET_PROXY", "1", 1);
    run_calls(false);
    unsetenv("COLLET_PROXY");
}

static void calls_of_host_ranks_are_carried_by_their_callers(void **state) {
    (void)state;
    run_calls(false);
}

static void calls_send_from_and_receive_into_buffers_of_those_ranks_that_registered_them(void **state) {
    (void)state;
    setenv("COLLET_DIRECT_BYTES", "1", 1);
    fake.is_registered = is_lent;
    uint64_t nlandings = 0; /* a landing is only told of a step that has not come yet: how many there are is chance */
    for (registered = 0; registered < 1u << RANKS; registered++) {
        run_calls(false);
        assert_int_equal(fake.nlent > 0, registered != 0);
        assert_true(fake.nlandings == 0 || registered != 0);
        nlandings += fake.nlandings;
    }
    assert_true(nlandings > 0);
    registered = 0;
    fake.is_registered = NULL;
    unsetenv("COLLET_DIRECT_BYTES");
}

static void calls_of_gpus_go_through_pinned_memory_where_nics_do_not_reach_them(void **state) {
    (void)state;
    emulated_gpu_set_direct((struct gpu_direct){.exports_dmabuf = false}, NULL);
    run_calls(true);
    assert_int_equal(fake.nlanded, 0);
}

static void calls_of_gpus_whose_memory_nics_write_flush_it_by_reads(void **state) {
    (void)state;
    static const char *const protocols[] = {"Simple", ""};
    for (int k = 0; k < 2; k++) {
        setenv("COLLET_PROTO", protocols[k], 1);
        emulated_gpu_set_direct((struct gpu_direct){.exports_dmabuf = true}, NULL);
        run_calls(true);
        if (k == 0) /* what is chosen for calls so short may be LL, whose lines are in host memory */
            assert_true(fake.nlanded > 0 && fake.nreads > 0);
    }
    unsetenv("COLLET_PROTO");
}

static struct verbs_rail *first_rail(const struct conn *conn) { return &((struct verbs_end *)conn->impl)->rails[0]; }

static uint64_t polls_of(const struct conn *conn) {
    FAKE_LOCKED;
    return ((const struct fake_cq *)(const void *)first_rail(conn)->cq)->npolls;
}

/* Those of other operations are only looked after now and then. */
static void a_proxy_asks_nics_for_connections_of_operations_that_are_under_way(void **state) {
    (void)state;
    struct team team;
    setenv("COLLET_PROXY", "1", 1);
    team_init(&team, false);
    for (int k = 0; k < 10; k++)
        run_call(&team, (uint64_t)k);
    struct chan *chan = team.comms[0]->chan;
    struct conn *used = chan->owner.first;
    uint64_t before[64];
    int n = 0;
    proxy_hold(chan, &used, 1);
    for (const struct conn *conn = used; conn != NULL && n < 64; conn = conn->next)
        before[n++] = polls_of(conn);
    assert_true(n > 1);
    const uint64_t limit_ns = fair_now_ns() + LEVEL_SOON_NS;
    while (polls_of(used) - before[0] < 2000) {
        assert_true(fair_now_ns() < limit_ns);
        sched_yield();
    }
    n = 0;
    for (const struct conn *conn = used; conn != NULL && n < 64; conn = conn->next, n++)
        assert_true(conn == used || polls_of(conn) - before[n] < (polls_of(used) - before[0]) / 8);
    proxy_release(chan, &used, 1);
    team_fini(&team);
    unsetenv("COLLET_PROXY");
}

/* The CPUs of the threads that are called collet-proxy, if all have the same. */
static bool proxies_run_on(const struct os_cpu_set *cpus) {
    DIR *tasks = opendir("/proc/self/task");
    int n = 0, right = 0;
    for (const struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        char path[300], name[32] = "";
        cpu_set_t set;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL || fgets(name, sizeof name, file) == NULL || strncmp(name, "collet-proxy", 12) != 0 ||
            sched_getaffinity(atoi(task->d_name), sizeof set, &set) != 0)
            name[0] = '\0';
        if (file != NULL)
            fclose(file);
        n += name[0] != '\0';
        right += name[0] != '\0' && memcmp(&set, cpus, sizeof *cpus) == 0;
    }
    if (tasks != NULL)
        closedir(tasks);
    return n > 0 && right == n;
}

static void a_proxy_runs_next_to_its_nics(void **state) {
    (void)state;
    struct os_cpu_set all, near = {{0}};
    struct team team;
    os_cpu_set_get(&all);
    for (int cpu = 0; cpu < OS_CPUS && os_cpu_set_count(&near) == 0; cpu++) /* the first that this thread may run on */
        near.word[cpu / 64] = all.word[cpu / 64] & 1ull << cpu % 64;
    for (int k = 0; k < FAKE_DEVICES; k++)
        verbs_host()->devices[k].cpus = near;
    setenv("COLLET_PROXY", "1", 1);
    team_init(&team, false);
    run_call(&team, 1);
    run_call(&team, 2);
    struct chan *chan = team.comms[0]->chan;
    proxy_hold(chan, NULL, 0); /* awake */
    const uint64_t limit_ns = fair_now_ns() + LEVEL_SOON_NS;
    while (!proxies_run_on(&near)) {
        assert_true(fair_now_ns() < limit_ns);
        usleep(1000);
    }
    proxy_release(chan, NULL, 0);
    team_fini(&team);
    for (int k = 0; k < FAKE_DEVICES; k++)
        verbs_host()->devices[k].cpus = (struct os_cpu_set){{0}};
    unsetenv("COLLET_PROXY");
}

/* Each is a message (transport.h). */
static void slots_are_long_unless_it_is_said_otherwise(void **state) {
    (void)state;
    struct team team;
    unsetenv("COLLET_BUFFSIZE");
    team_init(&team, false);
    setenv("COLLET_BUFFSIZE", "65536", 1);
    assert_int_equal(team.comms[0]->chan->owner.layouts[PROG_TO_FEW].sizes.long_bytes, 512 << 10);
    team_fini(&team);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_host_ranks_are_carried_by_a_proxy),
        cmocka_unit_test(calls_of_host_ranks_are_carried_by_their_callers),
        cmocka_unit_test(calls_send_from_and_receive_into_buffers_of_those_ranks_that_registered_them),
        cmocka_unit_test(calls_of_gpus_go_through_pinned_memory_where_nics_do_not_reach_them),
        cmocka_unit_test(calls_of_gpus_whose_memory_nics_write_flush_it_by_reads),
        cmocka_unit_test(a_proxy_asks_nics_for_connections_of_operations_that_are_under_way),
        cmocka_unit_test(a_proxy_runs_next_to_its_nics),
        cmocka_unit_test(slots_are_long_unless_it_is_said_otherwise),
    };
    fake_reset();
    setenv("COLLET_TRANSPORT", "verbs", 1);
    setenv("COLLET_BUFFSIZE", "65536", 1);
    setenv("COLLET_TIMEOUT", "20", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
