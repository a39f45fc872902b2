/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that die, leave, stop or abort: every other rank gets an error that names the one to blame, within 5 s, and can
 * then end its communicator.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/fair.h"
#include "common/level.h"
#include "common/world.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOTICE_MS 5000 /* longest time from the event to the error on every other rank */
#define END_MS 1500    /* longest time for destroy, or for abort to free a blocked call */

/* What happens, and to whom; in memory that all share. */
struct event {
    int victim;
    int other_victim;  /* −1: nobody */
    bool nobody_named; /* the errors need not name them */
    enum { KILLED, KILLED_WITH_HEIR, KILLED_IN_FIRST, EXITS, DESTROYS } how;
    int after_us; /* KILLED_IN_FIRST: so long into the first call; or into init, where it is killed there */
    uint64_t at_ns;
};

static void happens_now(struct event *event) { __atomic_store_n(&event->at_ns, ranks_now_ns(), __ATOMIC_RELEASE); }

/* Unless another rank was first. */
static void happens_at_the_latest_now(struct event *event) {
    uint64_t not_yet = 0;
    __atomic_compare_exchange_n(&event->at_ns, &not_yet, ranks_now_ns(), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static uint64_t when(const struct event *event) { return __atomic_load_n(&event->at_ns, __ATOMIC_ACQUIRE); }

static int ms_since(uint64_t since_ns) { return (int)((int64_t)(ranks_now_ns() - since_ns) / 1000000); }

/* What counts for the limits above: less where the machine is busy. */
static int fair_ms_since(uint64_t since_ns) { return (int)(fair_since_ns(since_ns) / 1000000); }

static struct collet_comm *begin(struct ranks *ranks, int rank, const struct collet_config *config) {
    if (rank == 0)
        __atomic_store_n(&((struct event *)ranks->argument)->at_ns, 0, __ATOMIC_RELEASE);
    return ranks_comm(ranks, rank, config);
}

/* ---------------------------------------------------------------------------------------------------------- the victim */

#define BUFFER_BYTES (1u << 20)

static float *buffer(void) { return calloc(1, BUFFER_BYTES); }

static enum collet_result one_call(float *data, struct collet_comm *comm) {
    return collet_allreduce(data, data, BUFFER_BYTES / sizeof(*data), COLLET_FLOAT32, COLLET_MAX, comm, NULL);
}

/* The dead one's sockets stay open in a child that knows nothing of them, as a data loader's would. */
static void leave_heir(struct ranks *ranks) {
    pid_t heir = fork();
    if (heir == 0)
        for (;;)
            pause();
    ranks->leftover = heir;
}

static void be_killed_now(struct ranks *ranks) {
    happens_now(ranks->argument);
    kill(getpid(), SIGKILL);
}

static void *kill_later(void *ranks) {
    const struct event *event = ((struct ranks *)ranks)->argument;
    usleep(event->how == KILLED_IN_FIRST ? (useconds_t)event->after_us : 100000);
    be_killed_now(ranks);
    return NULL;
}

/* Calls until it is killed in the middle of a call. */
static void be_killed(struct ranks *ranks, int rank, struct collet_comm *comm) {
    const struct event *event = ranks->argument;
    pthread_t killer;
    float *data = buffer();
    __atomic_store_n(&ranks->expendable[rank], 1, __ATOMIC_RELEASE);
    if (event->how == KILLED_WITH_HEIR)
        leave_heir(ranks);
    pthread_create(&killer, NULL, kill_later, ranks);
    while (one_call(data, comm) == COLLET_SUCCESS) {
    }
    for (;;) /* if the other victim was faster: still to be killed */
        pause();
}

static void leave(struct ranks *ranks, int rank, struct collet_comm *comm) {
    const struct event *event = ranks->argument;
    float *data = buffer();
    for (int k = 0; k < 3; k++)
        ranks_try(ranks, rank, one_call(data, comm));
    free(data);
    happens_now(ranks->argument);
    if (event->how == EXITS)
        exit(0);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

/* ------------------------------------------------------------------------------------------------------- the survivors */

static bool names_rank(const char *text, int rank) {
    char name[16];
    snprintf(name, sizeof(name), "rank %d", rank);
    const char *at = strstr(text, name);
    return at != NULL && (at[strlen(name)] < '0' || at[strlen(name)] > '9');
}

static bool names_victim(const struct event *event, const char *text) {
    return event->nobody_named || names_rank(text, event->victim) ||
           (event->other_victim >= 0 && names_rank(text, event->other_victim));
}

static void end_after_failure(struct ranks *ranks, int rank, struct collet_comm *comm) {
    uint64_t start_ns = ranks_now_ns();
    if (rank % 2 == 0)
        ranks_try(ranks, rank, collet_comm_abort(comm));
    else
        ranks_try(ranks, rank, collet_comm_destroy(comm));
    if (fair_ms_since(start_ns) > END_MS * LEVEL_SLOWER)
        ranks_fail(ranks, "rank %d: the end of the failed communicator took %d ms", rank, ms_since(start_ns));
}

static void check_failure(struct ranks *ranks, int rank, struct collet_comm *comm, enum collet_result result,
                          enum collet_result expected) {
    const struct event *event = ranks->argument;
    enum collet_result state;
    int ms = fair_ms_since(when(event));
    float x = 0;
    ranks_expect(ranks, rank, result, expected, "the call after the event");
    if (when(event) == 0 || ms > NOTICE_MS)
        ranks_fail(ranks, "rank %d: noticed %d ms after the event: %s", rank, ms, collet_last_error(NULL));
    if (!names_victim(event, collet_last_error(NULL)))
        ranks_fail(ranks, "rank %d: rank %d is not named: %s", rank, event->victim, collet_last_error(NULL));
    if (!names_victim(event, collet_last_error(comm)))
        ranks_fail(ranks, "rank %d: not the communicator's last error: \"%s\"", rank, collet_last_error(comm));
    ranks_try(ranks, rank, collet_comm_get_async_error(comm, &state));
    ranks_expect(ranks, rank, state, expected, "collet_comm_get_async_error()");
    ranks_expect(ranks, rank, collet_allreduce(&x, &x, 1, COLLET_FLOAT32, COLLET_MAX, comm, NULL), expected,
                 "a call on the failed communicator");
}

static void survive(struct ranks *ranks, int rank, struct collet_comm *comm, enum collet_result expected) {
    enum collet_result result;
    float *data = buffer();
    while ((result = one_call(data, comm)) == COLLET_SUCCESS) {
    }
    if (expected == COLLET_ERR_ABORTED && result == COLLET_ERR_REMOTE)
        expected = result; /* the aborted rank's connections may break before the news of the abort is here */
    check_failure(ranks, rank, comm, result, expected);
    free(data);
    end_after_failure(ranks, rank, comm);
}

static void lose_a_rank(struct ranks *ranks, int rank) {
    const struct event *event = ranks->argument;
    struct collet_comm *comm = begin(ranks, rank, NULL);
    bool victim = rank == event->victim || rank == event->other_victim;
    if (event->how == KILLED_IN_FIRST)
        ranks_barrier(ranks); /* init is over everywhere */
    if (!victim)
        survive(ranks, rank, comm, COLLET_ERR_REMOTE);
    else if (event->how <= KILLED_IN_FIRST)
        be_killed(ranks, rank, comm);
    else
        leave(ranks, rank, comm);
}

static void run_event(int nranks, struct event event, unsigned exclude, void (*run)(struct ranks *ranks, int rank)) {
    struct event *shared = ranks_share(sizeof(*shared));
    *shared = event;
    world_run_all(exclude, nranks, NULL, run, shared);
    ranks_unshare(shared, sizeof(*shared));
}

/* Which rank it is matters: the control plane is a tree over processes, with rank 0 at its root. */
static void with_every_victim(int how, unsigned exclude) {
    static const struct { int nranks, victim; } cases[] = {{2, 1}, {2, 0}, {4, 3}, {4, 0}, {5, 1}, {5, 2}};
    size_t n = level_now() == LEVEL_FAST ? 2 : sizeof(cases) / sizeof(*cases);
    for (size_t k = 0; k < n; k++)
        run_event(cases[k].nranks, (struct event){.victim = cases[k].victim, .other_victim = -1, .how = how}, exclude,
                  lose_a_rank);
}

static void a_killed_rank_fails_all_others_by_name(void **state) {
    (void)state;
    with_every_victim(KILLED, WORLD_NO_THREADS);
}

static void a_killed_rank_is_noticed_though_its_child_holds_its_sockets(void **state) {
    (void)state;
    with_every_victim(KILLED_WITH_HEIR, WORLD_NO_THREADS);
}

static void two_ranks_may_be_killed_at_once(void **state) {
    (void)state;
    run_event(5, (struct event){.victim = 1, .other_victim = 2, .how = KILLED}, WORLD_NO_THREADS, lose_a_rank);
    run_event(5, (struct event){.victim = 0, .other_victim = 4, .how = KILLED}, WORLD_NO_THREADS, lose_a_rank);
}

/* ---- while nobody calls, and in init ---- */

/* Nobody waits for the victim when it is killed. Some call at once, others when all is known. */
static void lose_an_idle_rank(struct ranks *ranks, int rank) {
    const struct event *event = ranks->argument;
    struct collet_comm *comm = begin(ranks, rank, NULL);
    float *data = buffer();
    ranks_try(ranks, rank, one_call(data, comm));
    free(data);
    __atomic_store_n(&ranks->expendable[event->victim], 1, __ATOMIC_RELEASE);
    ranks_barrier(ranks);
    if (rank == event->victim)
        be_killed_now(ranks);
    while (when(event) == 0)
        ranks_sleep_ms(1);
    ranks_sleep_ms(rank % 2 * 500);
    survive(ranks, rank, comm, COLLET_ERR_REMOTE);
}

static void who_calls_after_a_death_hears_of_it_in_time(void **state) {
    (void)state;
    run_event(4, (struct event){.victim = 2, .other_victim = -1}, WORLD_NO_THREADS, lose_an_idle_rank);
    run_event(3, (struct event){.victim = 0, .other_victim = -1}, WORLD_NO_THREADS, lose_an_idle_rank);
}

#define INIT_S "8" /* longer than a death may go unnoticed */

static void *kill_in_init(void *ranks) {
    const struct event *event = ((struct ranks *)ranks)->argument;
    usleep((useconds_t)event->after_us);
    be_killed_now(ranks);
    return NULL;
}

/* It was killed before it had told anybody of itself: then nobody can know, and INIT_S ends the others' init. */
static bool never_came(const struct event *event, enum collet_result result, int ms) {
    char words[32];
    snprintf(words, sizeof(words), "have not come: %d", event->victim);
    return result == COLLET_ERR_TIMEOUT && ms <= atoi(INIT_S) * 1000 + NOTICE_MS &&
           strstr(collet_last_error(NULL), words) != NULL;
}

/* All but the last rank come, and wait for that one. Init may be over for some of the others when the victim is killed, or for all:
 * then their first call fails. */
static void lose_a_rank_in_init(struct ranks *ranks, int rank) {
    const struct event *event = ranks->argument;
    struct collet_comm *comm;
    pthread_t killer;
    float *data = buffer();
    __atomic_store_n(&ranks->expendable[event->victim], 1, __ATOMIC_RELEASE);
    ranks_new_id(ranks, rank);
    if (rank == event->victim)
        pthread_create(&killer, NULL, kill_in_init, ranks);
    if (rank == ranks->nranks - 1)
        ranks_sleep_ms(60);
    enum collet_result result = collet_comm_init_rank(&comm, ranks->nranks, ranks->id, rank);
    while (result == COLLET_SUCCESS)
        result = one_call(data, comm);
    while (rank == event->victim)
        pause();
    const int ms = fair_ms_since(when(event));
    const bool unknown = never_came(event, result, ms);
    ranks_expect(ranks, rank, result, unknown ? COLLET_ERR_TIMEOUT : COLLET_ERR_REMOTE, "init, or the first call");
    if (when(event) == 0 || (ms > NOTICE_MS && !unknown))
        ranks_fail(ranks, "rank %d: noticed %d ms after the event: %s", rank, ms, collet_last_error(NULL));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

static void a_rank_that_is_killed_in_init_is_noticed_in_time(void **state) {
    (void)state;
    setenv("COLLET_INIT_TIMEOUT", INIT_S, 1);
    for (int k = 0; k < 3; k++)
        run_event(4, (struct event){.victim = k, .other_victim = -1, .after_us = 55000 + 5000 * k}, WORLD_NO_THREADS,
                  lose_a_rank_in_init);
    unsetenv("COLLET_INIT_TIMEOUT");
}

/* Its offers lead nowhere any more, and its sockets refuse: that is a consequence, and not the cause that is told. */
static void who_is_killed_while_others_connect_is_to_blame_and_not_the_connection(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++)
        run_event(4, (struct event){.victim = k, .other_victim = -1, .how = KILLED_IN_FIRST, .after_us = 400 * k},
                  WORLD_NO_THREADS, lose_a_rank);
}

static void a_process_that_exits_in_silence_fails_all_others_by_name(void **state) {
    (void)state;
    with_every_victim(EXITS, WORLD_NO_THREADS);
}

static void a_communicator_destroyed_early_fails_all_others_by_name(void **state) {
    (void)state;
    with_every_victim(DESTROYS, 0);
}

/* --------------------------------------------------------------------------------------------------- an orderly end */

/* The last to leave has nothing to wait for; the first has left nothing undone. */
static void leave_in_turn(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    enum collet_result state;
    float *data = buffer();
    for (int k = 0; k < 5; k++)
        ranks_try(ranks, rank, one_call(data, comm));
    ranks_sleep_ms(rank * 60);
    ranks_try(ranks, rank, collet_comm_get_async_error(comm, &state));
    ranks_expect(ranks, rank, state, COLLET_SUCCESS, "collet_comm_get_async_error()");
    ranks_try(ranks, rank, collet_comm_finalize(comm));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

static void ranks_that_leave_when_all_is_done_disturb_nobody(void **state) {
    (void)state;
    world_run_all(0, 4, NULL, leave_in_turn, NULL);
}

/* A message that was sent before its sender left is received after. */
static void send_and_go(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int value = 17;
    if (rank == 0) {
        ranks_try(ranks, rank, collet_send(&value, 1, COLLET_INT32, 1, comm, NULL));
        ranks_try(ranks, rank, collet_comm_destroy(comm));
        return;
    }
    int got[2] = {0, 0};
    ranks_try(ranks, rank, collet_recv(&got[0], 1, COLLET_INT32, 0, comm, NULL)); /* connects: the sender needs that */
    ranks_check(ranks, rank, got[0] == 17);
    ranks_sleep_ms(300);
    ranks_expect(ranks, rank, collet_recv(&got[1], 1, COLLET_INT32, 0, comm, NULL), COLLET_ERR_REMOTE,
                 "a receive from a rank that has left");
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void only_what_was_never_sent_fails_when_a_rank_has_left(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, send_and_go, NULL);
}

/* --------------------------------------------------------------------------------------------------------------- abort */

struct aborter {
    struct ranks *ranks;
    struct collet_comm *comm;
    int rank;
    uint64_t begun_ns;
};

static void *abort_later(void *argument) {
    struct aborter *a = argument;
    ranks_sleep_ms(200);
    __atomic_store_n(&a->begun_ns, ranks_now_ns(), __ATOMIC_RELEASE);
    ranks_try(a->ranks, a->rank, collet_comm_abort(a->comm));
    if (fair_ms_since(a->begun_ns) > END_MS * LEVEL_SLOWER)
        ranks_fail(a->ranks, "rank %d: abort took %d ms", a->rank, ms_since(a->begun_ns));
    happens_now(a->ranks->argument); /* not before: with the others' calls, the victim's could end well */
    return NULL;
}

/* The victim blocks in a call and is freed by an abort from its own process; the others call only then. */
static void abort_a_blocked_call(struct ranks *ranks, int rank) {
    struct event *event = ranks->argument;
    struct collet_comm *comm = begin(ranks, rank, NULL);
    float *data = buffer();
    enum collet_result result = one_call(data, comm);
    ranks_try(ranks, rank, result);
    ranks_barrier(ranks);
    if (rank == event->victim) {
        pthread_t thread;
        struct aborter aborter = {ranks, comm, rank, 0};
        pthread_create(&thread, NULL, abort_later, &aborter);
        result = one_call(data, comm);
        int ms = fair_ms_since(__atomic_load_n(&aborter.begun_ns, __ATOMIC_ACQUIRE));
        pthread_join(thread, NULL);
        ranks_expect(ranks, rank, result, COLLET_ERR_ABORTED, "the call that was aborted");
        if (ms > 1000 * LEVEL_SLOWER)
            ranks_fail(ranks, "rank %d: the aborted call returned after %d ms", rank, ms);
    } else {
        while (when(event) == 0)
            ranks_sleep_ms(1);
        survive(ranks, rank, comm, COLLET_ERR_ABORTED);
    }
    free(data);
}

static void an_abort_frees_a_blocked_call_and_fails_the_others(void **state) {
    (void)state;
    run_event(2, (struct event){.victim = 0, .other_victim = -1}, 0, abort_a_blocked_call);
    run_event(3, (struct event){.victim = 2, .other_victim = -1}, 0, abort_a_blocked_call);
}

/* ------------------------------------------------------------------------------------------------------------- timeout */

static void wait_for_the_victim(struct ranks *ranks, int rank, int timeout_ms) {
    const struct event *event = ranks->argument;
    struct collet_config config = {.size = sizeof(config), .timeout_ms = timeout_ms};
    struct collet_comm *comm = begin(ranks, rank, &config);
    float *data = buffer();
    ranks_try(ranks, rank, one_call(data, comm));
    ranks_barrier(ranks);
    if (rank != event->victim) {
        happens_at_the_latest_now(
            ranks->argument); /* the time of the first rank is over first, and it tells the others */
        enum collet_result result = one_call(data, comm);
        if (ms_since(when(event)) < timeout_ms * 9 / 10)
            ranks_fail(ranks, "rank %d: gave up after %d ms: %s", rank, ms_since(when(event)), collet_last_error(NULL));
        check_failure(ranks, rank, comm, result, COLLET_ERR_TIMEOUT);
        end_after_failure(ranks, rank, comm);
    }
    ranks_barrier(ranks);
    if (rank == event->victim)
        ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

static void time_out_soon(struct ranks *ranks, int rank) { wait_for_the_victim(ranks, rank, 500); }

static void a_rank_that_never_calls_is_a_timeout_that_names_it(void **state) {
    (void)state;
    run_event(2, (struct event){.victim = 1, .other_victim = -1}, 0, time_out_soon);
    /* Among more ranks, the first to give up may name one that itself waits for the victim. */
    run_event(4, (struct event){.victim = 2, .other_victim = -1, .nobody_named = true}, 0, time_out_soon);
}

/* ------------------------------------------------------------------------------------------------- nothing left behind */

static int count_entries(const char *folder, const char *word) {
    DIR *directory = opendir(folder);
    int n = 0;
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        n += strstr(entry->d_name, word) != NULL;
    if (directory != NULL)
        closedir(directory);
    return n;
}

static void all_be_killed(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    float *data = buffer();
    for (int k = 0; k < 20; k++)
        ranks_try(ranks, rank, one_call(data, comm));
    __atomic_store_n(&ranks->expendable[rank], 1, __ATOMIC_RELEASE);
    ranks_barrier(ranks);
    kill(getpid(), SIGKILL);
}

static void nothing_is_left_behind_when_all_are_killed(void **state) {
    (void)state;
    int shm = count_entries("/dev/shm", "collet"), tmp = count_entries("/tmp", "collet");
    world_run_all(WORLD_NO_THREADS, 4, NULL, all_be_killed, NULL);
    assert_int_equal(count_entries("/dev/shm", "collet"), shm);
    assert_int_equal(count_entries("/tmp", "collet"), tmp);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left either */
    assert_int_equal(errno, ECHILD);
}

int main(void) {
    const struct CMUnitTest essentials[] = {
        cmocka_unit_test(a_killed_rank_fails_all_others_by_name),
        cmocka_unit_test(an_abort_frees_a_blocked_call_and_fails_the_others),
        cmocka_unit_test(a_rank_that_never_calls_is_a_timeout_that_names_it),
        cmocka_unit_test(nothing_is_left_behind_when_all_are_killed),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_killed_rank_is_noticed_though_its_child_holds_its_sockets),
        cmocka_unit_test(two_ranks_may_be_killed_at_once),
        cmocka_unit_test(who_calls_after_a_death_hears_of_it_in_time),
        cmocka_unit_test(a_rank_that_is_killed_in_init_is_noticed_in_time),
        cmocka_unit_test(who_is_killed_while_others_connect_is_to_blame_and_not_the_connection),
        cmocka_unit_test(a_process_that_exits_in_silence_fails_all_others_by_name),
        cmocka_unit_test(a_communicator_destroyed_early_fails_all_others_by_name),
        cmocka_unit_test(ranks_that_leave_when_all_is_done_disturb_nobody),
        cmocka_unit_test(only_what_was_never_sent_fails_when_a_rank_has_left),
    };
    int failed = cmocka_run_group_tests(essentials, NULL, NULL);
    return level_now() == LEVEL_FAST ? failed : failed + cmocka_run_group_tests(others, NULL, NULL);
}
