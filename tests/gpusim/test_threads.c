/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of a process whose ranks share a GPU, on a machine with eight queues: can they keep each other waiting?
 */
#include "gpusim/each.h"
#include "gpusim/gpusim.h"

#include "collet.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

void launch_increment(int *of, cudaStream_t stream);
int load_increment(void);

#define GOOD(call) each_equal((long long)(call), 0, #call, collet_last_error(NULL), __LINE__)

enum { RANKS_MAX = 16, BUSY = 12, CALLS = 3, LATE_MS = 20 };

struct caller {
    struct collet_comm *comm;
    cudaStream_t stream;
    int *number; /* on the GPU */
    int late_ms;
};

static atomic_bool over;

static void pause_ms(int ms) { usleep((useconds_t)ms * 1000); }

static int *number_of(int value) {
    int *number;
    GOOD(cudaMalloc((void **)&number, sizeof(value)));
    GOOD(cudaMemcpy(number, &value, sizeof(value), cudaMemcpyDefault));
    return number;
}

/* What the stream has behind a call waits for it, and keeps the queue that the stream shares. */
static void *call_again_and_again(void *caller_) {
    const struct caller *caller = caller_;
    pause_ms(caller->late_ms);
    for (int call = 0; call < CALLS; call++) {
        launch_increment(caller->number, caller->stream);
        GOOD(collet_allreduce(caller->number, caller->number, 1, COLLET_INT32, COLLET_MAX, caller->comm,
                              caller->stream));
        launch_increment(caller->number, caller->stream);
    }
    GOOD(cudaStreamSynchronize(caller->stream));
    return NULL;
}

/* Streams that have nothing to do with collet. */
static void *keep_others_busy(void *number) {
    cudaStream_t streams[BUSY];
    for (int k = 0; k < BUSY; k++)
        GOOD(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking));
    while (!over)
        for (int k = 0; k < BUSY; k++) {
            launch_increment(number, streams[k]);
            if (k == BUSY - 1)
                GOOD(cudaStreamSynchronize(streams[k]));
        }
    return NULL;
}

/* Once for all ranks, by the thread that made them. */
static void call_in_a_group(const struct caller *callers, int nranks) {
    GOOD(collet_group_start());
    for (const struct caller *caller = callers; caller < callers + nranks; caller++)
        GOOD(collet_allreduce(caller->number, caller->number, 1, COLLET_INT32, COLLET_MAX, caller->comm,
                              caller->stream));
    GOOD(collet_group_end());
}

static void call_by_threads(int nranks, bool after_a_group) {
    struct collet_comm *comms[RANKS_MAX];
    struct caller callers[RANKS_MAX];
    pthread_t threads[RANKS_MAX], busy;
    int devices[RANKS_MAX], got;
    for (int rank = 0; rank < nranks; rank++)
        devices[rank] = COLLET_DEVICE_CUDA(0);
    GOOD(load_increment());
    GOOD(collet_comm_init_all(comms, nranks, devices));
    for (int rank = 0; rank < nranks; rank++) {
        callers[rank] =
            (struct caller){.comm = comms[rank], .number = number_of(rank), .late_ms = rank > 0 ? LATE_MS : 0};
        GOOD(cudaStreamCreateWithFlags(&callers[rank].stream, cudaStreamNonBlocking));
    }
    if (after_a_group)
        call_in_a_group(callers, nranks);
    GOOD(cudaDeviceSynchronize());
    EQUAL(pthread_create(&busy, NULL, keep_others_busy, number_of(0)), 0);
    for (int rank = 1; rank < nranks; rank++)
        EQUAL(pthread_create(&threads[rank], NULL, call_again_and_again, &callers[rank]), 0);
    call_again_and_again(&callers[0]); /* the thread that made all ranks calls for one of them */
    for (int rank = 1; rank < nranks; rank++)
        pthread_join(threads[rank], NULL);
    over = true;
    pthread_join(busy, NULL);
    for (int rank = 0; rank < nranks; rank++) {
        GOOD(cudaMemcpy(&got, callers[rank].number, sizeof(got), cudaMemcpyDefault));
        EQUAL(got, nranks - 1 + 2 * CALLS);
    }
}

