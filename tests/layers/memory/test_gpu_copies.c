/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives by copy engines (layers/gpu/exec_copies.h), on emulated GPUs: what arrives, that no kernel is launched for it, and how their
 * waits end.
 */
#include "api/comm.h"
#include "common/emulated_gpu.h"
#include "common/ranks.h"
#include "layers/gpu/exec_copies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 4
#define WINDOW_BYTES (256u << 10)

struct layout {
    int processes, threads, gpus;
};

/* One rank: a window, and memory that is in none. */
struct seat {
    struct collet_comm *comm;
    struct collet_window *window;
    void *stream;
    char *in_window, *elsewhere;
};

static void must(struct ranks *ranks, enum collet_result result) {
    if (result != COLLET_SUCCESS)
        ranks_fail(ranks, "%s: %s", collet_error_string(result), collet_last_error(NULL));
}

static struct seat seat_take(struct ranks *ranks, int rank) {
    const struct layout *layout = ranks->argument;
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(rank % layout->gpus)};
    struct seat seat = {.stream = emulated_stream_create(), .elsewhere = malloc(WINDOW_BYTES)};
    void *memory;
    ranks_new_id(ranks, rank);
    must(ranks, collet_comm_init_rank_config(&seat.comm, ranks->nranks, ranks->id, rank, &config));
    must(ranks, collet_mem_alloc(&memory, WINDOW_BYTES, config.device));
    seat.in_window = memory;
    must(ranks, collet_win_register(seat.comm, memory, WINDOW_BYTES, &seat.window));
    return seat;
}

static void seat_leave(struct ranks *ranks, struct seat *seat) {
    must(ranks, collet_win_deregister(seat->comm, seat->window));
    must(ranks, collet_comm_destroy(seat->comm));
    must(ranks, collet_mem_free(seat->in_window));
    emulated_stream_destroy(seat->stream);
    free(seat->elsewhere);
}

static void run_job(void (*run)(struct ranks *ranks, int rank), int processes, int threads, int gpus) {
    struct layout layout = {processes, threads, gpus};
    struct ranks_job job = {.processes = processes, .threads = threads, .limit_s = 60, .run = run, .argument = &layout};
    char why[RANKS_TEXT_BYTES];
    static const uint32_t all[] = {~0u, ~0u, ~0u, ~0u};
    emulated_gpu_set(4, NULL, 64);
    emulated_gpu_set_nvlink(all);
    setenv("COLLET_CTA_POLICY", "zero", 1);
    if (!ranks_run(&job, why))
        fail_msg("%d processes of %d threads on %d GPUs: %s", processes, threads, gpus, why);
    unsetenv("COLLET_CTA_POLICY");
}

/* ---- what arrives ---- */

/* What rank `from` sends to rank `to` in a round. */
static char byte_of(int round, int from, int to, size_t k) {
    return (char)(round * 31 + from * 7 + to * 3 + (int)(k % 251) + 1);
}

static void fill(char *block, size_t bytes, int round, int from, int to) {
    for (size_t k = 0; k < bytes; k++)
        block[k] = byte_of(round, from, to, k);
}

static bool holds(const char *block, size_t bytes, int round, int from, int to) {
    for (size_t k = 0; k < bytes; k++)
        if (block[k] != byte_of(round, from, to, k))
            return false;
    return true;
}

#define EVERYONE 99 /* `to` of a block that all ranks get */

static void gather(struct ranks *ranks, int rank, struct seat *seat, size_t bytes, int round, bool in_place) {
    char *out = seat->in_window + 3, *in = in_place ? out + (size_t)rank * bytes : seat->elsewhere;
    if (!in_place)
        memset(out, 0, bytes * (size_t)ranks->nranks + 1);
    fill(in, bytes, round, rank, EVERYONE);
    must(ranks, collet_allgather(in, out, bytes, COLLET_UINT8, seat->comm, seat->stream));
    emulated_stream_wait(seat->stream);
    for (int from = 0; from < ranks->nranks; from++)
        ranks_check(ranks, rank, holds(out + (size_t)from * bytes, bytes, round, from, EVERYONE));
    ranks_check(ranks, rank, out[bytes * (size_t)ranks->nranks] == 0 || in_place);
}

