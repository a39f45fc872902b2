/* SPDX-License-Identifier: Apache-2.0
 *
 * The library on the simulated machine, where CUDA promises less than one might think.
 */
#include "gpusim/each.h"
#include "gpusim/landed.h"
#include "gpusim/gpusim.h"

#include "api/comm.h"
#include "base/types.h"
#include "layers/gpu/windows.h"
#include "collet.h"
#include "gpusim/machine.h"
#include "common/fair.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

void launch_spin(const int *until, cudaStream_t stream);

#define GOOD(call) each_equal((long long)(call), 0, #call, collet_last_error(NULL), __LINE__)

static void with_short_slots(void) {
    setenv("COLLET_PROTO", "Simple", 1);
    setenv("COLLET_NCHANNELS", "1", 1);
    setenv("COLLET_BUFFSIZE", "4096", 1);
}

/* ---- two ranks in this thread, both on GPU 0 ---- */

struct pair {
    struct collet_comm *comms[2];
    float *of[2];
};

static void pair_create(struct pair *pair) {
    GOOD(collet_comm_init_all(pair->comms, 2, (int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(0)}));
    for (int rank = 0; rank < 2; rank++) {
        float one = 1;
        GOOD(cudaMalloc((void **)&pair->of[rank], 2 * sizeof(float)));
        GOOD(copy_landed(pair->of[rank], &one, sizeof(one)));
    }
}

/* From the first number of each rank into number `to`. */
static void pair_sum(const struct pair *pair, int to, cudaStream_t stream) {
    GOOD(collet_group_start());
    for (int rank = 0; rank < 2; rank++)
        GOOD(collet_allreduce(pair->of[rank], &pair->of[rank][to], 1, COLLET_FLOAT32, COLLET_SUM, pair->comms[rank],
                              stream));
    GOOD(collet_group_end());
}

static float pair_number(const struct pair *pair, int which) {
    float number;
    GOOD(cudaMemcpy(&number, &pair->of[0][which], sizeof(number), cudaMemcpyDefault));
    return number;
}

/* A word that kernels wait for. Connections and kernels are made here: both may wait for kernels that run. */
static int *gate(const struct pair *pair) {
    int *word;
    GOOD(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocDefault));
    *word = 1;
    launch_spin(word, NULL);
    pair_sum(pair, 1, NULL);
    GOOD(cudaDeviceSynchronize());
    *word = 0;
    return word;
}

/* Until the stream's work is done, or has had the time to be, if nothing keeps it; then what keeps it ends. */
static void give_time(cudaStream_t stream, int *word) {
    for (int ms = 0; ms < 300 && cudaStreamQuery(stream) == cudaErrorNotReady; ms++)
        usleep(1000);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    GOOD(cudaStreamSynchronize(stream));
}

/* ---- order ---- */

struct second {
    const struct pair *pair;
    int *word;
};

/* After the first sum each rank has 2, so the second one is 4. */
static void *sum_again(void *second_) {
    const struct second *second = second_;
    pair_sum(second->pair, 1, cudaStreamPerThread);
    give_time(cudaStreamPerThread, second->word);
    return NULL;
}

static void streams_of_two_threads_with_one_handle_keep_the_order_of_calls(void) {
    struct pair pair;
    pthread_t thread;
    pair_create(&pair);
    int *word = gate(&pair);
    launch_spin(word, cudaStreamPerThread);
    pair_sum(&pair, 0, cudaStreamPerThread);
    EQUAL(pthread_create(&thread, NULL, sum_again, &(struct second){&pair, word}), 0);
    pthread_join(thread, NULL);
    EQUAL(pair_number(&pair, 1), 4);
}