/* Without a group, after one. */
static void one_thread_calls_for_each_of_3_ranks(void) {
    struct collet_comm *comms[3];
    struct caller callers[3];
    int devices[3] = {COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(0)};
    GOOD(collet_comm_init_all(comms, 3, devices));
    for (int rank = 0; rank < 3; rank++) {
        callers[rank] = (struct caller){.comm = comms[rank], .number = number_of(rank)};
        GOOD(cudaStreamCreateWithFlags(&callers[rank].stream, cudaStreamNonBlocking));
    }
    call_in_a_group(callers, 3);
    for (int call = 0; call < CALLS; call++)
        for (int rank = 0; rank < 3; rank++)
            GOOD(collet_allreduce(callers[rank].number, callers[rank].number, 1, COLLET_INT32, COLLET_MAX, comms[rank],
                                  callers[rank].stream));
    for (int rank = 0; rank < 3; rank++)
        GOOD(cudaStreamSynchronize(callers[rank].stream));
}

/* ---- messages ---- */

enum { ELEMS = 3000, ROUNDS = 3 };

struct job;
struct half {
    struct job *job;
    struct collet_comm *comm;
    cudaStream_t stream;
    int rank, *in, *out; /* on the GPU: for, and from each rank */
};

/* What each thread does with its rank. */
struct job {
    void (*round)(const struct half *half, int round);
    int nranks;
    bool waits_for_gpu; /* between calls, for all of it */
    struct half halves[RANKS_MAX];
};

static int element(int round, int from, int to) { return 10000 * round + 100 * from + to; }

static void fill(const struct half *half, int round) {
    static _Thread_local int numbers[RANKS_MAX * ELEMS];
    for (int to = 0; to < half->job->nranks; to++)
        for (int k = 0; k < ELEMS; k++)
            numbers[to * ELEMS + k] = element(round, half->rank, to);
    GOOD(cudaMemcpyAsync(half->in, numbers, sizeof(*numbers) * (size_t)half->job->nranks * ELEMS, cudaMemcpyDefault,
                         half->stream));
    GOOD(cudaStreamSynchronize(half->stream));
}

static void expect_from(const struct half *half, int round, int from) {
    int got;
    GOOD(cudaMemcpyAsync(&got, half->out + (from + 1) * ELEMS - 1, sizeof(got), cudaMemcpyDefault, half->stream));
    GOOD(cudaStreamSynchronize(half->stream));
    EQUAL(got, element(round, from, half->rank));
}

static void send_to(const struct half *half, int to) {
    GOOD(collet_send(half->in + to * ELEMS, ELEMS, COLLET_INT32, to, half->comm, half->stream));
}
static void receive_from(const struct half *half, int from) {
    GOOD(collet_recv(half->out + from * ELEMS, ELEMS, COLLET_INT32, from, half->comm, half->stream));
}

static void ring(const struct half *half, int round) {
    const int n = half->job->nranks, before = (half->rank + n - 1) % n;
    GOOD(collet_group_start());
    send_to(half, (half->rank + 1) % n);
    receive_from(half, before);
    GOOD(collet_group_end());
    expect_from(half, round, before);
}

static void to_all_others(const struct half *half, int round) {
    const int n = half->job->nranks;
    GOOD(collet_group_start());
    for (int k = 1; k < n; k++) {
        send_to(half, (half->rank + k) % n);
        receive_from(half, (half->rank + n - k) % n);
    }
    GOOD(collet_group_end());
    for (int k = 1; k < n; k++)
        expect_from(half, round, (half->rank + k) % n);
}

/* Ranks 2 and on have no message. */
static void of_two_ranks_alone(const struct half *half, int round) {
    if (half->rank == 0)
        send_to(half, 1);
    if (half->rank != 1)
        return;
    pause_ms(LATE_MS);
    receive_from(half, 0);
    expect_from(half, round, 0);
}

/* Rank 1 calls when rank 0 has gone on: a small message does not wait for its receive. But the first one does, for the connection. */
static atomic_int sent;
static void received_much_later(const struct half *half, int round) {
    if (round == 0) {
        ring(half, round);
        return;
    }
    if (half->rank == 0) {
        send_to(half, 1);
        GOOD(cudaStreamSynchronize(half->stream));
        sent = round + 1;
        return;
    }
    while (sent <= round)
        pause_ms(1);
    receive_from(half, 0);
    expect_from(half, round, 0);
}

