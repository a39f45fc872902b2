/* SPDX-License-Identifier: Apache-2.0
 *
 * The same: handles, fork, slices of time, MPS, and the end of a process.
 */
#include "gpusim/contract.h"
#include "common/fair.h"

/* ---- processes ---- */

#define SHARED_BYTES ((size_t)2 << 20) /* that lie together, at least */

static cudaError_t cuda_driver_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    CUresult (*range_of)(CUdeviceptr * base, size_t * bytes, CUdeviceptr address) =
        (CUresult(*)(CUdeviceptr *, size_t *, CUdeviceptr))cuda_entry("cuMemGetAddressRange", 11000);
    return (cudaError_t)range_of(base, bytes, address);
}

static void exporter(int pipes[2], int back[2]) {
    cudaIpcMemHandle_t handle;
    int *number = number_on(0, 5);
    char word;
    GOOD(cudaIpcGetMemHandle(&handle, number));
    EQUAL(write(pipes[1], &handle, sizeof(handle)), sizeof(handle));
    EQUAL(read(back[0], &word, 1), 1);
    EQUAL(number_at(number), 6);
    GOOD(cudaFree(number));
}

static void importer(int pipes[2], int back[2], int closes) {
    cudaIpcMemHandle_t handle;
    void *number;
    EQUAL(read(pipes[0], &handle, sizeof(handle)), sizeof(handle));
    GOOD(cudaSetDevice(1));
    GOOD(cudaIpcOpenMemHandle(&number, handle, cudaIpcMemLazyEnablePeerAccess));
    launch_increment(number, NULL);
    GOOD(cudaDeviceSynchronize());
    if (closes)
        GOOD(cudaIpcCloseMemHandle(number));
    EQUAL(write(back[1], "x", 1), 1);
    pause();
}

/* The signal that the exporter ends by. */
static int share_number(int closes) {
    int pipes[2], back[2], status, importing, exporting;
    EQUAL(pipe(pipes) | pipe(back), 0);
    if ((importing = fork()) == 0) {
        importer(pipes, back, closes);
        _exit(0);
    }
    if ((exporting = fork()) == 0) {
        exporter(pipes, back);
        _exit(0);
    }
    waitpid(exporting, &status, 0);
    kill(importing, SIGKILL);
    waitpid(importing, NULL, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void another_process_uses_memory_by_its_handle(void) { EQUAL(share_number(1), 0); }

static void memory_that_is_open_elsewhere_must_not_be_freed(void) { EQUAL(share_number(0), SIGABRT); }

struct piece {
    cudaIpcMemHandle_t handle;
    size_t offset; /* of the piece, in all that the handle names */
};

static void piece_export(int to, int back) {
    int *neighbour = number_on(0, 1), *number = number_on(0, 5);
    struct piece piece;
    CUdeviceptr base;
    size_t bytes;
    char word;
    GOOD(cuda_driver_range(&base, &bytes, (CUdeviceptr)(uintptr_t)number));
    EQUAL(bytes, SHARED_BYTES);
    piece.offset = (size_t)((CUdeviceptr)(uintptr_t)number - base);
    DIFFER(piece.offset, 0);
    GOOD(cudaIpcGetMemHandle(&piece.handle, number));
    EQUAL(write(to, &piece, sizeof(piece)), sizeof(piece));
    EQUAL(read(back, &word, 1), 1);
    EQUAL(number_at(number), 6);
    EQUAL(number_at(neighbour), 2); /* which nobody has given to anyone */
    GOOD(cudaFree(number));
}

static void piece_import(int from, int back) {
    struct piece piece;
    char *all, *again;
    EQUAL(read(from, &piece, sizeof(piece)), sizeof(piece));
    GOOD(cudaIpcOpenMemHandle((void **)&all, piece.handle, cudaIpcMemLazyEnablePeerAccess));
    GOOD(cudaIpcOpenMemHandle((void **)&again, piece.handle, cudaIpcMemLazyEnablePeerAccess));
    EQUAL(again == all, 1);
    GOOD(cudaIpcCloseMemHandle(again)); /* it is open still */
    launch_increment((int *)(void *)(all + piece.offset), NULL);
    launch_increment((int *)(void *)all, NULL);
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaIpcCloseMemHandle(all));
    EQUAL(cudaIpcCloseMemHandle(all), cudaErrorInvalidValue);
    EQUAL(write(back, "x", 1), 1);
}

/* What cudaMalloc() gives may be a piece of something larger. */
static void a_handle_names_all_that_lies_with_a_piece(void) {
    int to[2], back[2], status;
    EQUAL(pipe(to) | pipe(back), 0);
    if (fork() == 0) {
        piece_export(to[1], back[0]);
        _exit(0);
    }
    piece_import(to[0], back[1]);
    wait(&status);
    EQUAL(status, 0);
}

/* Memory of cudaMalloc() has one, for other processes. */
static void not_all_memory_has_a_handle(void) {
    cudaIpcMemHandle_t handle;
    void *memory, *other;
    GOOD(cudaIpcGetMemHandle(&handle, number_on(0, 1)));
    EQUAL(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess), cudaErrorDeviceUninitialized);
    EQUAL(cudaIpcOpenMemHandle(&memory, handle, 0), cudaErrorInvalidValue);
    GOOD(cudaHostAlloc(&memory, 16, cudaHostAllocDefault));
    GOOD(cudaMallocManaged(&other, 16, cudaMemAttachGlobal));
    EQUAL(cudaIpcGetMemHandle(&handle, memory), cudaErrorInvalidValue);
    EQUAL(cudaIpcGetMemHandle(&handle, other), cudaErrorInvalidValue);
    EQUAL(cudaIpcGetMemHandle(&handle, number_of_pool()), cudaErrorInvalidValue);
    EQUAL(cudaIpcCloseMemHandle(memory), cudaErrorInvalidValue);
}