static void a_stream_with_the_handle_of_one_that_is_gone_keeps_the_order_of_calls(void) {
    struct pair pair;
    cudaStream_t first, second;
    pair_create(&pair);
    int *word = gate(&pair);
    GOOD(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    launch_spin(word, first);
    pair_sum(&pair, 0, first);
    GOOD(cudaStreamDestroy(first));
    GOOD(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    EQUAL(first == second, 1);
    pair_sum(&pair, 1, second);
    give_time(second, word);
    EQUAL(pair_number(&pair, 1), 4);
}

/* ---- order in a capture, where no stream has an id ---- */

static void event_record(cudaEvent_t *event, cudaStream_t stream) {
    GOOD(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    GOOD(cudaEventRecord(*event, stream));
}

/* Brings a stream into the capture of another, and back. */
static void stream_forks(cudaStream_t from, cudaStream_t stream) {
    cudaEvent_t event;
    event_record(&event, from);
    GOOD(cudaStreamWaitEvent(stream, event, 0));
}
static void stream_joins(cudaStream_t stream, cudaStream_t to) { stream_forks(stream, to); }

/* Replays it while a kernel of it waits, as long as the second sum needs to come first if it may. */
static void sums_are_in_order(const struct pair *pair, cudaStream_t captured, int *word) {
    cudaStream_t stream;
    cudaGraphExec_t made;
    cudaGraph_t graph;
    GOOD(cudaStreamEndCapture(captured, &graph));
    GOOD(cudaGraphInstantiateWithFlags(&made, graph, 0));
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    GOOD(cudaGraphLaunch(made, stream));
    give_time(stream, word);
    EQUAL(pair_number(pair, 1), 4);
}

struct forked {
    const struct pair *pair;
    cudaEvent_t fork, join;
};

static void *capture_second(void *forked_) {
    struct forked *forked = forked_;
    GOOD(cudaStreamWaitEvent(cudaStreamPerThread, forked->fork, 0));
    pair_sum(forked->pair, 1, cudaStreamPerThread);
    event_record(&forked->join, cudaStreamPerThread);
    return NULL;
}

static void streams_of_two_threads_in_one_capture_keep_the_order_of_calls(void) {
    struct pair pair;
    struct forked forked = {.pair = &pair};
    pthread_t thread;
    pair_create(&pair);
    int *word = gate(&pair);
    GOOD(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed));
    event_record(&forked.fork, cudaStreamPerThread);
    launch_spin(word, cudaStreamPerThread);
    pair_sum(&pair, 0, cudaStreamPerThread);
    EQUAL(pthread_create(&thread, NULL, capture_second, &forked), 0);
    pthread_join(thread, NULL);
    GOOD(cudaStreamWaitEvent(cudaStreamPerThread, forked.join, 0));
    sums_are_in_order(&pair, cudaStreamPerThread, word);
}

static void streams_with_one_handle_in_one_capture_keep_the_order_of_calls(void) {
    struct pair pair;
    cudaStream_t origin, first, second;
    pair_create(&pair);
    int *word = gate(&pair);
    GOOD(cudaStreamCreateWithFlags(&origin, cudaStreamNonBlocking));
    GOOD(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    GOOD(cudaStreamBeginCapture(origin, cudaStreamCaptureModeRelaxed));
    stream_forks(origin, first);
    launch_spin(word, first);
    pair_sum(&pair, 0, first);
    cudaEvent_t end;
    event_record(&end, first);
    GOOD(cudaStreamDestroy(first));
    GOOD(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    EQUAL(first == second, 1);
    stream_forks(origin, second);
    pair_sum(&pair, 1, second);
    stream_joins(second, origin);
    GOOD(cudaStreamWaitEvent(origin, end, 0));
    sums_are_in_order(&pair, origin, word);
}

/* Of a capture that is over nothing is left that would order the next one. */
static void a_stream_is_captured_again(void) {
    struct pair pair;
    cudaStream_t stream;
    cudaGraph_t graph;
    pair_create(&pair);
    int *word = gate(&pair);
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int k = 0; k < 2; k++) {
        GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
        pair_sum(&pair, 0, stream);
        if (k == 0)
            GOOD(cudaStreamEndCapture(stream, &graph));
    }
    pair_sum(&pair, 1, stream);
    sums_are_in_order(&pair, stream, word);
}

/* ---- ends ---- */

static void a_communicator_ends_while_a_kernel_of_another_waits(void) {
    struct pair kept, gone;
    pair_create(&kept);
    pair_create(&gone);
    cudaStream_t stream;
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int *word = gate(&kept);
    pair_sum(&gone, 1, stream);
    GOOD(cudaStreamSynchronize(stream));
    launch_spin(word, stream);
    GOOD(collet_comm_destroy(gone.comms[0]));
    GOOD(collet_comm_destroy(gone.comms[1]));
    EQUAL(cudaStreamQuery(stream), cudaErrorNotReady);
    give_time(stream, word);
}

struct launcher {
    struct collet_comm *comm;
    float *number;
    cudaStream_t stream;
    pthread_t thread;
    atomic_int launched;
};

/* The other rank does not come: the first kernel waits, and the queue behind it fills. */
static void *launch_without_end(void *launcher_) {
    struct launcher *l = launcher_;
    while (collet_allreduce(l->number, l->number, 1, COLLET_FLOAT32, COLLET_SUM, l->comm, l->stream) == COLLET_SUCCESS)
        l->launched++;
    return NULL;
}

/* Returns when every call of the driver waits. */
static void launcher_start(struct launcher *l) {
    GOOD(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking));
    EQUAL(pthread_create(&l->thread, NULL, launch_without_end, l), 0);
    for (int before = -1; l->launched < 4 || before != l->launched;) {
        before = l->launched;
        usleep(50000);
    }
}

/* ---- the end of CUDA ---- */

static struct pair *lingering; /* behind the end of CUDA */

__attribute__((destructor(101))) static void linger(void) {
    if (lingering == NULL)
        return;
    usleep(200000);
    GOOD(collet_comm_destroy(lingering->comms[0]));
    GOOD(collet_comm_destroy(lingering->comms[1]));
}

/* A program may end with communicators. Threads of collet still run when CUDA is no more, and have nothing to say about that. */
static void a_process_that_ends_with_communicators_says_nothing(void) {
    char said[4096];
    int pipes[2], status;
    size_t n = 0;
    EQUAL(pipe(pipes), 0);
    if (fork() == 0) {
        static struct pair pair;
        setenv("COLLET_DEBUG", "WARN", 1);
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        pair_create(&pair);
        gate(&pair);
        lingering = &pair;
        exit(0);
    }
    close(pipes[1]);
    for (ssize_t some; n < sizeof(said) - 1 && (some = read(pipes[0], said + n, sizeof(said) - 1 - n)) > 0;)
        n += (size_t)some;
    said[n] = '\0';
    wait(&status);
    each_equal((long long)n, 0, "what it says, in bytes,", said, __LINE__);
    EQUAL(status, 0);
}

/* A program may reset a GPU under a communicator. Whatever that destroys, the communicator fails, and the process lives. */
static void a_reset_of_the_gpu_fails_its_communicators(void) {
    enum collet_result error = COLLET_SUCCESS;
    struct pair pair;
    pair_create(&pair);
    gate(&pair);
    GOOD(cudaDeviceReset());
    while (error == COLLET_SUCCESS) {
        usleep(1000);
        GOOD(collet_comm_get_async_error(pair.comms[0], &error));
    }
    EQUAL(error, COLLET_ERR_SYSTEM);
    EQUAL(collet_allreduce(pair.of[0], pair.of[0], 1, COLLET_FLOAT32, COLLET_SUM, pair.comms[0], NULL),
          COLLET_ERR_SYSTEM);
    const char *said = collet_last_error(NULL);
    each_equal(strstr(said, "work on the GPU has failed") != NULL, 1, "the error", said, __LINE__);
    for (int rank = 0; rank < 2; rank++)
        GOOD(collet_comm_abort(pair.comms[rank]));
}

static void pair_sums(void) {
    struct pair pair;
    pair_create(&pair);
    pair_sum(&pair, 1, cudaStreamPerThread);
    GOOD(cudaStreamSynchronize(cudaStreamPerThread));
    EQUAL(pair_number(&pair, 1), 2);
    for (int rank = 0; rank < 2; rank++)
        GOOD(collet_comm_destroy(pair.comms[rank]));
}

/* Nothing is left of what the library had there, and it makes everything anew. */
static void a_new_communicator_works_behind_a_reset(void) {
    for (int time = 0; time < 3; time++) {
        pair_sums();
        GOOD(cudaDeviceReset());
    }
    pair_sums();
}

/* As long as one is there from before, nobody knows whose memory is at an address. */
static void communicators_from_before_a_reset_end_before_new_ones(void) {
    struct pair pair;
    struct collet_comm *comm;
    pair_create(&pair);
    gate(&pair);
    GOOD(cudaDeviceReset());
    EQUAL(collet_comm_init_all(&comm, 1, (int[]){COLLET_DEVICE_CUDA(0)}), COLLET_ERR_INVALID_USAGE);
    for (int rank = 0; rank < 2; rank++)
        GOOD(collet_comm_abort(pair.comms[rank]));
    pair_sums();
}

/* ---- threads whose ranks share a GPU ---- */

#define SENT_BYTES 100000u /* more than the slots of with_short_slots() hold */

struct caller {
    const struct pair *pair;
    cudaStream_t stream;
    float *memory;
    atomic_bool has_called;
};

static void caller_create(struct caller *caller, const struct pair *pair) {
    *caller = (struct caller){.pair = pair};
    GOOD(cudaMalloc((void **)&caller->memory, SENT_BYTES));
    GOOD(cudaStreamCreateWithFlags(&caller->stream, cudaStreamNonBlocking));
}

static void *call_first(void *caller_) {
    struct caller *c = caller_;
    GOOD(collet_allgather(c->pair->of[0], c->memory, 1, COLLET_FLOAT32, c->pair->comms[0], c->stream));
    c->has_called = true;
    return NULL;
}

/* As the nccl-tests do before each size: a thread sets the buffers of its rank and waits for all that its GPU does. The other rank's call
 * has no kernel there before this rank calls, too. */
static void a_rank_waits_for_its_gpu_before_its_call(void) {
    struct caller first;
    struct pair pair;
    pthread_t thread;
    setenv("COLLET_TIMEOUT", "10", 1);
    pair_create(&pair);
    gate(&pair);
    caller_create(&first, &pair);
    for (int round = 0; round < 3; round++) {
        EQUAL(pthread_create(&thread, NULL, call_first, &first), 0);
        usleep(10000);
        GOOD(cudaMemset(pair.of[1], 0, sizeof(float)));
        GOOD(cudaDeviceSynchronize());
        GOOD(collet_allgather(pair.of[1], first.memory + 2, 1, COLLET_FLOAT32, pair.comms[1], NULL));
        pthread_join(thread, NULL);
        GOOD(cudaDeviceSynchronize());
    }
}

static void message_pass(const struct caller *first, struct collet_comm *const comms[2], cudaStream_t stream) {
    GOOD(collet_group_start());
    GOOD(collet_send(first->memory, SENT_BYTES, COLLET_UINT8, 1, comms[0], stream));
    GOOD(collet_recv(first->memory, SENT_BYTES, COLLET_UINT8, 0, comms[1], stream));
    GOOD(collet_group_end());
    GOOD(cudaDeviceSynchronize());
}

static void *send_first(void *caller_) {
    struct caller *c = caller_;
    GOOD(collet_send(c->memory, SENT_BYTES, COLLET_UINT8, 1, c->pair->comms[0], c->stream));
    c->has_called = true;
    return NULL;
}

/* A message is launched as soon as one end calls. Where the other end then waits for the whole GPU it waits for that kernel, which waits
 * for it. No GPU can help that: the report must say who waits for whom. */
static void a_rank_that_waits_for_its_gpu_before_its_message_is_named(void) {
    enum collet_result error = COLLET_SUCCESS;
    struct caller first;
    struct pair pair;
    pthread_t thread;
    setenv("COLLET_TIMEOUT", "2", 1);
    with_short_slots();
    pair_create(&pair);
    gate(&pair);
    caller_create(&first, &pair);
    message_pass(&first, pair.comms, NULL); /* ranks meet before the first one */
    EQUAL(pthread_create(&thread, NULL, send_first, &first), 0);
    while (!first.has_called)
        usleep(1000);
    GOOD(cudaMemset(pair.of[1], 0, sizeof(float)));
    GOOD(cudaDeviceSynchronize());
    while (error == COLLET_SUCCESS) { /* a thread looks at the GPU now and then */
        usleep(1000);
        GOOD(collet_comm_get_async_error(pair.comms[1], &error));
    }
    EQUAL(error, COLLET_ERR_TIMEOUT);
    EQUAL(collet_recv(first.memory, SENT_BYTES, COLLET_UINT8, 0, pair.comms[1], NULL), COLLET_ERR_TIMEOUT);
    const char *said = collet_last_error(NULL);
    each_equal(strstr(said, "rank 0 made no progress for") != NULL && strstr(said, "waiting for rank 1") != NULL, 1,
               "the report", said, __LINE__);
    pthread_join(thread, NULL);
}

/* ---- a process per rank ---- */

#define COMMS 3
#define DEATH_SECONDS 15

static struct shared {
    struct collet_unique_id ids[COMMS]; /* of communicators, in the order in which the ranks make them */
    atomic_int nids, stage, wrong, peer_polls, switches, pids[2];
    atomic_bool kills; /* rank 0 kills rank 1 */
} * shared;

static void share(void) {
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void rank_sums(int rank, int device, struct collet_comm **comm) {
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(device)};
    static _Thread_local int made; /* by this rank */
    float *numbers, got;
    if (rank == 0) {
        GOOD(collet_get_unique_id(&shared->ids[made]));
        shared->nids++;
    }
    while (shared->nids <= made)
        usleep(1000);
    GOOD(collet_comm_init_rank_config(comm, 2, shared->ids[made++], rank, &config));
    GOOD(cudaSetDevice(device));
    GOOD(cudaMalloc((void **)&numbers, sizeof(got)));
    got = (float)(rank + 1);
    GOOD(copy_landed(numbers, &got, sizeof(got)));
    GOOD(collet_allreduce(numbers, numbers, 1, COLLET_FLOAT32, COLLET_SUM, *comm, NULL));
    GOOD(cudaMemcpy(&got, numbers, sizeof(got), cudaMemcpyDefault));
    EQUAL(got, 3);
}

static void each_rank(void (*run)(int rank)) {
    int status;
    share();
    for (int rank = 0; rank < 2; rank++)
        if (fork() == 0) {
            fair_alarm(EACH_SECONDS);
            shared->pids[rank] = getpid();
            run(rank);
            _exit(0);
        }
    for (int k = 0; k < 2; k++) {
        const pid_t pid = wait(&status);
        EQUAL(status, shared->kills && pid == shared->pids[1] ? SIGKILL : 0);
    }
}

static void sum_on_the_one_gpu_shown(int rank) {
    struct collet_comm *comm;
    setenv("CUDA_VISIBLE_DEVICES", rank == 0 ? "0" : "1", 1);
    rank_sums(rank, 0, &comm);
    GOOD(collet_comm_destroy(comm));
}

/* LL128 needs slots in memory of the other GPU. */
static void processes_that_are_shown_one_gpu_each_use_nvlink(void) {
    setenv("COLLET_TOPO_FILE", "tests/gpusim/nvlink.xml", 1);
    setenv("COLLET_PROTO", "LL128", 1);
    each_rank(sum_on_the_one_gpu_shown);
}

static void parts_of_one_gpu_share_memory_of_the_host(void) {
    setenv("GPUSIM_MIG", "2", 1);
    each_rank(sum_on_the_one_gpu_shown);
}

static void end_one_after_the_other(int rank) {
    struct collet_comm *comm;
    rank_sums(rank, rank, &comm);
    while (shared->stage < rank)
        usleep(1000);
    GOOD(collet_comm_destroy(comm));
    shared->stage++;
}

static void memory_by_a_handle_outlives_its_communicator(void) {
    setenv("COLLET_CUMEM_ENABLE", "0", 1);
    each_rank(end_one_after_the_other);
}

/* The thread that asks the driver about the survivor's work waits, too. */
static void die_or_launch(int rank) {
    struct launcher launcher = {.number = NULL};
    rank_sums(rank, rank, &launcher.comm);
    while (rank == 1)
        pause();
    GOOD(cudaMalloc((void **)&launcher.number, sizeof(*launcher.number)));
    launcher_start(&launcher);
    shared->kills = true;
    GOOD(kill(shared->pids[1], SIGKILL));
    fair_alarm(DEATH_SECONDS);
    pthread_join(launcher.thread, NULL);
    GOOD(cudaStreamSynchronize(launcher.stream));
    GOOD(collet_comm_abort(launcher.comm));
}

static void abort_or_launch(int rank) {
    struct launcher launcher = {.number = NULL};
    rank_sums(rank, rank, &launcher.comm);
    GOOD(cudaMalloc((void **)&launcher.number, sizeof(*launcher.number)));
    if (rank == 0) {
        launcher_start(&launcher);
        GOOD(collet_comm_abort(launcher.comm));
        pthread_join(launcher.thread, NULL);
        shared->stage++;
        return;
    }
    while (shared->stage == 0)
        usleep(1000);
    GOOD(collet_comm_abort(launcher.comm));
}

static void an_abort_comes_through_while_every_call_of_the_driver_waits(void) {
    setenv("GPUSIM_PENDING", "4", 1);
    each_rank(abort_or_launch);
}

static void a_death_ends_kernels_while_every_call_of_the_driver_waits(void) {
    setenv("GPUSIM_PENDING", "4", 1);
    each_rank(die_or_launch);
}

/* ---- where counters lie ---- */

#define FILL_BYTES 100000u /* more than all slots of a connection hold */

static struct gpusim_counts counts_of(int gpu) {
    struct gpusim_counts counts;
    gpusim_counts((uint32_t)gpu, &counts);
    return counts;
}

/* Rank 0 has slots to spare at first. Then it fills all, while a kernel keeps rank 1 from emptying them. */
static void fill_slots(int rank) {
    struct collet_comm *comm;
    char *memory;
    int *word;
    rank_sums(rank, rank, &comm);
    GOOD(cudaMalloc((void **)&memory, FILL_BYTES));
    GOOD(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocDefault));
    *word = 1;
    launch_spin(word, NULL);
    for (int call = 0; call < 3 * 8; call++)
        GOOD(collet_broadcast(memory, memory, 1, COLLET_UINT8, 0, comm, NULL));
    GOOD(collet_broadcast(memory, memory, FILL_BYTES, COLLET_UINT8, 0, comm,
                          NULL)); /* the first one may wait for kernels */
    GOOD(cudaDeviceSynchronize());
    *word = rank == 0;
    launch_spin(word, NULL);
    const uint64_t polls = counts_of(rank).polls;
    GOOD(collet_broadcast(memory, memory, FILL_BYTES, COLLET_UINT8, 0, comm, NULL));
    while (rank == 0 && counts_of(rank).polls < polls + 1000)
        usleep(1000);
    shared->stage |= rank == 0;
    while (shared->stage == 0)
        usleep(1000);
    *word = 1;
    GOOD(cudaDeviceSynchronize());
    shared->peer_polls += (int)counts_of(rank).peer_polls;
    GOOD(collet_comm_destroy(comm));
}

static void *fill_slots_in_a_thread(void *rank) {
    fill_slots(*(int *)rank);
    return NULL;
}

static void a_producer_polls_memory_of_its_own_gpu(void) {
    pthread_t threads[2];
    int ranks[2] = {0, 1};
    with_short_slots();
    share();
    for (int rank = 0; rank < 2; rank++)
        EQUAL(pthread_create(&threads[rank], NULL, fill_slots_in_a_thread, &ranks[rank]), 0);
    for (int rank = 0; rank < 2; rank++)
        pthread_join(threads[rank], NULL);
    EQUAL(shared->peer_polls, 0);
}

static void a_producer_polls_memory_of_its_own_gpu_also_between_processes(void) {
    with_short_slots();
    each_rank(fill_slots);
    EQUAL(shared->peer_polls, 0);
}

static const void *block_of_heads(const struct collet_comm *comm) {
    struct gpusim_range_info range = {.base = NULL};
    for (const struct conn *c = comm->chan->owner.first; c != NULL; c = c->next)
        if (c->side == CONN_PRODUCER)
            gpusim_range_of(c->end.head, &range);
    return range.base;
}

/* Rank 0 has sent all, and ends; a kernel keeps rank 1 from receiving it. */
static const void *end_before_it_is_received(int rank, enum collet_result (*end)(struct collet_comm *comm)) {
    struct collet_comm *comm;
    char *memory;
    int *word;
    rank_sums(rank, rank, &comm);
    GOOD(cudaMalloc((void **)&memory, 1));
    GOOD(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocDefault));
    *word = 1;
    launch_spin(word, NULL);
    GOOD(collet_broadcast(memory, memory, 1, COLLET_UINT8, 0, comm, NULL)); /* the first one may wait for kernels */
    GOOD(cudaDeviceSynchronize());
    *word = rank == 0;
    launch_spin(word, NULL);
    GOOD(collet_broadcast(memory, memory, 1, COLLET_UINT8, 0, comm, NULL));
    const void *const block = block_of_heads(comm);
    if (rank == 0)
        GOOD(cudaDeviceSynchronize());
    shared->stage |= 1 << rank;
    while ((shared->stage & 3) != 3)
        usleep(1000);
    if (rank == 1)
        usleep(300000);
    shared->stage |= rank * 4;
    *word = 1;
    GOOD(end(comm));
    return block;
}