static void exchange(struct ranks *ranks, int rank, struct seat *seat, size_t bytes, int round) {
    char *out = seat->in_window + 64;
    for (int to = 0; to < ranks->nranks; to++)
        fill(seat->elsewhere + (size_t)to * bytes, bytes, round, rank, to);
    must(ranks, collet_alltoall(seat->elsewhere, out, bytes, COLLET_UINT8, seat->comm, seat->stream));
    emulated_stream_wait(seat->stream);
    for (int from = 0; from < ranks->nranks; from++)
        ranks_check(ranks, rank, holds(out + (size_t)from * bytes, bytes, round, from, rank));
}

static void spread(struct ranks *ranks, int rank, struct seat *seat, size_t bytes, int round, bool in_place) {
    int root = round % ranks->nranks;
    char *out = seat->in_window + 128, *in = in_place ? out : seat->elsewhere;
    if (rank == root)
        fill(in, bytes, round, root, EVERYONE);
    must(ranks, collet_broadcast(in, out, bytes, COLLET_UINT8, root, seat->comm, seat->stream));
    emulated_stream_wait(seat->stream);
    ranks_check(ranks, rank, holds(out, bytes, round, root, EVERYONE));
}

/* In a group, two messages to each other rank and two from it. */
static void mail_all(struct ranks *ranks, int rank, struct seat *seat, size_t bytes, int round) {
    char *in = seat->elsewhere, *out = seat->elsewhere + WINDOW_BYTES / 2;
    must(ranks, collet_group_start());
    for (int k = 0; k < 2; k++)
        for (int peer = 0; peer < ranks->nranks; peer++) {
            const size_t at = (size_t)(2 * peer + k) * bytes;
            fill(in + at, bytes, round + k, rank, peer);
            must(ranks, collet_recv(out + at, bytes, COLLET_UINT8, peer, seat->comm, seat->stream));
            must(ranks, collet_send(in + at, bytes, COLLET_UINT8, peer, seat->comm, seat->stream));
        }
    must(ranks, collet_group_end());
    emulated_stream_wait(seat->stream);
    for (int k = 0; k < 2; k++)
        for (int peer = 0; peer < ranks->nranks; peer++)
            ranks_check(ranks, rank, holds(out + (size_t)(2 * peer + k) * bytes, bytes, round + k, peer, rank));
}

/* A token goes around. Rank 0 sends and receives in one group: its send must not stand behind its receive. */
static void mail_token(struct ranks *ranks, int rank, struct seat *seat, size_t bytes, int round) {
    const int next = (rank + 1) % ranks->nranks, last = (rank + ranks->nranks - 1) % ranks->nranks;
    char *token = seat->elsewhere, *got = rank == 0 ? seat->elsewhere + WINDOW_BYTES / 2 : token;
    if (rank == 0)
        fill(token, bytes, round, 0, EVERYONE);
    must(ranks, rank == 0 ? collet_group_start() : COLLET_SUCCESS);
    must(ranks, collet_recv(got, bytes, COLLET_UINT8, last, seat->comm, seat->stream));
    must(ranks, collet_send(token, bytes, COLLET_UINT8, next, seat->comm, seat->stream));
    must(ranks, rank == 0 ? collet_group_end() : COLLET_SUCCESS);
    emulated_stream_wait(seat->stream);
    ranks_check(ranks, rank, holds(got, bytes, round, 0, EVERYONE));
}

