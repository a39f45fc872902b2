/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: ranks write into each other's buffers, and signal; in one process, in several, and in several of several.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/ranks.h"
#include "common/world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NRANKS 4
#define BYTES 100003

static void *get(struct ranks *ranks, int rank, size_t bytes) {
    void *memory;
    ranks_try(ranks, rank, collet_mem_alloc(&memory, bytes, COLLET_DEVICE_HOST));
    return memory;
}

static char byte_of(int from, int to, int round, size_t i) {
    return (char)(from * 31 + to * 7 + round * 3 + (int)(i % 251));
}

/* Each rank has a part of every rank's window, and writes there when it has been told that the last round was read. */
static void run_rounds(struct ranks *ranks, int rank) {
    enum { ROUNDS = 20 };
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    char *buff = get(ranks, rank, NRANKS * BYTES), *data = malloc(BYTES);
    struct collet_window *window;
    ranks_try(ranks, rank, collet_win_register(comm, buff, NRANKS * BYTES, &window));
    for (int round = 0; round < ROUNDS; round++) {
        for (int peer = 0; peer < NRANKS; peer++) {
            if (round > 0)
                ranks_try(ranks, rank, collet_wait_signal(peer, 1, window, comm)); /* it has read */
            for (size_t i = 0; i < BYTES; i++)
                data[i] = byte_of(rank, peer, round, i);
            ranks_try(ranks, rank, collet_put(data, BYTES / 2, peer, window, (size_t)rank * BYTES, comm));
            ranks_try(
                ranks, rank,
                collet_put(data + BYTES / 2, BYTES - BYTES / 2, peer, window, (size_t)rank * BYTES + BYTES / 2, comm));
            ranks_try(ranks, rank, collet_signal(peer, window, comm));
        }
        for (int peer = 0; peer < NRANKS; peer++) {
            ranks_try(ranks, rank, collet_wait_signal(peer, 1, window, comm));
            for (size_t i = 0; i < BYTES; i++)
                ranks_check(ranks, rank, buff[(size_t)peer * BYTES + i] == byte_of(peer, rank, round, i));
            ranks_try(ranks, rank, collet_signal(peer, window, comm));
        }
    }
    ranks_try(ranks, rank, collet_win_deregister(comm, window));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_try(ranks, rank, collet_mem_free(buff));
    free(data);
}

static void what_was_put_is_there_after_its_signal(void **state) {
    (void)state;
    world_run_all(0, NRANKS, NULL, run_rounds, NULL);
    world_run(&worlds[WORLD_MIXED], NRANKS, NULL, run_rounds, NULL);
}

/* Signals are counted, windows have their own, and collectives go on beside them. */
static void run_two_windows(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int32_t *buff = get(ranks, rank, 8), sum, other = (rank + 1) % NRANKS, before = (rank + NRANKS - 1) % NRANKS;
    struct collet_window *window, *empty;
    ranks_try(ranks, rank, collet_win_register(comm, buff, 8, &window));
    ranks_try(ranks, rank, collet_win_register(comm, NULL, 0, &empty));
    for (int k = 0; k < 5; k++)
        ranks_try(ranks, rank, collet_signal(other, empty, comm));
    ranks_try(ranks, rank, collet_put(&rank, sizeof rank, other, window, 4, comm));
    ranks_try(ranks, rank, collet_signal(other, window, comm));
    ranks_try(ranks, rank, collet_allreduce(&rank, &sum, 1, COLLET_INT32, COLLET_SUM, comm, NULL));
    ranks_check(ranks, rank, sum == NRANKS * (NRANKS - 1) / 2);
    ranks_try(ranks, rank, collet_wait_signal(before, 2, empty, comm));
    ranks_try(ranks, rank, collet_wait_signal(before, 3, empty, comm));
    ranks_try(ranks, rank, collet_wait_signal(before, 0, empty, comm));
    ranks_try(ranks, rank, collet_wait_signal(before, 1, window, comm));
    ranks_check(ranks, rank, buff[0] == 0 && buff[1] == before);
    ranks_try(ranks, rank, collet_win_deregister(comm, empty));
    ranks_try(ranks, rank, collet_comm_destroy(comm)); /* the end of the other window, too */
    ranks_try(ranks, rank, collet_mem_free(buff));
}

