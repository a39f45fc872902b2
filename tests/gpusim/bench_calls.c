/* SPDX-License-Identifier: Apache-2.0
 *
 * How many calls of CUDA a collective takes, on the simulated machine: two processes with a rank each, on a GPU each; and the first
 * one, which makes connections, of four ranks in threads that share a GPU.
 *
 *    bench_calls           prints them, for each collective, algorithm and protocol, and which calls they are
 *    bench_calls check     fails if a collective takes more than one launch and four further calls; by copy engines, any launch,
 *                          or more than five calls besides the copies; if the first one takes more than MOST_FIRST of those that
 *                          take long, of all ranks; if a group of n ranks takes more than 4 n + 1, or in one stream more than 5
 *
 * A group in streams of their own: which context is current, and the id of one stream; for each stream, is it in a capture; one launch, one
 * event behind it; and for each other stream an event, and a wait there and back.
 */
#include "gpusim/gpusim.h"

#include "collet.h"
#include "fifo/protocol.h"
#include "program/program.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 20
#define COUNT 256
#define MOST_CALLS 5 /* by copy engines besides the copies */

static void must(int result, const char *what) {
    if (result == 0)
        return;
    printf("%s: %d: %s\n", what, result, collet_last_error(NULL));
    exit(1);
}
#define MUST(call) must((int)(call), #call)

struct bench {
    struct collet_comm *comm;
    int rank;
    cudaStream_t stream;
    float *in, *out;
};

static void run_allreduce(const struct bench *b) {
    MUST(collet_allreduce(b->in, b->out, COUNT, COLLET_FLOAT32, COLLET_SUM, b->comm, b->stream));
}
static void run_broadcast(const struct bench *b) {
    MUST(collet_broadcast(b->in, b->out, COUNT, COLLET_FLOAT32, 0, b->comm, b->stream));
}
static void run_allgather(const struct bench *b) {
    MUST(collet_allgather(b->in, b->out, COUNT, COLLET_FLOAT32, b->comm, b->stream));
}
static void run_reducescatter(const struct bench *b) {
    MUST(collet_reducescatter(b->in, b->out, COUNT, COLLET_FLOAT32, COLLET_SUM, b->comm, b->stream));
}
static void run_alltoall(const struct bench *b) {
    MUST(collet_alltoall(b->in, b->out, COUNT, COLLET_FLOAT32, b->comm, b->stream));
}
/* Rank 0 to rank 1. */
static void run_message(const struct bench *b) {
    MUST(b->rank == 0 ? collet_send(b->in, COUNT, COLLET_FLOAT32, 1, b->comm, b->stream)
                      : collet_recv(b->out, COUNT, COLLET_FLOAT32, 0, b->comm, b->stream));
}

static const struct {
    enum prog_collective number;
    void (*run)(const struct bench *b);
    bool copies; /* copy engines can do it */
} collectives[] = {
    {PROG_ALLREDUCE, run_allreduce, false}, {PROG_BROADCAST, run_broadcast, true},
    {PROG_ALLGATHER, run_allgather, true},  {PROG_REDUCESCATTER, run_reducescatter, false},
    {PROG_ALLTOALL, run_alltoall, true},    {PROG_SEND, run_message, true},
};
#define COLLECTIVES (int)(sizeof(collectives) / sizeof(*collectives))

/* What two ranks do. */
struct task {
    int collective; /* -1: each, as the library chooses, and its calls are listed */
    const char *algorithm, *protocol;
    bool by_copies;
};

/* The first call makes connections. */
static bool too_many(const struct bench *b, int k, const struct task *task, bool prints) {
    collectives[k].run(b);
    MUST(cudaStreamSynchronize(b->stream));
    gpusim_forget_calls();
    for (int call = 0; call < CALLS; call++)
        collectives[k].run(b);
    uint64_t launches = gpusim_calls("cudaLaunchKernel");
    uint64_t calls = gpusim_calls(NULL) - (task->by_copies ? gpusim_calls("cudaMemcpyAsync") : 0);
    MUST(cudaStreamSynchronize(b->stream));
    if (prints)
        printf("%-14s %-8s %-7s %8.1f %6.1f\n", prog_facts[collectives[k].number].name, task->algorithm, task->protocol,
               (double)launches / CALLS, (double)calls / CALLS);
    if (prints && task->collective < 0)
        gpusim_print_calls(CALLS);
    return task->by_copies ? launches > 0 || calls > MOST_CALLS * CALLS
                           : launches > CALLS || calls > MOST_CALLS * CALLS;
}

