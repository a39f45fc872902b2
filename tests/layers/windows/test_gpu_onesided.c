/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts, gets, signals and transfers in streams of GPUs, on emulated GPUs (emulated_gpu.h).
 */
#include "api/comm.h"
#include "common/emulated_gpu.h"
#include "common/ranks.h"
#include "layers/gpu/onesided.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT 5000u
#define PART (COUNT * sizeof(uint32_t))
#define ROUNDS 20u

/* One rank. Its window has a part for each rank, and its buffer one more part that is its own. */
struct player {
    struct ranks *ranks;
    int rank, nranks;
    struct collet_comm *comm;
    void *stream;
    uint32_t *buffer;
    struct collet_window *window;
};

static void player_init(struct player *p, struct ranks *ranks, int rank, int gpus, int64_t timeout_ms) {
    *p = (struct player){.ranks = ranks, .rank = rank, .nranks = ranks->nranks};
    const struct collet_config config = {
        .size = sizeof config, .device = COLLET_DEVICE_CUDA(rank % gpus), .timeout_ms = timeout_ms};
    p->comm = ranks_comm(ranks, rank, &config);
    p->stream = emulated_stream_create();
    void *memory;
    ranks_try(ranks, rank, collet_mem_alloc(&memory, ((size_t)p->nranks + 1) * PART, config.device));
    p->buffer = memory;
    memset(memory, 0, ((size_t)p->nranks + 1) * PART);
    ranks_try(ranks, rank, collet_win_register(p->comm, p->buffer, (size_t)p->nranks * PART, &p->window));
}

static void player_fini(struct player *p) {
    ranks_try(p->ranks, p->rank, collet_comm_destroy(p->comm));
    ranks_try(p->ranks, p->rank, collet_mem_free(p->buffer));
    emulated_stream_destroy(p->stream);
}

static uint32_t *part_of(const struct player *p, int rank) { return p->buffer + (size_t)rank * COUNT; }
static uint32_t number_of(int rank, uint32_t round, uint32_t k) { return (uint32_t)rank << 24 | round << 16 | k; }

static void fill_own(const struct player *p, uint32_t round) {
    for (uint32_t k = 0; k < COUNT; k++)
        part_of(p, p->nranks)[k] = number_of(p->rank, round, k);
}

static void check_part(const struct player *p, const uint32_t *part, int from, uint32_t round) {
    for (uint32_t k = 0; k < COUNT; k++)
        ranks_check(p->ranks, p->rank, part[k] == number_of(from, round, k));
}

static void run_job(void (*run)(struct ranks *ranks, int rank), int processes, int threads) {
    char why[RANKS_TEXT_BYTES];
    struct ranks_job job = {.processes = processes, .threads = threads, .limit_s = 60, .run = run};
    static const uint32_t all[] = {~0u, ~0u, ~0u, ~0u};
    emulated_gpu_set_nvlink(all);
    if (!ranks_run(&job, why))
        fail_msg("%d processes of %d threads: %s", processes, threads, why);
    emulated_gpu_set_nvlink(NULL);
}

/* ---- data behind signals ---- */

/* Everybody writes to everybody, itself too. A rank writes again after all have said that they have read. */
static void run_exchange(struct ranks *ranks, int rank) {
    struct player p;
    player_init(&p, ranks, rank, 2, 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        fill_own(&p, round);
        for (int peer = 0; peer < p.nranks; peer++) {
            const size_t at = (size_t)rank * PART, half = PART / 2;
            char *own = (char *)part_of(&p, p.nranks);
            emulated_stream_delay(p.stream, round % 5 == 0 ? 2 : 0);
            ranks_try(ranks, rank, collet_put(own, half, peer, p.window, at, p.comm, p.stream));
            ranks_try(ranks, rank,
                      collet_put_signal(own + half, PART - half, peer, p.window, at + half, p.comm, p.stream));
        }
        for (int peer = 0; peer < p.nranks; peer++)
            ranks_try(ranks, rank, collet_wait_signal(peer, 1, p.window, p.comm, p.stream));
        emulated_stream_wait(p.stream);
        for (int peer = 0; peer < p.nranks; peer++)
            check_part(&p, part_of(&p, peer), peer, round);
        for (int peer = 0; peer < p.nranks; peer++)
            ranks_try(ranks, rank, collet_signal(peer, p.window, p.comm, p.stream));
        for (int peer = 0; peer < p.nranks; peer++)
            ranks_try(ranks, rank, collet_wait_signal(peer, 1, p.window, p.comm, p.stream));
    }
    ranks_try(ranks, rank, collet_win_flush(0, p.window, p.comm, p.stream));
    player_fini(&p);
}