/* Of a GPU that is divided a process sees one part, and reaches no other memory than this part's and the host's. */
static void a_part_of_a_gpu_shares_no_memory(void) {
    cudaIpcMemHandle_t handle;
    int n;
    setenv("GPUSIM_GPUS", "2", 1);
    setenv("GPUSIM_MIG", "2", 1);
    GOOD(cudaGetDeviceCount(&n));
    EQUAL(n, 1);
    EQUAL(cudaIpcGetMemHandle(&handle, number_on(0, 1)), cudaErrorInvalidValue);
    EQUAL(cudaDeviceEnablePeerAccess(1, 0), cudaErrorInvalidDevice);
}

typedef CUresult context_call(CUcontext *context);

/* Not even by a function that its parent has found. */
static void a_child_of_fork_may_not_use_what_its_parent_began(void) {
    context_call *current = (context_call *)cuda_entry("cuCtxGetCurrent", 11000);
    CUcontext context;
    int n, status;
    GOOD(cudaGetDeviceCount(&n)); /* that is enough */
    if (fork() == 0) {
        EQUAL(current(&context), CUDA_ERROR_NOT_INITIALIZED);
        EQUAL(cudaGetDeviceCount(&n), cudaErrorInitializationError);
        EQUAL(cudaSetDevice(0), cudaErrorInitializationError);
        _exit(0);
    }
    wait(&status);
    EQUAL(status, 0);
}

/* One's kernel waits for a word that the other one's kernel stores, on the same GPU. */
static void kernels_of_two_processes_share_a_gpu(void) {
    cudaIpcMemHandle_t handle;
    int pipes[2], status;
    void *word;
    EQUAL(pipe(pipes), 0);
    if (fork() == 0) {
        int *number = number_on(0, 0);
        gate();
        launch_spin(number, NULL);
        GOOD(cudaIpcGetMemHandle(&handle, number));
        EQUAL(write(pipes[1], &handle, sizeof(handle)), sizeof(handle));
        GOOD(cudaDeviceSynchronize());
        _exit(0);
    }
    EQUAL(read(pipes[0], &handle, sizeof(handle)), sizeof(handle));
    GOOD(cudaIpcOpenMemHandle(&word, handle, cudaIpcMemLazyEnablePeerAccess));
    launch_store(word, 1, NULL);
    GOOD(cudaDeviceSynchronize());
    wait(&status);
    EQUAL(status, 0);
}

/* ---- slices of time ---- */

/* Words that two processes and their kernels see. */
static struct turns { int until, stored, has_begun, is_waiting, is_ready[2]; } * turns;

