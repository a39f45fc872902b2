/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of several threads on one communicator: only what must follow waits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/whole.h"
#include "common/level.h"
#include "common/world.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A failure must not be a wait of half an hour. */
static const char *const impatient[] = {"COLLET_TIMEOUT", "30", NULL};

/* ---- calls in threads of their own ---- */

struct worker {
    struct ranks *ranks;
    struct collet_comm *comm;
    int rank;
    char *data;
    size_t bytes;
    pthread_t thread;
};

static size_t message_bytes(void) { return level_now() == LEVEL_FULL ? 64u << 20 : 4u << 20; }

static void fill(struct worker *w, char value) {
    w->bytes = message_bytes();
    w->data = malloc(w->bytes);
    memset(w->data, value, w->bytes);
}

static void begin(struct worker *w, void *(*body)(void *)) {
    ranks_check(w->ranks, w->rank, pthread_create(&w->thread, NULL, body, w) == 0);
}

static void *send_to_other(void *argument) {
    struct worker *w = argument;
    ranks_try(w->ranks, w->rank, collet_send(w->data, w->bytes, COLLET_UINT8, 1 - w->rank, w->comm, NULL));
    return NULL;
}

static void *receive_from_other(void *argument) {
    struct worker *w = argument;
    ranks_try(w->ranks, w->rank, collet_recv(w->data, w->bytes, COLLET_UINT8, 1 - w->rank, w->comm, NULL));
    ranks_check(w->ranks, w->rank, w->data[0] == 1 - w->rank && w->data[w->bytes - 1] == 1 - w->rank);
    return NULL;
}

static void *sum(void *argument) {
    struct worker *w = argument;
    int value = 1;
    ranks_try(w->ranks, w->rank, collet_allreduce(&value, &value, 1, COLLET_INT32, COLLET_SUM, w->comm, NULL));
    ranks_check(w->ranks, w->rank, value == 2);
    return NULL;
}

/* Both ranks send in one thread and receive in another. Rank 0 is in an allreduce by then. Rank 1 comes to it only when all
 * messages are there. */
static void messages_beside(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct worker workers[3];
    for (int k = 0; k < 3; k++)
        workers[k] = (struct worker){.ranks = ranks, .comm = comm, .rank = rank};
    for (int round = 0; round < 3; round++) {
        if (rank == 0)
            begin(&workers[2], sum);
        fill(&workers[0], (char)rank);
        fill(&workers[1], 77);
        begin(&workers[0], send_to_other);
        begin(&workers[1], receive_from_other);
        for (int k = 0; k < 2; k++) {
            pthread_join(workers[k].thread, NULL);
            free(workers[k].data);
        }
        if (rank == 1)
            sum(&workers[2]);
        else
            pthread_join(workers[2].thread, NULL);
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void messages_do_not_wait_for_a_collective_of_their_communicator(void **state) {
    (void)state;
    world_run_all(0, 2, impatient, messages_beside, NULL);
}

/* ---- a rank's time is each call's own ---- */

#define PINGS_AT_MOST 1000000

static void *ping(void *argument) {
    struct worker *w = argument;
    struct collet_comm *comm = w->comm;
    for (int k = 0; k < PINGS_AT_MOST; k++) {
        int value = k, other = 1 - w->rank;
        enum collet_result result = w->rank == 0 ? collet_send(&value, 1, COLLET_INT32, other, comm, NULL)
                                                 : collet_recv(&value, 1, COLLET_INT32, other, comm, NULL);
        if (result != COLLET_SUCCESS)
            return NULL;
    }
    ranks_fail(w->ranks, "rank %d: the call that waited did not fail", w->rank);
}

/* Rank 1 never comes to the allreduce, but messages go on all the time. */
static void one_call_waits_in_vain(struct ranks *ranks, int rank) {
    const struct collet_config config = {.size = sizeof(config), .timeout_ms = 500};
    struct worker pinger = {.ranks = ranks, .comm = ranks_comm(ranks, rank, &config), .rank = rank};
    int value = 1;
    begin(&pinger, ping);
    if (rank == 0) {
        enum collet_result result = collet_allreduce(&value, &value, 1, COLLET_INT32, COLLET_SUM, pinger.comm, NULL);
        ranks_expect(ranks, rank, result, COLLET_ERR_TIMEOUT, "the allreduce that one rank makes");
        ranks_check(ranks, rank, strstr(collet_last_error(NULL), "in allreduce (call 1), waiting for rank 1") != NULL);
    }
    pthread_join(pinger.thread, NULL);
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_destroy(pinger.comm));
}

static void a_call_that_waits_too_long_fails_though_others_go_on(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, one_call_waits_in_vain, NULL);
}

/* ---- the end, while calls of other threads are under way ---- */

static void *receive_in_vain(void *argument) {
    struct worker *w = argument;
    int value;
    enum collet_result result = collet_recv(&value, 1, COLLET_INT32, 1 - w->rank, w->comm, NULL);
    ranks_expect(w->ranks, w->rank, result, COLLET_ERR_ABORTED,
                 "a receive that waits while its communicator is aborted");
    return NULL;
}

static void *sum_in_vain(void *argument) {
    struct worker *w = argument;
    int value = 1;
    enum collet_result result = collet_allreduce(&value, &value, 1, COLLET_INT32, COLLET_SUM, w->comm, NULL);
    ranks_expect(w->ranks, w->rank, result, COLLET_ERR_ABORTED, "a collective that is aborted");
    return NULL;
}

static bool is_in_dump(struct collet_comm *comm, const char *text) {
    char path[] = "/tmp/collet-engine-XXXXXX", dump[4096];
    int fd = mkstemp(path);
    unlink(path);
    bool good = collet_comm_dump(comm, fd) == COLLET_SUCCESS;
    ssize_t length = pread(fd, dump, sizeof(dump) - 1, 0);
    close(fd);
    dump[length > 0 ? length : 0] = '\0';
    return good && strstr(dump, text) != NULL;
}

/* Rank 0 aborts while two of its threads wait, one of which drives for both. */
static void abort_both(struct ranks *ranks, int rank) {
    struct worker workers[2];
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    for (int k = 0; k < 2; k++)
        workers[k] = (struct worker){.ranks = ranks, .comm = comm, .rank = rank};
    ranks_barrier(ranks); /* a rank still in init would be told of the abort there */
    if (rank == 0) {
        begin(&workers[0], receive_in_vain);
        begin(&workers[1], sum_in_vain);
        while (library_is_whole && (!is_in_dump(comm, "recv") || !is_in_dump(comm, "allreduce")))
            ranks_sleep_ms(1);
        ranks_sleep_ms(library_is_whole ? 0 : 100); /* the core's dumps do not tell calls */
        ranks_try(ranks, rank, collet_comm_abort(comm));
        pthread_join(workers[0].thread, NULL);
        pthread_join(workers[1].thread, NULL);
    }
    ranks_barrier(ranks);
    if (rank == 1)
        ranks_try(ranks, rank, collet_comm_abort(comm));
}

static void an_abort_ends_the_calls_of_all_threads(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, abort_both, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_do_not_wait_for_a_collective_of_their_communicator),
        cmocka_unit_test(a_call_that_waits_too_long_fails_though_others_go_on),
        cmocka_unit_test(an_abort_ends_the_calls_of_all_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
