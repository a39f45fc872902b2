/* SPDX-License-Identifier: Apache-2.0
 *
 * Two ranks on one GPU, each with a thread, that call cudaMemset() and cudaDeviceSynchronize() between calls, without a barrier, as
 * nccl-tests does when it checks results with -t 2:
 *
 *     thread 0   call 1 │ wait │ memset, device synchronize │ call 2 …    its kernel waits for rank 1
 *     thread 1   call 1 │ wait │      memset, device synchronize …        waits for all of the GPU, so for that kernel: without end
 *
 * Does it hang? The calls are collectives, or messages both ways. Once as the threads happen to run; if that passes, once with a pause of
 * thread 1 that lets thread 0 go ahead. Each in a process of its own, which is killed after some seconds. A library whose kernels wait on the GPU for ranks that have not called hangs. Collet's calls wait
 * for the ranks of other threads on the host, and launch for all of them: so it must not. Of NVIDIA's library it is a question.
 */
#include "gpu/beside_library.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 20
#define ELEMS 16384 /* a rank gives */
#define LIMIT_MS 3000
#define CALL_LIMIT_S 2 /* of collet, so that it says who waits for whom */
#define SLOW 10        /* times as long */

struct pair {
    struct library library;
    struct nccl_id id;
    int pause_ms; /* of thread 1, before it sets its buffer */
    bool messages;
    void *comms[2];
};

struct half {
    struct pair *pair;
    int rank;
};

static void pause_ms(int ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL); }

static void wait_for(const struct pair *pair, int rank, cudaStream_t stream) {
    cudaError_t state;
    while ((state = cudaStreamQuery(stream)) == cudaErrorNotReady) {
        int result;
        LIBRARY_MUST(&pair->library, comm_get_async_error(pair->comms[rank], &result));
        library_must(&pair->library, result, "a call");
    }
    cuda_must(state, "cudaStreamQuery");
}

static void exchange(const struct half *half, const float *in, float *out, cudaStream_t stream) {
    const struct library *library = &half->pair->library;
    void *comm = half->pair->comms[half->rank];
    const int other = 1 - half->rank;
    LIBRARY_MUST(library, group_start());
    LIBRARY_MUST(library, send(in, ELEMS, NCCL_FLOAT, other, comm, stream));
    LIBRARY_MUST(library, recv(out + other * ELEMS, ELEMS, NCCL_FLOAT, other, comm, stream));
    LIBRARY_MUST(library, group_end());
}

static void call(const struct half *half, const float *in, float *out, cudaStream_t stream) {
    const struct pair *pair = half->pair;
    if (pair->messages)
        exchange(half, in, out, stream);
    else
        LIBRARY_MUST(&pair->library, all_gather(in, out, ELEMS, NCCL_FLOAT, pair->comms[half->rank], stream));
    wait_for(pair, half->rank, stream);
}

static void *run_half(void *half_) {
    const struct half *half = half_;
    struct pair *pair = half->pair;
    float *in, *out;
    cudaStream_t stream;
    CUDA_MUST(cudaSetDevice(0));
    CUDA_MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_MUST(cudaMalloc((void **)&in, ELEMS * sizeof(float)));
    CUDA_MUST(cudaMalloc((void **)&out, 2 * ELEMS * sizeof(float)));
    LIBRARY_MUST(&pair->library, comm_init_rank(&pair->comms[half->rank], 2, pair->id, half->rank));
    for (int round = 0; round < ROUNDS; round++) {
        if (half->rank == 1 && pair->pause_ms > 0)
            pause_ms(pair->pause_ms);
        CUDA_MUST(cudaMemset(out, 0, 2 * ELEMS * sizeof(float)));
        CUDA_MUST(cudaDeviceSynchronize());
        call(half, in, out, stream);
    }
    return NULL;
}

static void run_pair(const struct beside_options *options, int pause) {
    struct pair pair = {.pause_ms = pause, .messages = options->messages};
    struct half halves[2] = {{&pair, 0}, {&pair, 1}};
    pthread_t threads[2];
    char limit[16];
    snprintf(limit, sizeof(limit), "%d", CALL_LIMIT_S * (options->slow ? SLOW : 1));
    setenv("COLLET_TIMEOUT", limit, 0);
    library_open(&pair.library, options->path, options->name);
    if (!library_shares_gpus(&pair.library))
        exit(77);
    LIBRARY_MUST(&pair.library, get_unique_id(&pair.id));
    for (int k = 0; k < 2; k++)
        pthread_create(&threads[k], NULL, run_half, &halves[k]);
    for (int k = 0; k < 2; k++)
        pthread_join(threads[k], NULL);
    fflush(stdout);
    _exit(0); /* what the library does at its end is no part of the question */
}

/* The exit status, or −1: it was killed. */
static int wait_a_while(pid_t child, int ms) {
    int status;
    for (int waited = 0; waited < ms; waited += 10) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        pause_ms(10);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
}

static const char *verdict_of(int status) {
    switch (status) {
    case 0: return "passes";
    case 77: return "cannot be asked";
    case -1: return "HANGS";
    default: return "HANGS, and ends with the words above";
    }
}

static int ask(const struct beside_options *options, int pause) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        run_pair(options, pause);
    const int status = wait_a_while(child, LIMIT_MS * (options->slow ? SLOW : 1));
    printf("  %-12s two threads that wait for the whole GPU between %s, %s: %s\n", options->name,
           options->messages ? "messages" : "calls", pause > 0 ? "one of them late" : "as they run",
           verdict_of(status));
    return status;
}

int beside_memset(const struct beside_options *options) {
    int status = ask(options, 0);
    if (status == 77)
        return 77;
    if (status == 0)
        status = ask(options, 20);
    return strcmp(options->name, "collet") == 0 && status != 0;
}