static int run_rank(int rank, const struct collet_unique_id *id, const struct task *task, bool prints) {
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(rank)};
    struct collet_window *window;
    struct bench b = {.rank = rank};
    void *memory;
    int failed = 0;
    MUST(cudaSetDevice(rank));
    MUST(collet_comm_init_rank_config(&b.comm, 2, *id, rank, &config));
    MUST(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
    MUST(cudaMalloc((void **)&b.in, 2 * COUNT * sizeof(float)));
    MUST(collet_mem_alloc(&memory, 2 * COUNT * sizeof(float), COLLET_DEVICE_CUDA(rank)));
    b.out = memory;
    if (task->by_copies)
        MUST(collet_win_register(b.comm, b.out, 2 * COUNT * sizeof(float), &window));
    for (int k = 0; k < COLLECTIVES; k++)
        if ((task->collective < 0 || task->collective == k) && (!task->by_copies || collectives[k].copies))
            failed += too_many(&b, k, task, prints && rank == 0);
    MUST(collet_comm_destroy(b.comm));
    return failed;
}

static bool run_ranks(const struct task *task, bool prints) {
    struct collet_unique_id id;
    int failed = 0, status;
    fflush(stdout);
    MUST(collet_get_unique_id(&id));
    for (int rank = 0; rank < 2; rank++)
        if (fork() == 0)
            exit(run_rank(rank, &id, task, prints));
    while (wait(&status) > 0)
        failed |= status;
    return failed == 0;
}

/* In a process of its own: the settings are read once. */
static bool run_forced(const struct task *task, bool prints) {
    int status;
    fflush(stdout);
    if (fork() == 0) {
        setenv("COLLET_TOPO_FILE", "tests/gpusim/nvlink.xml", 1); /* LL128 and windows need NVLink */
        setenv("COLLET_CTA_POLICY", task->by_copies ? "zero" : "default", 1);
        if (!task->by_copies) {
            setenv("COLLET_ALGO", task->algorithm, 1);
            setenv("COLLET_PROTO", task->protocol, 1);
        }
        exit(!run_ranks(task, prints));
    }
    wait(&status);
    return status == 0;
}

/* ---- the first call ---- */

#define RANKS 4
/* Those that get memory take 0.1 to 1 ms each, those that wait for the GPU some 10 µs. */
#define MOST_FIRST_MEMORY (2 * RANKS)
#define MOST_FIRST_WAITS (3 * RANKS)

struct newcomer {
    pthread_t thread;
    const struct collet_unique_id *id;
    int rank;
    uint64_t memory, waits;
};

static void *first_call(void *newcomer_) {
    struct newcomer *n = newcomer_;
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(0)};
    struct bench b = {.rank = n->rank};
    MUST(cudaSetDevice(0));
    MUST(collet_comm_init_rank_config(&b.comm, RANKS, *n->id, n->rank, &config));
    MUST(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
    MUST(cudaMalloc((void **)&b.in, COUNT * sizeof(float)));
    MUST(cudaMalloc((void **)&b.out, COUNT * sizeof(float)));
    gpusim_forget_calls();
    MUST(collet_allreduce(b.in, b.out, COUNT, COLLET_FLOAT32, COLLET_SUM, b.comm, b.stream));
    n->memory = gpusim_calls("cudaMalloc") + gpusim_calls("cudaHostAlloc");
    n->waits = gpusim_calls("cudaStreamSynchronize");
    MUST(cudaStreamSynchronize(b.stream));
    MUST(collet_comm_destroy(b.comm));
    return NULL;
}