static void run_without_kernels(struct ranks *ranks, int rank) {
    static const size_t sizes[] = {1, 7, 1000, 12345};
    struct seat seat = seat_take(ranks, rank);
    uint32_t before = emulated_launches();
    for (int round = 0; round < 8; round++) {
        size_t bytes = sizes[round % 4];
        if (rank == 0)
            ranks_doing(ranks, "round %d", round);
        gather(ranks, rank, &seat, bytes, round, round % 2);
        exchange(ranks, rank, &seat, bytes, round);
        spread(ranks, rank, &seat, bytes, round, round % 2);
        mail_all(ranks, rank, &seat, bytes, round);
        mail_token(ranks, rank, &seat, bytes, round);
    }
    ranks_check(ranks, rank, emulated_launches() == before);
    ranks_check(ranks, rank, seat.comm->chan->proxy == NULL); /* there are no connections */
    ranks_barrier(ranks);                                     /* before a thread of this process goes on */
    seat_leave(ranks, &seat);
}

static void windows_are_filled_without_a_kernel(void **state) {
    (void)state;
    run_job(run_without_kernels, 1, 4, 4);
    run_job(run_without_kernels, 3, 1, 3);
    run_job(run_without_kernels, 2, 2, 2);
    run_job(run_without_kernels, 2, 1, 1);
    setenv("COLLET_TRANSPORT", "tcp", 1);
    run_job(run_without_kernels, 3, 1, 3);
    unsetenv("COLLET_TRANSPORT");
}

static void run_with_kernels(struct ranks *ranks, int rank) {
    struct seat seat = seat_take(ranks, rank);
    uint32_t before = emulated_launches();
    gather(ranks, rank, &seat, 1000, 1, false);
    ranks_check(ranks, rank, emulated_launches() > before);
    seat_leave(ranks, &seat);
}

static void run_without_words(struct ranks *ranks, int rank) {
    emulated_gpu_refuse_words(rank == 1);
    run_with_kernels(ranks, rank);
}

/* Results are the same without the policy; where a GPU does not reach another one; where a stream cannot wait; and where it could
 * keep that of another rank waiting. */
static void kernels_do_what_copies_do_not(void **state) {
    (void)state;
    struct layout layout = {2, 1, 2};
    struct ranks_job job = {.processes = 2, .limit_s = 60, .run = run_with_kernels, .argument = &layout};
    char why[RANKS_TEXT_BYTES];
    emulated_gpu_set_nvlink((const uint32_t[]){~0u, ~0u, ~0u, ~0u});
    if (!ranks_run(&job, why))
        fail_msg("without the policy: %s", why);
    setenv("COLLET_CTA_POLICY", "efficiency|zero", 1);
    emulated_gpu_set_nvlink(NULL);
    if (!ranks_run(&job, why))
        fail_msg("without NVLink: %s", why);
    unsetenv("COLLET_CTA_POLICY");
    run_job(run_without_words, 3, 1, 3);
    run_job(run_with_kernels, 1, 3, 1);
    run_job(run_with_kernels, 2, 2, 1);
}

/* Messages that a box has no room for, beside others of the same group. */
static void run_long_and_short(struct ranks *ranks, int rank) {
    struct seat seat = seat_take(ranks, rank);
    const int next = (rank + 1) % ranks->nranks, last = (rank + ranks->nranks - 1) % ranks->nranks;
    const size_t lengths[] = {4096, 4097}; /* to the next rank; the other one comes back */
    uint32_t before = emulated_launches();
    char *in = seat.elsewhere, *out = seat.elsewhere + WINDOW_BYTES / 2;
    for (int round = 0; round < 4; round++) {
        const size_t forth = lengths[round % 2], back = lengths[1 - round % 2];
        fill(in, forth, round, rank, next);
        fill(in + 8192, back, round, rank, last);
        must(ranks, collet_group_start());
        must(ranks, collet_recv(out, forth, COLLET_UINT8, last, seat.comm, seat.stream));
        must(ranks, collet_recv(out + 8192, back, COLLET_UINT8, next, seat.comm, seat.stream));
        must(ranks, collet_send(in, forth, COLLET_UINT8, next, seat.comm, seat.stream));
        must(ranks, collet_send(in + 8192, back, COLLET_UINT8, last, seat.comm, seat.stream));
        must(ranks, collet_group_end());
        emulated_stream_wait(seat.stream);
        ranks_check(ranks, rank, holds(out, forth, round, last, rank));
        ranks_check(ranks, rank, holds(out + 8192, back, round, next, rank));
    }
    ranks_check(ranks, rank, emulated_launches() > before);
    seat_leave(ranks, &seat);
}

