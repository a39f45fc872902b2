/* SPDX-License-Identifier: Apache-2.0
 *
 * Host streams and work handles: calls that return at once, in order on their stream, and whoever waits is told how they
 * ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/fair.h"
#include "common/level.h"
#include "common/world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A failure must not be a wait of half an hour. */
static const char *const impatient[] = {"COLLET_TIMEOUT", "30", NULL};

#define TRY(call) ranks_try(ranks, rank, call)
#define CHECK(condition) ranks_check(ranks, rank, condition)

static struct collet_stream *stream_new(struct ranks *ranks, int rank) {
    struct collet_stream *stream;
    TRY(collet_stream_create(&stream));
    return stream;
}

static struct collet_work record(struct ranks *ranks, int rank, struct collet_stream *stream) {
    struct collet_work work;
    TRY(collet_stream_record(stream, &work));
    return work;
}

static bool is_done(struct ranks *ranks, int rank, struct collet_work work) {
    int done;
    TRY(collet_test(work, &done));
    return done;
}

static void sum_on(struct ranks *ranks, int rank, struct collet_comm *comm, int *value, struct collet_stream *stream) {
    TRY(collet_allreduce(value, value, 1, COLLET_INT32, COLLET_SUM, comm, stream));
}

/* ---- messages beside a collective, one thread or two ---- */

static size_t message_bytes(void) { return level_now() == LEVEL_FAST ? 4u << 20 : 64u << 20; }

struct mover {
    struct ranks *ranks;
    struct collet_comm *comm;
    int rank;
    char *out, *in;
    bool sends, receives;
    pthread_t thread;
};

/* Its messages are on a stream of their own. */
static void *move(void *argument) {
    struct mover *m = argument;
    struct ranks *ranks = m->ranks;
    int rank = m->rank;
    struct collet_stream *stream = stream_new(ranks, rank);
    if (m->sends)
        TRY(collet_send(m->out, message_bytes(), COLLET_UINT8, 1 - rank, m->comm, stream));
    if (m->receives)
        TRY(collet_recv(m->in, message_bytes(), COLLET_UINT8, 1 - rank, m->comm, stream));
    TRY(collet_stream_synchronize(stream));
    TRY(collet_stream_destroy(stream));
    return NULL;
}

/* Rank 0 has begun an allreduce. Rank 1 begins it only when it knows that rank 0 has all messages. */
static void exchange_beside(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *stream = stream_new(ranks, rank);
    struct mover movers[2];
    int one = 1;
    if (rank == 0)
        sum_on(ranks, rank, comm, &one, stream);
    struct collet_work collective = record(ranks, rank, stream);
    for (int k = 0; k < 2; k++) {
        movers[k] = (struct mover){.ranks = ranks, .comm = comm, .rank = rank, .sends = k == 0, .receives = k == 1};
        movers[k].out = memset(malloc(message_bytes()), rank + 1, message_bytes());
        movers[k].in = calloc(message_bytes(), 1);
        CHECK(pthread_create(&movers[k].thread, NULL, move, &movers[k]) == 0);
    }
    for (int k = 0; k < 2; k++)
        pthread_join(movers[k].thread, NULL);
    CHECK(movers[1].in[0] == 2 - rank && movers[1].in[message_bytes() - 1] == 2 - rank);
    if (rank == 0)
        CHECK(!is_done(ranks, rank, collective));
    ranks_barrier(ranks);
    if (rank == 1)
        sum_on(ranks, rank, comm, &one, stream);
    TRY(collet_stream_synchronize(stream));
    CHECK(one == 2 && is_done(ranks, rank, collective));
    for (int k = 0; k < 2; k++) {
        free(movers[k].out);
        free(movers[k].in);
    }
    TRY(collet_stream_destroy(stream));
    TRY(collet_comm_destroy(comm));
}

static void messages_both_ways_pass_a_collective_that_waits(void **state) {
    (void)state;
    world_run_all(0, 2, impatient, exchange_beside, NULL);
}

