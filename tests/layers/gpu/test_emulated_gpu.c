/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators of GPUs, from collet.h down to the calls of CUDA, with a driver that emulates those (emulated_gpu.h).
 */
#include "api/comm.h"
#include "common/emulated_gpu.h"
#include "common/level.h"
#include "common/ranks.h"
#include "common/trial.h"

#include <setjmp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS 4
#define GPUS 4

static void must(struct ranks *ranks, enum collet_result result) {
    if (result != COLLET_SUCCESS)
        ranks_fail(ranks, "%s: %s", collet_error_string(result), collet_last_error(NULL));
}

static _Thread_local uint64_t random_state = 88172645463325252ull;
static uint32_t random_below(uint32_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % n;
}

static struct trial_call random_call(int nranks) {
    static const size_t counts[] = {1, 7, 129, 2000, 20000};
    enum prog_collective collective = (enum prog_collective)random_below(PROG_ALLGATHERV);
    enum collet_type type = (enum collet_type)random_below(COLLET_TYPE_COUNT);
    return (struct trial_call){
        .collective = collective,
        .type = type,
        .op = trial_op(type, random_below(1000)),
        .count = 1 + random_below((uint32_t)counts[random_below(5)]),
        .root = trial_has_root(collective) ? (int)random_below((uint32_t)nranks) : 0,
        .nranks = nranks,
        .in_place = trial_may_be_in_place(collective) && random_below(2),
        .seed = random_state,
    };
}

/* ---- all ranks in one thread, groups ---- */

struct team {
    struct collet_comm *comms[RANKS];
    void *streams[RANKS];
};

static void team_init(struct team *team, const int *gpus) {
    int devices[RANKS];
    gpu_driver_use(&emulated_gpu_driver);
    for (int rank = 0; rank < RANKS; rank++) {
        devices[rank] = COLLET_DEVICE_CUDA(gpus[rank]);
        team->streams[rank] = emulated_stream_create();
    }
    assert_int_equal(collet_comm_init_all(team->comms, RANKS, devices), COLLET_SUCCESS);
}

static void team_fini(struct team *team) {
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(collet_comm_destroy(team->comms[rank]), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        emulated_stream_destroy(team->streams[rank]);
}

static void run_group(struct team *team, int ncalls) {
    struct trial trials[3][RANKS];
    char why[TRIAL_WHY_BYTES], name[TRIAL_NAME_BYTES];
    for (int k = 0; k < ncalls; k++) {
        struct trial_call call = random_call(RANKS);
        for (int rank = 0; rank < RANKS; rank++)
            trial_prepare(&trials[k][rank], &call, rank);
    }
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        for (int k = 0; k < ncalls; k++)
            assert_int_equal(trial_run_in(&trials[k][rank], team->comms[rank], team->streams[rank]), COLLET_SUCCESS);
    if (collet_group_end() != COLLET_SUCCESS)
        fail_msg("group of %d calls: %s", ncalls, collet_last_error(NULL));
    for (int rank = 0; rank < RANKS; rank++)
        emulated_stream_wait(team->streams[rank]);
    for (int k = 0; k < ncalls; k++)
        for (int rank = 0; rank < RANKS; rank++) {
            trial_name(&trials[k][rank].call, name);
            if (!trial_check(&trials[k][rank], why))
                fail_msg("%s, rank %d: %s", name, rank, why);
            trial_destroy(&trials[k][rank]);
        }
}

static void run_groups(const int *gpus) {
    int rounds = level_now() == LEVEL_FAST ? 15 : level_now() == LEVEL_NORMAL ? 60 : 1000;
    struct team team;
    team_init(&team, gpus);
    for (int k = 0; k < rounds; k++)
        run_group(&team, 1 + (int)random_below(3));
    team_fini(&team);
}

static void ranks_on_one_gpu_are_launched_together(void **state) {
    (void)state;
    uint32_t before = emulated_launches();
    struct team team;
    team_init(&team, (const int[]){0, 0, 0, 0});
    run_group(&team, 1);
    assert_int_equal(emulated_launches(), before + 1);
    team_fini(&team);
    run_groups((const int[]){0, 0, 0, 0});
}

static void ranks_on_several_gpus_work_together(void **state) {
    (void)state;
    run_groups((const int[]){0, 1, 1, 0});
}

static void what_is_split_from_ranks_on_gpus_is_on_them_too(void **state) {
    (void)state;
    struct team team, turned;
    int device;
    team_init(&team, (const int[]){0, 1, 1, 0});
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++) {
        const int new_rank = RANKS - 1 - rank;
        assert_int_equal(collet_comm_split(team.comms[rank], 0, -rank, &turned.comms[new_rank], NULL), COLLET_SUCCESS);
        turned.streams[new_rank] = team.streams[rank];
    }
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    assert_int_equal(collet_comm_device(turned.comms[2], &device), COLLET_SUCCESS);
    assert_int_equal(device, COLLET_DEVICE_CUDA(1));
    run_group(&turned, 3);
    run_group(&team, 3);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(collet_comm_destroy(team.comms[rank]), COLLET_SUCCESS);
    run_group(&turned, 3);
    team_fini(&turned);
}

static void gpus_that_do_not_reach_each_other_use_pinned_memory(void **state) {
    (void)state;
    static const uint32_t alone[] = {1, 2}, all[] = {~0u, ~0u};
    emulated_gpu_set(2, alone, 64);
    run_groups((const int[]){0, 1, 0, 1});
    emulated_gpu_set(2, all, 64);
}

static void what_does_not_fit_is_launched_channel_by_channel(void **state) {
    (void)state;
    setenv("COLLET_NCHANNELS", "8", 1);
    emulated_gpu_set(2, NULL, 20);
    run_groups((const int[]){0, 0, 0, 0});
    emulated_gpu_set(2, NULL, 3);
    struct team team;
    static float buffer[RANKS];
    team_init(&team, (const int[]){0, 0, 0, 0});
    collet_group_start();
    for (int rank = 0; rank < RANKS; rank++)
        collet_allreduce(&buffer[rank], &buffer[rank], 1, COLLET_FLOAT32, COLLET_SUM, team.comms[rank],
                         team.streams[rank]);
    assert_int_equal(collet_group_end(), COLLET_ERR_UNSUPPORTED);
    assert_non_null(strstr(collet_last_error(NULL), "the GPU runs 3"));
    team_fini(&team);
    emulated_gpu_set(2, NULL, 64);
    unsetenv("COLLET_NCHANNELS");
}