static void what_is_put_is_there_behind_its_signal(void **state) {
    (void)state;
    run_job(run_exchange, 3, 1);
    run_job(run_exchange, 2, 2);
    run_job(run_exchange, 1, 3);
}

/* Signals are counted: many may be sent before one wait. Then a get brings what the peer had put into its own part. */
static void run_counted(struct ranks *ranks, int rank) {
    struct player p;
    player_init(&p, ranks, rank, 2, 0);
    const int next = (rank + 1) % p.nranks, last = (rank + p.nranks - 1) % p.nranks;
    fill_own(&p, 3);
    ranks_try(ranks, rank, collet_put(part_of(&p, p.nranks), PART, rank, p.window, 0, p.comm, p.stream));
    for (int k = 0; k < 40; k++)
        ranks_try(ranks, rank, collet_signal(next, p.window, p.comm, p.stream));
    ranks_try(ranks, rank, collet_wait_signal(last, 39, p.window, p.comm, p.stream));
    ranks_try(ranks, rank, collet_get(part_of(&p, p.nranks), PART, last, p.window, 0, p.comm, p.stream));
    ranks_try(ranks, rank, collet_wait_signal(last, 0, p.window, p.comm, p.stream));
    ranks_try(ranks, rank, collet_wait_signal(last, 1, p.window, p.comm, p.stream));
    emulated_stream_wait(p.stream);
    check_part(&p, part_of(&p, p.nranks), last, 3);
    ranks_barrier(ranks); /* the others have read here, too */
    player_fini(&p);
}

static void signals_are_counted(void **state) {
    (void)state;
    run_job(run_counted, 3, 1);
    run_job(run_counted, 1, 2);
}

/* A graph holds a put, a signal and a wait. Its replays go on with the counts. */
static void run_graph(struct ranks *ranks, int rank) {
    struct player p;
    player_init(&p, ranks, rank, 2, 0);
    const int other = 1 - rank;
    emulated_capture_begin(p.stream);
    ranks_try(ranks, rank,
              collet_put_signal(part_of(&p, p.nranks), PART, other, p.window, (size_t)rank * PART, p.comm, p.stream));
    ranks_try(ranks, rank, collet_wait_signal(other, 1, p.window, p.comm, p.stream));
    void *graph = emulated_capture_end(p.stream);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        fill_own(&p, round);
        emulated_graph_run(graph, p.stream);
        emulated_stream_wait(p.stream);
        check_part(&p, part_of(&p, other), other, round);
        ranks_try(ranks, rank, collet_barrier(p.comm, p.stream));
        emulated_stream_wait(p.stream);
    }
    emulated_graph_destroy(graph);
    player_fini(&p);
}

static void graphs_with_signals_are_replayed(void **state) {
    (void)state;
    run_job(run_graph, 2, 1);
    run_job(run_graph, 1, 2);
}

/* What nobody has waited for when a window ends does not count in the next window, which has the same number. */
static void run_again(struct ranks *ranks, int rank) {
    struct player p;
    player_init(&p, ranks, rank, 2, 500);
    const int other = 1 - rank;
    for (int k = 0; k < 5; k++)
        ranks_try(ranks, rank, collet_signal(other, p.window, p.comm, p.stream));
    ranks_try(ranks, rank, collet_wait_signal(other, 2, p.window, p.comm, p.stream));
    ranks_try(ranks, rank, collet_win_deregister(p.comm, p.window));
    ranks_try(ranks, rank, collet_win_register(p.comm, p.buffer, PART, &p.window));
    if (rank == 0)
        ranks_try(ranks, rank, collet_signal(other, p.window, p.comm, p.stream));
    else
        ranks_try(ranks, rank, collet_wait_signal(other, 1, p.window, p.comm, p.stream));
    emulated_stream_wait(p.stream);
    ranks_barrier(ranks);
    if (rank == 1) { /* the only signal has been counted */
        ranks_try(ranks, rank, collet_wait_signal(other, 1, p.window, p.comm, p.stream));
        emulated_stream_wait(p.stream);
        enum collet_result later = COLLET_SUCCESS;
        while (later == COLLET_SUCCESS)
            ranks_try(ranks, rank, collet_comm_get_async_error(p.comm, &later));
        ranks_check(ranks, rank, later == COLLET_ERR_TIMEOUT);
        ranks_check(ranks, rank, strstr(collet_last_error(p.comm), "for a signal of rank 0") != NULL);
    }
    ranks_barrier(ranks);
    player_fini(&p);
}

