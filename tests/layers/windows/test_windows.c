/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: ranks write into each other's buffers, read them, and signal; in one process, in several, in several of several, and over tcp.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/level.h"
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
                ranks_try(ranks, rank, collet_wait_signal(peer, 1, window, comm, NULL)); /* it has read */
            for (size_t i = 0; i < BYTES; i++)
                data[i] = byte_of(rank, peer, round, i);
            ranks_try(ranks, rank, collet_put(data, BYTES / 2, peer, window, (size_t)rank * BYTES, comm, NULL));
            ranks_try(ranks, rank,
                      collet_put(data + BYTES / 2, BYTES - BYTES / 2, peer, window, (size_t)rank * BYTES + BYTES / 2,
                                 comm, NULL));
            ranks_try(ranks, rank, collet_signal(peer, window, comm, NULL));
        }
        for (int peer = 0; peer < NRANKS; peer++) {
            ranks_try(ranks, rank, collet_wait_signal(peer, 1, window, comm, NULL));
            for (size_t i = 0; i < BYTES; i++)
                ranks_check(ranks, rank, buff[(size_t)peer * BYTES + i] == byte_of(peer, rank, round, i));
            ranks_try(ranks, rank, collet_signal(peer, window, comm, NULL));
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
        ranks_try(ranks, rank, collet_signal(other, empty, comm, NULL));
    ranks_try(ranks, rank, collet_put(&rank, sizeof rank, other, window, 4, comm, NULL));
    ranks_try(ranks, rank, collet_signal(other, window, comm, NULL));
    ranks_try(ranks, rank, collet_allreduce(&rank, &sum, 1, COLLET_INT32, COLLET_SUM, comm, NULL));
    ranks_check(ranks, rank, sum == NRANKS * (NRANKS - 1) / 2);
    ranks_try(ranks, rank, collet_wait_signal(before, 2, empty, comm, NULL));
    ranks_try(ranks, rank, collet_wait_signal(before, 3, empty, comm, NULL));
    ranks_try(ranks, rank, collet_wait_signal(before, 0, empty, comm, NULL));
    ranks_try(ranks, rank, collet_wait_signal(before, 1, window, comm, NULL));
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
        ranks_try(ranks, rank,
                  collet_put(&value, sizeof value, other, windows[k], (size_t)k * sizeof value, comm, NULL));
        ranks_try(ranks, rank, collet_signal(other, windows[k], comm, NULL));
    }
    for (int32_t k = 0; k < WINDOWS; k++) {
        ranks_try(ranks, rank, collet_wait_signal(before, 1, windows[k], comm, NULL));
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
    expect(ranks, rank, collet_put(own, 1, 2, window, 0, comm, NULL), bad, "peer is 2");
    expect(ranks, rank, collet_put(own, 1, other, NULL, 0, comm, NULL), bad, "window is");
    expect(ranks, rank, collet_put(NULL, 1, other, window, 0, comm, NULL), bad, "sendbuff is NULL");
    expect(ranks, rank, collet_put(own, 1, other, window, 100 - (size_t)other, comm, NULL), bad, "offset is");
    expect(ranks, rank, collet_put(own, 2, other, window, SIZE_MAX, comm, NULL), bad, "offset is");
    expect(ranks, rank, collet_signal(-1, window, comm, NULL), bad, "peer is -1");
    expect(ranks, rank, collet_wait_signal(7, 1, window, comm, NULL), bad, "peer is 7");
    expect(ranks, rank, collet_win_deregister(comm, (struct collet_window *)own), bad, "window is");
    expect(ranks, rank, collet_get(NULL, 1, other, window, 0, comm, NULL), bad, "recvbuff is NULL");
    expect(ranks, rank, collet_get(own, 1, other, window, 100 - (size_t)other, comm, NULL), bad, "offset is");
    expect(ranks, rank, collet_put_signal(own, 200, other, window, 0, comm, NULL), bad, "bytes is 200");
    expect(ranks, rank, collet_win_flush(2, window, comm, NULL), bad, "peer is 2");
    expect(ranks, rank, collet_win_flush(other, NULL, comm, NULL), bad, "window is NULL");
    ranks_try(ranks, rank, collet_put(own, 1, other, far, 0, comm, NULL));
    ranks_try(ranks, rank, collet_put(buff, 1, rank, far, 0, comm, NULL));
    ranks_try(ranks, rank, collet_put(own, 99 - (size_t)other, other, window, 1, comm, NULL));
    ranks_try(ranks, rank, collet_win_deregister(comm, NULL));
    ranks_try(ranks, rank, collet_win_deregister(comm, far));
    ranks_try(ranks, rank, collet_win_deregister(comm, window));
    expect(ranks, rank, collet_put(own, 1, other, window, 0, comm, NULL), bad, "deregistered already");
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_try(ranks, rank, collet_mem_free(buff));
}