/* Both send first: on streams that is no deadlock. */
static void both_send_first(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *to = stream_new(ranks, rank), *from = stream_new(ranks, rank);
    char *out = memset(malloc(message_bytes()), rank + 1, message_bytes()), *in = calloc(message_bytes(), 1);
    for (int round = 0; round < 3; round++) {
        TRY(collet_send(out, message_bytes(), COLLET_UINT8, 1 - rank, comm, to));
        TRY(collet_recv(in, message_bytes(), COLLET_UINT8, 1 - rank, comm, from));
        TRY(collet_stream_synchronize(from));
        CHECK(in[0] == 2 - rank && in[message_bytes() - 1] == 2 - rank);
    }
    TRY(collet_stream_destroy(to));
    TRY(collet_stream_destroy(from));
    TRY(collet_comm_destroy(comm));
    free(out);
    free(in);
}

static void two_ranks_that_both_send_first_go_on(void **state) {
    (void)state;
    world_run_all(0, 2, impatient, both_send_first, NULL);
}

/* ---- order ---- */

/* Every call reads what the one before it has written; two communicators share the stream. */
static void chain(struct ranks *ranks, int rank) {
    enum { LINKS = 30, COUNT = 1000 };
    struct collet_comm *comms[2] = {ranks_comm(ranks, rank, NULL), ranks_comm(ranks, rank, NULL)};
    struct collet_stream *stream = stream_new(ranks, rank);
    static _Thread_local double values[LINKS + 1][COUNT];
    struct collet_work middle;
    double expected = 1;
    for (int i = 0; i < COUNT; i++)
        values[0][i] = 1;
    for (int k = 0; k < LINKS; k++) {
        TRY(collet_allreduce(values[k], values[k + 1], COUNT, COLLET_FLOAT64, COLLET_SUM, comms[k % 2], stream));
        if (k == LINKS / 2)
            middle = record(ranks, rank, stream);
    }
    TRY(collet_wait(middle));
    for (int k = 0; k <= LINKS / 2; k++)
        expected *= ranks->nranks;
    CHECK(values[LINKS / 2 + 1][0] == expected && values[LINKS / 2 + 1][COUNT - 1] == expected);
    TRY(collet_stream_synchronize(stream));
    CHECK(collet_stream_query(stream) == COLLET_SUCCESS);
    CHECK(values[LINKS][COUNT / 2] == expected * expected / (LINKS % 2 == 0 ? ranks->nranks * ranks->nranks : 1));
    TRY(collet_stream_destroy(stream));
    for (int k = 0; k < 2; k++)
        TRY(collet_comm_destroy(comms[k]));
}

static void calls_on_a_stream_follow_each_other_also_on_two_communicators(void **state) {
    (void)state;
    world_run_all(0, 2, impatient, chain, NULL);
    world_run_all(0, 4, impatient, chain, NULL);
}

/* Each collective is on the other stream than the one before, and reads what that one has written: no group and no wait
 * says that it is to come later. */
static void alternate(struct ranks *ranks, int rank) {
    enum { LINKS = 24, COUNT = 500 };
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *streams[2] = {stream_new(ranks, rank), stream_new(ranks, rank)};
    static _Thread_local int64_t values[LINKS + 1][COUNT];
    int64_t expected = 1;
    for (int i = 0; i < COUNT; i++)
        values[0][i] = i;
    for (int k = 0; k < LINKS; k++, expected *= ranks->nranks)
        TRY(collet_allreduce(values[k], values[k + 1], COUNT, COLLET_INT64, COLLET_SUM, comm, streams[k % 2]));
    for (int k = 0; k < 2; k++)
        TRY(collet_stream_synchronize(streams[k]));
    for (int i = 0; i < COUNT; i++)
        CHECK(values[LINKS][i] == i * expected);
    for (int k = 0; k < 2; k++)
        TRY(collet_stream_destroy(streams[k]));
    TRY(collet_comm_destroy(comm));
}

static void collectives_keep_the_order_of_issue_on_two_streams(void **state) {
    (void)state;
    world_run_all(0, 2, impatient, alternate, NULL);
    world_run_all(0, 4, impatient, alternate, NULL);
}

/* Of rank 0, the first collective is behind a message that has not been sent, so the second one waits too, though it has a
 * stream of its own. A message on a third stream waits for neither. */