static void signals_are_counted_per_window_and_rank(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], NRANKS, NULL, run_two_windows, NULL);
}

/* Window k of a rank has k + 1 numbers: the last one tells where a put has come. */
static void run_group(struct ranks *ranks, int rank) {
    enum { WINDOWS = 8 };
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int32_t *buffs[WINDOWS], other = (rank + 1) % NRANKS, before = (rank + NRANKS - 1) % NRANKS;
    struct collet_window *windows[WINDOWS];
    ranks_try(ranks, rank, collet_group_start());
    for (size_t k = 0; k < WINDOWS; k++) {
        buffs[k] = get(ranks, rank, (k + 1) * sizeof **buffs);
        ranks_try(ranks, rank, collet_win_register(comm, buffs[k], (k + 1) * sizeof **buffs, &windows[k]));
    }
    ranks_try(ranks, rank, collet_group_end());
    for (int32_t k = 0; k < WINDOWS; k++) {
        int32_t value = rank * WINDOWS + k;
        ranks_try(ranks, rank, collet_put(&value, sizeof value, other, windows[k], (size_t)k * sizeof value, comm));
        ranks_try(ranks, rank, collet_signal(other, windows[k], comm));
    }
    for (int32_t k = 0; k < WINDOWS; k++) {
        ranks_try(ranks, rank, collet_wait_signal(before, 1, windows[k], comm));
        ranks_check(ranks, rank, buffs[k][k] == before * WINDOWS + k);
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    for (int k = 0; k < WINDOWS; k++)
        ranks_try(ranks, rank, collet_mem_free(buffs[k]));
}

static void windows_of_one_group_are_made_in_the_order_of_their_calls(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], NRANKS, NULL, run_group, NULL);
}

/* ---- what is refused ---- */

static void expect(struct ranks *ranks, int rank, enum collet_result result, enum collet_result expected,
                   const char *says) {
    ranks_expect(ranks, rank, result, expected, says);
    if (strstr(collet_last_error(NULL), says) == NULL)
        ranks_fail(ranks, "rank %d: '%s' does not say '%s'", rank, collet_last_error(NULL), says);
}

static void run_refused(struct ranks *ranks, int rank) {
    const enum collet_result bad = COLLET_ERR_INVALID_ARGUMENT;
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    char *buff = get(ranks, rank, 100), own[100] = {0};
    int other = 1 - rank;
    struct collet_window *window, *far;
    expect(ranks, rank, collet_win_register(comm, buff, 100, NULL), bad, "window is NULL");
    expect(ranks, rank, collet_win_register(comm, NULL, 100, &window), bad, "buff is NULL");
    expect(ranks, rank, collet_win_register(NULL, buff, 100, &window), bad, "comm is NULL");
    ranks_try(ranks, rank, collet_group_start());
    ranks_try(ranks, rank, collet_win_register(comm, buff, 100 - (size_t)rank, &window));
    ranks_try(ranks, rank, collet_group_end());
    ranks_try(ranks, rank, collet_win_register(comm, own, 100, &far));
    expect(ranks, rank, collet_put(own, 1, 2, window, 0, comm), bad, "peer is 2");
    expect(ranks, rank, collet_put(own, 1, other, NULL, 0, comm), bad, "window is");
    expect(ranks, rank, collet_put(NULL, 1, other, window, 0, comm), bad, "sendbuff is NULL");
    expect(ranks, rank, collet_put(own, 1, other, window, 100 - (size_t)other, comm), bad, "offset is");
    expect(ranks, rank, collet_put(own, 2, other, window, SIZE_MAX, comm), bad, "offset is");
    expect(ranks, rank, collet_signal(-1, window, comm), bad, "peer is -1");
    expect(ranks, rank, collet_wait_signal(7, 1, window, comm), bad, "peer is 7");
    expect(ranks, rank, collet_win_deregister(comm, (struct collet_window *)own), bad, "window is");
    expect(ranks, rank, collet_put(own, 1, other, far, 0, comm), COLLET_ERR_UNSUPPORTED, "collet_mem_alloc()");
    ranks_try(ranks, rank, collet_put(buff, 1, rank, far, 0, comm));
    ranks_try(ranks, rank, collet_put(own, 99 - (size_t)other, other, window, 1, comm));
    ranks_try(ranks, rank, collet_win_deregister(comm, NULL));
    ranks_try(ranks, rank, collet_win_deregister(comm, far));
    ranks_try(ranks, rank, collet_win_deregister(comm, window));
    expect(ranks, rank, collet_put(own, 1, other, window, 0, comm), bad, "deregistered already");
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_try(ranks, rank, collet_mem_free(buff));
}

