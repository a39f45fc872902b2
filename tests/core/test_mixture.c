/* SPDX-License-Identifier: Apache-2.0
 *
 * Many calls of every kind, one after the other and in groups, on two communicators that live long: what one call leaves
 * behind in connections must not matter to the next. Small ones use LL, larger ones Simple, on the same connections. The
 * calls are random, from fixed seeds; every result is checked.
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

#define COMMS 2
#define GROUP_MAX 4

struct player {
    struct ranks *ranks;
    int rank;
    struct collet_comm *comms[COMMS];
    struct mail mail[COMMS];
    struct trial trials[GROUP_MAX];
    int ntrials;
};

static size_t random_count(uint64_t dice) {
    static const size_t most[] = {17, 64, 64, 300, 1500, 1500, 6000, 30000};
    return (dice >> 8) % (most[dice % 8] + 1);
}

static void play_collective(struct player *p, uint64_t dice, int which) {
    static const enum prog_collective collectives[] = {PROG_ALLREDUCE, PROG_ALLREDUCE, PROG_ALLREDUCE,
                                                       PROG_REDUCE,    PROG_BROADCAST, PROG_REDUCESCATTER,
                                                       PROG_ALLGATHER, PROG_ALLTOALL};
    enum collet_type type = (enum collet_type)((dice >> 8) % COLLET_TYPE_COUNT);
    struct trial_call call = {
        .collective = collectives[dice % 8],
        .type = type,
        .op = trial_op(type, dice >> 16),
        .count = random_count(dice >> 24),
        .root = (int)((dice >> 48) % (unsigned)p->ranks->nranks),
        .nranks = p->ranks->nranks,
        .in_place = (dice >> 56) % 2,
        .seed = dice,
    };
    call.in_place = call.in_place && trial_may_be_in_place(call.collective);
    struct trial *trial = &p->trials[p->ntrials++];
    trial_prepare(trial, &call, p->rank);
    ranks_try(p->ranks, p->rank, trial_run(trial, p->comms[which]));
}

/* Everyone sends to the rank at some distance, which may be 0. */
static void play_messages(struct player *p, uint64_t dice, int which) {
    int n = p->ranks->nranks, distance = (int)(dice % (unsigned)n);
    size_t bytes = random_count(dice >> 8);
    mail_send(&p->mail[which], (p->rank + distance) % n, (unsigned)(dice >> 32), bytes);
    mail_recv(&p->mail[which], (p->rank + n - distance) % n, (unsigned)(dice >> 32), bytes);
}

static void settle(struct player *p) {
    char why[TRIAL_WHY_BYTES], name[TRIAL_NAME_BYTES];
    for (int k = 0; k < p->ntrials; k++) {
        trial_name(&p->trials[k].call, name);
        if (!trial_check(&p->trials[k], why))
            ranks_fail(p->ranks, "%s; call %d of its group, %s: %s", p->ranks->doing, k, name, why);
        trial_destroy(&p->trials[k]);
    }
    p->ntrials = 0;
    for (int which = 0; which < COMMS; which++)
        mail_settle(&p->mail[which]);
}

static void play_round(struct player *p, unsigned round) {
    uint64_t dice = numbers_hash(round, 77, 0);
    int calls = dice % 3 == 0 ? 1 + (int)((dice >> 8) % GROUP_MAX) : 1;
    bool messages = (dice >> 16) % 8 == 0, grouped = calls > 1 || messages;
    if (grouped)
        ranks_try(p->ranks, p->rank, collet_group_start());
    if (messages)
        play_messages(p, numbers_hash(round, 77, 1000), (int)((dice >> 24) % COMMS));
    for (int k = 0; k < calls; k++)
        play_collective(p, numbers_hash(round, 77, (uint64_t)k + 1), (int)((dice >> (32 + k)) % COMMS));
    if (grouped)
        ranks_try(p->ranks, p->rank, collet_group_end());
    settle(p);
}

static void play(struct ranks *ranks, int rank) {
    struct player *p = calloc(1, sizeof(*p));
    unsigned rounds = *(unsigned *)ranks->argument;
    p->ranks = ranks;
    p->rank = rank;
    for (int which = 0; which < COMMS; which++) {
        p->comms[which] = ranks_comm(ranks, rank, NULL);
        mail_open(&p->mail[which], ranks, rank, p->comms[which]);
    }
    for (unsigned round = 0; round < rounds; round++) {
        if (rank == 0)
            ranks_doing(ranks, "round %u", round);
        play_round(p, round);
    }
    for (int which = 0; which < COMMS; which++)
        ranks_try(ranks, rank, collet_comm_destroy(p->comms[which]));
    free(p);
}

static void play_everywhere(unsigned rounds, const char *const *variables) {
    rounds = level_now() == LEVEL_FAST ? rounds / 12 : level_now() == LEVEL_FULL ? rounds * 8 : rounds;
    world_run_all(0, 2, variables, play, &rounds);
    world_run_all(0, 3, variables, play, &rounds);
    if (level_now() != LEVEL_FAST)
        world_run_all(0, 4, variables, play, &rounds);
}

static void with_the_defaults(void **state) {
    (void)state;
    play_everywhere(200, NULL);
}

/* Flags have 5 bits: they come round every 32 steps. */
static void while_counters_pass_32_bits(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_FIRST_STEP", "4294967293", "COLLET_LL_FLAG_BITS", "5", NULL};
    play_everywhere(600, variables);
}

static void while_counters_pass_64_bits(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_FIRST_STEP", "-3", "COLLET_LL_FLAG_BITS", "5", NULL};
    play_everywhere(200, variables);
}

static void with_tiny_buffers(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_BUFFSIZE", "4096", "COLLET_CHUNKSIZE", "100", NULL};
    play_everywhere(100, variables);
}

/* Slots so long that those of connections to all others must be shorter: two connections between the same ranks. */
static void with_shorter_slots_where_a_rank_has_many_peers(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_BUFFSIZE", "256M", "COLLET_CHUNKSIZE", "4096", NULL};
    unsigned rounds = 60;
    world_run_all(0, 2, variables, play, &rounds);
    world_run_all(0, 3, variables, play, &rounds);
}

static void with_chunks_smaller_than_an_element(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_CHUNKSIZE", "3", NULL};
    play_everywhere(40, variables);
}

static void with_three_channels(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_NCHANNELS", "3", "COLLET_BUFFSIZE", "65536", NULL};
    play_everywhere(100, variables);
}

static void with_impatient_waits_and_streamed_stores(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_SPIN", "0", "COLLET_NT_STORES", "1", NULL};
    play_everywhere(100, variables);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_the_defaults),
        cmocka_unit_test(while_counters_pass_32_bits),
        cmocka_unit_test(while_counters_pass_64_bits),
        cmocka_unit_test(with_tiny_buffers),
        cmocka_unit_test(with_shorter_slots_where_a_rank_has_many_peers),
        cmocka_unit_test(with_chunks_smaller_than_an_element),
        cmocka_unit_test(with_three_channels),
        cmocka_unit_test(with_impatient_waits_and_streamed_stores),
    };
    return cmocka_run_group_tests_name("mixtures of calls are right", tests, NULL, NULL);
}