static void destroy_before_it_is_received(int rank) {
    end_before_it_is_received(rank, collet_comm_destroy);
    EQUAL(shared->stage, 7);
}

/* Nobody knows whether rank 1 still writes its head. */
static void abort_before_it_is_received(int rank) {
    const void *const block = end_before_it_is_received(rank, collet_comm_abort);
    for (int k = 0; k < 8 && rank == 0; k++) {
        void *memory;
        GOOD(collet_mem_alloc(&memory, 2 << 20, COLLET_DEVICE_CUDA(0)));
        DIFFER(memory, block);
    }
}

static void memory_of_heads_is_kept_until_all_have_come(void) {
    with_short_slots();
    setenv("COLLET_CUMEM_ENABLE", "0", 1);
    each_rank(destroy_before_it_is_received);
    each_rank(abort_before_it_is_received);
}

/* ---- windows of two processes ---- */

#define LENT 5000u

/* Slots that the rank has lent to the other process. */
static uint64_t loans_of(const struct collet_comm *comm) {
    uint64_t loans = 0;
    for (const struct conn *c = comm->chan->owner.first; c != NULL; c = c->next) {
        struct fifo_end end = c->end;
        if (c->side == CONN_PRODUCER && c->end_on_gpu != NULL)
            GOOD(cudaMemcpy(&end, c->end_on_gpu, sizeof(end), cudaMemcpyDefault));
        if (end.loans.way == LOAN_WINDOW)
            loans += end.loans.until - c->end.loans.until;
    }
    return loans;
}

/* Is the result right? No, if the call failed, here or already at the other rank. */
static bool gather(uint32_t *in, uint32_t *out, int rank, struct collet_comm *comm) {
    uint32_t numbers[2 * LENT];
    for (uint32_t k = 0; k < LENT; k++)
        numbers[k] = (uint32_t)rank << 24 | k;
    GOOD(copy_landed(in, numbers, LENT * sizeof(*in)));
    GOOD(cudaMemset(out, 0xff, sizeof(numbers)));
    bool right = collet_allgather(in, out, LENT, COLLET_UINT32, comm, NULL) == COLLET_SUCCESS &&
                 cudaMemcpy(numbers, out, sizeof(numbers), cudaMemcpyDefault) == cudaSuccess;
    for (uint32_t k = 0; right && k < 2 * LENT; k++)
        right = numbers[k] == (k / LENT << 24 | k % LENT);
    return right;
}

static bool is_mapped(const void *address) {
    struct gpusim_range_info range;
    return gpusim_range_of(address, &range) && !range.freed;
}

/* GPU: the rank's own, as its process numbers it. */
static void lend_to_the_other_process(int rank, int gpu, bool lends, bool may_read) {
    struct collet_comm *comm;
    struct collet_window *window;
    struct gpu_window_place place;
    struct gpusim_range_info range;
    void *memory;
    rank_sums(rank, gpu, &comm);
    GOOD(collet_mem_alloc(&memory, 3 * LENT * sizeof(uint32_t), COLLET_DEVICE_CUDA(gpu)));
    uint32_t *in = memory, *out = in + LENT;
    EQUAL(gather(in, out, rank, comm), true);
    EQUAL(loans_of(comm), 0);
    GOOD(collet_win_register(comm, memory, 3 * LENT * sizeof(uint32_t), &window));
    EQUAL(gpu_window_find(comm->chan, memory, 1, &place), true);
    EQUAL(gpu_window_is_symmetric(place.window), lends);
    if (!may_read && gpusim_range_of(gpu_window_base(place.window, 1 - rank), &range))
        gpusim_range_grant(range.base, (uint32_t)rank, false, true);
    EQUAL(gather(in, out, rank, comm), may_read);
    if (!may_read)
        return;
    EQUAL(loans_of(comm) > 0, lends);
    const void *there = gpu_window_base(place.window, 1 - rank);
    EQUAL(is_mapped(there), there != NULL);
    GOOD(collet_win_deregister(comm, window));
    EQUAL(is_mapped(there), false);
    GOOD(collet_mem_free(memory)); /* the machine looks whether the other process still has it open */
    EQUAL(is_mapped(memory), false);
    GOOD(collet_comm_destroy(comm));
}