/* Both ends are of one thread, one after the other; the ring of all ranks comes first. */
static void also_for_another_rank(const struct half *half, int round) {
    const struct half *other = &half->job->halves[1];
    if (round == 0)
        ring(half, round);
    if (half->rank != 0)
        return;
    if (round == 0) /* the other thread has made its only call */
        return;
    fill(other, round);
    send_to(half, 1);
    receive_from(other, 0);
    expect_from(other, round, 0);
}

/* First in a group, then one after the other. */
static void for_two_ranks(const struct half *half, int round) {
    const struct half *other = &half->job->halves[1];
    if (half->rank != 0)
        return;
    fill(other, round);
    if (round == 0)
        GOOD(collet_group_start());
    send_to(half, 1);
    receive_from(other, 0);
    if (round == 0)
        GOOD(collet_group_end());
    expect_from(other, round, 0);
}

/* Two sends in one group, and two receives that are none. */
static void grouped_at_one_end(const struct half *half, int round) {
    for (int k = 0; k < 2; k++) {
        if (half->rank == 1)
            receive_from(half, 0);
        if (half->rank == 0 && k == 0)
            GOOD(collet_group_start());
        if (half->rank == 0)
            send_to(half, 1);
    }
    if (half->rank == 0)
        GOOD(collet_group_end());
    if (half->rank == 1)
        expect_from(half, round, 0);
}

/* From one stream to the other: what a rank receives in its second stream it has sent in its first one. */
static void in_two_streams(const struct half *half, int round) {
    const int other = 1 - half->rank;
    struct half second = *half;
    GOOD(cudaStreamCreateWithFlags(&second.stream, cudaStreamNonBlocking));
    GOOD(collet_group_start());
    send_to(half, other);
    receive_from(&second, other);
    GOOD(collet_group_end());
    expect_from(&second, round, other);
    GOOD(cudaStreamDestroy(second.stream));
}

/* ---- more ranks than queues: what cannot go together is refused, in words ---- */

static void expect_refusal(enum collet_result result, enum collet_result wanted, const char *text,
                           const struct half *half) {
    each_equal(result, wanted, "the call", collet_last_error(half->comm), __LINE__);
    each_equal(strstr(collet_last_error(half->comm), text) != NULL, 1, "its text", collet_last_error(half->comm),
               __LINE__);
}

static void connect_two(const struct half *half) {
    if (half->rank == 0)
        send_to(half, 1);
    else
        receive_from(half, 0);
}

static void unlike_groups(const struct half *half, int round) {
    if (round > 0 || half->rank > 1)
        return;
    connect_two(half);
    GOOD(collet_group_start());
    for (int k = 0; k < 2 - half->rank; k++)
        if (half->rank == 0)
            send_to(half, 1);
        else
            receive_from(half, 0);
    expect_refusal(collet_group_end(), COLLET_ERR_UNSUPPORTED,
                   "12 ranks of this process share GPU 0, whose streams share 8 queues", half);
}

static void a_missing_receive(const struct half *half, int round) {
    if (round == 0 && half->rank < 2)
        connect_two(half);
    if (round > 0 || half->rank > 0)
        return;
    expect_refusal(collet_send(half->in, ELEMS, COLLET_INT32, 1, half->comm, half->stream), COLLET_ERR_TIMEOUT,
                   "waiting for rank 1; 12 ranks share GPU 0 and its 8 queues", half);
}

static void *run_half(void *half_) {
    const struct half *half = half_;
    for (int round = 0; round < ROUNDS; round++) {
        fill(half, round);
        if (half->job->waits_for_gpu) {
            pause_ms(half->rank % 2 == 1 ? LATE_MS : 0);
            GOOD(cudaDeviceSynchronize());
        }
        half->job->round(half, round);
    }
    return NULL;
}