static void wait_behind_a_message(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *streams[3] = {stream_new(ranks, rank), stream_new(ranks, rank), stream_new(ranks, rank)};
    int late = 0, first = 1, second = 0, quick = rank;
    if (rank == 0)
        TRY(collet_recv(&late, 1, COLLET_INT32, 1, comm, streams[0]));
    sum_on(ranks, rank, comm, &first, streams[0]);
    TRY(collet_allreduce(&first, &second, 1, COLLET_INT32, COLLET_SUM, comm, streams[1]));
    TRY(rank == 0 ? collet_send(&quick, 1, COLLET_INT32, 1, comm, streams[2])
                  : collet_recv(&quick, 1, COLLET_INT32, 0, comm, streams[2]));
    TRY(collet_stream_synchronize(streams[2]));
    CHECK(quick == 0);
    ranks_barrier(ranks);
    CHECK(collet_stream_query(streams[0]) == COLLET_IN_PROGRESS);
    CHECK(collet_stream_query(streams[1]) == COLLET_IN_PROGRESS);
    ranks_barrier(ranks);
    late += 7 * rank;
    if (rank == 1)
        TRY(collet_send(&late, 1, COLLET_INT32, 0, comm, NULL));
    for (int k = 0; k < 3; k++) {
        TRY(collet_stream_synchronize(streams[k]));
        TRY(collet_stream_destroy(streams[k]));
    }
    CHECK(first == 2 && second == 4 && late == 7);
    TRY(collet_comm_destroy(comm));
}

static void a_collective_waits_for_the_one_before_on_another_stream(void **state) {
    (void)state;
    world_run_all(0, 2, impatient, wait_behind_a_message, NULL);
}

/* Rank 0 has messages of both directions with rank 1, which is late, and goes on with rank 2: on streams, and by calls that
 * block. Rank 1 comes only when all of that is done. */
static void one_peer_is_late(struct ranks *ranks, int rank) {
    enum { ROUNDS = 5, BYTES = 1 << 20 };
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *to = stream_new(ranks, rank), *from = stream_new(ranks, rank);
    char *out = memset(malloc(BYTES), rank + 1, BYTES), *in = calloc(BYTES, 1), *late = calloc(BYTES, 1);
    const int other = rank == 0 ? 1 : 0, busy = rank == 0 ? 2 : 0;
    if (rank == 1)
        ranks_barrier(ranks);
    if (rank < 2) {
        TRY(collet_send(out, BYTES, COLLET_UINT8, other, comm, to));
        TRY(collet_recv(late, BYTES, COLLET_UINT8, other, comm, from));
    }
    struct collet_stream *own = rank == 1 ? NULL : stream_new(ranks, rank);
    for (int round = 0; rank != 1 && round < ROUNDS; round++) {
        TRY(collet_group_start());
        TRY(collet_send(out, BYTES, COLLET_UINT8, busy, comm, round % 2 == 0 ? own : NULL));
        TRY(collet_recv(in, BYTES, COLLET_UINT8, busy, comm, round % 2 == 0 ? own : NULL));
        TRY(collet_group_end());
        TRY(collet_stream_synchronize(own));
        CHECK(in[0] == busy + 1 && in[BYTES - 1] == busy + 1);
        in[0] = in[BYTES - 1] = 0;
    }
    if (rank == 0)
        CHECK(collet_stream_query(from) == COLLET_IN_PROGRESS);
    if (rank != 1)
        ranks_barrier(ranks);
    TRY(collet_stream_synchronize(from));
    CHECK(rank == 2 || (late[0] == other + 1 && late[BYTES - 1] == other + 1));
    TRY(collet_stream_destroy(to));
    TRY(collet_stream_destroy(from));
    TRY(collet_stream_destroy(own));
    TRY(collet_comm_destroy(comm));
    free(out);
    free(in);
    free(late);
}

static void a_peer_that_is_late_does_not_hold_up_messages_with_another(void **state) {
    (void)state;
    world_run_all(0, 3, impatient, one_peer_is_late, NULL);
}

/* A group on two streams and none: a message around the ring, an allreduce, and one to oneself. The group's calls on one
 * stream begin together, or two ranks that both send first would stand still. */