static void share_machine(const char *how, const char *value) {
    static char name[] = "/tmp/gpusim-machine-XXXXXX";
    close(mkstemp(name));
    setenv("GPUSIM_MACHINE", name, 1);
    setenv(how, value, 1);
    turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void until_set(int *word) {
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
}
static void set(int *word) { __atomic_store_n(word, 1, __ATOMIC_RELEASE); }

static void each_process(void (*run)(int process)) {
    int status[2];
    for (int k = 0; k < 2; k++)
        if (fork() == 0) {
            GOOD(cudaHostRegister(turns, sizeof(*turns), cudaHostRegisterDefault));
            fair_alarm(EACH_SECONDS);
            gate();
            set(&turns->is_ready[k]);
            until_set(&turns->is_ready[1 - k]);
            run(k);
            _exit(0);
        }
    wait(&status[0]);
    wait(&status[1]);
    unlink(getenv("GPUSIM_MACHINE"));
    EQUAL(status[0] | status[1], 0);
}

static void store_behind_the_other(int process) {
    cudaStream_t stream = stream_here();
    if (process == 0) {
        launch_store(&turns->has_begun, 1, stream);
        launch_spin(&turns->until, stream);
        until_set(&turns->is_waiting);
        EQUAL(turns->stored, 0);
        set(&turns->until);
    } else {
        until_set(&turns->has_begun);
        launch_store(&turns->stored, 1, stream);
        for (int k = 0; k < 20; k++, usleep(1000))
            EQUAL(cudaStreamQuery(stream), cudaErrorNotReady);
        set(&turns->is_waiting);
    }
    GOOD(cudaStreamSynchronize(stream));
}

static void one_process_has_a_gpu_at_a_time(void) {
    share_machine("GPUSIM_SLICE_US", "100000000");
    each_process(store_behind_the_other);
}

/* Process 0 waits for what process 1 stores, and gets the GPU back. */
static void wait_for_the_other(int process) {
    const uint64_t before = gpusim_switches();
    if (process == 0) {
        launch_store(&turns->has_begun, 1, NULL);
        launch_spin(&turns->until, NULL);
    } else {
        until_set(&turns->has_begun);
        launch_store(&turns->until, 1, NULL);
    }
    GOOD(cudaDeviceSynchronize());
    EQUAL(gpusim_switches() > before, 1);
}

static void a_slice_ends_where_another_process_waits(void) {
    share_machine("GPUSIM_SLICE_US", "20");
    each_process(wait_for_the_other);
}

/* ---- MPS ---- */

static void use_half(int process) {
    int sms;
    GOOD(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    EQUAL(sms, 1);
    if (process == 1)
        return;
    int *word = gate();
    gpusim_counts_clear();
    for (int k = 0; k < SM_BLOCKS + 1; k++)
        launch_spin(word, stream_here());
    EQUAL(blocks_begun(SM_BLOCKS + 1), SM_BLOCKS);
    gate_open(word);
    GOOD(cudaDeviceSynchronize());
}

static void a_process_may_be_allowed_a_part_of_a_gpu(void) {
    setenv("GPUSIM_SMS", "2", 1);
    share_machine("GPUSIM_MPS_PERCENT", "50");
    each_process(use_half);
}

/* Process 0 fills the one multiprocessor. */
static void store_beside_the_other(int process) {
    cudaStream_t stream = stream_here();
    if (process == 0) {
        gpusim_counts_clear();
        for (int k = 0; k < SM_BLOCKS; k++)
            launch_spin(&turns->until, stream_here());
        EQUAL(blocks_begun(SM_BLOCKS), SM_BLOCKS);
        set(&turns->has_begun);
        until_set(&turns->is_waiting);
        EQUAL(turns->stored, 0);
        set(&turns->until);
    } else {
        until_set(&turns->has_begun);
        launch_store(&turns->stored, 1, stream);
        for (int k = 0; k < 20; k++, usleep(1000))
            EQUAL(cudaStreamQuery(stream), cudaErrorNotReady);
        set(&turns->is_waiting);
    }
    GOOD(cudaDeviceSynchronize());
}

static void processes_take_room_from_each_other(void) {
    setenv("GPUSIM_SMS", "1", 1);
    share_machine("GPUSIM_MPS_PERCENT", "100");
    each_process(store_beside_the_other);
}

/* ---- exit ---- */

#define REFUSED 42
static int is_leaving, error_in_handler = -1;

static void ask_in_a_handler(void) { error_in_handler = cudaDeviceSynchronize(); }

/* Runs behind the handlers of exit(), and behind the runtime's own end. */
__attribute__((destructor(101))) static void ask_in_the_end(void) {
    CUresult (*current)(CUcontext * context) =
        is_leaving ? (CUresult(*)(CUcontext *))cuda_entry("cuCtxGetCurrent", 11000) : NULL;
    CUcontext context;
    if (is_leaving && error_in_handler == cudaSuccess && cudaDeviceSynchronize() == cudaErrorCudartUnloading &&
        current(&context) == CUDA_ERROR_DEINITIALIZED)
        _exit(REFUSED);
}

static void every_call_is_refused_when_the_runtime_is_gone(void) {
    int status;
    if (fork() == 0) {
        GOOD(cudaDeviceSynchronize());
        is_leaving = 1;
        atexit(ask_in_a_handler);
        exit(0); /* which the destructor changes */
    }
    wait(&status);
    EQUAL(WEXITSTATUS(status), REFUSED);
}

/* ---- main ---- */

#define CASES(X)                                                                                                       \
    X(another_process_uses_memory_by_its_handle)                                                                       \
    X(memory_that_is_open_elsewhere_must_not_be_freed)                                                                 \
    X(kernels_of_two_processes_share_a_gpu)                                                                            \
    X(a_handle_names_all_that_lies_with_a_piece)                                                                       \
    X(not_all_memory_has_a_handle)                                                                                     \
    X(a_part_of_a_gpu_shares_no_memory)                                                                                \
    X(a_child_of_fork_may_not_use_what_its_parent_began)                                                               \
    X(one_process_has_a_gpu_at_a_time)                                                                                 \
    X(a_slice_ends_where_another_process_waits)                                                                        \
    X(a_process_may_be_allowed_a_part_of_a_gpu)                                                                        \
    X(processes_take_room_from_each_other)                                                                             \
    X(every_call_is_refused_when_the_runtime_is_gone)

static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) { return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv); }