static void operations_keep_their_order_across_streams(void **state) {
    (void)state;
    static float data[RANKS];
    struct team team;
    void *other[2] = {emulated_stream_create(), emulated_stream_create()}; /* one a GPU */
    team_init(&team, (const int[]){0, 0, 1, 1});
    for (int round = 0; round < 6; round++) {
        for (int rank = 0; rank < RANKS; rank++)
            data[rank] = 1;
        emulated_stream_delay(team.streams[0], 20);
        for (int k = 0; k < 3; k++) { /* 4, 16, 64; every second one in another stream, which would be faster */
            collet_group_start();
            for (int rank = 0; rank < RANKS; rank++)
                collet_allreduce(&data[rank], &data[rank], 1, COLLET_FLOAT32, COLLET_SUM, team.comms[rank],
                                 k % 2 ? other[rank / 2] : team.streams[rank]);
            assert_int_equal(collet_group_end(), COLLET_SUCCESS);
        }
        for (int rank = 0; rank < RANKS; rank++)
            emulated_stream_wait(team.streams[rank]);
        emulated_stream_wait(other[0]);
        emulated_stream_wait(other[1]);
        for (int rank = 0; rank < RANKS; rank++)
            assert_true(data[rank] == 64);
    }
    team_fini(&team);
    emulated_stream_destroy(other[0]);
    emulated_stream_destroy(other[1]);
}

/* One grid for all, in the stream of one rank. While it runs, the streams of the other ranks stand still. */
static void each_rank_of_a_grid_finds_its_result_in_its_own_stream(void **state) {
    (void)state;
    static float data[RANKS], late;
    struct team team;
    team_init(&team, (const int[]){0, 0, 0, 0});
    for (int rank = 0; rank < RANKS; rank++)
        data[rank] = 1;
    late = 5;
    emulated_stream_delay(team.streams[0], 50);
    emulated_stream_delay(team.streams[2], 100);
    assert_int_equal(emulated_gpu_driver.streams->copy(&data[2], &late, sizeof(late), team.streams[2]), COLLET_SUCCESS);
    collet_group_start();
    for (int rank = 0; rank < RANKS; rank++)
        collet_allreduce(&data[rank], &data[rank], 1, COLLET_FLOAT32, COLLET_SUM, team.comms[rank], team.streams[rank]);
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    emulated_stream_wait(team.streams[1]);
    assert_true(data[1] == 8);
    team_fini(&team);
}

/* ---- direct access ---- */

#define LENT 30000u

/* Slots that ranks have lent. */
static uint64_t loans_of(const struct team *team) {
    uint64_t loans = 0;
    for (int rank = 0; rank < RANKS; rank++)
        for (const struct conn *c = team->comms[rank]->chan->owner.first; c != NULL; c = c->next)
            if (c->side == CONN_PRODUCER && c->end_on_gpu != NULL)
                loans += c->end_on_gpu->loans.until - c->end.loans.until;
    return loans;
}

/* Each rank's buffers are of collet_mem_alloc(), or not. Returns how many slots were lent. */
static uint64_t gather_with_loans(const int *gpus, bool ours) {
    struct team team;
    uint32_t *in[RANKS], *out[RANKS];
    team_init(&team, gpus);
    for (int rank = 0; rank < RANKS; rank++) {
        void *memory = NULL;
        if (ours)
            assert_int_equal(collet_mem_alloc(&memory, (RANKS + 1) * LENT * 4, COLLET_DEVICE_CUDA(gpus[rank])),
                             COLLET_SUCCESS);
        in[rank] = ours ? memory : malloc((RANKS + 1) * LENT * 4);
        out[rank] = in[rank] + LENT;
        for (uint32_t k = 0; k < LENT; k++)
            in[rank][k] = (uint32_t)rank << 24 | k;
    }
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        collet_allgather(in[rank], out[rank], LENT, COLLET_UINT32, team.comms[rank], team.streams[rank]);
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        emulated_stream_wait(team.streams[rank]);
    for (int rank = 0; rank < RANKS; rank++)
        for (uint32_t k = 0; k < RANKS * LENT; k++)
            assert_int_equal(out[rank][k], (k / LENT) << 24 | k % LENT);
    uint64_t loans = loans_of(&team);
    for (int rank = 0; rank < RANKS; rank++)
        if (ours)
            assert_int_equal(collet_mem_free(in[rank]), COLLET_SUCCESS);
        else
            free(in[rank]);
    team_fini(&team);
    return loans;
}

static void memory_is_read_on_one_gpu_and_that_of_collet_over_nvlink(void **state) {
    (void)state;
    static const uint32_t all[] = {3, 3};
    static const int two[] = {0, 1, 1, 0}, apart[] = {0, 1, 0, 1};
    setenv("COLLET_PROTO", "Simple", 1);
    setenv("COLLET_ALGO", "direct", 1);
    setenv("COLLET_NCHANNELS", "2", 1); /* more would cut messages into parts that are not worth it */
    emulated_gpu_set_nvlink(all);
    uint64_t joined = gather_with_loans(two, true), own = gather_with_loans(two, false);
    assert_true(own > 0 && own < joined); /* other GPUs may not reach what is not of collet_mem_alloc() */
    setenv("COLLET_DIRECT", "off", 1);
    assert_int_equal(gather_with_loans(two, true), 0);
    assert_int_equal(gather_with_loans(two, false), 0);
    unsetenv("COLLET_DIRECT");
    emulated_gpu_set_nvlink(NULL); /* now ranks of one GPU alone lend to each other */
    uint64_t loans = gather_with_loans(apart, true);
    assert_int_equal(loans, own); /* as many ranks share a GPU */
    emulated_gpu_set_nvlink(all);
    assert_true(gather_with_loans(apart, true) > loans);
    emulated_gpu_set_nvlink(NULL);
    unsetenv("COLLET_PROTO");
    unsetenv("COLLET_ALGO");
    unsetenv("COLLET_NCHANNELS");
}

static void graphs_are_replayed(void **state) {
    (void)state;
    static float data[RANKS];
    struct team team;
    team_init(&team, (const int[]){0, 0, 0, 0});
    for (int size = 0; size < 2; size++) {
        emulated_capture_begin(team.streams[0]);
        collet_group_start();
        for (int rank = 0; rank < RANKS; rank++)
            collet_allreduce(&data[rank], &data[rank], 1, COLLET_FLOAT32, COLLET_SUM, team.comms[rank],
                             team.streams[0]);
        assert_int_equal(collet_group_end(), COLLET_SUCCESS);
        void *graph = emulated_capture_end(team.streams[0]);
        for (int rank = 0; rank < RANKS; rank++)
            data[rank] = 1;
        for (int replay = 0; replay < 10; replay++)
            emulated_graph_run(graph, team.streams[1]);
        emulated_stream_wait(team.streams[1]);
        for (int rank = 0; rank < RANKS; rank++)
            assert_true(data[rank] == 1048576);
        emulated_graph_destroy(graph);
    }
    team_fini(&team);
}