static void what_cannot_be_done_is_said(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 2, NULL, run_refused, NULL);
}

/* ---- every transport ---- */

/* Buffers that no other process can map. Each rank puts into the next one's window, and gets from the one before. Sizes: less than a
 * packet's head, a slot, and more than all slots of a connection. */
static void run_everywhere(struct ranks *ranks, int rank) {
    static const size_t sizes[] = {0, 1, 8, 4097, 700001, 9000011};
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    const int other = (rank + 1) % NRANKS, before = (rank + NRANKS - 1) % NRANKS;
    const size_t whole = 9000011 + 7;
    char *buff = calloc(1, whole), *data = malloc(whole), *got = malloc(whole);
    struct collet_window *window;
    ranks_try(ranks, rank, collet_win_register(comm, buff, whole, &window));
    for (int k = 0; k < (int)(sizeof sizes / sizeof *sizes); k++) {
        for (size_t i = 0; i < sizes[k]; i++)
            data[i] = byte_of(rank, other, k, i);
        ranks_try(ranks, rank, collet_put_signal(data, sizes[k], other, window, 7, comm, NULL));
        memset(data, 0, sizes[k]); /* local completion: it is this rank's again */
        ranks_try(ranks, rank, collet_wait_signal(before, 1, window, comm, NULL));
        for (size_t i = 0; i < sizes[k]; i++)
            ranks_check(ranks, rank, buff[7 + i] == byte_of(before, rank, k, i));
        ranks_barrier(ranks);
        ranks_try(ranks, rank, collet_get(got, sizes[k], before, window, 7, comm, NULL));
        for (size_t i = 0; i < sizes[k]; i++)
            ranks_check(ranks, rank, got[i] == byte_of((before + NRANKS - 1) % NRANKS, before, k, i));
        ranks_barrier(ranks);
    }
    ranks_try(ranks, rank, collet_win_deregister(comm, window));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(buff);
    free(data);
    free(got);
}

static void put_and_get_work_over_every_transport(void **state) {
    (void)state;
    if (LEVEL_WATCHES_THREADS) /* it does not see that a rank of another process has had its bytes before a thread here puts others */
        world_run(&worlds[WORLD_SHM], NRANKS, NULL, run_everywhere, NULL);
    else
        world_run_all(0, NRANKS, NULL, run_everywhere, NULL);
    world_run(&worlds[WORLD_THREADS_TCP], NRANKS, NULL, run_everywhere, NULL);
    world_run(&worlds[WORLD_TCP], NRANKS, (const char *const[]){"COLLET_ENCRYPT", "1", NULL}, run_everywhere, NULL);
    world_run(&worlds[WORLD_TCP], NRANKS, (const char *const[]){"COLLET_BUFFSIZE", "4096", NULL}, run_everywhere, NULL);
}

/* A rank puts and flushes. The peer makes no call: it hears of it by other means. */
static void run_flushed(struct ranks *ranks, int rank) {
    enum { BYTES_PUT = 3000000 };
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    char *buff = calloc(1, BYTES_PUT), *data = malloc(BYTES_PUT);
    struct collet_window *window;
    memset(data, 5, BYTES_PUT);
    ranks_try(ranks, rank, collet_win_register(comm, buff, BYTES_PUT, &window));
    if (rank == 0) {
        for (size_t at = 0; at < BYTES_PUT; at += BYTES_PUT / 100)
            ranks_try(ranks, rank, collet_put(data, BYTES_PUT / 100, 1, window, at, comm, NULL));
        ranks_try(ranks, rank, collet_win_flush(1, window, comm, NULL));
        ranks_try(ranks, rank, collet_win_flush(1, window, comm, NULL)); /* nothing is left */
    }
    ranks_barrier(ranks);
    if (LEVEL_WATCHES_THREADS && rank == 1)
        ranks_try(ranks, rank,
                  collet_win_flush(0, window, comm, NULL)); /* orders this thread and collet-rma for the sanitizer */
    if (rank == 1)
        for (size_t i = 0; i < BYTES_PUT; i++)
            ranks_check(ranks, rank, buff[i] == 5);
    ranks_try(ranks, rank, collet_win_deregister(comm, window));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(buff);
    free(data);
}

