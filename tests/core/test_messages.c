/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends and receives: every pattern that does not depend on the order of progress must end, with the right bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/level.h"
#include "common/mail.h"
#include "common/trial.h"
#include "common/world.h"

#include <stdlib.h>
#include <string.h>

static void start(struct mail *mail) { ranks_try(mail->ranks, mail->rank, collet_group_start()); }

static void end(struct mail *mail) {
    ranks_try(mail->ranks, mail->rank, collet_group_end());
    mail_settle(mail);
}

static const size_t sizes[] = {0, 1, 7, 4096, 4097, 140001, 3000000};
#define SIZES (sizeof(sizes) / sizeof(*sizes) - (level_now() == LEVEL_FAST))

/* ------------------------------------------------------------------------------------------------------------ patterns */

static void ring(struct ranks *ranks, int rank) {
    struct mail *mail = mail_new(ranks, rank);
    int n = ranks->nranks;
    for (unsigned k = 0; k < SIZES; k++) {
        start(mail);
        mail_send(mail, (rank + 1) % n, k, sizes[k]);
        mail_recv(mail, (rank + n - 1) % n, k, sizes[k]);
        end(mail);
    }
    mail_destroy(mail);
}

static void a_ring_of_messages_of_all_sizes(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, ring, NULL);
    world_run_all(0, 4, NULL, ring, NULL);
}

static void a_ring_through_tiny_buffers(void **state) {
    (void)state;
    static const char *const tiny[] = {"COLLET_BUFFSIZE", "4096", "COLLET_CHUNKSIZE", "1000", NULL};
    world_run_all(0, 4, tiny, ring, NULL);
}

static void a_ring_whose_counters_wrap(void **state) {
    (void)state;
    static const char *const near_32[] = {"COLLET_FIRST_STEP", "4294967293", "COLLET_CHUNKSIZE", "50000", NULL};
    static const char *const near_64[] = {"COLLET_FIRST_STEP", "-3", "COLLET_CHUNKSIZE", "50000", NULL};
    world_run_all(0, 2, near_32, ring, NULL);
    world_run_all(0, 2, near_64, ring, NULL);
}

static void many_to_one(struct ranks *ranks, int rank) {
    struct mail *mail = mail_new(ranks, rank);
    for (unsigned k = 0; k < SIZES; k++) {
        if (rank == 0) {
            start(mail);
            for (int from = 1; from < ranks->nranks; from++)
                mail_recv(mail, from, k, sizes[k]);
            end(mail);
        } else {
            mail_send(mail, 0, k, sizes[k]); /* alone, outside any group */
            mail_settle(mail);
        }
    }
    mail_destroy(mail);
}

static void many_ranks_send_to_one(void **state) {
    (void)state;
    world_run_all(0, 4, NULL, many_to_one, NULL);
}

/* ------------------------------------------------------------------------------------------------------- more patterns */

static void one_to_many(struct ranks *ranks, int rank) {
    struct mail *mail = mail_new(ranks, rank);
    for (unsigned k = 0; k < SIZES; k++) {
        for (int to = 1; rank == 0 && to < ranks->nranks; to++)
            mail_send(mail, to, k, sizes[k]); /* one after the other: each blocks for itself only */
        if (rank != 0)
            mail_recv(mail, 0, k, sizes[k]);
        mail_settle(mail);
    }
    mail_destroy(mail);
}

static void one_rank_sends_to_many_one_after_the_other(void **state) {
    (void)state;
    world_run_all(0, 4, NULL, one_to_many, NULL);
}

/* Everyone to everyone, itself included, in an order of its own. */
static void exchange(struct ranks *ranks, int rank) {
    struct mail *mail = mail_new(ranks, rank);
    int n = ranks->nranks;
    for (unsigned k = 0; k < SIZES; k++) {
        start(mail);
        for (int i = 0; i < 2 * n; i++) {
            int call = (i * (rank % 2 ? 1 : 2 * n - 1) + rank * 3) % (2 * n); /* some permutation */
            if (call < n)
                mail_send(mail, call, k, sizes[k] / (unsigned)n);
            else
                mail_recv(mail, call - n, k, sizes[k] / (unsigned)n);
        }
        end(mail);
    }
    mail_destroy(mail);
}

