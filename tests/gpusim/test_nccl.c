/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's names on the simulated machine, where they ask for what only GPUs have: windows, and copy engines. One thread has a rank on
 * each of two GPUs, as nccl-tests do.
 */
#include "gpusim/each.h"
#include "gpusim/landed.h"
#include "gpusim/gpusim.h"

#include "compat/nccl.h"

#define RANKS 2
#define COUNT 3000

#define GOOD(call) each_equal((long long)(call), 0, #call, ncclGetLastError(NULL), __LINE__)

/* Newer than the header: */
struct wait_descriptor {
    int count, peer, signal, context;
};
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **pointer);
ncclResult_t ncclPutSignal(const void *buffer, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                           size_t offset, int signal, int context, unsigned flags, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclWaitSignal(int n, const struct wait_descriptor *descriptors, ncclComm_t comm, cudaStream_t stream);

static ncclComm_t comms[RANKS];
static cudaStream_t streams[RANKS];
static ncclWindow_t windows[RANKS];
static int *in[RANKS], *out[RANKS];

static void create(int policy) {
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.CTAPolicy = policy;
    setenv("COLLET_TOPO_FILE", "tests/gpusim/nvlink.xml", 1);
    GOOD(ncclGetUniqueId(&id));
    GOOD(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++) {
        GOOD(cudaSetDevice(rank));
        GOOD(ncclCommInitRankConfig(&comms[rank], RANKS, id, rank, &config));
    }
    GOOD(ncclGroupEnd());
    for (int rank = 0; rank < RANKS; rank++) {
        GOOD(cudaSetDevice(rank));
        GOOD(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking));
        GOOD(cudaMalloc((void **)&in[rank], COUNT * sizeof(int)));
        GOOD(ncclMemAlloc((void **)&out[rank], RANKS * COUNT * sizeof(int)));
    }
}