static void groups(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *a = stream_new(ranks, rank), *b = stream_new(ranks, rank);
    int n = ranks->nranks, out[20], in[20], to_me[20], sums[20];
    for (int k = 0; k < 20; k++) {
        out[k] = 100 * k + rank;
        to_me[k] = in[k] = 0;
        sums[k] = 1;
        TRY(collet_group_start());
        TRY(collet_send(&out[k], 1, COLLET_INT32, (rank + 1) % n, comm, a));
        TRY(collet_send(&in[k > 0 ? k - 1 : 0], 1, COLLET_INT32, rank, comm, a)); /* what the group before received */
        sum_on(ranks, rank, comm, &sums[k], k % 2 == 0 ? b : NULL);
        TRY(collet_recv(&in[k], 1, COLLET_INT32, (rank + n - 1) % n, comm, a));
        TRY(collet_recv(&to_me[k], 1, COLLET_INT32, rank, comm, a));
        TRY(collet_group_end());
        CHECK(k % 2 == 0 || sums[k] == n);
    }
    TRY(collet_stream_synchronize(a));
    TRY(collet_stream_synchronize(b));
    for (int k = 0; k < 20; k++) {
        CHECK(in[k] == 100 * k + (rank + n - 1) % n && sums[k] == n);
        CHECK(k == 0 || to_me[k] == in[k - 1]);
    }
    TRY(collet_group_start());
    TRY(collet_send(&out[0], 1, COLLET_INT32, rank, comm, a));
    TRY(collet_recv(&in[0], 1, COLLET_INT32, rank, comm, NULL));
    ranks_expect(ranks, rank, collet_group_end(), COLLET_ERR_INVALID_USAGE, "a message to oneself with one stream");
    TRY(collet_stream_destroy(a));
    TRY(collet_stream_destroy(b));
    TRY(collet_comm_destroy(comm));
}

static void groups_on_streams_begin_together_and_follow_each_other(void **state) {
    (void)state;
    world_run_all(0, 1, impatient, groups, NULL);
    world_run_all(0, 2, impatient, groups, NULL);
    world_run_all(0, 3, impatient, groups, NULL);
}

/* Blocking calls keep their place behind asynchronous ones, whoever drives. */
static void mixed(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *stream = stream_new(ranks, rank);
    int values[64] = {0};
    for (int k = 0; k < 64; k++) {
        values[k] = k;
        sum_on(ranks, rank, comm, &values[k], k % 3 == 0 ? NULL : stream);
        if (k % 3 == 0)
            for (int j = 0; j <= k; j++)
                CHECK(values[j] == j * ranks->nranks);
    }
    TRY(collet_stream_synchronize(stream));
    TRY(collet_stream_destroy(stream));
    TRY(collet_comm_destroy(comm));
}

static void blocking_calls_keep_their_place_among_asynchronous_ones(void **state) {
    (void)state;
    world_run_all(0, 2, impatient, mixed, NULL);
    world_run_all(0, 5, impatient, mixed, NULL);
}

/* ---- beside a stream that is busy ---- */

/* Rank r sends r + 1 elements to each; element i for rank p is 100·r + 10·p + i. */
struct counted {
    size_t sendcounts[RANKS_MAX], recvcounts[RANKS_MAX];
    int in[RANKS_MAX * RANKS_MAX], exchanged[RANKS_MAX * RANKS_MAX], gathered[RANKS_MAX * RANKS_MAX],
        reduced[RANKS_MAX];
};

static void counted_issue(struct ranks *ranks, int rank, struct collet_comm *comm, struct collet_stream *stream,
                          struct counted *c) {
    const size_t mine = (size_t)rank + 1;
    for (int p = 0; p < ranks->nranks; p++) {
        c->sendcounts[p] = mine;
        c->recvcounts[p] = (size_t)p + 1;
        for (size_t i = 0; i < mine; i++)
            c->in[(size_t)p * mine + i] = 100 * rank + 10 * p + (int)i;
    }
    TRY(collet_alltoallv(c->in, c->sendcounts, NULL, c->exchanged, c->recvcounts, NULL, COLLET_INT32, comm, stream));
    TRY(collet_allgatherv(c->in, mine, c->gathered, c->recvcounts, NULL, COLLET_INT32, comm, stream));
    TRY(collet_reducescatterv(c->gathered, c->reduced, c->recvcounts, COLLET_INT32, COLLET_SUM, comm, stream));
    memset(c->sendcounts, 0x5a, sizeof(c->sendcounts)); /* calls have read the counts */
    memset(c->recvcounts, 0x5a, sizeof(c->recvcounts));
}