static void kernels_carry_what_is_longer_than_a_box(void **state) {
    (void)state;
    setenv("COLLET_BUFFSIZE", "4096", 1);
    run_job(run_long_and_short, 3, 1, 3);
    run_job(run_long_and_short, 1, 3, 3);
    unsetenv("COLLET_BUFFSIZE");
}

/* ---- order ---- */

/* Kernels and copies take turns, in two streams. Each sum needs what the gathering before it brought, and the other way round. */
static void run_in_turns(struct ranks *ranks, int rank) {
    struct seat seat = seat_take(ranks, rank);
    void *streams[] = {seat.stream, emulated_stream_create()};
    int32_t *out = (int32_t *)(void *)seat.in_window, *in = (int32_t *)(void *)seat.elsewhere, expected = 1;
    in[0] = 1;
    for (int turn = 0; turn < 6; turn++) {
        emulated_stream_delay(streams[turn % 2], 5);
        must(ranks, collet_allgather(in, out, 1, COLLET_INT32, seat.comm, streams[turn % 2]));
        must(ranks, collet_allreduce(&out[ranks->nranks - 1], in, 1, COLLET_INT32, COLLET_SUM, seat.comm,
                                     streams[(turn + rank) % 2]));
        expected *= ranks->nranks;
    }
    emulated_stream_wait(streams[0]);
    emulated_stream_wait(streams[1]);
    ranks_check(ranks, rank, in[0] == expected);
    emulated_stream_destroy(streams[1]);
    seat_leave(ranks, &seat);
}

static void copies_and_kernels_keep_the_order_of_calls(void **state) {
    (void)state;
    run_job(run_in_turns, 3, 1, 3);
    run_job(run_in_turns, 1, 3, 3);
}

static void run_replays(struct ranks *ranks, int rank) {
    struct seat seat = seat_take(ranks, rank);
    const size_t bytes = 1000;
    const int next = (rank + 1) % ranks->nranks, last = (rank + ranks->nranks - 1) % ranks->nranks;
    char *out = seat.in_window;
    emulated_capture_begin(seat.stream);
    must(ranks, collet_allgather(seat.elsewhere, out, bytes, COLLET_UINT8, seat.comm, seat.stream));
    must(ranks, collet_allgather(seat.elsewhere, out + 32000, bytes, COLLET_UINT8, seat.comm, seat.stream));
    must(ranks, collet_group_start());
    must(ranks, collet_recv(out + 64000, bytes, COLLET_UINT8, last, seat.comm, seat.stream));
    must(ranks, collet_send(seat.elsewhere, bytes, COLLET_UINT8, next, seat.comm, seat.stream));
    must(ranks, collet_group_end());
    void *graph = emulated_capture_end(seat.stream);
    for (int round = 0; round < 10; round++) {
        fill(seat.elsewhere, bytes, round, rank, EVERYONE);
        for (int replay = 0; replay < 3; replay++)
            emulated_graph_run(graph, seat.stream);
        emulated_stream_wait(seat.stream);
        ranks_check(ranks, rank, holds(out + 64000, bytes, round, last, EVERYONE));
        for (int from = 0; from < ranks->nranks; from++) {
            ranks_check(ranks, rank, holds(out + (size_t)from * bytes, bytes, round, from, EVERYONE));
            ranks_check(ranks, rank, holds(out + 32000 + (size_t)from * bytes, bytes, round, from, EVERYONE));
        }
        ranks_barrier(ranks); /* the next replays may overwrite what a rank still looks at */
    }
    emulated_graph_destroy(graph);
    seat_leave(ranks, &seat);
}

static void graphs_are_replayed(void **state) {
    (void)state;
    run_job(run_replays, 3, 1, 2);
    run_job(run_replays, 1, 3, 3);
}