static void register_windows(int *const *buffers, size_t count) {
    GOOD(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        GOOD(ncclCommWindowRegister(comms[rank], buffers[rank], count * sizeof(int), &windows[rank],
                                    NCCL_WIN_COLL_SYMMETRIC));
    GOOD(ncclGroupEnd());
}

static void wait_for_all(void) {
    for (int rank = 0; rank < RANKS; rank++)
        GOOD(cudaStreamSynchronize(streams[rank]));
}

static void gather(int round) {
    static int numbers[RANKS * COUNT];
    for (int rank = 0; rank < RANKS; rank++) {
        for (int k = 0; k < COUNT; k++)
            numbers[k] = round + rank * COUNT + k;
        GOOD(copy_landed(in[rank], numbers, COUNT * sizeof(int)));
    }
    GOOD(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        GOOD(ncclAllGather(in[rank], out[rank], COUNT, ncclInt32, comms[rank], streams[rank]));
    GOOD(ncclGroupEnd());
    wait_for_all();
    for (int rank = 0; rank < RANKS; rank++) {
        GOOD(cudaMemcpy(numbers, out[rank], sizeof(numbers), cudaMemcpyDefault));
        for (int k = 0; k < RANKS * COUNT; k++)
            EQUAL(numbers[k], round + k);
    }
}

/* Rank by rank, by one thread. */
static void destroy(void) {
    for (int rank = 0; rank < RANKS; rank++)
        GOOD(rank == 0 ? ncclCommWindowDeregister(comms[rank], windows[rank])
                       : ncclCommDeregister(comms[rank], windows[rank]));
    for (int rank = 0; rank < RANKS; rank++)
        GOOD(ncclMemFree(out[rank]));
    for (int rank = 0; rank < RANKS; rank++)
        GOOD(ncclCommDestroy(comms[rank]));
}

static uint64_t launches_of(int policy, int *const *buffers, size_t count) {
    create(policy);
    register_windows(buffers, count);
    gather(1);
    gpusim_forget_calls();
    gather(2);
    return gpusim_calls("cudaLaunchKernel");
}

static void the_zero_policy_of_a_communicator_needs_no_kernel(void) {
    void *pointer;
    EQUAL(launches_of(2, out, RANKS * COUNT), 0);
    for (int rank = 0; rank < RANKS; rank++) {
        GOOD(ncclWinGetUserPtr(comms[rank], windows[rank], &pointer));
        EQUAL(pointer == out[rank], 1);
    }
    destroy();
}

static void the_default_policy_launches_kernels(void) {
    DIFFER(launches_of(0, out, RANKS * COUNT), 0);
    destroy();
}

static void the_environment_overrides_the_policy(void) {
    setenv("NCCL_CTA_POLICY", "DEFAULT", 1);
    DIFFER(launches_of(2, out, RANKS * COUNT), 0);
    destroy();
}

static void other_memory_is_an_empty_window(void) {
    void *pointer = in;
    DIFFER(launches_of(2, in, COUNT), 0);
    GOOD(ncclWinGetUserPtr(comms[0], windows[0], &pointer));
    EQUAL(pointer == NULL, 1);
    destroy();
}

/* Numbers of windows: rank 0 leaves one, and registers another, while rank 1 still has the first. */
static void windows_are_left_one_by_one(void) {
    ncclWindow_t first[RANKS];
    launches_of(2, out, RANKS * COUNT);
    for (int round = 0; round < 3; round++) {
        for (int rank = 0; rank < RANKS; rank++)
            first[rank] = windows[rank];
        GOOD(ncclCommWindowDeregister(comms[0], first[0]));
        register_windows(out, RANKS * COUNT);
        GOOD(ncclCommWindowDeregister(comms[1], first[1]));
        gather(3 + round);
    }
    destroy();
}

/* ---- one-sided ---- */

static void fill(int *buffer, int first) {
    static int numbers[COUNT];
    for (int k = 0; k < COUNT; k++)
        numbers[k] = first + k;
    GOOD(copy_landed(buffer, numbers, sizeof numbers));
}

static void check_numbers(const int *buffer, int first) {
    static int numbers[COUNT];
    GOOD(cudaMemcpy(numbers, buffer, sizeof numbers, cudaMemcpyDefault));
    for (int k = 0; k < COUNT; k++)
        EQUAL(numbers[k], first + k);
}

/* Each rank writes into the other's window, behind what it has written into its own. Two signals more than one wait asks for are waited for
 * by the next one. */
static void put_and_wait(int rank) {
    const int other = 1 - rank;
    const size_t at = (size_t)rank * COUNT * sizeof(int);
    GOOD(cudaSetDevice(rank));
    GOOD(ncclPutSignal(in[rank], COUNT, ncclInt32, rank, windows[rank], at, 0, 0, 0, comms[rank], streams[rank]));
    GOOD(ncclPutSignal(in[rank], COUNT, ncclInt32, other, windows[rank], at, 0, 0, 0, comms[rank], streams[rank]));
    GOOD(ncclSignal(other, 0, 0, 0, comms[rank], streams[rank]));
    const struct wait_descriptor waits[] = {{1, rank, 0, 0}, {2, other, 0, 0}};
    GOOD(ncclWaitSignal(2, waits, comms[rank], streams[rank]));
}

static void what_is_put_is_in_the_window_behind_its_signal(void) {
    create(0);
    register_windows(out, RANKS * COUNT);
    for (int round = 0; round < 4; round++) {
        for (int rank = 0; rank < RANKS; rank++)
            fill(in[rank], 100000 * round + 10000 * rank);
        for (int rank = 0; rank < RANKS; rank++)
            put_and_wait(rank);
        wait_for_all();
        for (int rank = 0; rank < RANKS; rank++)
            for (int from = 0; from < RANKS; from++)
                check_numbers(out[rank] + from * COUNT, 100000 * round + 10000 * from);
    }
    destroy();
}

/* The counts are in memory, so each replay sends and waits for its own signals. */
static void graphs_with_signals_are_replayed(void) {
    cudaGraph_t graph;
    cudaGraphExec_t ready[RANKS];
    create(0);
    register_windows(out, RANKS * COUNT);
    for (int rank = 0; rank < RANKS; rank++) {
        GOOD(cudaSetDevice(rank));
        GOOD(cudaStreamBeginCapture(streams[rank], cudaStreamCaptureModeGlobal));
        put_and_wait(rank);
        GOOD(cudaStreamEndCapture(streams[rank], &graph));
        GOOD(cudaGraphInstantiateWithFlags(&ready[rank], graph, 0));
        GOOD(cudaGraphDestroy(graph));
    }
    for (int round = 0; round < 4; round++) {
        for (int rank = 0; rank < RANKS; rank++)
            fill(in[rank], 100000 * round + 10000 * rank);
        for (int rank = 0; rank < RANKS; rank++)
            GOOD(cudaGraphLaunch(ready[rank], streams[rank]));
        wait_for_all();
        for (int rank = 0; rank < RANKS; rank++)
            check_numbers(out[rank] + (1 - rank) * COUNT, 100000 * round + 10000 * (1 - rank));
    }
    for (int rank = 0; rank < RANKS; rank++)
        GOOD(cudaGraphExecDestroy(ready[rank]));
    destroy();
}

static void bad_signals_are_named(void) {
    create(0);
    EQUAL(ncclSignal(1, 0, 0, 0, comms[0], streams[0]), ncclInvalidUsage); /* there is no window yet */
    register_windows(out, RANKS * COUNT);
    const struct wait_descriptor nobody = {1, RANKS, 0, 0}, second = {1, 1, 1, 0};
    EQUAL(ncclWaitSignal(1, &nobody, comms[0], streams[0]), ncclInvalidArgument);
    EQUAL(ncclWaitSignal(1, &second, comms[0], streams[0]), ncclInvalidArgument);
    EQUAL(ncclPutSignal(in[0], COUNT, ncclInt32, 1, windows[0], RANKS * COUNT * sizeof(int) - 4, 0, 0, 0, comms[0],
                        streams[0]),
          ncclInvalidArgument);
    EQUAL(strstr(ncclGetLastError(NULL), "the window of rank 1 has 24000 bytes") != NULL, 1);
    GOOD(ncclWaitSignal(0, NULL, comms[0], streams[0]));
    destroy();
}

#define CASES(X)                                                                                                       \
    X(the_zero_policy_of_a_communicator_needs_no_kernel)                                                               \
    X(the_default_policy_launches_kernels)                                                                             \
    X(the_environment_overrides_the_policy)                                                                            \
    X(other_memory_is_an_empty_window)                                                                                 \
    X(windows_are_left_one_by_one)                                                                                     \
    X(what_is_put_is_in_the_window_behind_its_signal)                                                                  \
    X(graphs_with_signals_are_replayed)                                                                                \
    X(bad_signals_are_named)
static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) { return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv); }