static void lend_from_the_one_gpu_shown(int rank) {
    setenv("CUDA_VISIBLE_DEVICES", rank == 0 ? "0" : "1", 1);
    lend_to_the_other_process(rank, 0, true, true);
}
static void lend_between_gpus_that_are_seen(int rank) { lend_to_the_other_process(rank, rank, true, true); }
static void use_slots(int rank) { lend_to_the_other_process(rank, rank, false, true); }
static void lend_what_may_not_be_read(int rank) { lend_to_the_other_process(rank, rank, true, false); }

static void each_rank_gathers(void (*run)(int rank), const char *by_descriptor) {
    setenv("COLLET_PROTO", "Simple", 1);
    setenv("COLLET_ALGO", "direct", 1);
    setenv("COLLET_NCHANNELS", "1", 1);
    setenv("COLLET_CUMEM_ENABLE", by_descriptor, 1);
    each_rank(run);
}

static void windows_are_lent_between_processes_by_handle(void) {
    each_rank_gathers(lend_between_gpus_that_are_seen, "0");
}

static void windows_are_lent_between_processes_by_descriptor(void) {
    each_rank_gathers(lend_between_gpus_that_are_seen, "1");
}

static void windows_are_lent_between_processes_that_are_shown_one_gpu_each(void) {
    setenv("COLLET_TOPO_FILE", "tests/gpusim/nvlink.xml", 1);
    each_rank_gathers(lend_from_the_one_gpu_shown, "0");
    each_rank_gathers(lend_from_the_one_gpu_shown, "1");
}

static void windows_of_gpus_that_pci_joins_are_not_lent(void) {
    setenv("GPUSIM_LINKS", "PCI", 1);
    each_rank_gathers(use_slots, "0");
}

/* The payload is read where it is: without the right to, the reader's GPU faults. */
static void a_window_that_may_not_be_read_fails_the_call(void) {
    setenv("COLLET_TIMEOUT", "5", 1);
    each_rank_gathers(lend_what_may_not_be_read, "1"); /* a mapping has rights of its own */
}

/* ---- ends of one communicator beside a kernel of another, in two processes ---- */

#define BESIDE_BYTES ((size_t)3 << 20)

/* A rank with two communicators: of one there is a window, of the other a kernel that waits. */
struct beside {
    int rank;
    struct collet_comm *gone, *kept;
    struct collet_window *window;
    void *memory;      /* the window */
    const void *there; /* the other rank's, as this one reaches it */
    float *number;
    cudaStream_t stream;
};

static bool by_descriptor(void) { return strcmp(getenv("COLLET_CUMEM_ENABLE"), "1") == 0; }

static void beside_create(struct beside *b, int rank) {
    struct gpu_window_place place;
    b->rank = rank;
    rank_sums(rank, rank, &b->gone);
    rank_sums(rank, rank, &b->kept);
    GOOD(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    GOOD(cudaMalloc((void **)&b->number, sizeof(*b->number)));
    GOOD(collet_mem_alloc(&b->memory, BESIDE_BYTES, COLLET_DEVICE_CUDA(rank)));
    GOOD(collet_win_register(b->gone, b->memory, BESIDE_BYTES, &b->window));
    EQUAL(gpu_window_find(b->gone->chan, b->memory, 1, &place), true);
    EQUAL(gpu_window_has_team(place.window), by_descriptor());
    b->there = gpu_window_base(place.window, 1 - rank);
}

static void beside_sum(const struct beside *b) {
    GOOD(collet_allreduce(b->number, b->number, 1, COLLET_FLOAT32, COLLET_SUM, b->kept, b->stream));
}

/* Rank 1 calls as soon as rank 0 has done what must not wait for that. */
static void end_beside(struct beside *b, void (*end)(struct beside *b)) {
    if (b->rank == 0)
        beside_sum(b);
    end(b);
    if (b->rank == 0)
        EQUAL(cudaStreamQuery(b->stream), cudaErrorNotReady);
    shared->stage += b->rank == 0;
    while (shared->stage == 0)
        usleep(1000);
    if (b->rank == 1)
        beside_sum(b);
    GOOD(cudaStreamSynchronize(b->stream));
}

static void beside_destroy(struct beside *b) { GOOD(collet_comm_destroy(b->gone)); }
static void beside_abort(struct beside *b) { GOOD(collet_comm_abort(b->gone)); }
static void beside_deregister(struct beside *b) { GOOD(collet_win_deregister(b->gone, b->window)); }

static void destroy_beside(int rank) {
    struct beside b;
    beside_create(&b, rank);
    end_beside(&b, beside_destroy);
    GOOD(collet_comm_destroy(b.kept));
}

static void abort_beside(int rank) {
    struct beside b;
    beside_create(&b, rank);
    end_beside(&b, beside_abort);
    GOOD(collet_comm_destroy(b.kept));
}

static void a_communicator_of_two_processes_ends_while_a_kernel_of_another_waits(void) {
    setenv("COLLET_TOPO_FILE", "tests/gpusim/nvlink.xml", 1);
    for (int way = 0; way < 2; way++) {
        setenv("COLLET_CUMEM_ENABLE", way == 0 ? "0" : "1", 1);
        each_rank(destroy_beside);
        each_rank(abort_beside);
    }
    setenv("COLLET_CTA_POLICY", "zero", 1); /* its boxes are by descriptor, too */
    each_rank(destroy_beside);
}

/* Rank 0 has the other's buffer mapped for longer; then a buffer with a handle may not be freed, and the machine looks. */
static void deregister_beside(int rank) {
    struct beside b;
    struct collet_comm *next;
    beside_create(&b, rank);
    end_beside(&b, beside_deregister);
    EQUAL(is_mapped(b.there), rank == 0);
    GOOD(collet_mem_free(b.memory));
    EQUAL(is_mapped(b.memory), !by_descriptor());
    rank_sums(rank, rank, &next);
    EQUAL(is_mapped(b.there), false);
    GOOD(collet_comm_destroy(next));
    GOOD(collet_comm_destroy(b.gone));
    GOOD(collet_comm_destroy(b.kept));
}

static void a_window_ends_while_a_kernel_of_another_communicator_waits(void) {
    setenv("COLLET_TOPO_FILE", "tests/gpusim/nvlink.xml", 1);
    for (int way = 0; way < 2; way++) {
        setenv("COLLET_CUMEM_ENABLE", way == 0 ? "0" : "1", 1);
        each_rank(deregister_beside);
    }
}

/* The program may replay it at any moment. */
static void deregister_beside_a_graph(int rank) {
    struct beside b;
    cudaGraph_t graph;
    beside_create(&b, rank);
    GOOD(cudaStreamBeginCapture(b.stream, cudaStreamCaptureModeThreadLocal));
    beside_sum(&b);
    GOOD(cudaStreamEndCapture(b.stream, &graph));
    beside_deregister(&b);
    EQUAL(is_mapped(b.there), true);
    GOOD(collet_mem_free(b.memory));
    GOOD(collet_comm_destroy(b.gone));
    GOOD(collet_comm_destroy(b.kept));
    EQUAL(is_mapped(b.there), false);
}

static void what_a_graph_might_wait_for_is_unmapped_behind_its_communicator(void) {
    setenv("COLLET_TOPO_FILE", "tests/gpusim/nvlink.xml", 1);
    setenv("COLLET_CUMEM_ENABLE", "0", 1);
    each_rank(deregister_beside_a_graph);
}

/* ---- one-shot in place ---- */

#define SHARED_RANKS 4
#define SHARED_COUNT 6000

static void fill_all(float *memory, float number) {
    static float numbers[SHARED_COUNT];
    for (int i = 0; i < SHARED_COUNT; i++)
        numbers[i] = number;
    GOOD(copy_landed(memory, numbers, sizeof(numbers)));
}

static void expect_each(const float *memory, float number) {
    static float numbers[SHARED_COUNT];
    GOOD(cudaMemcpy(numbers, memory, sizeof(numbers), cudaMemcpyDefault));
    for (int i = 0; i < SHARED_COUNT; i++)
        each_equal((long long)numbers[i], (long long)number, "sum", "", __LINE__);
}

/* A sum that is written where others still read the operand would be wrong: in place, one-shot lends nothing. */
static void one_shot_in_place_lends_nothing(void) {
    struct collet_comm *comms[SHARED_RANKS];
    int devices[SHARED_RANKS];
    cudaStream_t streams[SHARED_RANKS];
    void *of[SHARED_RANKS];
    setenv("GPUSIM_GPUS", "4", 1);
    setenv("COLLET_ALGO", "oneshot", 1);
    setenv("COLLET_PROTO", "Simple", 1);
    setenv("COLLET_NCHANNELS", "1", 1);
    for (int rank = 0; rank < SHARED_RANKS; rank++)
        devices[rank] = COLLET_DEVICE_CUDA(rank);
    GOOD(collet_comm_init_all(comms, SHARED_RANKS, devices));
    for (int rank = 0; rank < SHARED_RANKS; rank++) {
        GOOD(cudaSetDevice(rank));
        GOOD(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking));
        GOOD(collet_mem_alloc(&of[rank], SHARED_COUNT * sizeof(float), devices[rank]));
    }
    for (int round = 0; round < 4; round++) {
        for (int rank = 0; rank < SHARED_RANKS; rank++)
            fill_all(of[rank], (float)(rank + round));
        GOOD(collet_group_start());
        for (int rank = 0; rank < SHARED_RANKS; rank++)
            GOOD(collet_allreduce(of[rank], of[rank], SHARED_COUNT, COLLET_FLOAT32, COLLET_SUM, comms[rank],
                                  streams[rank]));
        GOOD(collet_group_end());
        for (int rank = 0; rank < SHARED_RANKS; rank++)
            GOOD(cudaStreamSynchronize(streams[rank]));
        for (int rank = 0; rank < SHARED_RANKS; rank++)
            expect_each(of[rank], (float)(6 + 4 * round));
    }
    for (int rank = 0; rank < SHARED_RANKS; rank++) {
        GOOD(collet_mem_free(of[rank]));
        GOOD(cudaStreamDestroy(streams[rank]));
        GOOD(collet_comm_destroy(comms[rank]));
    }
}

/* ---- copy engines ---- */

#define GATHERED 5000