static enum collet_result sum_in_a_group(struct team *team, float *data) {
    collet_group_start();
    for (int rank = 0; rank < RANKS; rank++)
        collet_allreduce(&data[rank], &data[rank], 1, COLLET_FLOAT32, COLLET_SUM, team->comms[rank],
                         team->streams[rank]);
    enum collet_result result = collet_group_end();
    for (int rank = 0; rank < RANKS; rank++)
        emulated_stream_wait(team->streams[rank]);
    return result;
}

/* Each stream is in a capture of its own: every graph has the call of its rank. */
static void ranks_in_captures_of_their_own_are_launched_apart(void **state) {
    (void)state;
    static float data[RANKS];
    struct team team;
    void *graphs[RANKS];
    team_init(&team, (const int[]){0, 0, 0, 1});
    assert_int_equal(sum_in_a_group(&team, data), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++) {
        emulated_capture_begin(team.streams[rank]);
        data[rank] = 1;
    }
    assert_int_equal(sum_in_a_group(&team, data), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        graphs[rank] = emulated_capture_end(team.streams[rank]);
    for (int replay = 0; replay < 5; replay++)
        for (int rank = 0; rank < RANKS; rank++)
            emulated_graph_run(graphs[rank], team.streams[rank]);
    for (int rank = 0; rank < RANKS; rank++) {
        emulated_stream_wait(team.streams[rank]);
        assert_true(data[rank] == 1024);
        emulated_graph_destroy(graphs[rank]);
    }
    team_fini(&team);
}

/* ---- threads whose ranks share a GPU ---- */

struct caller {
    struct team *team;
    int rank, calls;
    float *number;
    enum collet_result result;
    char text[512];
};

static void *call_for_one_rank(void *caller_) {
    struct caller *caller = caller_;
    const int rank = caller->rank;
    for (int call = 0; call < caller->calls && caller->result == COLLET_SUCCESS; call++)
        caller->result = collet_allreduce(caller->number, caller->number, 1, COLLET_FLOAT32, COLLET_SUM,
                                          caller->team->comms[rank], caller->team->streams[rank]);
    snprintf(caller->text, sizeof(caller->text), "%s", collet_last_error(NULL));
    return NULL;
}

/* calls[rank]: how many its thread makes. */
static void run_threads(struct team *team, const int calls[RANKS], struct caller callers[RANKS]) {
    static float data[RANKS];
    pthread_t threads[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        data[rank] = 1;
        callers[rank] = (struct caller){.team = team, .rank = rank, .calls = calls[rank], .number = &data[rank]};
        assert_int_equal(pthread_create(&threads[rank], NULL, call_for_one_rank, &callers[rank]), 0);
    }
    for (int rank = 0; rank < RANKS; rank++)
        pthread_join(threads[rank], NULL);
}

static void threads_whose_ranks_share_a_gpu_share_launches(void **state) {
    (void)state;
    static float data[RANKS];
    struct team team;
    struct caller callers[RANKS];
    team_init(&team, (const int[]){0, 0, 0, 1});
    assert_int_equal(sum_in_a_group(&team, data), COLLET_SUCCESS);
    uint32_t before = emulated_launches();
    run_threads(&team, (const int[]){3, 3, 3, 3}, callers);
    for (int rank = 0; rank < RANKS; rank++) {
        emulated_stream_wait(team.streams[rank]);
        assert_int_equal(callers[rank].result, COLLET_SUCCESS);
        assert_true(*callers[rank].number == 64);
    }
    assert_int_equal(emulated_launches() - before, 6); /* one a call and GPU */
    team_fini(&team);
}

static void a_thread_that_does_not_come_is_named(void **state) {
    (void)state;
    static float data[RANKS];
    struct team team;
    struct caller callers[RANKS];
    setenv("COLLET_TIMEOUT", "1", 1);
    team_init(&team, (const int[]){0, 0, 0, 0});
    assert_int_equal(sum_in_a_group(&team, data), COLLET_SUCCESS);
    run_threads(&team, (const int[]){2, 2, 1, 2}, callers);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(callers[rank].result, rank == 2 ? COLLET_SUCCESS : COLLET_ERR_TIMEOUT);
    assert_non_null(strstr(callers[0].text, "waiting for rank 2: did it make this call?"));
    for (int rank = 0; rank < RANKS; rank++) {
        collet_comm_abort(team.comms[rank]);
        emulated_stream_wait(team.streams[rank]);
        emulated_stream_destroy(team.streams[rank]);
    }
    unsetenv("COLLET_TIMEOUT");
}

/* A thread has made calls for two ranks. Then it cannot wait for the one in a call for the other. */
static void a_thread_with_two_ranks_waits_for_neither(void **state) {
    (void)state;
    static float data[RANKS];
    struct team team;
    team_init(&team, (const int[]){0, 0, 0, 0});
    assert_int_equal(sum_in_a_group(&team, data), COLLET_SUCCESS); /* all have the program then */
    for (int rank = 0; rank < RANKS; rank++)
        emulated_stream_wait(team.streams[rank]);
    for (int rank = 0; rank < RANKS; rank++)
        data[rank] = 1;
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(collet_allreduce(&data[rank], &data[rank], 1, COLLET_FLOAT32, COLLET_SUM, team.comms[rank],
                                          team.streams[rank]),
                         COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++) {
        emulated_stream_wait(team.streams[rank]);
        assert_true(data[rank] == RANKS);
    }
    team_fini(&team);
}

/* Short ones have one channel and long ones several, and all go into the same launches. */
static void messages_of_a_group_meet(void **state) {
    (void)state;
    enum { MOST = 20000, TIMES = 3 };
    static const size_t counts[TIMES] = {5, 3000, MOST};
    static int32_t out[RANKS][RANKS][TIMES][MOST], in[RANKS][RANKS][TIMES][MOST];
    struct team team;
    team_init(&team, (const int[]){0, 0, 1, 1});
    for (int from = 0; from < RANKS; from++)
        for (int to = 0; to < RANKS; to++)
            for (int time = 0; time < TIMES; time++)
                for (int k = 0; k < MOST; k++)
                    out[from][to][time][k] = ((from * RANKS + to) * TIMES + time) * MOST + k;
    collet_group_start();
    for (int rank = 0; rank < RANKS; rank++)
        for (int peer = 0; peer < RANKS; peer++)
            for (int time = 0; time < TIMES; time++) {
                size_t count = counts[(time + rank + peer) % TIMES];
                collet_recv(in[rank][peer][time], count, COLLET_INT32, peer, team.comms[rank], team.streams[rank]);
                collet_send(out[rank][peer][time], count, COLLET_INT32, peer, team.comms[rank], team.streams[rank]);
            }
    if (collet_group_end() != COLLET_SUCCESS)
        fail_msg("%s", collet_last_error(NULL));
    for (int rank = 0; rank < RANKS; rank++)
        emulated_stream_wait(team.streams[rank]);
    for (int rank = 0; rank < RANKS; rank++)
        for (int peer = 0; peer < RANKS; peer++)
            for (int time = 0; time < TIMES; time++)
                assert_memory_equal(in[rank][peer][time], out[peer][rank][time],
                                    counts[(time + rank + peer) % TIMES] * sizeof(int32_t));
    team_fini(&team);
}

/* Blocks of the largest launch when a rank sends so many bytes to a rank on another GPU. */
static uint32_t blocks_of_message(size_t bytes) {
    static char out[512 << 10], in[512 << 10];
    struct team team;
    team_init(&team, (const int[]){0, 1, 0, 1});
    emulated_gpu_set(2, NULL, 64);
    collet_group_start();
    collet_send(out, bytes, COLLET_UINT8, 1, team.comms[0], team.streams[0]);
    collet_recv(in, bytes, COLLET_UINT8, 0, team.comms[1], team.streams[1]);
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    emulated_stream_wait(team.streams[1]);
    team_fini(&team);
    return emulated_most_blocks();
}

static void a_long_message_has_as_many_channels_as_a_collective(void **state) {
    (void)state;
    assert_int_equal(blocks_of_message(1000), 1);
    assert_int_equal(blocks_of_message(512 << 10), 16);
    setenv("COLLET_MAX_NCHANNELS", "4", 1);
    assert_int_equal(blocks_of_message(512 << 10), 4);
    unsetenv("COLLET_MAX_NCHANNELS");
}

/* ---- failures ---- */

static void an_abort_ends_what_hangs(void **state) {
    (void)state;
    static float data[RANKS];
    struct team team;
    enum collet_result seen = COLLET_SUCCESS;
    team_init(&team, (const int[]){0, 1, 0, 1});
    run_group(&team, 1);
    /* Ranks of one thread meet before a program's first use, so this must be one that all have used. */
    for (int round = 0; round < 2; round++) {
        collet_group_start();
        for (int rank = 0; rank < (round == 0 ? RANKS : 3); rank++)
            collet_allreduce(&data[rank], &data[rank], 1, COLLET_FLOAT32, COLLET_SUM, team.comms[rank],
                             team.streams[rank]);
        assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    }
    assert_int_equal(collet_comm_abort(team.comms[3]), COLLET_SUCCESS); /* rank 3 never came */
    for (int rank = 0; rank < 3; rank++)
        emulated_stream_wait(team.streams[rank]);
    assert_int_equal(collet_comm_get_async_error(team.comms[0], &seen), COLLET_SUCCESS);
    assert_int_equal(seen, COLLET_ERR_ABORTED);
    for (int rank = 0; rank < 3; rank++)
        collet_comm_abort(team.comms[rank]);
    for (int rank = 0; rank < RANKS; rank++)
        emulated_stream_destroy(team.streams[rank]);
}

/* Two ranks on a GPU each, in one thread, with a program that both have used. */
static void pair_init(struct collet_comm **comms, void **streams) {
    static float data[2];
    gpu_driver_use(&emulated_gpu_driver);
    assert_int_equal(collet_comm_init_all(comms, 2, (const int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(1)}),
                     COLLET_SUCCESS);
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int rank = 0; rank < 2; rank++) {
        streams[rank] = emulated_stream_create();
        collet_allreduce(&data[rank], &data[rank], 1, COLLET_FLOAT32, COLLET_SUM, comms[rank], streams[rank]);
    }
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
}

