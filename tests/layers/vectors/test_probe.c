/* SPDX-License-Identifier: Apache-2.0
 *
 * Probes tell a rank from which other rank a message has come. The message has not been received yet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/level.h"
#include "common/mail.h"
#include "common/world.h"

#include <string.h>

static const size_t sizes[] = {0, 1, 7, 4096, 4097, 140001, 3000000};
#define SIZES (sizeof(sizes) / sizeof(*sizes) - (level_now() == LEVEL_FAST))

/* Rank 0 takes what comes, from whom it comes; messages of one rank still come in order. */
static void take_from_any(struct mail *mail) {
    int n = mail->ranks->nranks;
    unsigned next[RANKS_MAX] = {0};
    for (unsigned k = 0; k < SIZES * (unsigned)(n - 1); k++) {
        int peer = -1;
        ranks_try(mail->ranks, 0, collet_probe(&peer, mail->comm, NULL));
        ranks_check(mail->ranks, 0, peer > 0 && peer < n && next[peer] < SIZES);
        mail_recv(mail, peer, next[peer], sizes[next[peer]]);
        next[peer]++;
        mail_settle(mail);
    }
}

static void any_to_one(struct ranks *ranks, int rank) {
    struct mail *mail = mail_new(ranks, rank);
    if (rank == 0)
        take_from_any(mail);
    for (unsigned k = 0; rank != 0 && k < SIZES; k++) {
        mail_send(mail, 0, k, sizes[k]);
        mail_settle(mail);
    }
    mail_destroy(mail);
}

static void a_probe_finds_messages_of_all_ranks(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, any_to_one, NULL);
    world_run_all(0, 4, NULL, any_to_one, NULL);
}

/* Rank 0 probes on a stream, and makes other calls, which end only if the probe keeps nobody waiting. */
static void probe_beside_calls(struct ranks *ranks, int rank) {
    struct mail *mail = mail_new(ranks, rank);
    struct collet_stream *stream;
    int peer = -1;
    ranks_try(ranks, rank, collet_stream_create(&stream));
    if (rank == 0)
        ranks_try(ranks, rank, collet_probe(&peer, mail->comm, stream));
    ranks_try(ranks, rank, collet_barrier(mail->comm, NULL));
    if (rank == 1)
        mail_send(mail, 0, 0, sizes[SIZES - 1]);
    if (rank == 0) {
        ranks_try(ranks, rank, collet_stream_synchronize(stream));
        ranks_check(ranks, rank, peer == 1);
        mail_recv(mail, 1, 0, sizes[SIZES - 1]);
    }
    mail_settle(mail);
    ranks_try(ranks, rank, collet_stream_destroy(stream));
    mail_destroy(mail);
}

static void a_probe_on_a_stream_keeps_nobody_waiting(void **state) {
    (void)state;
    world_run_all(0, 3, NULL, probe_beside_calls, NULL);
}

/* Rank 1 keeps its communicator until rank 0 has given up. */
static void probe_in_vain(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof(config), .timeout_ms = 100};
    struct collet_comm *comm = ranks_comm(ranks, rank, &config);
    int peer = -1;
    if (rank == 0) {
        ranks_expect(ranks, rank, collet_probe(NULL, comm, NULL), COLLET_ERR_INVALID_ARGUMENT, "a probe to nowhere");
        ranks_expect(ranks, rank, collet_probe(&peer, comm, NULL), COLLET_ERR_TIMEOUT, "a probe");
        ranks_check(ranks, rank, strstr(collet_last_error(NULL), "collet_probe()") != NULL && peer == -1);
    }
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void a_probe_ends_at_the_timeout(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, probe_in_vain, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_probe_finds_messages_of_all_ranks),
        cmocka_unit_test(a_probe_on_a_stream_keeps_nobody_waiting),
        cmocka_unit_test(a_probe_ends_at_the_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