/* Until its stream has been found in a wait for a while, or has done all. */
static void let_it_wait(const struct seat *seat) {
    const struct copies *copies = seat->comm->chan->copies;
    const uint32_t *at = &copies->words[copies_row(copies, copies->chan->owner.rank) + COPIES_AT];
    while (!emulated_stream_is_idle(seat->stream) &&
           !(__atomic_load_n(at, __ATOMIC_ACQUIRE) & COPIES_SEEN)) /* pairs with the stream */
        ranks_sleep_ms(1);
}

/* Rank 0 comes first. Before rank 1 comes, its memory must stay as it is. */
static void run_early_and_late(struct ranks *ranks, int rank) {
    struct seat seat = seat_take(ranks, rank);
    static const char mark = 77;
    const bool waits = ((const struct layout *)ranks->argument)->gpus == 2;
    gather(ranks, rank, &seat, 1000, 1, false); /* all is connected */
    fill(seat.elsewhere, 1000, 2, rank, EVERYONE);
    memset(seat.in_window, mark, 2000);
    ranks_barrier(ranks);
    emulated_gpu_leave_out_waits(!waits);
    if (rank == 0) {
        must(ranks, collet_allgather(seat.elsewhere, seat.in_window, 1000, COLLET_UINT8, seat.comm, seat.stream));
        if (waits)
            let_it_wait(&seat);
        else
            emulated_stream_wait(seat.stream);
    }
    ranks_barrier(ranks);
    ranks_check(ranks, rank, rank == 0 || (seat.in_window[0] == mark) == waits);
    if (rank == 1)
        must(ranks, collet_allgather(seat.elsewhere, seat.in_window, 1000, COLLET_UINT8, seat.comm, seat.stream));
    emulated_stream_wait(seat.stream);
    ranks_check(ranks, rank, !waits || holds(seat.in_window + (1 - rank) * 1000, 1000, 2, 1 - rank, EVERYONE));
    if (waits)
        seat_leave(ranks, &seat);
}

static void nobody_writes_before_a_rank_has_come(void **state) {
    (void)state;
    run_job(run_early_and_late, 2, 1, 2);
}

/* The test above can fail: here streams do not wait. */
static void without_waits_somebody_does(void **state) {
    (void)state;
    run_job(run_early_and_late, 2, 1, 1);
}

/* ---- one thread, one group ---- */

static struct collet_comm *group_comms[RANKS];
static void *group_memory[RANKS];