static void pair_ends_in(struct collet_comm **comms, void **streams, enum collet_result expected, const char *text) {
    enum collet_result seen = COLLET_SUCCESS;
    for (int rank = 0; rank < 2; rank++) {
        emulated_stream_wait(streams[rank]);
        emulated_stream_destroy(streams[rank]);
    }
    for (int looks = 0; looks < 500 && seen == COLLET_SUCCESS; looks++) { /* the thread collet-gpu has yet to see it */
        assert_int_equal(collet_comm_get_async_error(comms[0], &seen), COLLET_SUCCESS);
        ranks_sleep_ms(10);
    }
    assert_int_equal(seen, expected);
    if (strstr(collet_last_error(comms[0]), text) == NULL)
        fail_msg("%s", collet_last_error(comms[0]));
    for (int rank = 0; rank < 2; rank++)
        collet_comm_abort(comms[rank]);
}

static void a_rank_that_does_not_come_is_waited_for_no_longer_than_the_timeout(void **state) {
    (void)state;
    for (int ll = 0; ll < 2; ll++) {
        struct collet_comm *comms[2];
        void *streams[2];
        static float data;
        setenv("COLLET_TIMEOUT", "1", 1);
        setenv("COLLET_PROTO", ll ? "LL" : "Simple", 1);
        pair_init(comms, streams);
        assert_int_equal(collet_allreduce(&data, &data, 1, COLLET_FLOAT32, COLLET_SUM, comms[0], streams[0]),
                         COLLET_SUCCESS);
        pair_ends_in(comms, streams, COLLET_ERR_TIMEOUT,
                     "rank 0 made no progress for 1.0 s in allreduce (call 2), waiting for rank 1");
    }
    unsetenv("COLLET_TIMEOUT");
    unsetenv("COLLET_PROTO");
}

static void ranks_that_make_different_calls_are_told(void **state) {
    (void)state;
    for (int ll = 0; ll < 2; ll++) {
        struct collet_comm *comms[2];
        void *streams[2];
        static float data[2][8];
        setenv("COLLET_PROTO", ll ? "LL" : "Simple", 1);
        pair_init(comms, streams);
        for (int rank = 0; rank < 2; rank++)
            assert_int_equal(collet_allreduce(data[rank], data[rank], 1, COLLET_FLOAT32, rank ? COLLET_MAX : COLLET_SUM,
                                              comms[rank], streams[rank]),
                             COLLET_SUCCESS);
        pair_ends_in(comms, streams, COLLET_ERR_MISMATCH, "of another call");
    }
    unsetenv("COLLET_PROTO");
}

static void set_to_three(void *scalar) { *(float *)scalar = 3; }