static void signals_end_with_their_window_and_a_wait_with_its_timeout(void **state) {
    (void)state;
    run_job(run_again, 2, 1);
}

/* ---- failures ---- */

static void run_death(struct ranks *ranks, int rank) {
    struct player p;
    ranks->expendable[1] = 1;
    player_init(&p, ranks, rank, 2, 0);
    ranks_barrier(ranks);
    if (rank == 1)
        raise(SIGKILL);
    ranks_try(ranks, rank, collet_wait_signal(1, 1, p.window, p.comm, p.stream));
    emulated_stream_wait(p.stream);
    ranks_expect(ranks, rank, collet_wait_signal(1, 1, p.window, p.comm, p.stream), COLLET_ERR_REMOTE, "a wait");
    ranks_check(ranks, rank, strstr(collet_last_error(p.comm), "rank 1") != NULL);
    player_fini(&p);
}

static void a_death_ends_a_wait(void **state) {
    (void)state;
    run_job(run_death, 2, 1);
}

static void run_bad(struct ranks *ranks, int rank) {
    struct player p;
    const enum collet_result bad = COLLET_ERR_INVALID_ARGUMENT;
    player_init(&p, ranks, rank, 2, 0);
    ranks_expect(ranks, rank, collet_put(p.buffer, 8, 2, p.window, 0, p.comm, p.stream), bad, "a peer");
    ranks_expect(ranks, rank, collet_put(p.buffer, 8, 0, NULL, 0, p.comm, p.stream), bad, "no window");
    ranks_expect(ranks, rank, collet_put(NULL, 8, 0, p.window, 0, p.comm, p.stream), bad, "no buffer");
    ranks_expect(ranks, rank, collet_put(p.buffer, 8, 1, p.window, 2 * PART - 7, p.comm, p.stream), bad, "too far");
    ranks_check(ranks, rank, strstr(collet_last_error(p.comm), "the window of rank 1 has 40000 bytes") != NULL);
    ranks_expect(ranks, rank, collet_get(p.buffer, 2 * PART + 1, 0, p.window, 0, p.comm, p.stream), bad, "too long");
    ranks_expect(ranks, rank, collet_wait_signal(-1, 1, p.window, p.comm, p.stream), bad, "a peer");
    player_fini(&p);
}

static void bad_arguments_are_named(void **state) {
    (void)state;
    run_job(run_bad, 2, 1);
}

static void run_far(struct ranks *ranks, int rank) {
    struct player p;
    player_init(&p, ranks, rank, 2, 0);
    ranks_expect(ranks, rank, collet_put(p.buffer, 8, 1 - rank, p.window, 0, p.comm, p.stream), COLLET_ERR_UNSUPPORTED,
                 "a put to a GPU that is not reached");
    ranks_check(ranks, rank, strstr(collet_last_error(p.comm), "NVLink") != NULL);
    ranks_expect(ranks, rank, collet_wait_signal(1 - rank, 1, p.window, p.comm, p.stream), COLLET_ERR_UNSUPPORTED,
                 "a wait for a GPU that is not reached");
    const struct collet_local_piece local = {p.buffer, 8};
    const struct collet_remote_piece remote = {p.window, 0, 8};
    struct collet_transfer *transfer;
    ranks_expect(ranks, rank,
                 collet_transfer_prepare(COLLET_TRANSFER_PUT, &local, &remote, 1, 1 - rank, p.comm, &transfer),
                 COLLET_ERR_UNSUPPORTED, "a transfer to a GPU that is not reached");
    ranks_check(ranks, rank, strstr(collet_last_error(p.comm), "NVLink") != NULL);
    ranks_try(ranks, rank, collet_put_signal(p.buffer, 8, rank, p.window, 8, p.comm, p.stream));
    ranks_try(ranks, rank, collet_wait_signal(rank, 1, p.window, p.comm, p.stream));
    emulated_stream_wait(p.stream);
    player_fini(&p);
}

static void a_gpu_that_is_not_reached_is_named(void **state) {
    char why[RANKS_TEXT_BYTES];
    struct ranks_job job = {.processes = 2, .threads = 1, .run = run_far};
    (void)state;
    if (!ranks_run(&job, why))
        fail_msg("%s", why);
}

/* ---- transfers ---- */

#define PIECES 61

/* Cuts a part into pieces of all lengths, first the shortest, and puts them together in another order. So their two ends lie in every way
 * to each other. The last piece takes the rest. Returns their number. */