static void counted_check(struct ranks *ranks, int rank, const struct counted *c) {
    int at = 0;
    for (int p = 0; p < ranks->nranks; p++)
        for (int i = 0; i <= p; i++, at++) {
            CHECK(c->exchanged[at] == 100 * p + 10 * rank + i);
            CHECK(c->gathered[at] == 100 * p + i);
            CHECK(p != rank || c->reduced[i] == ranks->nranks * (100 * p + i));
        }
}

/* What rank 0 issues waits for the others, and it begins to split before they have issued anything. */
static void split_beside_calls(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *child;
    struct collet_stream *stream = stream_new(ranks, rank);
    struct counted *counted = calloc(1, sizeof(*counted));
    int one = 1, another = 1, size;
    if (rank != 0)
        ranks_barrier(ranks);
    sum_on(ranks, rank, comm, &one, stream);
    counted_issue(ranks, rank, comm, stream, counted);
    struct collet_work calls = record(ranks, rank, stream);
    if (rank == 0) {
        CHECK(!is_done(ranks, rank, calls));
        ranks_barrier(ranks);
    }
    TRY(collet_comm_split(comm, rank % 2, 0, &child, NULL));
    TRY(collet_comm_count(child, &size));
    sum_on(ranks, rank, child, &another, stream);
    TRY(collet_stream_synchronize(stream));
    CHECK(one == ranks->nranks && another == size);
    counted_check(ranks, rank, counted);
    free(counted);
    TRY(collet_comm_destroy(child));
    TRY(collet_stream_destroy(stream));
    TRY(collet_comm_destroy(comm));
}

static void counts_and_splits_go_with_calls_that_are_not_done(void **state) {
    (void)state;
    world_run_all(0, 2, impatient, split_beside_calls, NULL);
    world_run_all(0, 5, impatient, split_beside_calls, NULL);
}

/* ---- many ---- */

static long resident_pages(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &size, &resident) != 2)
        resident = 0;
    if (file != NULL)
        fclose(file);
    return resident;
}

#define MANY 10000

static void many_calls(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *stream = stream_new(ranks, rank);
    int *values = calloc(MANY, sizeof(*values)),
        many = level_now() == LEVEL_FAST || LEVEL_SLOWER > 1 ? MANY / 10 : MANY;
    long before = 0;
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < many; k++) {
            values[k] = 1;
            sum_on(ranks, rank, comm, &values[k], stream);
        }
        TRY(collet_stream_synchronize(stream));
        for (int k = 0; k < many; k++)
            CHECK(values[k] == ranks->nranks);
        if (round == 0)
            before = resident_pages();
    }
    CHECK(LEVEL_SLOWER > 1 || resident_pages() < before + 512); /* of which a second lot of calls would take 700 */
    free(values);
    TRY(collet_stream_destroy(stream));
    TRY(collet_comm_destroy(comm));
}

static void ten_thousand_calls_take_no_more_memory_the_second_time(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 2, impatient, many_calls, NULL);
    world_run(&worlds[WORLD_TCP], 2, impatient, many_calls, NULL);
}

/* ---- waiting ---- */

struct waiting {
    struct ranks *ranks;
    struct collet_work work;
    int rank;
    pthread_t thread;
};

static void *wait_for_it(void *argument) {
    struct waiting *w = argument;
    ranks_try(w->ranks, w->rank, collet_wait(w->work));
    return NULL;
}

static void *test_it(void *argument) {
    struct waiting *w = argument;
    while (!is_done(w->ranks, w->rank, w->work))
        ranks_sleep_ms(1);
    return NULL;
}