/* The scalar changes in the stream, before the call's turn and after it was issued. */
static void scalars_on_a_gpu_are_read_when_it_is_the_turn_of_the_call(void **state) {
    (void)state;
    static float data[RANKS];
    struct team team;
    void *scalar;
    enum collet_op ops[RANKS];
    team_init(&team, (const int[]){0, 0, 1, 1});
    assert_int_equal(collet_mem_alloc(&scalar, sizeof(float), COLLET_DEVICE_CUDA(0)), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++) {
        data[rank] = 1;
        assert_int_equal(
            collet_op_create_premul_sum(&ops[rank], scalar, COLLET_FLOAT32, COLLET_SCALAR_DEVICE, team.comms[rank]),
            COLLET_SUCCESS);
        emulated_stream_delay(team.streams[rank], 20);
        emulated_gpu_driver.streams->call(set_to_three, scalar, team.streams[rank]);
    }
    collet_group_start();
    for (int rank = 0; rank < RANKS; rank++) {
        collet_allreduce(&data[rank], &data[rank], 1, COLLET_FLOAT32, ops[rank], team.comms[rank], team.streams[rank]);
        collet_op_destroy(ops[rank], team.comms[rank]);
    }
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        emulated_stream_wait(team.streams[rank]);
    for (int rank = 0; rank < RANKS; rank++)
        assert_true(data[rank] == 12);
    assert_int_equal(collet_mem_free(scalar), COLLET_SUCCESS);
    assert_int_equal(collet_mem_alloc(&scalar, 8, COLLET_DEVICE_CUDA(GPUS)), COLLET_ERR_INVALID_ARGUMENT);
    team_fini(&team);
}

/* The remedy is named, and the communicator goes on. */
static void calls_with_counts_are_for_host_memory(void **state) {
    (void)state;
    const size_t counts[RANKS] = {1, 1, 1, 1};
    float in[RANKS] = {0}, out[RANKS];
    struct team team;
    team_init(&team, (const int[]){0, 0, 0, 0});
    struct collet_comm *comm = team.comms[0];
    void *stream = team.streams[0];
    const enum collet_result results[] = {
        collet_allgatherv(in, 1, out, counts, NULL, COLLET_FLOAT32, comm, stream),
        collet_reducescatterv(in, out, counts, COLLET_FLOAT32, COLLET_SUM, comm, stream),
        collet_alltoallv(in, counts, NULL, out, counts, NULL, COLLET_FLOAT32, comm, stream)};
    for (int k = 0; k < 3; k++)
        assert_int_equal(results[k], COLLET_ERR_UNSUPPORTED);
    assert_non_null(strstr(collet_last_error(NULL), "collet_alltoallv() is for communicators of host memory"));
    assert_non_null(strstr(collet_last_error(comm), "use collet_send() and collet_recv() in a group"));
    run_group(&team, 1);
    team_fini(&team);
}

static void devices_are_checked(void **state) {
    (void)state;
    struct collet_comm *comms[2];
    gpu_driver_use(&emulated_gpu_driver);
    assert_int_equal(collet_comm_init_all(comms, 2, (const int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(7)}),
                     COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(collet_last_error(NULL), "GPU 7"));
    assert_int_equal(collet_comm_init_all(comms, 2, (const int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_HOST}),
                     COLLET_ERR_INVALID_USAGE);
    int device = 0;
    assert_int_equal(collet_comm_init_all(comms, 1, (const int[]){COLLET_DEVICE_CUDA_CURRENT}), COLLET_SUCCESS);
    assert_int_equal(collet_comm_device(comms[0], &device), COLLET_SUCCESS);
    assert_int_equal(device, COLLET_DEVICE_CUDA(0));
    collet_comm_destroy(comms[0]);
    gpu_driver_use(NULL);
    assert_int_equal(collet_comm_init_all(comms, 1, (const int[]){COLLET_DEVICE_CUDA(0)}), COLLET_ERR_UNSUPPORTED);
}

/* ---- processes and threads ---- */

struct layout {
    int processes, threads, gpus;
};

static void run_calls(struct ranks *ranks, int rank, struct collet_comm *comm) {
    void *stream = emulated_stream_create();
    for (int k = 0; k < (level_now() == LEVEL_FAST ? 10 : 40); k++) {
        char why[TRIAL_WHY_BYTES], name[TRIAL_NAME_BYTES];
        struct trial trial;
        random_state = 1234567 + 999983ull * (uint64_t)k; /* the same call everywhere */
        struct trial_call call = random_call(ranks->nranks);
        call.seed = (uint64_t)k;
        trial_prepare(&trial, &call, rank);
        trial_name(&call, name);
        ranks_doing(ranks, "%s", name);
        must(ranks, trial_run_in(&trial, comm, stream));
        emulated_stream_wait(stream);
        if (!trial_check(&trial, why))
            ranks_fail(ranks, "%s: %s", name, why);
        trial_destroy(&trial);
    }
    must(ranks, collet_comm_destroy(comm));
    emulated_stream_destroy(stream);
}

/* A process opens no GPU but those of its own ranks: each would cost it some hundred MB there. */
static bool only_own_gpus_are_open(const struct ranks *ranks, int rank, int gpus) {
    uint32_t own = 0;
    for (int thread = 0; thread < ranks->nthreads; thread++)
        own |= 1u << (rank / ranks->nthreads * ranks->nthreads + thread) % gpus;
    return (emulated_gpus_opened() & ~own) == 0;
}

static void run_rank(struct ranks *ranks, int rank) {
    const struct layout *layout = ranks->argument;
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(rank % layout->gpus)};
    struct collet_comm *comm;
    gpu_driver_use(&emulated_gpu_driver);
    ranks_new_id(ranks, rank);
    must(ranks, collet_comm_init_rank_config(&comm, ranks->nranks, ranks->id, rank, &config));
    run_calls(ranks, rank, comm);
    ranks_check(ranks, rank, only_own_gpus_are_open(ranks, rank, layout->gpus));
}

static void run_job(void (*run)(struct ranks *ranks, int rank), int processes, int threads, int gpus) {
    struct layout layout = {processes, threads, gpus};
    struct ranks_job job = {.processes = processes, .threads = threads, .limit_s = 30, .run = run, .argument = &layout};
    char why[RANKS_TEXT_BYTES];
    if (!ranks_run(&job, why))
        fail_msg("%d processes of %d threads on %d GPUs: %s", processes, threads, gpus, why);
}

static void run_layout(int processes, int threads, int gpus) { run_job(run_rank, processes, threads, gpus); }

static void processes_share_memory_of_gpus(void **state) {
    (void)state;
    run_layout(3, 1, 2);
    run_layout(3, 1, 1);
}

static void processes_share_memory_of_gpus_by_descriptors(void **state) {
    (void)state;
    emulated_gpu_refuse_handles(true);
    run_layout(3, 1, 2);
    emulated_gpu_refuse_handles(false);
    setenv("COLLET_CUMEM_ENABLE", "1", 1);
    run_layout(2, 1, 1);
    unsetenv("COLLET_CUMEM_ENABLE");
}