static size_t scatter(const struct player *p, uint32_t *part, size_t at, struct collet_local_piece *local,
                      struct collet_remote_piece *remote) {
    size_t here = 0, there = PART;
    for (size_t k = 0; k < PIECES; k++) {
        const size_t bytes = k + 1 < PIECES ? 3 * k : PART - here;
        there -= bytes;
        local[k] = (struct collet_local_piece){(char *)part + here, bytes};
        remote[k] = (struct collet_remote_piece){p->window, at + there, bytes};
        here += bytes;
    }
    return PIECES;
}

static struct collet_transfer *prepare(const struct player *p, enum collet_transfer_kind kind, uint32_t *part, int peer,
                                       size_t at) {
    struct collet_local_piece local[PIECES];
    struct collet_remote_piece remote[PIECES];
    struct collet_transfer *transfer;
    const size_t n = scatter(p, part, at, local, remote);
    ranks_try(p->ranks, p->rank, collet_transfer_prepare(kind, local, remote, n, peer, p->comm, &transfer));
    return transfer;
}

static void wait_note(const struct player *p, int peer, const char *expected) {
    char note[COLLET_NOTE_BYTES];
    size_t bytes;
    ranks_try(p->ranks, p->rank, collet_note_wait(peer, note, &bytes, p->comm));
    ranks_check(p->ranks, p->rank, bytes == strlen(expected) && memcmp(note, expected, bytes) == 0);
}

/* The next rank gets back what this rank has scattered in the window of the one behind it. */
static void run_scattered(struct ranks *ranks, int rank) {
    struct player p;
    player_init(&p, ranks, rank, 2, 0);
    const int next = (rank + 1) % p.nranks, last = (rank + p.nranks - 1) % p.nranks;
    uint32_t *own = part_of(&p, p.nranks);
    struct collet_transfer *put = prepare(&p, COLLET_TRANSFER_PUT, own, next, (size_t)rank * PART);
    struct collet_transfer *get = prepare(&p, COLLET_TRANSFER_GET, own, next, (size_t)rank * PART), *ready;
    ranks_try(ranks, rank, collet_transfer_prepare(COLLET_TRANSFER_GET, NULL, NULL, 0, last, p.comm, &ready));
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        fill_own(&p, round);
        emulated_stream_delay(p.stream, round % 5 == 0 ? 3 : 0);
        ranks_try(ranks, rank, collet_transfer_post(put, "blocks", 6, p.stream));
        wait_note(&p, last, "blocks");
        uint64_t sum = 0, right = 0; /* all numbers are there, scattered */
        for (size_t i = 0; i < PART; i++)
            sum += ((const unsigned char *)part_of(&p, last))[i];
        for (uint32_t k = 0; k < COUNT; k++)
            for (uint32_t number = number_of(last, round, k); number != 0; number >>= 8)
                right += number & 0xff;
        ranks_check(ranks, rank, sum == right);
        ranks_try(ranks, rank, collet_transfer_wait(put));
        memset(own, 0, PART);
        ranks_try(ranks, rank, collet_transfer_post(get, NULL, 0, p.stream));
        ranks_try(ranks, rank, collet_transfer_wait(get));
        check_part(&p, own, rank, round);
        ranks_try(ranks, rank, collet_transfer_post(ready, "", 0, p.stream));
        wait_note(&p, next, ""); /* that rank has looked, so its window may be written again */
        ranks_try(ranks, rank, collet_transfer_wait(ready));
    }
    ranks_try(ranks, rank, collet_transfer_release(put));
    ranks_try(ranks, rank, collet_transfer_release(get));
    ranks_try(ranks, rank, collet_transfer_release(ready));
    ranks_try(ranks, rank, collet_win_deregister(p.comm, p.window));
    player_fini(&p);
}

static void blocks_are_scattered_and_gathered(void **state) {
    (void)state;
    run_job(run_scattered, 3, 1);
    run_job(run_scattered, 2, 2);
    run_job(run_scattered, 1, 3);
}