static void several_wait(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *stream = stream_new(ranks, rank);
    struct waiting threads[4];
    int value = 1;
    sum_on(ranks, rank, comm, &value, stream);
    for (int k = 0; k < 4; k++) {
        threads[k] = (struct waiting){.ranks = ranks, .rank = rank, .work = record(ranks, rank, stream)};
        CHECK(pthread_create(&threads[k].thread, NULL, k % 2 == 0 ? wait_for_it : test_it, &threads[k]) == 0);
    }
    for (int k = 0; k < 4; k++)
        pthread_join(threads[k].thread, NULL);
    CHECK(value == ranks->nranks);
    TRY(collet_stream_destroy(stream));
    TRY(collet_comm_destroy(comm));
}

static void several_threads_wait_for_one_work(void **state) {
    (void)state;
    world_run_all(0, 2, impatient, several_wait, NULL);
}

/* Nobody waits, and yet it is done. */
static void nobody_waits(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *stream = stream_new(ranks, rank);
    int value = 1;
    sum_on(ranks, rank, comm, &value, stream);
    while (collet_stream_query(stream) == COLLET_IN_PROGRESS)
        ranks_sleep_ms(1);
    CHECK(value == ranks->nranks);
    value = 1;
    sum_on(ranks, rank, comm, &value, stream);
    TRY(collet_comm_destroy(comm)); /* this waits for it */
    CHECK(collet_stream_query(stream) == COLLET_SUCCESS && value == ranks->nranks);
    TRY(collet_stream_destroy(stream));
}

static void a_call_that_nobody_waits_for_is_done_too(void **state) {
    (void)state;
    world_run_all(0, 2, impatient, nobody_waits, NULL);
    world_run_all(0, 3, impatient, nobody_waits, NULL);
}

/* ---- failures ---- */

/* A call that will not be done, behind one that is, and one on another communicator behind both. */
static void abort_pending(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *other = ranks_comm(ranks, rank, NULL);
    struct collet_stream *stream = stream_new(ranks, rank);
    int values[3] = {1, 1, 1};
    sum_on(ranks, rank, comm, &values[0], stream);
    struct collet_work good = record(ranks, rank, stream);
    TRY(collet_wait(good));
    ranks_barrier(ranks);
    if (rank == 0) {
        TRY(collet_recv(&values[1], 1, COLLET_INT32, 1, comm, stream));
        sum_on(ranks, rank, other, &values[2], stream);
        CHECK(collet_stream_query(stream) == COLLET_IN_PROGRESS);
        TRY(collet_comm_abort(comm));
        ranks_expect(ranks, rank, collet_stream_synchronize(stream), COLLET_ERR_ABORTED,
                     "a stream with an aborted call");
        CHECK(strstr(collet_last_error(NULL), "rank 0 called collet_comm_abort()") != NULL);
        CHECK(values[2] == ranks->nranks);
    } else {
        sum_on(ranks, rank, other, &values[2], NULL);
    }
    TRY(collet_wait(good));
    CHECK(values[0] == ranks->nranks);
    TRY(collet_stream_destroy(stream));
    TRY(collet_comm_destroy(other));
    ranks_barrier(ranks);
    if (rank != 0)
        TRY(collet_comm_abort(comm));
}

static void an_abort_ends_calls_on_streams_but_not_those_behind_them(void **state) {
    (void)state;
    world_run_all(0, 2, impatient, abort_pending, NULL);
}

static void wait_in_vain(struct ranks *ranks, int rank) {
    const struct collet_config config = {.size = sizeof(config), .timeout_ms = 300};
    struct collet_comm *comm = ranks_comm(ranks, rank, &config);
    struct collet_stream *stream = stream_new(ranks, rank);
    int value, done = 0;
    if (rank == 0) {
        TRY(collet_recv(&value, 1, COLLET_INT32, 1, comm, stream));
        enum collet_result result = COLLET_SUCCESS;
        struct collet_work work = record(ranks, rank, stream);
        while (!done) {
            result = collet_test(work, &done);
            ranks_sleep_ms(1);
        }
        ranks_expect(ranks, rank, result, COLLET_ERR_TIMEOUT, "a receive without a send");
        CHECK(strstr(collet_last_error(NULL), "waiting for rank 1") != NULL);
    }
    ranks_barrier(ranks);
    TRY(collet_stream_destroy(stream));
    TRY(collet_comm_destroy(comm));
}