/* Windows of two processes on two GPUs. */
struct gatherer {
    struct collet_comm *comm;
    cudaStream_t stream;
    struct collet_window *window;
    int *in, *out;
};

static void gatherer_create(struct gatherer *g, int rank) {
    void *memory;
    rank_sums(rank, rank, &g->comm); /* rank 0's id for both, and their GPUs */
    GOOD(cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking));
    GOOD(collet_mem_alloc(&memory, 2 * GATHERED * sizeof(int), COLLET_DEVICE_CUDA(rank)));
    GOOD(cudaMalloc((void **)&g->in, GATHERED * sizeof(int)));
    g->out = memory;
    GOOD(collet_win_register(g->comm, g->out, 2 * GATHERED * sizeof(int), &g->window));
}

static void gather_by_copies(const struct gatherer *g) {
    GOOD(collet_allgather(g->in, g->out, GATHERED, COLLET_INT32, g->comm, g->stream));
}

static void give(const struct gatherer *g, int rank, int round) {
    static int numbers[GATHERED];
    for (int k = 0; k < GATHERED; k++)
        numbers[k] = (round * 2 + rank) * GATHERED + k;
    GOOD(cudaMemcpyAsync(g->in, numbers, sizeof(numbers), cudaMemcpyDefault, g->stream));
}

static void expect_all(const struct gatherer *g, int round) {
    static int numbers[2 * GATHERED];
    GOOD(cudaMemcpyAsync(numbers, g->out, sizeof(numbers), cudaMemcpyDefault, g->stream));
    GOOD(cudaStreamSynchronize(g->stream));
    for (int k = 0; k < 2 * GATHERED; k++)
        EQUAL(numbers[k], round * 2 * GATHERED + k);
}

/* In a group, what has come to the other rank, and something back. */
static void mail_by_copies(const struct gatherer *g, int rank) {
    GOOD(collet_group_start());
    GOOD(collet_send(g->in, GATHERED, COLLET_INT32, 1 - rank, g->comm, g->stream));
    GOOD(collet_recv(g->out + (1 - rank) * GATHERED, GATHERED, COLLET_INT32, 1 - rank, g->comm, g->stream));
    GOOD(collet_group_end());
}

/* Once by calls, then by replays of a graph. */
static void gather_into_windows(int rank) {
    struct gatherer g;
    cudaGraphExec_t made;
    cudaGraph_t graph;
    gatherer_create(&g, rank);
    gpusim_forget_calls();
    for (int round = 0; round < 3; round++) {
        give(&g, rank, round);
        gather_by_copies(&g);
        expect_all(&g, round);
        mail_by_copies(&g, rank);
        expect_all(&g, round);
    }
    GOOD(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeThreadLocal));
    gather_by_copies(&g);
    mail_by_copies(&g, rank);
    GOOD(cudaStreamEndCapture(g.stream, &graph));
    GOOD(cudaGraphInstantiateWithFlags(&made, graph, 0));
    for (int round = 3; round < 6; round++) {
        give(&g, rank, round);
        GOOD(cudaGraphLaunch(made, g.stream));
        expect_all(&g, round);
    }
    EQUAL(gpusim_calls("cudaLaunchKernel"), 0);
    GOOD(collet_win_deregister(g.comm, g.window));
    GOOD(collet_comm_destroy(g.comm));
}

static void zero_policy(void) {
    setenv("COLLET_TOPO_FILE", "tests/gpusim/nvlink.xml", 1);
    setenv("COLLET_CTA_POLICY", "zero", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1); /* whatever else a rank does stands behind its waits */
}

/* Where streams write no words, kernels do what copy engines would. */
static void gather_by_kernels(int rank) {
    struct gatherer g;
    gatherer_create(&g, rank);
    gpusim_forget_calls();
    give(&g, rank, 0);
    GOOD(collet_allgather(g.in, g.out, GATHERED, COLLET_INT32, g.comm, g.stream));
    expect_all(&g, 0);
    DIFFER(gpusim_calls("cudaLaunchKernel"), 0);
    EQUAL(gpusim_calls("sim_cuStreamBatchMemOp") + gpusim_calls("cuStreamBatchMemOp"), 0);
    GOOD(collet_win_deregister(g.comm, g.window));
    GOOD(collet_comm_destroy(g.comm));
}

static void kernels_fill_windows_where_streams_write_no_words(void) {
    zero_policy();
    for (const char *how = "12"; *how != '\0'; how++) {
        setenv("GPUSIM_NO_MEMOPS", *how == '1' ? "1" : "2", 1);
        each_rank(gather_by_kernels);
    }
}

static void copy_engines_fill_windows_without_a_kernel(void) {
    zero_policy();
    each_rank(gather_into_windows);
}

static void *launch_behind(void *stream) {
    int *word;
    GOOD(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocDefault));
    *word = 1;
    for (int k = 0; k < 6; k++) /* more than the queue takes */
        launch_spin(word, stream);
    return NULL;
}

/* Rank 1 does not come. Kernels behind rank 0's wait fill the queue, and every call of the driver waits for the stream. */
static void wait_with_a_full_queue(int rank) {
    struct gatherer g;
    pthread_t thread;
    gatherer_create(&g, rank);
    gather_by_copies(&g);
    GOOD(cudaStreamSynchronize(g.stream));
    if (rank == 0) {
        gather_by_copies(&g);
        EQUAL(pthread_create(&thread, NULL, launch_behind, g.stream), 0);
        usleep(100000);
        GOOD(collet_comm_abort(g.comm));
        pthread_join(thread, NULL);
        shared->stage++;
    }
    while (shared->stage == 0)
        usleep(1000);
    GOOD(rank == 0 ? COLLET_SUCCESS : collet_comm_abort(g.comm));
}

/* Its copies may no longer write where the other rank's window is. */
static void gather_without_the_right(int rank) {
    struct gatherer g;
    struct gpu_window_place place;
    struct gpusim_range_info range;
    gatherer_create(&g, rank);
    EQUAL(gpu_window_find(g.comm->chan, g.out, 1, &place), true);
    if (gpusim_range_of(gpu_window_base(place.window, 1 - rank), &range))
        gpusim_range_grant(range.base, (uint32_t)rank, true, false);
    /* The GPU may fail before the call returns. */
    collet_allgather(g.in, g.out, GATHERED, COLLET_INT32, g.comm, g.stream);
    EQUAL(cudaStreamSynchronize(g.stream), cudaErrorIllegalAddress);
}

static void a_window_that_may_not_be_written_fails_the_call(void) {
    zero_policy();
    each_rank(gather_without_the_right);
}

static void an_abort_comes_through_to_a_stream_that_waits_for_a_rank(void) {
    zero_policy();
    setenv("GPUSIM_PENDING", "4", 1);
    each_rank(wait_with_a_full_queue);
}

/* ---- sums by switches ---- */

/* A rank with a window; what it has is 3 * TEAM_BYTES long: IN, and OUT at a place of its own. */
#define TEAM_BYTES ((size_t)96 << 10)
#define TEAM_COUNT 18001u

struct summer {
    struct collet_comm *comm;
    struct collet_window *window;
    int rank, nranks;
    char *memory;
    size_t out_at;
};

static void by_switches(void) {
    setenv("COLLET_ALGO", "nvls", 1);
    setenv("COLLET_PROTO", "Simple", 1);
    setenv("COLLET_NCHANNELS", "1", 1);
    setenv("COLLET_CHUNKSIZE", "131072", 1); /* a slice is one piece */
}

static void summer_register(struct summer *s) {
    void *memory;
    GOOD(cudaSetDevice(s->rank));
    GOOD(collet_mem_alloc(&memory, 3 * TEAM_BYTES, COLLET_DEVICE_CUDA(s->rank)));
    s->memory = memory;
    s->out_at = TEAM_BYTES;
    GOOD(collet_win_register(s->comm, memory, 3 * TEAM_BYTES, &s->window));
}

static bool summer_has_team(const struct summer *s) {
    struct gpu_window_place place;
    EQUAL(gpu_window_find(s->comm->chan, s->memory, 1, &place), true);
    EQUAL(gpu_window_is_lent(place.window), true);
    return gpu_window_has_team(place.window);
}

/* Sums of all ranks' are exact in 16 bits. */
static float number_of(int rank, uint32_t k, int round) { return (float)((k * 7 + (uint32_t)(rank * 3 + round)) % 61); }

static void number_put(void *numbers, enum collet_type type, uint32_t k, float number) {
    if (type == COLLET_FLOAT32)
        ((float *)numbers)[k] = number;
    else
        ((uint16_t *)numbers)[k] = type == COLLET_FLOAT16 ? type_store_half(number) : type_store_bfloat16(number);
}

static float number_get(const void *numbers, enum collet_type type, uint32_t k) {
    uint32_t bits = ((const uint16_t *)numbers)[type == COLLET_FLOAT32 ? 0 : k];
    float number;
    if (type == COLLET_FLOAT16)
        return type_load_half((uint16_t)bits);
    bits <<= 16;
    memcpy(&number, type == COLLET_FLOAT32 ? (const char *)numbers + 4 * (size_t)k : (const char *)&bits, 4);
    return number;
}

static void summer_give(const struct summer *s, enum collet_type type, int round) {
    static _Thread_local char numbers[TEAM_BYTES];
    for (uint32_t k = 0; k < TEAM_COUNT; k++)
        number_put(numbers, type, k, number_of(s->rank, k, round));
    GOOD(copy_landed(s->memory, numbers, sizeof(numbers)));
}

static bool summer_is_right(const struct summer *s, const char *out, enum collet_type type, enum collet_op op,
                            int round) {
    static _Thread_local char numbers[TEAM_BYTES];
    bool right = cudaMemcpy(numbers, out, sizeof(numbers), cudaMemcpyDefault) == cudaSuccess;
    for (uint32_t k = 0; right && k < TEAM_COUNT; k++) {
        float sum = 0, most = 0;
        for (int rank = 0; rank < s->nranks; rank++) {
            sum += number_of(rank, k, round);
            most = fmaxf(most, number_of(rank, k, round));
        }
        right = number_get(numbers, type, k) == (op == COLLET_AVG   ? sum / (float)s->nranks
                                                 : op == COLLET_MAX ? most
                                                                    : sum);
    }
    return right;
}