/* Refused, and no other way allowed: an error, on every rank; perhaps before a rank has come to its call. */
static void run_rank_refused(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(0)};
    struct collet_comm *comm;
    float one = 1;
    gpu_driver_use(&emulated_gpu_driver);
    ranks_new_id(ranks, rank);
    enum collet_result result = collet_comm_init_rank_config(&comm, ranks->nranks, ranks->id, rank, &config);
    void *stream = emulated_stream_create();
    if (result == COLLET_SUCCESS)
        result = collet_allreduce(&one, &one, 1, COLLET_FLOAT32, COLLET_SUM, comm, stream);
    ranks_check(ranks, rank, result < 0 && strstr(collet_last_error(comm), "no handles") != NULL);
    must(ranks, collet_comm_abort(comm));
    emulated_stream_destroy(stream);
}

static void what_the_driver_refuses_is_an_error_everywhere(void **state) {
    (void)state;
    emulated_gpu_refuse_handles(true);
    setenv("COLLET_CUMEM_ENABLE", "0", 1);
    run_job(run_rank_refused, 2, 1, 1);
    unsetenv("COLLET_CUMEM_ENABLE");
    emulated_gpu_refuse_handles(false);
}

static void processes_whose_gpus_do_not_reach_each_other_share_pinned_memory(void **state) {
    (void)state;
    static const uint32_t alone[] = {1, 2}, all[] = {~0u, ~0u};
    emulated_gpu_set(2, alone, 64);
    run_layout(3, 1, 2);
    emulated_gpu_set(2, all, 64);
}

/* ---- heads ---- */

/* On the producer's GPU, where both GPUs reach each other; else with the slots. */
static bool heads_are_in_place(const struct collet_comm *comm) {
    const struct conn_owner *owner = &comm->chan->owner;
    const struct gpu_sharing *sharing = emulated_gpu_driver.sharing;
    for (const struct conn *conn = owner->first; conn != NULL; conn = conn->next) {
        const int own = owner->gpu->ordinal, other = owner->peers[conn->peer].device - COLLET_DEVICE_CUDA(0);
        const bool both_ways = sharing->can_reach(own, other) && sharing->can_reach(other, own);
        const bool with_slots = (char *)conn->end.head == (char *)conn->end.tail + conn_layout(conn)->head_at;
        if (with_slots == (own != other && both_ways))
            return false;
    }
    return owner->first != NULL;
}

static void run_rank_that_looks_at_heads(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(rank % 2)};
    struct collet_comm *comm;
    float one = 1;
    gpu_driver_use(&emulated_gpu_driver);
    ranks_new_id(ranks, rank);
    must(ranks, collet_comm_init_rank_config(&comm, ranks->nranks, ranks->id, rank, &config));
    void *stream = emulated_stream_create();
    must(ranks, collet_allreduce(&one, &one, 1, COLLET_FLOAT32, COLLET_SUM, comm, stream));
    emulated_stream_wait(stream);
    ranks_check(ranks, rank, one == (float)ranks->nranks && heads_are_in_place(comm));
    must(ranks, collet_comm_destroy(comm));
    emulated_stream_destroy(stream);
}

static void heads_lie_on_the_producers_gpu_if_both_gpus_reach_each_other(void **state) {
    (void)state;
    static const uint32_t all[] = {~0u, ~0u}, one_way[] = {3, 2};
    for (int k = 0; k < 2; k++) {
        emulated_gpu_set(2, k == 0 ? one_way : all, 64);
        run_job(run_rank_that_looks_at_heads, 1, 4, 2);
        run_job(run_rank_that_looks_at_heads, 4, 1, 2);
        emulated_gpu_refuse_handles(true);
        run_job(run_rank_that_looks_at_heads, 4, 1, 2);
        emulated_gpu_refuse_handles(false);
    }
}

/* ---- LL128, on a machine of two pairs of GPUs: 0 with 1 and 2 with 3, if they are joined ---- */

/* LL128 alone is allowed, and refused. */
static void run_rank_without_ll128(struct ranks *ranks, int rank) {
    const struct layout *layout = ranks->argument;
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(rank % layout->gpus)};
    struct collet_comm *comm;
    gpu_driver_use(&emulated_gpu_driver);
    ranks_new_id(ranks, rank);
    enum collet_result result = collet_comm_init_rank_config(&comm, ranks->nranks, ranks->id, rank, &config);
    ranks_check(ranks, rank, result == COLLET_ERR_UNSUPPORTED && strstr(collet_last_error(NULL), "LL128") != NULL);
}

/* Between the agreement and the first connection. */
static void run_rank_that_is_cut_off(struct ranks *ranks, int rank) {
    static const uint32_t alone[] = {1, 2, 4, 8};
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(rank)};
    struct collet_comm *comm;
    float one = 1;
    gpu_driver_use(&emulated_gpu_driver);
    ranks_new_id(ranks, rank);
    must(ranks, collet_comm_init_rank_config(&comm, ranks->nranks, ranks->id, rank, &config));
    ranks_barrier(ranks);
    emulated_gpu_set(GPUS, alone, 64);
    void *stream = emulated_stream_create();
    enum collet_result result = collet_allreduce(&one, &one, 1, COLLET_FLOAT32, COLLET_SUM, comm, stream);
    ranks_check(ranks, rank, result < 0 && strstr(collet_last_error(comm), "COLLET_PROTO=LL,Simple") != NULL);
    must(ranks, collet_comm_abort(comm));
    emulated_stream_destroy(stream);
}

static void name_machine(const char *links[GPUS]) {
    static char path[] = "/tmp/collet-test-XXXXXX";
    snprintf(path, sizeof(path), "/tmp/collet-test-XXXXXX");
    FILE *out = fdopen(mkstemp(path), "w");
    assert_non_null(out);
    fprintf(out, "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ffffffff\" arch=\"x86_64\">");
    for (int k = 0; k < GPUS; k++)
        fprintf(out,
                "<pci busid=\"0000:%02x:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\">"
                "<gpu dev=\"%d\" sm=\"90\">%s</gpu></pci>",
                k + 1, k, links[k]);
    fprintf(out, "</cpu></system>");
    fclose(out);
    setenv("COLLET_TOPO_FILE", path, 1);
}

#define LINK(bus) "<nvlink target=\"0000:" bus ":00.0\" count=\"4\" tclass=\"0x030200\"/>"