static void a_call_on_a_stream_that_waits_too_long_fails(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, wait_in_vain, NULL);
}

static void die(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *stream = stream_new(ranks, rank);
    int value = 1;
    sum_on(ranks, rank, comm, &value, stream);
    TRY(collet_stream_synchronize(stream));
    ranks_barrier(ranks);
    if (rank == 1) {
        __atomic_store_n(&ranks->expendable[rank], 1, __ATOMIC_RELEASE);
        raise(SIGKILL);
    }
    sum_on(ranks, rank, comm, &value, stream);
    enum collet_result result = collet_wait(record(ranks, rank, stream));
    ranks_expect(ranks, rank, result, COLLET_ERR_REMOTE, "a call on a stream whose peer dies");
    CHECK(strstr(collet_last_error(NULL), "rank 1 (host") != NULL);
    TRY(collet_stream_destroy(stream));
    TRY(collet_comm_destroy(comm));
}

/* Rank 0 waits for a message that rank 1 sends only when rank 0 has lost patience. */
static void lose_patience(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct collet_stream *stream = stream_new(ranks, rank);
    int value = 7;
    if (rank == 0) {
        value = 0;
        TRY(collet_recv(&value, 1, COLLET_INT32, 1, comm, stream));
        struct collet_work work = record(ranks, rank, stream);
        CHECK(collet_wait_for(work, 0) == COLLET_IN_PROGRESS && collet_wait_for(work, 30) == COLLET_IN_PROGRESS);
        ranks_barrier(ranks);
        TRY(collet_wait_for(work, 60000));
        CHECK(value == 7);
    } else {
        ranks_barrier(ranks);
        TRY(collet_send(&value, 1, COLLET_INT32, 0, comm, NULL));
    }
    TRY(collet_stream_destroy(stream));
    TRY(collet_comm_destroy(comm));
}

static void a_wait_may_have_a_limit(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 2, NULL, lose_patience, NULL);
}

static void the_death_of_a_peer_is_told_to_who_waits(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 2, impatient, die, NULL);
    world_run(&worlds[WORLD_TCP], 2, impatient, die, NULL);
}

/* ---- arguments, and children ---- */