static bool summer_sums(const struct summer *s, enum collet_type type, enum collet_op op, bool in_place, int round) {
    char *out = s->memory + (in_place ? 0 : s->out_at);
    summer_give(s, type, round);
    GOOD(collet_allreduce(s->memory, out, TEAM_COUNT, type, op, s->comm, cudaStreamPerThread));
    GOOD(cudaStreamSynchronize(cudaStreamPerThread));
    return summer_is_right(s, out, type, op, round);
}

static uint64_t loads_by_switch(const struct summer *s) {
    struct gpusim_counts counts;
    gpusim_counts((uint32_t)s->rank, &counts);
    return counts.multi_loads;
}

/* How a rank's slice is loaded: by vectors, and words behind them. */
static uint64_t loads_of_slice(const struct summer *s, uint32_t elem_bytes) {
    const uint64_t slice = geometry_share(TEAM_COUNT, (uint64_t)s->nranks), first = slice * (uint64_t)s->rank;
    const uint64_t bytes = geometry_min(slice, TEAM_COUNT - first) * elem_bytes;
    return bytes % 4 != 0 ? 0 : bytes / 16 + bytes % 16 / 4;
}

static void expect_sum(const struct summer *s, enum collet_type type, enum collet_op op, bool in_place, int round,
                       uint64_t loads) {
    const uint64_t before = loads_by_switch(s);
    EQUAL(summer_sums(s, type, op, in_place, round), true);
    EQUAL(loads_by_switch(s) - before, loads);
}

static void summer_sums_all(struct summer *s) {
    static const enum collet_type types[] = {COLLET_FLOAT32, COLLET_FLOAT16, COLLET_BFLOAT16};
    for (int k = 0; k < 3; k++)
        for (int in_place = 0; in_place < 2; in_place++)
            expect_sum(s, types[k], COLLET_SUM, in_place != 0, 2 * k + in_place,
                       loads_of_slice(s, (uint32_t)collet_type_size(types[k])));
    expect_sum(s, COLLET_FLOAT32, COLLET_AVG, false, 6, loads_of_slice(s, 4));
    expect_sum(s, COLLET_FLOAT16, COLLET_SUM, false, 7, loads_of_slice(s, 2));
}

static void summer_end(struct summer *s) {
    GOOD(collet_win_deregister(s->comm, s->window));
    GOOD(collet_mem_free(s->memory));
    GOOD(collet_comm_destroy(s->comm));
}

static struct summer summer_of_two(int rank) {
    struct summer s = {.rank = rank, .nranks = 2};
    rank_sums(rank, rank, &s.comm);
    summer_register(&s);
    return s;
}

static void sum_by_switches(int rank) {
    struct summer s = summer_of_two(rank);
    EQUAL(summer_has_team(&s), true);
    summer_sums_all(&s);
    summer_end(&s);
}

static void switches_sum_windows_of_two_processes(void) {
    by_switches();
    each_rank(sum_by_switches);
}

static void *summer_thread(void *summer_) {
    struct summer *s = summer_;
    summer_register(s);
    EQUAL(summer_has_team(s), true);
    summer_sums_all(s);
    summer_end(s);
    return NULL;
}

#define SUMMERS_MAX 16

static void each_summer(int nranks, void *(*run)(void *summer)) {
    struct collet_comm *comms[SUMMERS_MAX];
    struct summer summers[SUMMERS_MAX];
    pthread_t threads[SUMMERS_MAX];
    int gpus[SUMMERS_MAX];
    char text[8];
    snprintf(text, sizeof(text), "%d", nranks);
    setenv("GPUSIM_GPUS", text, 1);
    for (int k = 0; k < nranks; k++)
        gpus[k] = COLLET_DEVICE_CUDA(k);
    GOOD(collet_comm_init_all(comms, nranks, gpus));
    for (int k = 0; k < nranks; k++) {
        summers[k] = (struct summer){.comm = comms[k], .rank = k, .nranks = nranks};
        EQUAL(pthread_create(&threads[k], NULL, run, &summers[k]), 0);
    }
    for (int k = 0; k < nranks; k++)
        pthread_join(threads[k], NULL);
}

static void switches_sum_windows_of_four_threads(void) {
    by_switches();
    each_summer(4, summer_thread);
}

static void *summer_sums_twice(void *summer_) {
    struct summer *s = summer_;
    summer_register(s);
    for (int in_place = 0; in_place < 2; in_place++)
        expect_sum(s, COLLET_FLOAT32, COLLET_SUM, in_place != 0, in_place, loads_of_slice(s, 4));
    summer_end(s);
    return NULL;
}

/* A block keeps the ends of all its peers at hand: else it lends nothing. */
static void switches_sum_windows_of_sixteen_threads(void) {
    by_switches();
    setenv("COLLET_DIRECT_BYTES", "1024", 1);
    each_summer(16, summer_sums_twice);
}

static bool plan_is(const struct summer *s, const char *algorithm, size_t count, enum collet_type type) {
    char text[128];
    GOOD(collet_comm_plan(s->comm, "allreduce", count, type, text, sizeof(text)));
    return strncmp(text, algorithm, strlen(algorithm)) == 0;
}

/* Of buffers of a MiB, where slots are dear. */
#define CHOSEN_COUNT ((size_t)256 << 10)

static void *summer_chooses(void *summer_) {
    struct summer *s = summer_;
    void *memory;
    const float one = 1;
    float sums[2];
    GOOD(cudaSetDevice(s->rank));
    GOOD(collet_mem_alloc(&memory, CHOSEN_COUNT * sizeof(float), COLLET_DEVICE_CUDA(s->rank)));
    EQUAL(plan_is(s, "nvls", CHOSEN_COUNT, COLLET_FLOAT32), false);
    GOOD(collet_win_register(s->comm, memory, CHOSEN_COUNT * sizeof(float), &s->window));
    EQUAL(plan_is(s, "nvls", CHOSEN_COUNT, COLLET_FLOAT32), true);
    EQUAL(plan_is(s, "nvls", CHOSEN_COUNT, COLLET_INT32), false);
    EQUAL(plan_is(s, "nvls", 1024, COLLET_FLOAT32), false);
    for (size_t k = 0; k < 2; k++)
        GOOD(copy_landed((float *)memory + k * (CHOSEN_COUNT - 1), &one, sizeof(one)));
    GOOD(collet_allreduce(memory, memory, CHOSEN_COUNT, COLLET_FLOAT32, COLLET_SUM, s->comm, cudaStreamPerThread));
    GOOD(cudaStreamSynchronize(cudaStreamPerThread));
    for (size_t k = 0; k < 2; k++)
        GOOD(cudaMemcpy(&sums[k], (float *)memory + k * (CHOSEN_COUNT - 1), sizeof(one), cudaMemcpyDefault));
    EQUAL(sums[0] == 8 && sums[1] == 8, true);
    EQUAL(loads_by_switch(s), CHOSEN_COUNT / 8 / 4);
    s->memory = memory;
    summer_end(s);
    return NULL;
}

static void switches_are_chosen_where_a_window_lets_them(void) {
    char name[] = "/tmp/collet-costs-XXXXXX";
    const int fd = mkstemp(name);
    EQUAL(dprintf(fd, "gpu-nvlink.Simple.byte 10 ns/byte\n") > 0, true);
    close(fd);
    setenv("COLLET_TUNER_FILE", name, 1);
    setenv("COLLET_PROTO", "Simple", 1);
    setenv("COLLET_TOPO_FILE", "tests/gpusim/nvswitch.xml", 1);
    setenv("GPUSIM_LINKS", "tests/gpusim/nvswitch.xml", 1);
    each_summer(8, summer_chooses);
    unlink(name);
}

/* Each rank's OUT is elsewhere in its window: no address is that of all. */
static void sum_at_different_places(int rank) {
    struct summer s = summer_of_two(rank);
    EQUAL(summer_has_team(&s), true);
    s.out_at += 1024 * (size_t)rank;
    expect_sum(&s, COLLET_FLOAT32, COLLET_SUM, false, 0, 0);
    expect_sum(&s, COLLET_FLOAT32, COLLET_SUM, true, 1, loads_of_slice(&s, 4));
    expect_sum(&s, COLLET_FLOAT16, COLLET_AVG, true, 2, 0);
    expect_sum(&s, COLLET_FLOAT32, COLLET_MAX, true, 3, 0);
    summer_end(&s);
}

static void what_no_switch_can_do_lanes_do(void) {
    by_switches();
    each_rank(sum_at_different_places);
}

static void sum_without_a_team(int rank) {
    struct summer s = summer_of_two(rank);
    EQUAL(summer_has_team(&s), false);
    expect_sum(&s, COLLET_FLOAT32, COLLET_SUM, false, 0, 0);
    summer_end(&s);
}

static enum collet_result refuse_to_bind(struct gpu_team *team, void *memory, uint64_t bytes) {
    return err_set(COLLET_ERR_SYSTEM, "team %p does not bind %llu bytes at %p", (void *)team, (unsigned long long)bytes,
                   memory);
}

static void sum_where_rank_1_binds_nothing(int rank) {
    static struct gpu_driver driver;
    static struct gpu_teams teams;
    driver = *gpu_driver();
    teams = *driver.teams;
    if (rank == 1)
        teams.bind = refuse_to_bind;
    driver.teams = &teams;
    gpu_driver_use(&driver);
    sum_without_a_team(rank);
}

static void sum_where_rank_1_wants_no_team(int rank) {
    setenv("COLLET_NVLS_ENABLE", rank == 1 ? "0" : "1", 1);
    sum_without_a_team(rank);
}

static void a_rank_that_cannot_leaves_all_without_a_team(void) {
    by_switches();
    each_rank(sum_where_rank_1_binds_nothing);
    each_rank(sum_where_rank_1_wants_no_team);
}