static void group_init(const int *gpus) {
    static const uint32_t all[] = {~0u, ~0u, ~0u, ~0u};
    struct collet_window *windows[RANKS] = {NULL};
    int devices[RANKS];
    setenv("COLLET_CTA_POLICY", "zero", 1);
    emulated_gpu_set(4, NULL, 64);
    emulated_gpu_set_nvlink(all);
    for (int rank = 0; rank < RANKS; rank++)
        devices[rank] = COLLET_DEVICE_CUDA(gpus[rank]);
    assert_int_equal(collet_comm_init_all(group_comms, RANKS, devices), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(collet_mem_alloc(&group_memory[rank], WINDOW_BYTES, devices[rank]), COLLET_SUCCESS);
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(collet_win_register(group_comms[rank], group_memory[rank], WINDOW_BYTES, &windows[rank]),
                         COLLET_SUCCESS);
    assert_null(windows[0]);
    if (collet_group_end() != COLLET_SUCCESS)
        fail_msg("%s", collet_last_error(NULL));
    for (int rank = 0; rank < RANKS; rank++)
        assert_non_null(windows[rank]);
}

static void group_fini(void) {
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(collet_comm_destroy(group_comms[rank]), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(collet_mem_free(group_memory[rank]), COLLET_SUCCESS);
    unsetenv("COLLET_CTA_POLICY");
}

static void group_gather(void *const *streams) {
    static char in[RANKS][1000];
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++) {
        fill(in[rank], 1000, 3, rank, EVERYONE);
        collet_allgather(in[rank], group_memory[rank], 1000, COLLET_UINT8, group_comms[rank], streams[rank]);
    }
    if (collet_group_end() != COLLET_SUCCESS)
        fail_msg("%s", collet_last_error(NULL));
    for (int rank = 0; rank < RANKS; rank++)
        emulated_stream_wait(streams[rank]);
    for (int rank = 0; rank < RANKS; rank++)
        for (int from = 0; from < RANKS; from++)
            assert_true(holds((char *)group_memory[rank] + from * 1000, 1000, 3, from, EVERYONE));
}

/* Returns how many kernels were launched. */
static uint32_t gather_in_groups(const int *gpus) {
    void *streams[RANKS];
    uint32_t before = emulated_launches();
    group_init(gpus);
    for (int rank = 0; rank < RANKS; rank++)
        streams[rank] = emulated_stream_create();
    group_gather(streams);
    group_gather(streams);
    group_fini();
    for (int rank = 0; rank < RANKS; rank++)
        emulated_stream_destroy(streams[rank]);
    return emulated_launches() - before;
}

static void one_thread_calls_for_all_ranks(void **state) {
    (void)state;
    assert_int_equal(gather_in_groups((const int[]){0, 1, 2, 3}), 0);
    assert_int_not_equal(gather_in_groups((const int[]){0, 1, 1, 0}), 0); /* ranks that share a GPU: by kernels */
}

/* ---- failures ---- */

/* Its last rank fails to come, makes another call, or has its buffer elsewhere. */
enum fault { STAYS_AWAY, COMES_WITH_MORE, COMES_ELSEWHERE, ABORTS };

static void await_error(struct ranks *ranks, int rank, const struct seat *seat, enum collet_result expected,
                        const char *text) {
    enum collet_result seen = COLLET_SUCCESS;
    for (int looks = 0; looks < 1000 && seen == COLLET_SUCCESS; looks++) {
        must(ranks, collet_comm_get_async_error(seat->comm, &seen));
        ranks_sleep_ms(10);
    }
    ranks_expect(ranks, rank, seen, expected, "the communicator");
    if (strstr(collet_last_error(seat->comm), text) == NULL)
        ranks_fail(ranks, "rank %d: %s", rank, collet_last_error(seat->comm));
}

/* Of a communicator that has failed. */
static void seat_abandon(struct ranks *ranks, struct seat *seat) {
    emulated_stream_wait(seat->stream);
    ranks_barrier(ranks); /* what a rank frees nobody writes any more */
    must(ranks, collet_mem_free(seat->in_window));
    emulated_stream_destroy(seat->stream);
    free(seat->elsewhere);
}

/* Several calls are in the streams that wait. */
static void run_fault(struct ranks *ranks, int rank, enum fault fault, enum collet_result expected, const char *text) {
    struct seat seat = seat_take(ranks, rank);
    const int last = ranks->nranks - 1;
    char *out = seat.in_window;
    gather(ranks, rank, &seat, 1000, 1, false);
    memset(out, 0, 2000 * RANKS);
    ranks_barrier(ranks);
    for (int call = 0; call < 3 && rank != last; call++)
        must(ranks, collet_allgather(seat.elsewhere, out, 1000, COLLET_UINT8, seat.comm, seat.stream));
    ranks_barrier(ranks);
    if (rank == last && (fault == COMES_WITH_MORE || fault == COMES_ELSEWHERE))
        must(ranks, collet_allgather(seat.elsewhere, out + (fault == COMES_ELSEWHERE ? 16 : 0),
                                     fault == COMES_WITH_MORE ? 1001 : 1000, COLLET_UINT8, seat.comm, seat.stream));
    if (rank == last && fault == ABORTS)
        must(ranks, collet_comm_abort(seat.comm));
    else
        await_error(ranks, rank, &seat, expected, text);
    if (rank != last || fault != ABORTS)
        must(ranks, collet_comm_abort(seat.comm)); /* also when its stream is full of waits */
    seat_abandon(ranks, &seat);
}

/* Rank 2 of three makes not even the first call. */
static void run_absent(struct ranks *ranks, int rank) {
    struct seat seat = seat_take(ranks, rank);
    if (rank != 2) {
        must(ranks, collet_allgather(seat.elsewhere, seat.in_window, 1000, COLLET_UINT8, seat.comm, seat.stream));
        await_error(ranks, rank, &seat, COLLET_ERR_TIMEOUT, "in allgather (call 1), waiting for rank 2");
    }
    ranks_barrier(ranks);
    must(ranks, collet_comm_abort(seat.comm));
    seat_abandon(ranks, &seat);
}

/* Rank 0 sends twice; rank 1 receives nothing, or something longer. */
static void run_mail_fault(struct ranks *ranks, int rank, bool receives, enum collet_result expected,
                           const char *text) {
    struct seat seat = seat_take(ranks, rank);
    for (int k = 0; k < 2 && rank == 0; k++)
        must(ranks, collet_send(seat.elsewhere, 1000, COLLET_UINT8, 1, seat.comm, seat.stream));
    if (rank == 1 && receives)
        must(ranks, collet_recv(seat.elsewhere, 1001, COLLET_UINT8, 0, seat.comm, seat.stream));
    await_error(ranks, rank, &seat, expected, text);
    must(ranks, collet_comm_abort(seat.comm));
    seat_abandon(ranks, &seat);
}

static void run_unread(struct ranks *ranks, int rank) {
    run_mail_fault(ranks, rank, false, COLLET_ERR_TIMEOUT, "in send (call 2), waiting for rank 1");
}

static void run_other_length(struct ranks *ranks, int rank) {
    run_mail_fault(ranks, rank, true, COLLET_ERR_MISMATCH, "rank 0 has sent another number of bytes");
}

static void run_missing(struct ranks *ranks, int rank) {
    run_fault(ranks, rank, STAYS_AWAY, COLLET_ERR_TIMEOUT, "in allgather (call 2), waiting for rank 2");
}

static void run_longer(struct ranks *ranks, int rank) {
    run_fault(ranks, rank, COMES_WITH_MORE, COLLET_ERR_MISMATCH, "by copy engines, but rank ");
}

static void run_elsewhere(struct ranks *ranks, int rank) {
    run_fault(ranks, rank, COMES_ELSEWHERE, COLLET_ERR_MISMATCH, "its receive buffer lies elsewhere");
}

static void run_abort(struct ranks *ranks, int rank) {
    run_fault(ranks, rank, ABORTS, COLLET_ERR_ABORTED, "rank 2 called collet_comm_abort()");
}

static void a_rank_that_does_not_come_is_named_after_the_timeout(void **state) {
    (void)state;
    setenv("COLLET_TIMEOUT", "1", 1);
    run_job(run_missing, 3, 1, 3);
    run_job(run_missing, 1, 3, 3);
    run_job(run_absent, 3, 1, 3);
    run_job(run_unread, 2, 1, 2);
    unsetenv("COLLET_TIMEOUT");
}

static void ranks_that_make_different_calls_are_told(void **state) {
    (void)state;
    run_job(run_longer, 3, 1, 3);
    run_job(run_elsewhere, 3, 1, 3);
    run_job(run_elsewhere, 1, 3, 3);
    run_job(run_other_length, 2, 1, 2);
}

static void an_abort_ends_what_waits(void **state) {
    (void)state;
    run_job(run_abort, 3, 1, 3);
    run_job(run_abort, 1, 3, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_filled_without_a_kernel),
        cmocka_unit_test(kernels_do_what_copies_do_not),
        cmocka_unit_test(kernels_carry_what_is_longer_than_a_box),
        cmocka_unit_test(copies_and_kernels_keep_the_order_of_calls),
        cmocka_unit_test(graphs_are_replayed),
        cmocka_unit_test(nobody_writes_before_a_rank_has_come),
        cmocka_unit_test(without_waits_somebody_does),
        cmocka_unit_test(a_rank_that_does_not_come_is_named_after_the_timeout),
        cmocka_unit_test(ranks_that_make_different_calls_are_told),
        cmocka_unit_test(an_abort_ends_what_waits),
        cmocka_unit_test(
            one_thread_calls_for_all_ranks), /* last: in this process, which must not fork with a GPU in use */
    };
    gpu_driver_use(&emulated_gpu_driver);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