static void streams_are_checked(void **state) {
    (void)state;
    struct collet_comm *comm;
    struct collet_stream *stream, *gone;
    struct collet_work work;
    uint64_t no_stream[64] = {0};
    int value = 1, done;
    assert_int_equal(collet_comm_init_all(&comm, 1, NULL), COLLET_SUCCESS);
    assert_int_equal(collet_stream_create(NULL), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(collet_stream_create(&stream), COLLET_SUCCESS);
    assert_int_equal(collet_stream_create(&gone), COLLET_SUCCESS);
    assert_int_equal(collet_stream_record(gone, &work), COLLET_SUCCESS);
    assert_int_equal(collet_stream_destroy(gone), COLLET_SUCCESS);
    assert_int_equal(collet_stream_destroy(NULL), COLLET_SUCCESS);
    void *const wrong[] = {gone, no_stream, (void *)1, (void *)2, (char *)no_stream + 1};
    for (unsigned k = 0; k < sizeof(wrong) / sizeof(*wrong); k++) {
        assert_int_equal(collet_allreduce(&value, &value, 1, COLLET_INT32, COLLET_SUM, comm, wrong[k]),
                         COLLET_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(collet_last_error(NULL), "stream is no host stream"));
    }
    assert_int_equal(collet_test(work, &done), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(collet_stream_record(stream, NULL), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(collet_stream_record(stream, &work), COLLET_SUCCESS);
    assert_int_equal(collet_test(work, NULL), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(collet_test(work, &done), COLLET_SUCCESS);
    assert_int_equal(done, 1); /* nothing was issued */
    assert_int_equal(collet_wait_for(work, -1), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    assert_int_equal(collet_allreduce(&value, &value, 1, COLLET_INT32, COLLET_SUM, comm, stream), COLLET_SUCCESS);
    assert_int_equal(collet_stream_destroy(stream), COLLET_ERR_INVALID_USAGE);
    assert_int_equal(collet_stream_synchronize(stream), COLLET_ERR_INVALID_USAGE);
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    assert_int_equal(collet_stream_synchronize(stream), COLLET_SUCCESS);
    assert_int_equal(collet_send(&value, 1, COLLET_INT32, 0, comm, stream), COLLET_ERR_INVALID_USAGE);
    assert_int_equal(collet_stream_destroy(stream), COLLET_SUCCESS);
    assert_int_equal(collet_comm_destroy(comm), COLLET_SUCCESS);
}

/* What a child does with its parent's and with its own. */
static int child(struct collet_stream *stream) {
    struct collet_comm *comm;
    struct collet_stream *own;
    int value = 1;
    fair_alarm(20 * LEVEL_SLOWER);
    bool good = collet_stream_synchronize(stream) == COLLET_ERR_INVALID_USAGE &&
                collet_stream_destroy(stream) == COLLET_SUCCESS &&
                collet_comm_init_all(&comm, 1, NULL) == COLLET_SUCCESS &&
                collet_stream_create(&own) == COLLET_SUCCESS &&
                collet_allreduce(&value, &value, 1, COLLET_INT32, COLLET_SUM, comm, own) == COLLET_SUCCESS &&
                collet_stream_synchronize(own) == COLLET_SUCCESS && collet_stream_destroy(own) == COLLET_SUCCESS &&
                collet_comm_destroy(comm) == COLLET_SUCCESS;
    return good ? 0 : 1;
}

static void a_child_has_streams_of_its_own(void **state) {
    (void)state;
    if (LEVEL_CHILDREN_ONLY_ASK)
        skip();
    struct collet_comm *comms[2];
    struct collet_stream *stream;
    int values[2] = {1, 1}, status;
    assert_int_equal(collet_comm_init_all(comms, 2, NULL), COLLET_SUCCESS);
    assert_int_equal(collet_stream_create(&stream), COLLET_SUCCESS);
    assert_int_equal(collet_allreduce(&values[0], &values[0], 1, COLLET_INT32, COLLET_SUM, comms[0], stream),
                     COLLET_SUCCESS);
    pid_t pid = fork(); /* the thread of comms[0] waits for the other rank */
    if (pid == 0)
        _exit(child(stream));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(collet_allreduce(&values[1], &values[1], 1, COLLET_INT32, COLLET_SUM, comms[1], NULL),
                     COLLET_SUCCESS);
    assert_int_equal(collet_stream_synchronize(stream), COLLET_SUCCESS);
    assert_int_equal(values[0], 2);
    assert_int_equal(collet_stream_destroy(stream), COLLET_SUCCESS);
    for (int k = 0; k < 2; k++)
        assert_int_equal(collet_comm_destroy(comms[k]), COLLET_SUCCESS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_both_ways_pass_a_collective_that_waits),
        cmocka_unit_test(two_ranks_that_both_send_first_go_on),
        cmocka_unit_test(calls_on_a_stream_follow_each_other_also_on_two_communicators),
        cmocka_unit_test(collectives_keep_the_order_of_issue_on_two_streams),
        cmocka_unit_test(a_collective_waits_for_the_one_before_on_another_stream),
        cmocka_unit_test(a_peer_that_is_late_does_not_hold_up_messages_with_another),
        cmocka_unit_test(groups_on_streams_begin_together_and_follow_each_other),
        cmocka_unit_test(blocking_calls_keep_their_place_among_asynchronous_ones),
        cmocka_unit_test(counts_and_splits_go_with_calls_that_are_not_done),
        cmocka_unit_test(ten_thousand_calls_take_no_more_memory_the_second_time),
        cmocka_unit_test(several_threads_wait_for_one_work),
        cmocka_unit_test(a_call_that_nobody_waits_for_is_done_too),
        cmocka_unit_test(an_abort_ends_calls_on_streams_but_not_those_behind_them),
        cmocka_unit_test(a_call_on_a_stream_that_waits_too_long_fails),
        cmocka_unit_test(the_death_of_a_peer_is_told_to_who_waits),
        cmocka_unit_test(a_wait_may_have_a_limit),
        cmocka_unit_test(streams_are_checked),
        cmocka_unit_test(a_child_has_streams_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
