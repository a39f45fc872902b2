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

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **pointer); /* newer than the header */

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

#define CASES(X)                                                                                                       \
    X(the_zero_policy_of_a_communicator_needs_no_kernel)                                                               \
    X(the_default_policy_launches_kernels)                                                                             \
    X(the_environment_overrides_the_policy)                                                                            \
    X(other_memory_is_an_empty_window)                                                                                 \
    X(windows_are_left_one_by_one)
static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) { return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv); }