static void what_cannot_be_done_is_said(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 2, NULL, run_refused, NULL);
}

static void run_apart(struct ranks *ranks, int rank) {
    setenv("COLLET_HOSTID", rank == 0 ? "a" : "b", 1);
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_window *window;
    char *buff = get(ranks, rank, 100);
    ranks_try(ranks, rank, collet_win_register(comm, buff, 100, &window));
    expect(ranks, rank, collet_put(buff, 1, 1 - rank, window, 0, comm), COLLET_ERR_UNSUPPORTED, "another host");
    expect(ranks, rank, collet_signal(1 - rank, window, comm), COLLET_ERR_UNSUPPORTED, "another host");
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_try(ranks, rank, collet_mem_free(buff));
}

static void windows_do_not_reach_other_hosts(void **state) {
    (void)state;
    world_run(&worlds[WORLD_TCP], 2, NULL, run_apart, NULL);
}

/* ---- signals that do not come ---- */

static void run_dying(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_window *window;
    ranks_try(ranks, rank, collet_win_register(comm, NULL, 0, &window));
    if (rank == 0)
        ranks_try(ranks, rank, collet_signal(1, window, comm));
    ranks->expendable[0] = 1;
    ranks_barrier(ranks);
    if (rank == 0)
        raise(SIGKILL);
    if (rank == 1)
        ranks_try(ranks, rank, collet_wait_signal(0, 1, window, comm)); /* that one came before */
    enum collet_result result = collet_wait_signal(0, 1, window, comm);
    ranks_check(ranks, rank, result == COLLET_ERR_REMOTE);
    ranks_try(ranks, rank, collet_comm_abort(comm));
}

static void a_signal_of_a_dead_rank_is_an_error(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 3, NULL, run_dying, NULL);
}

static void run_forgetting(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_window *window;
    ranks_try(ranks, rank, collet_win_register(comm, NULL, 0, &window));
    if (rank == 1)
        expect(ranks, rank, collet_wait_signal(0, 1, window, comm), COLLET_ERR_TIMEOUT, "signal of rank 0");
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_abort(comm));
}

static void a_signal_that_is_forgotten_is_an_error(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 2, (const char *const[]){"COLLET_TIMEOUT", "1", NULL}, run_forgetting, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_there_after_its_signal),
        cmocka_unit_test(signals_are_counted_per_window_and_rank),
        cmocka_unit_test(windows_of_one_group_are_made_in_the_order_of_their_calls),
        cmocka_unit_test(what_cannot_be_done_is_said),
        cmocka_unit_test(windows_do_not_reach_other_hosts),
        cmocka_unit_test(a_signal_of_a_dead_rank_is_an_error),
        cmocka_unit_test(a_signal_that_is_forgotten_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