/* A transfer waits for the earlier work of its own stream alone. */
static void run_streams(struct ranks *ranks, int rank) {
    struct player p;
    char note[COLLET_NOTE_BYTES];
    size_t bytes;
    const enum collet_result misused = COLLET_ERR_INVALID_USAGE;
    player_init(&p, ranks, rank, 1, 0);
    const int other = 1 - rank;
    void *second = emulated_stream_create();
    struct collet_transfer *slow = prepare(&p, COLLET_TRANSFER_PUT, part_of(&p, p.nranks), other, 0);
    struct collet_transfer *fast = prepare(&p, COLLET_TRANSFER_PUT, part_of(&p, p.nranks), other, PART);
    ranks_expect(ranks, rank, collet_transfer_test(slow), misused, "a transfer that was not posted");
    emulated_capture_begin(p.stream);
    ranks_expect(ranks, rank, collet_transfer_post(slow, NULL, 0, p.stream), misused, "a transfer in a graph");
    ranks_check(ranks, rank, strstr(collet_last_error(p.comm), "in a capture") != NULL);
    emulated_graph_destroy(emulated_capture_end(p.stream));
    emulated_stream_delay(p.stream, 500);
    ranks_try(ranks, rank, collet_transfer_post(slow, "slow", 4, p.stream));
    ranks_try(ranks, rank, collet_transfer_post(fast, "fast", 4, second));
    wait_note(&p, other, "fast");
    ranks_try(ranks, rank, collet_transfer_wait(fast));
    if (collet_transfer_test(slow) == COLLET_IN_PROGRESS) { /* unless this thread had no CPU for half a second */
        ranks_expect(ranks, rank, collet_transfer_post(slow, NULL, 0, p.stream), misused, "a transfer under way");
        ranks_expect(ranks, rank, collet_transfer_release(slow), misused, "a transfer under way");
    }
    wait_note(&p, other, "slow");
    ranks_try(ranks, rank, collet_transfer_wait(slow));
    ranks_check(ranks, rank, collet_note_test(other, note, &bytes, p.comm) == COLLET_IN_PROGRESS);
    emulated_stream_delay(p.stream, 100);
    ranks_try(ranks, rank, collet_transfer_post(slow, NULL, 0, p.stream)); /* this one ends with its communicator */
    ranks_try(ranks, rank, collet_comm_destroy(p.comm));
    ranks_barrier(ranks); /* nothing writes to this rank's buffer any more */
    ranks_try(ranks, rank, collet_mem_free(p.buffer));
    emulated_stream_destroy(second);
    emulated_stream_destroy(p.stream);
}

static void a_transfer_waits_for_its_stream_alone(void **state) {
    (void)state;
    run_job(run_streams, 2, 1);
    run_job(run_streams, 1, 2);
}

/* An abort does not wait for a stream that is busy for long. What the stream does later touches nothing that is gone. */
static void run_aborted(struct ranks *ranks, int rank) {
    struct player p;
    player_init(&p, ranks, rank, 1, 0);
    struct collet_transfer *put = prepare(&p, COLLET_TRANSFER_PUT, part_of(&p, p.nranks), 1 - rank, 0);
    emulated_stream_delay(p.stream, 4000);
    ranks_try(ranks, rank, collet_transfer_post(put, "late", 4, p.stream));
    ranks_barrier(ranks);
    const uint64_t begin_ns = os_now_ns();
    ranks_try(ranks, rank, collet_comm_abort(p.comm));
    ranks_check(ranks, rank, os_now_ns() - begin_ns < 3500000000u);
    ranks_barrier(ranks);
    emulated_stream_wait(p.stream);
    emulated_stream_destroy(p.stream);
}

static void an_abort_does_not_wait_for_a_busy_stream(void **state) {
    (void)state;
    run_job(run_aborted, 2, 1);
}

/* Rank 1 dies before it has posted anything. */
static void run_noteless(struct ranks *ranks, int rank) {
    struct player p;
    char note[COLLET_NOTE_BYTES];
    size_t bytes;
    ranks->expendable[1] = 1;
    player_init(&p, ranks, rank, 2, 0);
    ranks_barrier(ranks);
    if (rank == 1)
        raise(SIGKILL);
    ranks_expect(ranks, rank, collet_note_wait(1, note, &bytes, p.comm), COLLET_ERR_REMOTE, "a note");
    ranks_check(ranks, rank, strstr(collet_last_error(p.comm), "rank 1") != NULL);
    player_fini(&p);
}

static void a_death_ends_a_wait_for_a_note(void **state) {
    (void)state;
    run_job(run_noteless, 2, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_there_behind_its_signal),
        cmocka_unit_test(signals_are_counted),
        cmocka_unit_test(graphs_with_signals_are_replayed),
        cmocka_unit_test(signals_end_with_their_window_and_a_wait_with_its_timeout),
        cmocka_unit_test(a_death_ends_a_wait),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(a_gpu_that_is_not_reached_is_named),
        cmocka_unit_test(blocks_are_scattered_and_gathered),
        cmocka_unit_test(a_transfer_waits_for_its_stream_alone),
        cmocka_unit_test(an_abort_does_not_wait_for_a_busy_stream),
        cmocka_unit_test(a_death_ends_a_wait_for_a_note),
    };
    gpu_driver_use(&emulated_gpu_driver);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