/* Of a sum at addresses that switches have summed before, this is what is seen without the fence. */
static void sum_without_a_fence_of_teams(int rank) {
    gpusim_mutate("fence.proxy.alias;", "");
    struct summer s = summer_of_two(rank);
    bool right = true;
    for (int round = 0; round < 4; round++)
        right &= summer_sums(&s, COLLET_FLOAT32, COLLET_SUM, false, round);
    EQUAL(right, false);
    summer_end(&s);
}

static void without_a_fence_of_teams_sums_are_old(void) {
    by_switches();
    each_rank(sum_without_a_fence_of_teams);
}

/* From now on a rank's blocks take for granted that slots have come whose lane is `lane`; and, if `and_read`, that the others have read
 * what they were lent. */
static void signals_are_gone(const struct collet_comm *comm, int lane, bool and_read) {
    for (const struct conn *c = comm->chan->owner.first; c != NULL; c = c->next) {
        struct fifo_end end;
        if (c->end_on_gpu == NULL)
            continue;
        GOOD(cudaMemcpy(&end, c->end_on_gpu, sizeof(end), cudaMemcpyDefault));
        if (c->side == CONN_CONSUMER && c->lane % CONN_LANES == lane)
            end.seen = end.position + (1ull << 40);
        if (c->side == CONN_PRODUCER && and_read)
            end.head = end.tail;
        GOOD(copy_landed(c->end_on_gpu, &end, sizeof(end)));
    }
}

/* Either a rank finds a wrong sum, or it fails. */
static void sum_without_signals(int rank, int lane, bool and_read) {
    struct summer s = summer_of_two(rank);
    signals_are_gone(s.comm, lane, and_read);
    for (int round = 0; round < 4 && !shared->wrong; round++) {
        char *out = s.memory + s.out_at;
        summer_give(&s, COLLET_FLOAT32, round);
        bool right =
            collet_allreduce(s.memory, out, TEAM_COUNT, COLLET_FLOAT32, COLLET_SUM, s.comm, cudaStreamPerThread) == 0;
        right = right && cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess;
        shared->wrong |= !right || !summer_is_right(&s, out, COLLET_FLOAT32, COLLET_SUM, round);
    }
    GOOD(collet_comm_abort(s.comm));
    shared->stage++;
    while (shared->stage < 2) /* the other process may still be in this one's memory */
        usleep(1000);
}

static void sum_without_ready(int rank) { sum_without_signals(rank, 0, false); }
static void sum_without_done(int rank) { sum_without_signals(rank, PROG_LANE_ALL, true); }

static void without_the_signal_that_slices_are_there_sums_are_wrong(void) {
    by_switches();
    each_rank(sum_without_ready);
    EQUAL(shared->wrong, 1);
}

static void without_the_signal_that_sums_are_there_sums_are_wrong(void) {
    by_switches();
    each_rank(sum_without_done);
    EQUAL(shared->wrong, 1);
}

/* ---- processes that take turns on a GPU ---- */

#define TURN_BYTES (4u << 20)

static int most_switches = 4; /* or an argument of the program: of both processes together */