static void exchange(int nranks, bool waits_for_gpu, void (*round)(const struct half *half, int round)) {
    static struct job job;
    struct collet_comm *comms[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    int devices[RANKS_MAX];
    const size_t bytes = (size_t)nranks * ELEMS * sizeof(int);
    job = (struct job){.round = round, .nranks = nranks, .waits_for_gpu = waits_for_gpu};
    for (int rank = 0; rank < nranks; rank++)
        devices[rank] = COLLET_DEVICE_CUDA(0);
    GOOD(collet_comm_init_all(comms, nranks, devices));
    for (int rank = 0; rank < nranks; rank++) {
        struct half *half = &job.halves[rank];
        *half = (struct half){.job = &job, .comm = comms[rank], .rank = rank};
        GOOD(cudaStreamCreateWithFlags(&half->stream, cudaStreamNonBlocking));
        GOOD(cudaMalloc((void **)&half->in, bytes));
        GOOD(cudaMalloc((void **)&half->out, bytes));
    }
    for (int rank = 1; rank < nranks; rank++)
        EQUAL(pthread_create(&threads[rank], NULL, run_half, &job.halves[rank]), 0);
    run_half(&job.halves[0]); /* the thread that made all ranks calls for one of them */
    for (int rank = 1; rank < nranks; rank++)
        pthread_join(threads[rank], NULL);
}

static void a_ring_of_2_threads_that_wait_for_the_gpu(void) { exchange(2, true, ring); }
static void messages_of_3_threads_that_wait_for_the_gpu(void) { exchange(3, true, to_all_others); }
static void a_ring_of_12_threads(void) { exchange(12, false, ring); }
static void a_ring_of_16_threads_that_wait_for_the_gpu(void) { exchange(16, true, ring); }
static void messages_of_12_threads_to_all(void) { exchange(12, false, to_all_others); }
static void ranks_without_messages_keep_nobody_waiting(void) { exchange(12, false, of_two_ranks_alone); }
static void a_send_whose_receive_comes_much_later_ends(void) { exchange(2, false, received_much_later); }
static void a_thread_calls_for_its_rank_and_another_one(void) { exchange(4, false, also_for_another_rank); }
static void of_more_ranks_than_queues_a_thread_calls_for_two(void) { exchange(12, false, for_two_ranks); }
static void sends_of_one_group_are_received_one_by_one(void) { exchange(3, false, grouped_at_one_end); }
static void both_ends_are_in_streams_of_their_own(void) { exchange(2, true, in_two_streams); }
static void unlike_groups_of_more_ranks_than_queues_are_refused(void) { exchange(12, false, unlike_groups); }
static void with_more_ranks_than_queues_a_missing_receive_is_told_with_them(void) {
    setenv("COLLET_TIMEOUT", "2", 1);
    exchange(12, false, a_missing_receive);
}

static void two_ranks_get_through(void) { call_by_threads(2, false); }
static void seven_ranks_get_through(void) { call_by_threads(7, false); }
static void eight_ranks_get_through(void) { call_by_threads(8, false); }
static void sixteen_ranks_get_through(void) { call_by_threads(16, false); }
static void sixteen_ranks_get_through_after_a_group_of_one_thread(void) { call_by_threads(16, true); }

#define CASES(X)                                                                                                       \
    X(two_ranks_get_through)                                                                                           \
    X(seven_ranks_get_through)                                                                                         \
    X(eight_ranks_get_through)                                                                                         \
    X(sixteen_ranks_get_through)                                                                                       \
    X(sixteen_ranks_get_through_after_a_group_of_one_thread)                                                           \
    X(one_thread_calls_for_each_of_3_ranks)                                                                            \
    X(a_ring_of_2_threads_that_wait_for_the_gpu)                                                                       \
    X(messages_of_3_threads_that_wait_for_the_gpu)                                                                     \
    X(a_ring_of_12_threads)                                                                                            \
    X(a_ring_of_16_threads_that_wait_for_the_gpu)                                                                      \
    X(messages_of_12_threads_to_all)                                                                                   \
    X(ranks_without_messages_keep_nobody_waiting)                                                                      \
    X(a_send_whose_receive_comes_much_later_ends)                                                                      \
    X(a_thread_calls_for_its_rank_and_another_one)                                                                     \
    X(of_more_ranks_than_queues_a_thread_calls_for_two)                                                                \
    X(sends_of_one_group_are_received_one_by_one)                                                                      \
    X(both_ends_are_in_streams_of_their_own)                                                                           \
    X(unlike_groups_of_more_ranks_than_queues_are_refused)                                                             \
    X(with_more_ranks_than_queues_a_missing_receive_is_told_with_them)
static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) {
    setenv("GPUSIM_GPUS", "1", 1);
    setenv("GPUSIM_SMS", "132", 1); /* a block of each end of a message runs beside the others */
    setenv("COLLET_TIMEOUT", "60", 1);
    return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv);
}