static void what_was_flushed_is_there_without_a_call_of_the_peer(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, run_flushed, NULL);
}

/* The writer leaves at once. What it has put and signalled is there all the same. */
static void run_leaving(struct ranks *ranks, int rank) {
    enum { BYTES_PUT = 1000000 };
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    char *buff = calloc(1, BYTES_PUT), *data = malloc(BYTES_PUT);
    struct collet_window *window;
    memset(data, 3, BYTES_PUT);
    ranks_try(ranks, rank, collet_win_register(comm, buff, BYTES_PUT, &window));
    if (rank == 0)
        ranks_try(ranks, rank, collet_put_signal(data, BYTES_PUT, 1, window, 0, comm, NULL));
    if (rank == 1) {
        ranks_sleep_ms(100);
        ranks_try(ranks, rank, collet_wait_signal(0, 1, window, comm, NULL));
        for (size_t i = 0; i < BYTES_PUT; i++)
            ranks_check(ranks, rank, buff[i] == 3);
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(buff);
    free(data);
}

static void who_leaves_has_put_before(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, run_leaving, NULL);
}

/* Two hosts by name. */
static void run_apart(struct ranks *ranks, int rank) {
    setenv("COLLET_HOSTID", rank == 0 ? "a" : "b", 1);
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_window *window;
    char *buff = get(ranks, rank, 100), mine = (char)(rank + 1);
    ranks_try(ranks, rank, collet_win_register(comm, buff, 100, &window));
    ranks_try(ranks, rank, collet_put_signal(&mine, 1, 1 - rank, window, 99, comm, NULL));
    ranks_try(ranks, rank, collet_wait_signal(1 - rank, 1, window, comm, NULL));
    ranks_check(ranks, rank, buff[99] == 2 - rank);
    ranks_try(ranks, rank, collet_win_deregister(comm, window));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_try(ranks, rank, collet_mem_free(buff));
}

static void windows_reach_other_hosts(void **state) {
    (void)state;
    world_run(&(struct world){"two hosts", "", 1}, 2, NULL, run_apart, NULL);
}

/* Several threads of a rank put, get and signal at the same time, to several peers. */
struct one_of_several {
    struct ranks *ranks;
    struct collet_comm *comm;
    struct collet_window *window;
    int rank, number;
};

#define SEVERAL 3
static void *put_and_get(void *one_) {
    const struct one_of_several *one = one_;
    for (int round = 0; round < 50; round++)
        for (int peer = 0; peer < NRANKS; peer++) {
            const size_t at = (size_t)(one->rank * SEVERAL + one->number) * 1000;
            char data[1000], got[1000];
            memset(data, round + one->number, sizeof data);
            ranks_try(one->ranks, one->rank, collet_put(data, sizeof data, peer, one->window, at, one->comm, NULL));
            ranks_try(one->ranks, one->rank, collet_get(got, sizeof got, peer, one->window, at, one->comm, NULL));
            ranks_check(one->ranks, one->rank, memcmp(data, got, sizeof got) == 0);
            ranks_try(one->ranks, one->rank, collet_signal(peer, one->window, one->comm, NULL));
        }
    return NULL;
}

static void run_several(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    const size_t bytes = NRANKS * SEVERAL * 1000;
    char *buff = malloc(bytes);
    struct collet_window *window;
    struct one_of_several all[SEVERAL];
    pthread_t threads[SEVERAL];
    ranks_try(ranks, rank, collet_win_register(comm, buff, bytes, &window));
    for (int k = 0; k < SEVERAL; k++) {
        all[k] = (struct one_of_several){ranks, comm, window, rank, k};
        ranks_check(ranks, rank, pthread_create(&threads[k], NULL, put_and_get, &all[k]) == 0);
    }
    for (int peer = 0; peer < NRANKS; peer++)
        ranks_try(ranks, rank, collet_wait_signal(peer, 50 * SEVERAL, window, comm, NULL));
    for (int k = 0; k < SEVERAL; k++)
        pthread_join(threads[k], NULL);
    ranks_try(ranks, rank, collet_win_deregister(comm, window));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(buff);
}