/* Without MPS each process has the GPU for a slice of time. A call costs as many slices as there are switches between its processes. */
static void sum_in_turns(int rank) {
    struct collet_comm *comm;
    char *memory;
    rank_sums(rank, 0, &comm);
    GOOD(cudaMalloc((void **)&memory, TURN_BYTES));
    GOOD(cudaMemset(memory, 0, TURN_BYTES));
    for (int call = 0; call < 2; call++) { /* the first one makes connections */
        GOOD(cudaDeviceSynchronize());
        shared->stage++;
        while (shared->stage < 2 * (call + 1))
            usleep(1000);
        const uint64_t before = gpusim_switches();
        GOOD(collet_allreduce(memory, memory, TURN_BYTES / 4, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
        GOOD(cudaDeviceSynchronize());
        if (call == 1)
            shared->switches += (int)(gpusim_switches() - before);
    }
    GOOD(collet_comm_destroy(comm));
}

static void sum_under_mps(int rank) {
    struct collet_comm *comm;
    rank_sums(rank, 0, &comm);
    GOOD(collet_comm_destroy(comm));
}

/* Half of the GPU's multiprocessors each, for as many processes as there are halves. */
static void processes_under_mps_share_a_gpu(void) {
    char name[] = "/tmp/gpusim-machine-XXXXXX";
    close(mkstemp(name));
    setenv("GPUSIM_MACHINE", name, 1);
    setenv("GPUSIM_MPS_PERCENT", "50", 1);
    setenv("GPUSIM_SMS", "4", 1);
    each_rank(sum_under_mps);
    unlink(name);
}

/* As 256 MB by 64 channels, of which this is one: it carries twice what its slots hold. With slots of 128 KB it took 9 switches and more. */
static void a_call_of_processes_that_take_turns_has_few_switches(void) {
    char name[] = "/tmp/gpusim-machine-XXXXXX";
    close(mkstemp(name));
    setenv("GPUSIM_MACHINE", name, 1);
    setenv("GPUSIM_SLICE_US", "300", 0);
    setenv("COLLET_NCHANNELS", "1", 0);
    each_rank(sum_in_turns);
    unlink(name);
    printf("a call of %u bytes took %d switches\n", TURN_BYTES, shared->switches);
    fflush(stdout);
    EQUAL(shared->switches > 0, 1);
    EQUAL(shared->switches <= most_switches, 1);
}

/* ---- loading ---- */

static void sum_of_each(struct collet_comm *const comms[2], void *const memory[2], enum collet_type type) {
    GOOD(collet_group_start());
    for (int rank = 0; rank < 2; rank++)
        GOOD(collet_allreduce(memory[rank], memory[rank], 4, type, COLLET_MAX, comms[rank], NULL));
    GOOD(collet_group_end());
}

/* A first use would wait for kernels that may wait for this very call: so there is none behind the creation of a communicator. */
static void no_collective_is_the_first_use_of_a_kernel(void) {
    struct collet_comm *comms[2];
    void *memory[2];
    GOOD(collet_comm_init_all(comms, 2, (int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(1)}));
    const uint64_t loads = gpusim_loads();
    EQUAL(loads > 0, 1);
    for (int rank = 0; rank < 2; rank++) {
        GOOD(cudaSetDevice(rank));
        GOOD(cudaMalloc(&memory[rank], 64));
    }
    for (int type = 0; type < COLLET_TYPE_COUNT; type++)
        sum_of_each(comms, memory, type);
    GOOD(collet_group_start());
    for (int rank = 0; rank < 2; rank++)
        GOOD(collet_broadcast(memory[rank], memory[rank], 4, COLLET_UINT8, 0, comms[rank], NULL));
    GOOD(collet_group_end());
    EQUAL(gpusim_loads(), loads);
}

/* ---- more GPUs than one may have peers ---- */

#define PEER_RANKS 4

/* What a GPU cannot reach goes through memory of the host. */
static void ranks_beyond_the_limit_of_peers_are_reached(void) {
    struct collet_comm *comms[PEER_RANKS];
    const int devices[PEER_RANKS] = {COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(1), COLLET_DEVICE_CUDA(2),
                                     COLLET_DEVICE_CUDA(3)};
    float *numbers[PEER_RANKS], got;
    setenv("GPUSIM_GPUS", "4", 1);
    setenv("GPUSIM_PEERS", "1", 1);
    setenv("COLLET_ALGO", "oneshot", 1);
    GOOD(collet_comm_init_all(comms, PEER_RANKS, devices));
    for (int rank = 0; rank < PEER_RANKS; rank++) {
        got = (float)rank;
        GOOD(cudaSetDevice(rank));
        GOOD(cudaMalloc((void **)&numbers[rank], sizeof(got)));
        GOOD(copy_landed(numbers[rank], &got, sizeof(got)));
    }
    GOOD(collet_group_start());
    for (int rank = 0; rank < PEER_RANKS; rank++)
        GOOD(collet_allreduce(numbers[rank], numbers[rank], 1, COLLET_FLOAT32, COLLET_SUM, comms[rank], NULL));
    GOOD(collet_group_end());
    for (int rank = 0; rank < PEER_RANKS; rank++) {
        GOOD(cudaSetDevice(rank));
        GOOD(cudaMemcpy(&got, numbers[rank], sizeof(got), cudaMemcpyDefault));
        EQUAL(got, 6);
    }
}

/* ---- which GPUs may use LL128 ---- */

/* In a process of its own, since a machine stays what it is. */
static bool lines_are_used(const char *capabilities) {
    struct collet_comm *comms[2];
    int status;
    if (fork() == 0) {
        setenv("GPUSIM_CAPABILITY", capabilities, 1);
        enum collet_result result =
            collet_comm_init_all(comms, 2, (int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(1)});
        const bool refused = result == COLLET_ERR_UNSUPPORTED &&
                             strstr(collet_last_error(NULL), "COLLET_PROTO allows LL128 alone") != NULL;
        _exit(result == COLLET_SUCCESS ? 0 : refused ? 1 : 2);
    }
    wait(&status);
    EQUAL(WIFEXITED(status) && WEXITSTATUS(status) <= 1, 1);
    return status == 0;
}

static void lines_are_for_gpus_that_store_them_whole(void) {
    static const struct {
        const char *capabilities;
        bool fits;
    } machines[] = {{"80", true}, {"90", true}, {"86", false}, {"90,80", false}};
    setenv("COLLET_TOPO_FILE", "tests/gpusim/nvlink.xml", 1);
    setenv("COLLET_PROTO", "LL128", 1);
    for (size_t k = 0; k < sizeof(machines) / sizeof(*machines); k++)
        each_equal(lines_are_used(machines[k].capabilities), machines[k].fits, "lines of LL128 on",
                   machines[k].capabilities, __LINE__);
}

/* ---- how many channels a message has ---- */

/* Blocks that send it on GPU 0: one per channel. */
static int blocks_of_message(struct collet_comm *const comms[2], size_t bytes) {
    struct gpusim_counts before, after;
    void *memory[2];
    for (int rank = 0; rank < 2; rank++) {
        GOOD(cudaSetDevice(rank));
        GOOD(cudaMalloc(&memory[rank], bytes));
    }
    gpusim_counts(0, &before);
    GOOD(collet_group_start());
    GOOD(collet_send(memory[0], bytes, COLLET_UINT8, 1, comms[0], NULL));
    GOOD(collet_recv(memory[1], bytes, COLLET_UINT8, 0, comms[1], NULL));
    GOOD(collet_group_end());
    for (int rank = 0; rank < 2; rank++) {
        GOOD(cudaSetDevice(rank));
        GOOD(cudaDeviceSynchronize());
    }
    gpusim_counts(0, &after);
    return (int)(after.blocks - before.blocks);
}

static void a_message_has_a_channel_per_16_kib_up_to_the_limit(void) {
    struct collet_comm *comms[2];
    setenv("COLLET_MAX_NCHANNELS", "4", 1);
    GOOD(collet_comm_init_all(comms, 2, (int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(1)}));
    EQUAL(blocks_of_message(comms, 1 << 10), 1);
    EQUAL(blocks_of_message(comms, 32 << 10), 2);
    EQUAL(blocks_of_message(comms, 64 << 10), 4);
    EQUAL(blocks_of_message(comms, 256 << 10), 4);
}

/* ---- transfers ---- */

#define SPREAD_BYTES 70000
#define SPREAD_PIECES 40

/* Two ranks of this process, each with a window. */
struct spread {
    struct collet_comm *comms[2];
    struct collet_window *windows[2];
    unsigned char *memory[2];
};

static void spread_begin(struct spread *s) {
    GOOD(collet_comm_init_all(s->comms, 2, (int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(1)}));
    GOOD(collet_group_start());
    for (int rank = 0; rank < 2; rank++) {
        GOOD(collet_mem_alloc((void **)&s->memory[rank], 2 * SPREAD_BYTES, COLLET_DEVICE_CUDA(rank)));
        GOOD(collet_win_register(s->comms[rank], s->memory[rank], 2 * SPREAD_BYTES, &s->windows[rank]));
    }
    GOOD(collet_group_end());
}

/* Piece k has k bytes, and one byte lies between two pieces there. So the ends lie in every way to each other. The last piece is so long
 * that it is cut. */
static size_t spread_pieces(const struct spread *s, struct collet_local_piece *local,
                            struct collet_remote_piece *remote) {
    size_t here = 0, there = 0;
    for (size_t k = 0; k < SPREAD_PIECES; k++) {
        const size_t bytes = k + 1 < SPREAD_PIECES ? k : 66000;
        local[k] = (struct collet_local_piece){s->memory[0] + here, bytes};
        remote[k] = (struct collet_remote_piece){s->windows[0], there, bytes};
        here += bytes;
        there += bytes + 1;
    }
    return here;
}

static void pieces_of_a_transfer_lie_in_every_way_to_each_other(void) {
    struct spread s;
    struct collet_local_piece local[SPREAD_PIECES];
    struct collet_remote_piece remote[SPREAD_PIECES];
    struct collet_transfer *transfer;
    static unsigned char bytes[SPREAD_BYTES], came[SPREAD_BYTES];
    spread_begin(&s);
    const size_t whole = spread_pieces(&s, local, remote);
    for (size_t k = 0; k < whole; k++)
        bytes[k] = (unsigned char)(k * 7 + k / 251);
    GOOD(cudaMemcpy(s.memory[0], bytes, whole, cudaMemcpyDefault));
    GOOD(collet_transfer_prepare(COLLET_TRANSFER_PUT, local, remote, SPREAD_PIECES, 1, s.comms[0], &transfer));
    GOOD(collet_transfer_post(transfer, NULL, 0, NULL));
    GOOD(collet_transfer_wait(transfer));
    GOOD(cudaMemcpy(came, s.memory[1], SPREAD_BYTES, cudaMemcpyDefault));
    const unsigned char *from = bytes, *to = came;
    for (size_t k = 0; k < SPREAD_PIECES; k++) {
        EQUAL(memcmp(from, to, local[k].bytes), 0);
        EQUAL(to[local[k].bytes], 0); /* between the pieces nothing was written */
        from += local[k].bytes;
        to += local[k].bytes + 1;
    }
    GOOD(collet_transfer_release(transfer));
}

/* What GPUs may not use, and what graphs cannot hold. */
static void a_transfer_that_cannot_be_is_refused(void) {
    struct spread s;
    struct collet_transfer *transfer;
    static char of_host[64];
    cudaStream_t stream;
    cudaGraph_t graph;
    spread_begin(&s);
    const struct collet_local_piece local[2] = {{s.memory[0], 64}, {of_host, 64}};
    const struct collet_remote_piece remote[2] = {{s.windows[0], 0, 64}, {s.windows[0], 64, 64}};
    EQUAL(collet_transfer_prepare(COLLET_TRANSFER_PUT, local, remote, 2, 1, s.comms[0], &transfer),
          COLLET_ERR_INVALID_ARGUMENT);
    EQUAL(strstr(collet_last_error(NULL), "piece 1: buff is") != NULL, true);
    GOOD(collet_transfer_prepare(COLLET_TRANSFER_PUT, local, remote, 1, 1, s.comms[0], &transfer));
    GOOD(cudaStreamCreate(&stream));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EQUAL(collet_transfer_post(transfer, NULL, 0, stream), COLLET_ERR_INVALID_USAGE);
    GOOD(cudaStreamEndCapture(stream, &graph));
    GOOD(collet_transfer_post(transfer, NULL, 0, stream));
    GOOD(collet_transfer_wait(transfer));
    GOOD(collet_transfer_release(transfer));
}

#define CASES(X)                                                                                                       \
    X(streams_of_two_threads_with_one_handle_keep_the_order_of_calls)                                                  \
    X(a_stream_with_the_handle_of_one_that_is_gone_keeps_the_order_of_calls)                                           \
    X(streams_of_two_threads_in_one_capture_keep_the_order_of_calls)                                                   \
    X(streams_with_one_handle_in_one_capture_keep_the_order_of_calls)                                                  \
    X(a_stream_is_captured_again)                                                                                      \
    X(a_communicator_ends_while_a_kernel_of_another_waits)                                                             \
    X(a_communicator_of_two_processes_ends_while_a_kernel_of_another_waits)                                            \
    X(a_window_ends_while_a_kernel_of_another_communicator_waits)                                                      \
    X(what_a_graph_might_wait_for_is_unmapped_behind_its_communicator)                                                 \
    X(an_abort_comes_through_while_every_call_of_the_driver_waits)                                                     \
    X(a_process_that_ends_with_communicators_says_nothing)                                                             \
    X(a_reset_of_the_gpu_fails_its_communicators)                                                                      \
    X(a_new_communicator_works_behind_a_reset)                                                                         \
    X(communicators_from_before_a_reset_end_before_new_ones)                                                           \
    X(a_rank_waits_for_its_gpu_before_its_call)                                                                        \
    X(a_rank_that_waits_for_its_gpu_before_its_message_is_named)                                                       \
    X(processes_that_are_shown_one_gpu_each_use_nvlink)                                                                \
    X(parts_of_one_gpu_share_memory_of_the_host)                                                                       \
    X(a_death_ends_kernels_while_every_call_of_the_driver_waits)                                                       \
    X(memory_by_a_handle_outlives_its_communicator)                                                                    \
    X(a_producer_polls_memory_of_its_own_gpu)                                                                          \
    X(a_producer_polls_memory_of_its_own_gpu_also_between_processes)                                                   \
    X(memory_of_heads_is_kept_until_all_have_come)                                                                     \
    X(windows_are_lent_between_processes_by_handle)                                                                    \
    X(windows_are_lent_between_processes_by_descriptor)                                                                \
    X(windows_are_lent_between_processes_that_are_shown_one_gpu_each)                                                  \
    X(windows_of_gpus_that_pci_joins_are_not_lent)                                                                     \
    X(a_window_that_may_not_be_read_fails_the_call)                                                                    \
    X(one_shot_in_place_lends_nothing)                                                                                 \
    X(copy_engines_fill_windows_without_a_kernel)                                                                      \
    X(kernels_fill_windows_where_streams_write_no_words)                                                               \
    X(a_window_that_may_not_be_written_fails_the_call)                                                                 \
    X(an_abort_comes_through_to_a_stream_that_waits_for_a_rank)                                                        \
    X(switches_sum_windows_of_two_processes)                                                                           \
    X(switches_sum_windows_of_four_threads)                                                                            \
    X(switches_are_chosen_where_a_window_lets_them)                                                                    \
    X(switches_sum_windows_of_sixteen_threads)                                                                         \
    X(without_the_signal_that_slices_are_there_sums_are_wrong)                                                         \
    X(without_the_signal_that_sums_are_there_sums_are_wrong)                                                           \
    X(what_no_switch_can_do_lanes_do)                                                                                  \
    X(a_rank_that_cannot_leaves_all_without_a_team)                                                                    \
    X(without_a_fence_of_teams_sums_are_old)                                                                           \
    X(a_call_of_processes_that_take_turns_has_few_switches)                                                            \
    X(processes_under_mps_share_a_gpu)                                                                                 \
    X(ranks_beyond_the_limit_of_peers_are_reached)                                                                     \
    X(no_collective_is_the_first_use_of_a_kernel)                                                                      \
    X(lines_are_for_gpus_that_store_them_whole)                                                                        \
    X(a_message_has_a_channel_per_16_kib_up_to_the_limit)                                                              \
    X(pieces_of_a_transfer_lie_in_every_way_to_each_other)                                                             \
    X(a_transfer_that_cannot_be_is_refused)
static const struct each_case cases[] = {CASES(EACH_ROW)};

/* test_gpus [case [number]] */
int main(int argc, char **argv) {
    if (argc > 2)
        most_switches = atoi(argv[2]);
    return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv);
}