static bool run_newcomers(void) {
    struct newcomer newcomers[RANKS];
    struct collet_unique_id id;
    uint64_t memory = 0, waits = 0;
    MUST(collet_get_unique_id(&id));
    for (int rank = 0; rank < RANKS; rank++) {
        newcomers[rank] = (struct newcomer){.id = &id, .rank = rank};
        MUST(pthread_create(&newcomers[rank].thread, NULL, first_call, &newcomers[rank]));
    }
    for (int rank = 0; rank < RANKS; rank++) {
        pthread_join(newcomers[rank].thread, NULL);
        memory += newcomers[rank].memory;
        waits += newcomers[rank].waits;
    }
    printf("first allreduce of %d ranks on a GPU: %llu calls for memory, %llu that wait for the GPU\n", RANKS,
           (unsigned long long)memory, (unsigned long long)waits);
    return memory <= MOST_FIRST_MEMORY && waits <= MOST_FIRST_WAITS;
}

/* ---- groups of ranks that share a GPU ---- */

#define GROUP_MAX 8

static void group_call(const struct bench *all, int n) {
    MUST(collet_group_start());
    for (int rank = 0; rank < n; rank++)
        run_allreduce(&all[rank]);
    MUST(collet_group_end());
}

/* Calls of CUDA per group, in the steady state. */
static double calls_of_group(int n, bool in_one_stream) {
    struct collet_comm *comms[GROUP_MAX];
    struct bench all[GROUP_MAX];
    int devices[GROUP_MAX] = {0};
    for (int rank = 0; rank < n; rank++)
        devices[rank] = COLLET_DEVICE_CUDA(0);
    MUST(cudaSetDevice(0));
    MUST(collet_comm_init_all(comms, n, devices));
    for (int rank = 0; rank < n; rank++) {
        all[rank] = (struct bench){.rank = rank, .comm = comms[rank]};
        if (!in_one_stream || rank == 0)
            MUST(cudaStreamCreateWithFlags(&all[rank].stream, cudaStreamNonBlocking));
        else
            all[rank].stream = all[0].stream;
        MUST(cudaMalloc((void **)&all[rank].in, COUNT * sizeof(float)));
        MUST(cudaMalloc((void **)&all[rank].out, COUNT * sizeof(float)));
    }
    group_call(all, n);
    group_call(all, n);
    gpusim_forget_calls();
    for (int call = 0; call < CALLS; call++)
        group_call(all, n);
    const double calls = (double)gpusim_calls(NULL) / CALLS;
    MUST(cudaDeviceSynchronize());
    for (int rank = 0; rank < n; rank++)
        MUST(collet_comm_destroy(comms[rank]));
    return calls;
}

static bool run_groups(void) {
    bool good = true;
    for (int n = 2; n <= GROUP_MAX; n *= 2) {
        const double apart = calls_of_group(n, false), together = calls_of_group(n, true);
        printf("a group of %d ranks on a GPU: %.1f calls in streams of their own, %.1f in one stream\n", n, apart,
               together);
        good &= apart <= 4 * n + 1 && together <= 5;
    }
    return good;
}

/* In a process of its own: one that forks may not have used CUDA. */
static bool run_apart(bool (*run)(void)) {
    int status;
    fflush(stdout);
    if (fork() == 0)
        exit(!run());
    wait(&status);
    return status == 0;
}

static bool run_all_algorithms(int k) {
    const struct prog_shape shape = PROG_FLAT(2);
    bool good = true;
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        for (int p = 0; p < PROTOCOL_COUNT; p++)
            if (a->collective == collectives[k].number && algorithm_applies(a, &shape))
                good &= run_forced(&(struct task){k, a->name, protocol_names[p], false}, true);
    return good;
}

int main(int argc, char **argv) {
    bool checks = argc > 1 && strcmp(argv[1], "check") == 0;
    const struct task chosen = {-1, "chosen", "", false}, by_copies = {-1, "copies", "", true};
    if (!checks)
        printf("2 ranks, %d elements\n%-14s %-8s %-7s %8s %6s\n", COUNT, "collective", "by", "in", "launches", "calls");
    bool good = run_ranks(&chosen, !checks);
    good &= run_forced(&by_copies, !checks); /* calls besides the copies */
    good &= run_apart(run_newcomers);
    good &= run_apart(run_groups);
    for (int k = 0; k < COLLECTIVES && !checks; k++)
        good &= run_all_algorithms(k);
    return !good;
}