static void several_threads_and_peers_at_once(void **state) {
    (void)state;
    world_run_all(0, NRANKS, NULL, run_several, NULL);
}

/* ---- signals that do not come ---- */

static void run_dying(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_window *window;
    ranks_try(ranks, rank, collet_win_register(comm, NULL, 0, &window));
    if (rank == 0)
        ranks_try(ranks, rank, collet_signal(1, window, comm, NULL));
    ranks->expendable[0] = 1;
    ranks_barrier(ranks);
    if (rank == 0)
        raise(SIGKILL);
    if (rank == 1)
        ranks_try(ranks, rank, collet_wait_signal(0, 1, window, comm, NULL)); /* that one came before */
    enum collet_result result = collet_wait_signal(0, 1, window, comm, NULL);
    ranks_check(ranks, rank, result == COLLET_ERR_REMOTE);
    ranks_try(ranks, rank, collet_comm_abort(comm));
}

static void a_signal_of_a_dead_rank_is_an_error(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 3, NULL, run_dying, NULL);
    world_run(&worlds[WORLD_TCP], 3, NULL, run_dying, NULL);
}

/* A put that does not fit into the slots, a get and a flush, of a peer that has died. */
static void run_without_peer(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    const size_t bytes = 64u << 20;
    char *buff = calloc(1, bytes), *data = calloc(1, bytes);
    struct collet_window *window;
    enum collet_result result = COLLET_SUCCESS;
    ranks_try(ranks, rank, collet_win_register(comm, buff, bytes, &window));
    ranks->expendable[0] = 1;
    if (rank > 0)
        ranks_try(ranks, rank, collet_put(data, 100, 0, window, 0, comm, NULL));
    ranks_barrier(ranks);
    if (rank == 0)
        raise(SIGKILL);
    while (result == COLLET_SUCCESS && rank == 1)
        result = collet_put(data, bytes, 0, window, 0, comm, NULL);
    if (rank == 2)
        result = collet_get(data, bytes, 0, window, 0, comm, NULL);
    ranks_check(ranks, rank, result == COLLET_ERR_REMOTE);
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), "rank 0") != NULL);
    ranks_check(ranks, rank, collet_win_flush(0, window, comm, NULL) == COLLET_ERR_REMOTE);
    ranks_try(ranks, rank, collet_comm_abort(comm));
    free(buff);
    free(data);
}

static void a_dead_peer_is_an_error_of_every_call(void **state) {
    (void)state;
    world_run(&worlds[WORLD_TCP], 3, NULL, run_without_peer, NULL);
}

/* Another thread aborts while this one waits. */
static void *abort_soon(void *comm) {
    ranks_sleep_ms(200);
    collet_comm_abort(comm);
    return NULL;
}

static void run_aborting(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_window *window;
    pthread_t thread;
    ranks_try(ranks, rank, collet_win_register(comm, NULL, 0, &window));
    ranks_check(ranks, rank, pthread_create(&thread, NULL, abort_soon, comm) == 0);
    ranks_check(ranks, rank, collet_wait_signal(1 - rank, 1, window, comm, NULL) == COLLET_ERR_ABORTED);
    pthread_join(thread, NULL);
}

static void an_abort_ends_a_wait(void **state) {
    (void)state;
    world_run(&worlds[WORLD_TCP], 2, NULL, run_aborting, NULL);
}

static void run_forgetting(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_window *window;
    ranks_try(ranks, rank, collet_win_register(comm, NULL, 0, &window));
    if (rank == 1)
        expect(ranks, rank, collet_wait_signal(0, 1, window, comm, NULL), COLLET_ERR_TIMEOUT, "signal of rank 0");
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
        cmocka_unit_test(put_and_get_work_over_every_transport),
        cmocka_unit_test(what_was_flushed_is_there_without_a_call_of_the_peer),
        cmocka_unit_test(who_leaves_has_put_before),
        cmocka_unit_test(windows_reach_other_hosts),
        cmocka_unit_test(several_threads_and_peers_at_once),
        cmocka_unit_test(a_signal_of_a_dead_rank_is_an_error),
        cmocka_unit_test(a_dead_peer_is_an_error_of_every_call),
        cmocka_unit_test(an_abort_ends_a_wait),
        cmocka_unit_test(a_signal_that_is_forgotten_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