static void name_machine_of_pairs(void) {
    static const uint32_t pairs[] = {1 << 1, 1 << 0, 1 << 3, 1 << 2};
    name_machine((const char *[]){LINK("02"), LINK("01"), LINK("04"), LINK("03")});
    emulated_gpu_set(GPUS, NULL, 64);
    emulated_gpu_set_nvlink(pairs);
    setenv("COLLET_PROTO", "LL128", 1);
}

static void forget_machine(void) {
    unlink(getenv("COLLET_TOPO_FILE"));
    unsetenv("COLLET_TOPO_FILE");
    unsetenv("COLLET_PROTO");
    emulated_gpu_set_nvlink(NULL);
    emulated_gpu_set(2, NULL, 64);
}

/* Not where ranks are on these two GPUs. */
static void ll128_is_refused(int gpu, int other) {
    struct collet_comm *comms[2];
    gpu_driver_use(&emulated_gpu_driver);
    assert_int_equal(collet_comm_init_all(comms, 2, (const int[]){COLLET_DEVICE_CUDA(gpu), COLLET_DEVICE_CUDA(other)}),
                     COLLET_ERR_UNSUPPORTED);
    assert_non_null(strstr(collet_last_error(NULL), "LL128"));
}

static void ranks_on_one_gpu_use_ll128(void **state) {
    (void)state;
    setenv("COLLET_PROTO", "LL128", 1);
    run_groups((const int[]){0, 0, 0, 0});
    ll128_is_refused(0, 1);
    setenv("COLLET_TRANSPORT", "tcp", 1); /* no memory that lines could arrive in */
    ll128_is_refused(0, 0);
    unsetenv("COLLET_TRANSPORT");
    unsetenv("COLLET_PROTO");
}

static void ranks_on_gpus_joined_by_nvlink_use_ll128(void **state) {
    (void)state;
    name_machine_of_pairs();
    run_groups((const int[]){2, 3, 3, 2});
    ll128_is_refused(1, 2);
    emulated_gpu_set_nvlink(NULL); /* the driver does not say what the file says */
    ll128_is_refused(2, 3);
    forget_machine();
}

/* Every rank comes to the same answer, whichever it is. */
static void processes_on_gpus_joined_by_nvlink_use_ll128(void **state) {
    (void)state;
    name_machine_of_pairs();
    run_layout(2, 1, 2);
    run_layout(3, 2, 2);
    run_layout(3, 1, 1); /* of one GPU, too */
    run_job(run_rank_without_ll128, 4, 1, 4);
    setenv("COLLET_PROTO", "", 1);
    run_layout(4, 1, 4);
    forget_machine();
}

/* What was agreed on cannot be had when connections are made: an error, and not slots elsewhere. */
static void gpus_that_cease_to_reach_each_other_are_an_error(void **state) {
    (void)state;
    static const uint32_t alone[] = {1, 2, 4, 8}, all[] = {~0u, ~0u, ~0u, ~0u};
    name_machine_of_pairs();
    setenv("COLLET_PROTO", "", 1);
    for (int ll128 = 0; ll128 < 2; ll128++) {
        struct team team;
        float data[RANKS] = {1, 1, 1, 1};
        setenv("COLLET_PROTO", ll128 ? "" : "Simple,LL", 1);
        team_init(&team, (const int[]){0, 1, 0, 1});
        emulated_gpu_set(GPUS, alone, 64);
        assert_int_equal(sum_in_a_group(&team, data), ll128 ? COLLET_ERR_SYSTEM : COLLET_SUCCESS);
        if (ll128)
            assert_non_null(strstr(collet_last_error(NULL), "COLLET_PROTO=LL,Simple"));
        emulated_gpu_set(GPUS, all, 64);
        team_fini(&team);
    }
    run_job(run_rank_that_is_cut_off, 2, 1, 2);
    forget_machine();
}

/* Rank 0's GPU breaks while it is idle; rank 1, which waits for it, hears of it. */
static void break_one(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(rank)};
    struct collet_comm *comm;
    float one = 1;
    gpu_driver_use(&emulated_gpu_driver);
    ranks_new_id(ranks, rank);
    must(ranks, collet_comm_init_rank_config(&comm, ranks->nranks, ranks->id, rank, &config));
    void *stream = emulated_stream_create();
    for (int k = 0; k < 1 + rank; k++)
        must(ranks, collet_allreduce(&one, &one, 1, COLLET_FLOAT32, COLLET_SUM, comm, stream));
    if (rank == 0) {
        emulated_stream_wait(stream);
        emulated_gpu_break(true);
    }
    emulated_stream_wait(stream);
    enum collet_result seen = COLLET_SUCCESS;
    while (seen == COLLET_SUCCESS) {
        must(ranks, collet_comm_get_async_error(comm, &seen));
        ranks_sleep_ms(1);
    }
    ranks_check(ranks, rank, strstr(collet_last_error(comm), "the emulated GPU is broken") != NULL);
    must(ranks, collet_comm_abort(comm));
    emulated_stream_destroy(stream);
}

static void a_gpu_that_fails_fails_the_communicator(void **state) {
    (void)state;
    run_job(break_one, 2, 1, 2);
}

/* ---- hosts ---- */

/* Each process is a host of its own. */
static struct collet_comm *comm_apart(struct ranks *ranks, int rank, int gpus) {
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(rank % gpus)};
    struct collet_comm *comm;
    char host[32];
    gpu_driver_use(&emulated_gpu_driver);
    snprintf(host, sizeof(host), "host-%d", rank / ranks->nthreads);
    if (rank % ranks->nthreads == 0)
        setenv("COLLET_HOSTID", host, 1);
    ranks_barrier(ranks);
    ranks_new_id(ranks, rank);
    must(ranks, collet_comm_init_rank_config(&comm, ranks->nranks, ranks->id, rank, &config));
    return comm;
}

static void run_rank_apart(struct ranks *ranks, int rank) {
    const struct layout *layout = ranks->argument;
    run_calls(ranks, rank, comm_apart(ranks, rank, layout->gpus));
}

static void gpus_of_different_hosts_work_through_the_proxy(void **state) {
    (void)state;
    static const char *const protocols[] = {"Simple", "LL", ""};
    for (int k = 0; k < 3; k++) {
        setenv("COLLET_PROTO", protocols[k], 1);
        run_job(run_rank_apart, 2, 1, 1);
        run_job(run_rank_apart, 3, 1, 2);
    }
    unsetenv("COLLET_PROTO");
    run_job(run_rank_apart, 2, 2, 2);
    run_job(run_rank_apart, 2, 2, 1);
}