static void everyone_sends_to_everyone_in_any_order(void **state) {
    (void)state;
    world_run_all(0, 1, NULL, exchange, NULL);
    world_run_all(0, 3, NULL, exchange, NULL);
    world_run_all(0, 8, NULL, exchange, NULL);
}

/* Many messages of one pair, both ways, of different sizes; the receiver's groups are cut differently. */
static void sequence(struct ranks *ranks, int rank) {
    enum { MESSAGES = 24 };
    struct mail *mail = mail_new(ranks, rank);
    for (int round = 0; round < 3; round++) {
        start(mail);
        for (unsigned k = 0; k < MESSAGES; k++) {
            size_t bytes = k * 37 % 5 == 0 ? 0 : numbers_hash(k, 1, 1) % 20000;
            if (rank % 2 == 0)
                mail_send(mail, rank + 1, k, bytes);
            else
                mail_recv(mail, rank - 1, k, bytes);
            bool cut = rank % 2 == 1 && k % 5 == 4; /* the sender has one group, the receiver several */
            if (cut) {
                end(mail);
                start(mail);
            }
        }
        end(mail);
    }
    mail_destroy(mail);
}

static void messages_of_a_pair_arrive_in_order(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, sequence, NULL);
    world_run_all(0, 4, NULL, sequence, NULL);
}

static void ping_pong(struct ranks *ranks, int rank) {
    struct mail *mail = mail_new(ranks, rank);
    for (unsigned k = 0; k < 200; k++) {
        size_t bytes = sizes[k % (SIZES - 1)] % 5000;
        if (rank == 0)
            mail_send(mail, 1, k, bytes);
        mail_recv(mail, 1 - rank, k, bytes);
        if (rank == 1)
            mail_send(mail, 0, k, bytes);
        mail_settle(mail);
    }
    mail_destroy(mail);
}

static void ping_pong_works_without_groups(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, ping_pong, NULL);
}

static void other_types(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int64_t x[3] = {11, -22, 33 + rank};
    int32_t y[6] = {0};
    if (rank == 0)
        ranks_try(ranks, rank, collet_send(x, 3, COLLET_INT64, 1, comm, NULL));
    else
        ranks_try(ranks, rank, collet_recv(y, 6, COLLET_INT32, 0, comm, NULL));
    int64_t expected[3] = {11, -22, 33};
    ranks_check(ranks, rank, rank == 0 || memcmp(y, expected, sizeof(expected)) == 0);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void types_of_the_two_ends_may_differ_if_bytes_are_equal(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, other_types, NULL);
}

/* A message without bytes still has to be sent before it can be received. */
static void wait_for_nothing(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int *sent = ranks->argument;
    if (rank == 0) {
        __atomic_store_n(sent, 0, __ATOMIC_RELEASE);
        ranks_barrier(ranks);
        ranks_sleep_ms(100);
        __atomic_store_n(sent, 1, __ATOMIC_RELEASE);
        ranks_try(ranks, rank, collet_send(NULL, 0, COLLET_INT32, 1, comm, NULL));
    } else {
        ranks_barrier(ranks);
        ranks_try(ranks, rank, collet_recv(NULL, 0, COLLET_INT32, 0, comm, NULL));
        ranks_check(ranks, rank, __atomic_load_n(sent, __ATOMIC_ACQUIRE) == 1);
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void a_message_without_bytes_is_waited_for(void **state) {
    (void)state;
    int *sent = ranks_share(sizeof(*sent));
    world_run_all(0, 2, NULL, wait_for_nothing, sent);
    ranks_unshare(sent, sizeof(*sent));
}

/* ------------------------------------------------------------------------------------- messages beside other calls */

static struct trial_call some_call(const struct ranks *ranks, enum prog_collective collective, unsigned number,
                                   size_t count) {
    return (struct trial_call){.collective = collective,
                               .type = COLLET_FLOAT32,
                               .op = COLLET_SUM,
                               .count = count,
                               .root = (int)number % ranks->nranks,
                               .nranks = ranks->nranks,
                               .seed = number};
}

static void add_call(struct ranks *ranks, int rank, struct collet_comm *comm, struct trial *trial,
                     enum prog_collective collective, unsigned number, size_t count) {
    struct trial_call call = some_call(ranks, collective, number, count);
    trial_prepare(trial, &call, rank);
    ranks_try(ranks, rank, trial_run(trial, comm));
}

static void settle_calls(struct ranks *ranks, struct trial *trials, int n) {
    char why[TRIAL_WHY_BYTES];
    for (int k = 0; k < n; k++) {
        if (!trial_check(&trials[k], why))
            ranks_fail(ranks, "call %d of the group: %s", k, why);
        trial_destroy(&trials[k]);
    }
}

/* One group: collectives of two communicators with messages of one of them between them. */
static void mixture(struct ranks *ranks, int rank) {
    struct mail *mail = mail_new(ranks, rank);
    struct collet_comm *other = ranks_comm(ranks, rank, NULL);
    int n = ranks->nranks, next = (rank + 1) % n, previous = (rank + n - 1) % n;
    struct trial trials[5];
    for (unsigned round = 0; round < 10; round++) {
        unsigned number = 10 * round;
        start(mail);
        add_call(ranks, rank, mail->comm, &trials[0], PROG_ALLREDUCE, number, 3000 * round);
        mail_send(mail, next, number, 5000);
        add_call(ranks, rank, other, &trials[1], PROG_ALLREDUCE, number + 1, 10);
        if (rank % 2) /* the order of messages to different peers is nobody's business */
            mail_recv(mail, next, number + 1, 70000);
        mail_recv(mail, previous, number, 5000);
        add_call(ranks, rank, mail->comm, &trials[2], PROG_BROADCAST, number + 2, 20000);
        if (rank % 2 == 0)
            mail_recv(mail, next, number + 1, 70000);
        mail_send(mail, previous, number + 1, 70000);
        add_call(ranks, rank, other, &trials[3], PROG_ALLTOALL, number + 3, 100);
        add_call(ranks, rank, mail->comm, &trials[4], PROG_REDUCE, number + 4, 77);
        end(mail);
        settle_calls(ranks, trials, 5);
    }
    ranks_try(ranks, rank, collet_comm_destroy(other));
    mail_destroy(mail);
}

static void messages_and_collectives_of_two_communicators_share_a_group(void **state) {
    (void)state;
    world_run_all(0, 3, NULL, mixture, NULL);
    world_run_all(0, 4, NULL, mixture, NULL);
}

/* Two communicators whose ranks are numbered in opposite order, and groups that name them in opposite order. */
static void opposite(struct ranks *ranks, int rank) {
    struct collet_comm *there = ranks_comm(ranks, rank, NULL), *back;
    int n = ranks->nranks, mirrored = n - 1 - rank;
    ranks_new_id(ranks, rank);
    ranks_try(ranks, rank, collet_comm_init_rank(&back, n, ranks->id, mirrored));
    for (unsigned round = 0; round < 20; round++) {
        struct trial trials[2];
        ranks_try(ranks, rank, collet_group_start());
        for (int k = 0; k < 2; k++) {
            bool first = (k + rank) % 2 == 0;
            struct trial_call call = some_call(ranks, first ? PROG_ALLREDUCE : PROG_ALLGATHER, round, 5000);
            trial_prepare(&trials[k], &call, first ? rank : mirrored);
            ranks_try(ranks, rank, trial_run(&trials[k], first ? there : back));
        }
        ranks_try(ranks, rank, collet_group_end());
        settle_calls(ranks, trials, 2);
    }
    ranks_try(ranks, rank, collet_comm_destroy(there));
    ranks_try(ranks, rank, collet_comm_destroy(back));
}

static void groups_may_name_communicators_in_any_order(void **state) {
    (void)state;
    world_run_all(0, 4, NULL, opposite, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_of_messages_of_all_sizes),
        cmocka_unit_test(a_ring_through_tiny_buffers),
        cmocka_unit_test(a_ring_whose_counters_wrap),
        cmocka_unit_test(many_ranks_send_to_one),
        cmocka_unit_test(one_rank_sends_to_many_one_after_the_other),
        cmocka_unit_test(everyone_sends_to_everyone_in_any_order),
        cmocka_unit_test(messages_of_a_pair_arrive_in_order),
        cmocka_unit_test(ping_pong_works_without_groups),
        cmocka_unit_test(types_of_the_two_ends_may_differ_if_bytes_are_equal),
        cmocka_unit_test(a_message_without_bytes_is_waited_for),
        cmocka_unit_test(messages_and_collectives_of_two_communicators_share_a_group),
        cmocka_unit_test(groups_may_name_communicators_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