/* Their programs have a peer in several steps, in different company. */
static void hierarchical_algorithms_work_on_gpus_of_different_hosts(void **state) {
    (void)state;
    static const char *const algorithms[] = {"hier", "hiertree"}, *const protocols[] = {"Simple", "LL"};
    for (int k = 0; k < 4; k++) {
        setenv("COLLET_ALGO", algorithms[k / 2], 1);
        setenv("COLLET_PROTO", protocols[k % 2], 1);
        run_job(run_rank_apart, 2, 2, 2);
    }
    unsetenv("COLLET_ALGO");
    unsetenv("COLLET_PROTO");
}

/* Lines of LL128 within a host, of LL between hosts, in one step. */
static void hosts_with_gpus_that_are_joined_use_ll128(void **state) {
    (void)state;
    name_machine_of_pairs();
    run_job(run_rank_apart, 2, 2, 1);
    run_job(run_rank_apart, 2, 2, 2);
    run_job(run_rank_apart, 3, 2, 2);
    forget_machine();
}

/* The proxy sleeps between the replays; nothing but the graph itself wakes it. */
static void replay_apart(struct ranks *ranks, int rank) {
    struct collet_comm *comm = comm_apart(ranks, rank, 1);
    void *stream = emulated_stream_create();
    static float data[5000];
    emulated_capture_begin(stream);
    must(ranks, collet_allreduce(data, data, 5000, COLLET_FLOAT32, COLLET_SUM, comm, stream));
    void *graph = emulated_capture_end(stream);
    for (int k = 0; k < 5000; k++)
        data[k] = 1;
    for (int replay = 0; replay < 6; replay++) {
        emulated_graph_run(graph, stream);
        emulated_stream_wait(stream);
        ranks_sleep_ms(replay % 2 ? 60 : 0);
    }
    for (int k = 0; k < 5000; k++)
        ranks_check(ranks, rank, data[k] == 64);
    emulated_graph_destroy(graph);
    must(ranks, collet_comm_destroy(comm));
    emulated_stream_destroy(stream);
}

static void graphs_across_hosts_are_replayed(void **state) {
    (void)state;
    run_job(replay_apart, 2, 1, 1);
}

#define ABORT_FLOATS (1 << 20)

static void abort_apart(struct ranks *ranks, int rank) {
    struct collet_comm *comm = comm_apart(ranks, rank, 1);
    void *stream = emulated_stream_create();
    static float data[ABORT_FLOATS];
    must(ranks, collet_allreduce(data, data, 1, COLLET_FLOAT32, COLLET_SUM, comm, stream));
    emulated_stream_wait(stream);
    for (int k = 0; k < 20 + rank; k++) /* rank 0 never makes the last one */
        if (collet_allreduce(data, data, ABORT_FLOATS, COLLET_FLOAT32, COLLET_SUM, comm, stream) != COLLET_SUCCESS)
            break;
    ranks_sleep_ms(rank == 0 ? 20 : 0);
    if (rank == 0)
        must(ranks, collet_comm_abort(comm));
    emulated_stream_wait(stream);
    enum collet_result seen = COLLET_ERR_ABORTED;
    if (rank != 0)
        must(ranks, collet_comm_get_async_error(comm, &seen));
    ranks_check(ranks, rank, seen == COLLET_ERR_ABORTED);
    if (rank != 0)
        must(ranks, collet_comm_abort(comm));
    emulated_stream_destroy(stream);
}

static void an_abort_ends_what_the_proxy_moves(void **state) {
    (void)state;
    run_job(abort_apart, 2, 1, 1);
    run_job(abort_apart, 3, 1, 1);
}

/* Each is launched for itself: nothing but their number of channels keeps them from waiting for each other. */
static void threads_with_a_rank_each_share_a_gpu(void **state) {
    (void)state;
    run_layout(1, 4, 1);
    run_layout(2, 2, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_share_memory_of_gpus),
        cmocka_unit_test(processes_share_memory_of_gpus_by_descriptors),
        cmocka_unit_test(what_the_driver_refuses_is_an_error_everywhere),
        cmocka_unit_test(processes_whose_gpus_do_not_reach_each_other_share_pinned_memory),
        cmocka_unit_test(heads_lie_on_the_producers_gpu_if_both_gpus_reach_each_other),
        cmocka_unit_test(processes_on_gpus_joined_by_nvlink_use_ll128),
        cmocka_unit_test(a_gpu_that_fails_fails_the_communicator),
        cmocka_unit_test(threads_with_a_rank_each_share_a_gpu),
        cmocka_unit_test(gpus_of_different_hosts_work_through_the_proxy),
        cmocka_unit_test(hierarchical_algorithms_work_on_gpus_of_different_hosts),
        cmocka_unit_test(hosts_with_gpus_that_are_joined_use_ll128),
        cmocka_unit_test(graphs_across_hosts_are_replayed),
        cmocka_unit_test(an_abort_ends_what_the_proxy_moves),
        cmocka_unit_test(ranks_on_one_gpu_are_launched_together),
        cmocka_unit_test(ranks_on_one_gpu_use_ll128),
        cmocka_unit_test(ranks_on_gpus_joined_by_nvlink_use_ll128),
        cmocka_unit_test(gpus_that_cease_to_reach_each_other_are_an_error),
        cmocka_unit_test(ranks_on_several_gpus_work_together),
        cmocka_unit_test(what_is_split_from_ranks_on_gpus_is_on_them_too),
        cmocka_unit_test(gpus_that_do_not_reach_each_other_use_pinned_memory),
        cmocka_unit_test(what_does_not_fit_is_launched_channel_by_channel),
        cmocka_unit_test(operations_keep_their_order_across_streams),
        cmocka_unit_test(each_rank_of_a_grid_finds_its_result_in_its_own_stream),
        cmocka_unit_test(memory_is_read_on_one_gpu_and_that_of_collet_over_nvlink),
        cmocka_unit_test(graphs_are_replayed),
        cmocka_unit_test(ranks_in_captures_of_their_own_are_launched_apart),
        cmocka_unit_test(threads_whose_ranks_share_a_gpu_share_launches),
        cmocka_unit_test(a_thread_that_does_not_come_is_named),
        cmocka_unit_test(a_thread_with_two_ranks_waits_for_neither),
        cmocka_unit_test(messages_of_a_group_meet),
        cmocka_unit_test(a_long_message_has_as_many_channels_as_a_collective),
        cmocka_unit_test(an_abort_ends_what_hangs),
        cmocka_unit_test(a_rank_that_does_not_come_is_waited_for_no_longer_than_the_timeout),
        cmocka_unit_test(ranks_that_make_different_calls_are_told),
        cmocka_unit_test(scalars_on_a_gpu_are_read_when_it_is_the_turn_of_the_call),
        cmocka_unit_test(calls_with_counts_are_for_host_memory),
        cmocka_unit_test(devices_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
