/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of NCCL's users: it knows <nccl.h> and nothing of collet. Four processes on host memory (COLLET_DEVICE=host)
 * call everything that such programs call, and check every result. tests/nccl/test_abi.sh compiles it against NVIDIA's
 * header and against ours, and starts it with our library in three ways.
 *
 *    ranks            runs all cases, prints one line per case; the last line is "N passed, N failed"
 *    ranks CASE       runs one
 */
#include <nccl.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if NCCL_VERSION_CODE < 22800 /* what is newer than the header */
ncclResult_t ncclAlltoAll(const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclGather(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclScatter(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
#endif
#if NCCL_VERSION_CODE < 22900 /* weak: the program also links to an older library of NVIDIA's, and runs with ours */
#pragma weak ncclCommGetUniqueId
#pragma weak ncclCommGrow
#pragma weak ncclCommRevoke
ncclResult_t ncclCommGetUniqueId(ncclComm_t, ncclUniqueId *);
ncclResult_t ncclCommGrow(ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *);
ncclResult_t ncclCommRevoke(ncclComm_t, int);
#endif

#define N 4
#define COUNT 300 /* elements per block */

static struct shared {
    pthread_barrier_t barrier;
    ncclUniqueId id;
} * shared;
static int rank;
static ncclComm_t comm; /* of all ranks, in most cases */

static void fail(const char *file, int line, const char *text, ncclResult_t result) {
    printf("      rank %d: %s:%d: %s: %s (%s)\n", rank, file, line, text, ncclGetErrorString(result),
           ncclGetLastError(NULL));
    fflush(stdout);
    _exit(1);
}

#define EXPECT(result, call)                                                                                           \
    do {                                                                                                               \
        ncclResult_t got_ = (call);                                                                                    \
        if (got_ != (result))                                                                                          \
            fail(__FILE__, __LINE__, #call, got_);                                                                     \
    } while (0)
#define OK(call) EXPECT(ncclSuccess, call)
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail(__FILE__, __LINE__, "not so: " #condition, ncclSuccess);                                              \
    } while (0)
#define SAYS(word) CHECK(strstr(ncclGetLastError(NULL), word) != NULL)

static void meet(void) { pthread_barrier_wait(&shared->barrier); }

static ncclUniqueId new_id(void) {
    meet();
    if (rank == 0)
        OK(ncclGetUniqueId(&shared->id));
    meet();
    return shared->id;
}

/* ---- elements ---- */

static const struct {
    ncclDataType_t type;
    const char *name;
    size_t bytes;
    int mantissa, exponent; /* bits of a float; 0: an integer */
} TYPES[] = {
    {ncclInt8, "int8", 1, 0, 0},         {ncclUint8, "uint8", 1, 0, 0},       {ncclInt32, "int32", 4, 0, 0},
    {ncclUint32, "uint32", 4, 0, 0},     {ncclInt64, "int64", 8, 0, 0},       {ncclUint64, "uint64", 8, 0, 0},
    {ncclFloat16, "half", 2, 10, 5},     {ncclFloat32, "float", 4, 23, 8},    {ncclFloat64, "double", 8, 52, 11},
    {ncclBfloat16, "bfloat16", 2, 7, 8}, {ncclFloat8e4m3, "f8e4m3", 1, 3, 4}, {ncclFloat8e5m2, "f8e5m2", 1, 2, 5}};
#define TYPE_COUNT (sizeof TYPES / sizeof *TYPES)

/* The bits of a small whole number ≥ 0 in a type. All are exact. */
static uint64_t bits_of(size_t t, int value) {
    if (TYPES[t].mantissa == 0 || value == 0)
        return (uint64_t)value;
    int power = 31 - __builtin_clz((unsigned)value), bias = (1 << (TYPES[t].exponent - 1)) - 1;
    uint64_t fraction = ((uint64_t)value << TYPES[t].mantissa >> power) & ((1ull << TYPES[t].mantissa) - 1);
    return (uint64_t)(power + bias) << TYPES[t].mantissa | fraction;
}

static void put(void *buffer, size_t t, size_t index, int value) {
    uint64_t bits = bits_of(t, value);
    memcpy((char *)buffer + index * TYPES[t].bytes, &bits, TYPES[t].bytes);
}

static int is(const void *buffer, size_t t, size_t index, int value) {
    uint64_t bits = bits_of(t, value);
    return memcmp((const char *)buffer + index * TYPES[t].bytes, &bits, TYPES[t].bytes) == 0;
}

/* Contributions are 0, 1 or 2: sums and products of four are exact in every type. */
static int contribution(int of, size_t i) { return (int)((i + (size_t)of * 2) % 3); }

static int reduced(ncclRedOp_t op, size_t i) {
    int sum = 0, product = 1, least = 9, most = 0;
    for (int r = 0; r < N; r++) {
        int v = contribution(r, i);
        sum += v;
        product *= v;
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    return op == ncclSum ? sum : op == ncclProd ? product : op == ncclMin ? least : most;
}

#define ROOM (COUNT * 8) /* for the elements of a rank, of any type */
static char in[N * ROOM + 64], out[N * ROOM + 64];

static void fill(size_t t, size_t n) {
    for (size_t i = 0; i < n; i++)
        put(in, t, i, contribution(rank, i));
    memset(out, 0x55, sizeof out);
}

/* ---- cases ---- */

static void names_versions_and_texts(void) {
    int version = 0;
    OK(ncclGetVersion(&version));
    CHECK(version == 22809);
    EXPECT(ncclInvalidArgument, ncclGetVersion(NULL));
    SAYS("version");
    for (int k = -1; k < 12; k++)
        CHECK(ncclGetErrorString((ncclResult_t)k) != NULL);
    EXPECT(ncclInvalidArgument, ncclGetUniqueId(NULL));
}

static void getters_answer(void) {
    int value = -1;
    OK(ncclCommCount(comm, &value));
    CHECK(value == N);
    OK(ncclCommUserRank(comm, &value));
    CHECK(value == rank);
    EXPECT(ncclInvalidUsage, ncclCommCuDevice(comm, &value));
    SAYS("host memory");
    EXPECT(ncclInvalidArgument, ncclCommCount(comm, NULL));
    EXPECT(ncclInvalidArgument, ncclCommCount(NULL, &value));
    ncclResult_t state = ncclInternalError;
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclSuccess);
}

static void reductions_of_all_types_and_operators(void) {
    for (size_t t = 0; t < TYPE_COUNT; t++)
        for (int op = ncclSum; op <= ncclMin; op++) {
            fill(t, N * COUNT);
            OK(ncclAllReduce(in, out, COUNT, TYPES[t].type, (ncclRedOp_t)op, comm, NULL));
            for (size_t i = 0; i < COUNT; i++)
                CHECK(is(out, t, i, reduced((ncclRedOp_t)op, i)));
            OK(ncclReduceScatter(in, out, COUNT, TYPES[t].type, (ncclRedOp_t)op, comm, NULL));
            for (size_t i = 0; i < COUNT; i++)
                CHECK(is(out, t, i, reduced((ncclRedOp_t)op, i + (size_t)rank * COUNT)));
            memset(out, 0x55, sizeof out);
            int root = op % N;
            OK(ncclReduce(in, rank == root ? out : NULL, COUNT, TYPES[t].type, (ncclRedOp_t)op, root, comm, NULL));
            for (size_t i = 0; i < COUNT; i++)
                CHECK(rank == root ? is(out, t, i, reduced((ncclRedOp_t)op, i)) : out[i] == 0x55);
            fill(t, COUNT);
            OK(ncclAllReduce(in, in, COUNT, TYPES[t].type, (ncclRedOp_t)op, comm, NULL));
            for (size_t i = 0; i < COUNT; i++)
                CHECK(is(in, t, i, reduced((ncclRedOp_t)op, i)));
        }
}

static void averages_divide_toward_zero(void) {
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        for (size_t i = 0; i < N * COUNT; i++)
            put(in, t, i, rank == (int)(i % N) ? 4 : 0);
        OK(ncclAllReduce(in, out, COUNT, TYPES[t].type, ncclAvg, comm, NULL));
        OK(ncclReduceScatter(in, out + ROOM, COUNT, TYPES[t].type, ncclAvg, comm, NULL));
        for (size_t i = 0; i < COUNT; i++)
            CHECK(is(out, t, i, 1) && is(out + ROOM, t, i, 1));
        OK(ncclReduce(in, out, COUNT, TYPES[t].type, ncclAvg, 0, comm, NULL));
        for (size_t i = 0; i < COUNT && rank == 0; i++)
            CHECK(is(out, t, i, 1));
    }
    int32_t each = rank == 0 ? -7 : 0, average = 9;
    OK(ncclAllReduce(&each, &average, 1, ncclInt32, ncclAvg, comm, NULL));
    CHECK(average == -1);
}

/* Their sum is beyond the type, as NCCL's is not. */
static void averages_of_large_halves_are_no_infinity(void) {
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        int large = TYPES[t].exponent == 5 ? 49152 : TYPES[t].exponent == 4 ? 384 : 1;
        for (size_t i = 0; i < COUNT; i++)
            put(in, t, i, large);
        OK(ncclAllReduce(in, out, COUNT, TYPES[t].type, ncclAvg, comm, NULL));
        for (size_t i = 0; i < COUNT; i++)
            CHECK(is(out, t, i, large));
    }
}

/* As nccl-tests does it: made before and ended after the call, inside the group. */
static void sums_of_scaled_inputs(void) {
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        char scalar[8] = {0};
        ncclRedOp_t op = ncclSum;
        put(scalar, t, 0, rank % 2 ? 2 : 1);
        for (size_t i = 0; i < N * COUNT; i++)
            put(in, t, i, rank == (int)(i % N) ? 3 : 0);
        OK(ncclGroupStart());
        OK(ncclRedOpCreatePreMulSum(&op, scalar, TYPES[t].type, ncclScalarHostImmediate, comm));
        CHECK(op >= ncclNumOps);
        memset(scalar, 0x55, sizeof scalar);
        OK(ncclAllReduce(in, out, COUNT, TYPES[t].type, op, comm, NULL));
        OK(ncclReduceScatter(in, out + ROOM, COUNT, TYPES[t].type, op, comm, NULL));
        OK(ncclRedOpDestroy(op, comm));
        OK(ncclGroupEnd());
        for (size_t i = 0; i < COUNT; i++)
            CHECK(is(out, t, i, i % N % 2 ? 6 : 3) && is(out + ROOM, t, i, (i + (size_t)rank * COUNT) % N % 2 ? 6 : 3));
        EXPECT(ncclInvalidArgument, ncclRedOpDestroy(op, comm));
        EXPECT(ncclInvalidArgument, ncclAllReduce(in, out, COUNT, TYPES[t].type, op, comm, NULL));
    }
    float two = 2;
    ncclRedOp_t op;
    OK(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, ncclScalarDevice, comm));
    EXPECT(ncclInvalidArgument, ncclAllReduce(in, out, 1, ncclDouble, op, comm, NULL));
    OK(ncclRedOpDestroy(op, comm));
    EXPECT(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, comm));
    EXPECT(ncclInvalidArgument, ncclRedOpCreatePreMulSum(NULL, &two, ncclFloat, ncclScalarDevice, comm));
}

static void copies_of_all_types(void) {
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        int root = (int)t % N;
        size_t block = COUNT * TYPES[t].bytes;
        fill(t, N * COUNT);
        OK(ncclBroadcast(rank == root ? in : NULL, out, COUNT, TYPES[t].type, root, comm, NULL));
        for (size_t i = 0; i < COUNT; i++)
            CHECK(is(out, t, i, contribution(root, i)));
        OK(ncclAllGather(in, out, COUNT, TYPES[t].type, comm, NULL));
        for (size_t i = 0; i < N * COUNT; i++)
            CHECK(is(out, t, i, contribution((int)(i / COUNT), i % COUNT)));
        memcpy(out + (size_t)rank * block, in, block);
        OK(ncclAllGather(out + (size_t)rank * block, out, COUNT, TYPES[t].type, comm, NULL));
        for (size_t i = 0; i < N * COUNT; i++)
            CHECK(is(out, t, i, contribution((int)(i / COUNT), i % COUNT)));
        OK(ncclAlltoAll(in, out, COUNT, TYPES[t].type, comm, NULL));
        for (size_t i = 0; i < N * COUNT; i++)
            CHECK(is(out, t, i, contribution((int)(i / COUNT), i % COUNT + (size_t)rank * COUNT)));
        OK(ncclBcast(in, COUNT, TYPES[t].type, root, comm, NULL));
        for (size_t i = 0; i < COUNT; i++)
            CHECK(is(in, t, i, contribution(root, i)));
    }
}

static void gather_and_scatter(void) {
    for (size_t k = 0; k < N * TYPE_COUNT; k++) {
        size_t t = k / N;
        int root = (int)(k % N);
        fill(t, N * COUNT);
        OK(ncclGather(in, rank == root ? out : NULL, COUNT, TYPES[t].type, root, comm, NULL));
        for (size_t i = 0; i < N * COUNT; i++)
            CHECK(rank != root ? out[i] == 0x55 : is(out, t, i, contribution((int)(i / COUNT), i % COUNT)));
        OK(ncclScatter(rank == root ? in : NULL, out, COUNT, TYPES[t].type, root, comm, NULL));
        for (size_t i = 0; i < COUNT; i++)
            CHECK(is(out, t, i, contribution(root, i + (size_t)rank * COUNT)));
    }
}

/* Of NCCL 2.31; no header here has it yet. */
struct call_options {
    size_t size;
    unsigned magic, version;
    const void *vendors;
    int fewest, most, nvls, cluster;
    const char *algorithm;
    int forced, policy;
    uint64_t tag;
};
typedef ncclResult_t call_op(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t,
                             const struct call_options *);
typedef ncclResult_t call_root(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t,
                               const struct call_options *);
typedef ncclResult_t call_plain(const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t,
                                const struct call_options *);
typedef ncclResult_t call_op_root(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                                  cudaStream_t, const struct call_options *);

static void *find(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    CHECK(function != NULL);
    return function;
}

static void calls_take_options(void) {
    const int unset = NCCL_CONFIG_UNDEF_INT;
    struct call_options options = {64, 0xcafebeef, 23102, NULL, 1, 2, unset, unset, NULL, 1, 2, 7};
    int numbers[N * N], sums[N * N];
    for (int k = 0; k < N * N; k++)
        numbers[k] = rank + k;
    OK(((call_op *)find("ncclAllReduceConfig"))(numbers, sums, N, ncclInt32, ncclSum, comm, NULL, &options));
    CHECK(sums[1] == N * (N - 1) / 2 + N);
    OK(((call_op *)find("ncclReduceScatterConfig"))(numbers, sums, N, ncclInt32, ncclSum, comm, NULL, NULL));
    CHECK(sums[0] == N * (N - 1) / 2 + N * N * rank);
    OK(((call_op_root *)find("ncclReduceConfig"))(numbers, sums, 1, ncclInt32, ncclMax, 1, comm, NULL, &options));
    CHECK(rank != 1 || sums[0] == N - 1);
    OK(((call_root *)find("ncclBroadcastConfig"))(numbers, sums, 1, ncclInt32, 2, comm, NULL, &options));
    CHECK(sums[0] == 2);
    OK(((call_plain *)find("ncclAllGatherConfig"))(numbers, sums, 1, ncclInt32, comm, NULL, &options));
    CHECK(sums[N - 1] == N - 1);
    OK(((call_plain *)find("ncclAlltoAllConfig"))(numbers, sums, 1, ncclInt32, comm, NULL, &options));
    CHECK(sums[3] == 3 + rank);
    OK(((call_root *)find("ncclGatherConfig"))(numbers, sums, 1, ncclInt32, 0, comm, NULL, &options));
    CHECK(rank != 0 || sums[3] == 3);
    OK(((call_root *)find("ncclScatterConfig"))(numbers, sums, 1, ncclInt32, 3, comm, NULL, &options));
    CHECK(sums[0] == 3 + rank);
}

static void is_refused(struct call_options options, ncclResult_t result, const char *word) {
    int number = 1, sum;
    EXPECT(result,
           ((call_op *)find("ncclAllReduceConfig"))(&number, &sum, 1, ncclInt32, ncclSum, comm, NULL, &options));
    SAYS(word);
}

static void wrong_options_of_a_call_are_named(void) {
    const int unset = NCCL_CONFIG_UNDEF_INT;
    const struct call_options good = {64, 0xcafebeef, 23102, NULL, unset, unset, unset, unset, NULL, 1, unset, 0};
    struct call_options wrong = good;
    int number = 1, sum;
    wrong.size = 24;
    is_refused(wrong, ncclInvalidArgument, "config.size");
    wrong = good, wrong.fewest = 3, wrong.most = 2;
    is_refused(wrong, ncclInvalidArgument, "maxCTAs");
    wrong = good, wrong.forced = 2;
    is_refused(wrong, ncclInvalidArgument, "forceAlgSelection");
    wrong = good, wrong.policy = 4;
    is_refused(wrong, ncclInvalidArgument, "CTAPolicy");
    static const char *const selections[] = {"rong", "CollnetDirect",      "pat",
                                             "^",    "broadcast:rong;pat", "^LL,LL128,Simple"};
    for (size_t k = 0; k < sizeof selections / sizeof *selections; k++) {
        wrong = good, wrong.algorithm = selections[k];
        is_refused(wrong, ncclInvalidArgument, "algSelection");
        wrong.forced = 0;
        OK(((call_op *)find("ncclAllReduceConfig"))(&number, &sum, 1, ncclInt32, ncclSum, comm, NULL, &wrong));
        CHECK(sum == N);
    }
    wrong = good, wrong.algorithm = "hier"; /* for several nodes */
    is_refused(wrong, ncclInvalidArgument, "takes allreduce of 4 ranks on 1 node");
    wrong.forced = 0;
    OK(((call_op *)find("ncclAllReduceConfig"))(&number, &sum, 1, ncclInt32, ncclSum, comm, NULL, &wrong));
}

/* ---- how one call is done: tests/nccl/test_abi.sh looks, by the number of elements, at what a profiler plugin was told ---- */

static void allreduce_by(const char *algorithm, int fewest, int most, size_t count) {
    const int unset = NCCL_CONFIG_UNDEF_INT;
    const struct call_options options = {64,    0xcafebeef, 23102,     NULL, fewest, most,
                                         unset, unset,      algorithm, 1,    unset,  0};
    static float ones[1 << 20], sums[1 << 20];
    for (size_t k = 0; k < count; k++)
        ones[k] = 1;
    OK(((call_op *)find("ncclAllReduceConfig"))(ones, sums, count, ncclFloat, ncclSum, comm, NULL, &options));
    for (size_t k = 0; k < count; k++)
        CHECK(sums[k] == N);
}

static void others_by(const char *algorithm) {
    const int unset = NCCL_CONFIG_UNDEF_INT;
    const struct call_options options = {64,    0xcafebeef, 23102,     NULL, unset, unset,
                                         unset, unset,      algorithm, 1,    unset, 0};
    static float one[N * 3000], all[N * 3000];
    OK(((call_root *)find("ncclBroadcastConfig"))(one, all, 2001, ncclFloat, 2, comm, NULL, &options));
    OK(((call_op_root *)find("ncclReduceConfig"))(one, all, 2002, ncclFloat, ncclSum, 1, comm, NULL, &options));
}

static void a_call_has_its_own_algorithm(void) {
    const int unset = NCCL_CONFIG_UNDEF_INT;
    for (int turn = 0; turn < 2; turn++) { /* the second time the choices are known */
        allreduce_by("Tree,Simple", unset, unset, 1001);
        allreduce_by(NULL, unset, unset, 1002);
        allreduce_by("ring,ll", unset, unset, 1001 + 3);
        allreduce_by("^ring,tree,halving,doubling,twoshot,nvls", unset, unset, 1005);
        allreduce_by("tree;allreduce:ring,LL128", unset, unset, 1006);
        allreduce_by("CollnetChain,Tree,LL", unset, unset, 1007);
        others_by("tree");
    }
}

static void a_call_has_its_own_channels(void) {
    const int unset = NCCL_CONFIG_UNDEF_INT;
    allreduce_by("ring", 3, 3, 1011);
    allreduce_by("ring", unset, 1, 1012);
    allreduce_by("ring,Simple", 5, unset, 1 << 20);
    allreduce_by("ring", 2, 64, 1013);
}

static void calls_with_options_go_into_groups(void) {
    const int unset = NCCL_CONFIG_UNDEF_INT;
    struct call_options options = {64, 0xcafebeef, 23102, NULL, unset, unset, unset, unset, "ring", 1, unset, 0};
    int one = 1, sums[3] = {0, 0, 0};
    OK(ncclGroupStart());
    OK(((call_op *)find("ncclAllReduceConfig"))(&one, &sums[0], 1, ncclInt, ncclSum, comm, NULL, &options));
    OK(ncclAllReduce(&one, &sums[1], 1, ncclInt, ncclSum, comm, NULL));
    options.algorithm = "tree";
    OK(((call_op *)find("ncclAllReduceConfig"))(&one, &sums[2], 1, ncclInt, ncclSum, comm, NULL, &options));
    OK(ncclGroupEnd());
    CHECK(sums[0] == N && sums[1] == N && sums[2] == N);
}

/* Channels, too: they are no part of what goes over the connections. */
static void options_that_differ_between_ranks_are_found(void) {
    const int unset = NCCL_CONFIG_UNDEF_INT;
    struct call_options options = {64, 0xcafebeef, 23102, NULL, unset, unset, unset, unset, "ring,LL", 1, unset, 0};
    options.most = rank == N - 1 ? 2 : 1;
    int one = 1, sum;
    meet();
    EXPECT(ncclInvalidUsage,
           ((call_op *)find("ncclAllReduceConfig"))(&one, &sum, 1, ncclInt, ncclSum, comm, NULL, &options));
    SAYS("rank 3 called allreduce of 1 int32, op sum");
    SAYS("options");
    OK(ncclCommAbort(comm));
    comm = NULL;
}

static void alltoall_in_place_succeeds(void) {
    OK(ncclAlltoAll(in, in, COUNT, ncclFloat32, comm, NULL));
    OK(ncclAlltoAll(in, in, 0, ncclFloat32, comm, NULL));
    EXPECT(ncclInvalidArgument, ncclAlltoAll(in, in, 1, (ncclDataType_t)99, comm, NULL));
    OK(ncclAllReduce(in, out, 1, ncclFloat32, ncclSum, comm, NULL));
}

/* Newer than the header. */
enum { GIVEN_BACK, IS_AWAY, STAYS, IN_ALL };
typedef ncclResult_t ask_memory(ncclComm_t, int, uint64_t *);

static void memory_of_a_communicator_is_counted(void) {
    ask_memory *ask = (ask_memory *)find("ncclCommMemStats");
    uint64_t before, total, stays, back, away;
    OK(ask(comm, IN_ALL, &before));
    CHECK(before == 0); /* connections are made when they are used */
    OK(ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, comm, NULL));
    OK(ask(comm, IN_ALL, &total));
    OK(ask(comm, STAYS, &stays));
    OK(ask(comm, GIVEN_BACK, &back));
    OK(ask(comm, IS_AWAY, &away));
    CHECK(total > 4096 && total == stays + back && away == 0);
    EXPECT(ncclInvalidArgument, ask(comm, IN_ALL + 1, &total));
    SAYS("stat is 4");
    EXPECT(ncclInvalidArgument, ask(comm, IN_ALL, NULL));
    SAYS("value is NULL");
    EXPECT(ncclInvalidArgument, ask(NULL, IN_ALL, &total));
}

static void messages_meet(void) {
    int right = (rank + 1) % N, left = (rank + N - 1) % N;
    fill(2, COUNT);
    OK(ncclGroupStart());
    OK(ncclSend(in, COUNT, ncclInt32, right, comm, NULL));
    OK(ncclRecv(out, COUNT, ncclInt32, left, comm, NULL));
    OK(ncclSend(in, 5, ncclInt8, rank, comm, NULL)); /* to oneself, in the same group */
    OK(ncclRecv(in + sizeof in / 2, 5, ncclInt8, rank, comm, NULL));
    OK(ncclGroupEnd());
    for (size_t i = 0; i < COUNT; i++)
        CHECK(is(out, 2, i, contribution(left, i)));
    CHECK(memcmp(in, in + sizeof in / 2, 5) == 0);
    OK(ncclGroupStart()); /* messages without bytes are real */
    OK(ncclSend(NULL, 0, ncclInt32, right, comm, NULL));
    OK(ncclRecv(NULL, 0, ncclInt32, left, comm, NULL));
    OK(ncclGroupEnd());
    OK(rank % 2 ? ncclRecv(out, 3, ncclUint8, rank - 1, comm, NULL) : ncclSend(in, 3, ncclUint8, rank + 1, comm, NULL));
    EXPECT(ncclInvalidUsage, ncclSend(in, 1, ncclInt8, rank, comm, NULL));
}

static void groups_nest_and_fail_as_a_whole(void) {
    int one = 1, two = 2, sum = 0, most = 0;
    OK(ncclGroupStart());
    OK(ncclGroupEnd());
    EXPECT(ncclInvalidUsage, ncclGroupEnd());
    OK(ncclGroupStart());
    OK(ncclGroupStart());
    OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL));
    OK(ncclGroupEnd());
    CHECK(sum == 0);
    OK(ncclAllReduce(&two, &most, 1, ncclInt, ncclMax, comm, NULL));
    OK(ncclGroupEnd());
    CHECK(sum == N && most == 2);
    sum = 0;
    OK(ncclGroupStart());
    OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL));
    EXPECT(ncclInvalidArgument, ncclAllReduce(&one, &sum, 1, (ncclDataType_t)99, ncclSum, comm, NULL));
    EXPECT(ncclInvalidArgument, ncclGroupEnd());
    CHECK(sum == 0);
    OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL));
    CHECK(sum == N);
}

static void bad_arguments_are_refused(void) {
    int one = 1, sum;
    EXPECT(ncclInvalidArgument, ncclAllReduce(&one, &sum, 1, ncclInt, (ncclRedOp_t)77, comm, NULL));
    EXPECT(ncclInvalidArgument, ncclAllReduce(&one, &sum, 1, (ncclDataType_t)-1, ncclSum, comm, NULL));
    SAYS("datatype is -1");
    EXPECT(ncclInvalidArgument, ncclReduce(&one, &sum, 1, ncclInt, ncclSum, N, comm, NULL));
    EXPECT(ncclInvalidArgument, ncclAllReduce(NULL, &sum, 1, ncclInt, ncclSum, comm, NULL));
    EXPECT(ncclInvalidArgument, ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, NULL, NULL));
    EXPECT(ncclInvalidArgument, ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, (cudaStream_t)&one));
    SAYS("stream");
    OK(ncclAllReduce(NULL, NULL, 0, ncclInt, ncclSum, comm, NULL));
    OK(ncclAlltoAll(NULL, NULL, 0, ncclInt, comm, NULL));
}

static void many_communicators_at_once(void) {
    ncclComm_t comms[3], single;
    ncclUniqueId ids[3];
    for (int k = 0; k < 3; k++)
        ids[k] = new_id();
    OK(ncclGroupStart());
    for (int k = 0; k < 3; k++)
        OK(ncclCommInitRank(&comms[k], N, ids[k], rank));
    OK(ncclGroupEnd());
    int one = 1, sums[3] = {0};
    OK(ncclGroupStart());
    for (int k = 0; k < 3; k++)
        OK(ncclAllReduce(&one, &sums[k], 1, ncclInt, ncclSum, comms[k], NULL));
    OK(ncclGroupEnd());
    for (int k = 0; k < 3; k++) {
        CHECK(sums[k] == N);
        OK(ncclCommDestroy(comms[k]));
    }
    ncclUniqueId own;
    OK(ncclGetUniqueId(&own));
    OK(ncclCommInitRank(&single, 1, own, 0));
    OK(ncclAllReduce(&one, &sums[0], 1, ncclInt, ncclAvg, single, NULL));
    CHECK(sums[0] == 1);
    OK(ncclCommDestroy(single));
    for (int k = 0; k < 2; k++)
        ids[k] = new_id();
    OK(ncclCommInitRankScalable(&single, N, rank, 2, ids, NULL));
    OK(ncclAllReduce(&one, &sums[0], 1, ncclInt, ncclSum, single, NULL));
    CHECK(sums[0] == N);
    OK(ncclCommDestroy(single));
    EXPECT(ncclInvalidArgument, ncclCommInitRankScalable(&single, N, rank, N + 1, ids, NULL));
    EXPECT(ncclInvalidArgument, ncclCommInitRank(&single, N, ids[0], N));
    EXPECT(ncclInvalidArgument, ncclCommInitRank(NULL, N, ids[0], rank));
}

static void one_process_has_all_ranks(void) {
    ncclComm_t comms[3];
    int ones[3] = {1, 1, 1}, sums[3] = {0};
    OK(ncclCommInitAll(comms, 3, NULL));
    OK(ncclGroupStart());
    for (int k = 0; k < 3; k++)
        OK(ncclAllReduce(&ones[k], &sums[k], 1, ncclInt, ncclSum, comms[k], NULL));
    OK(ncclGroupEnd());
    for (int k = 0; k < 3; k++)
        CHECK(sums[k] == 3);
    for (int k = 0; k < 3; k++)
        OK(ncclCommDestroy(comms[k]));
}

static void wait_until_ready(ncclComm_t of) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress)
        OK(ncclCommGetAsyncError(of, &state));
    CHECK(state == ncclSuccess);
}

static int sum_over(ncclComm_t of) {
    int one = 1, sum = 0;
    OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, of, NULL));
    return sum;
}

static void communicators_are_split(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t child = comm, pair = NULL;
    int number = -1;
    OK(ncclCommSplit(comm, 7, -rank, &child, NULL));
    OK(ncclCommUserRank(child, &number));
    CHECK(number == N - 1 - rank && sum_over(child) == N);
    OK(ncclCommSplit(child, rank % 2 ? NCCL_SPLIT_NOCOLOR : 0, 0, &pair, &config));
    CHECK(rank % 2 ? pair == NULL : sum_over(pair) == N / 2);
    OK(ncclCommDestroy(pair));
    OK(ncclCommDestroy(child));
    EXPECT(ncclInvalidArgument, ncclCommSplit(comm, -2, 0, &child, NULL));
}

/* As PyTorch does it: the parent does not block, and then the child appears by itself. */
static void a_split_need_not_block(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t parent;
    volatile ncclComm_t child = NULL;
    ncclResult_t state = ncclInProgress;
    config.blocking = 0;
    EXPECT(ncclInProgress, ncclCommInitRankConfig(&parent, N, new_id(), rank, &config));
    wait_until_ready(parent);
    ncclResult_t begun = ncclCommSplit(parent, rank / 2, rank, (ncclComm_t *)&child, &config);
    CHECK(begun == ncclInProgress || begun == ncclSuccess);
    while (state == ncclInProgress)
        OK(ncclCommGetAsyncError(parent, &state));
    CHECK(state == ncclSuccess);
    while (child == NULL)
        usleep(100);
    wait_until_ready(child);
    CHECK(sum_over(child) == N / 2);
    OK(ncclCommDestroy(child));
    OK(ncclCommDestroy(parent));
}

/* Of a communicator that was revoked, or stopped by the shrink itself, nothing is left to call. */
static void end_by_shrinking(ncclComm_t large, int number) {
    int last[] = {N - 1}, before[] = {0}, one = 1, all = 0;
    ncclComm_t small = NULL, smaller = NULL;
    meet(); /* or a rank would end the calls that others have not returned from */
    EXPECT(ncclInvalidArgument, ncclCommRevoke(large, 1));
    OK(ncclCommRevoke(large, 0));
    EXPECT(ncclInvalidUsage, ncclAllReduce(&one, &all, 1, ncclInt, ncclSum, large, NULL));
    CHECK(strstr(ncclGetLastError(large), "ncclCommRevoke()") != NULL);
    OK(ncclGroupStart());
    EXPECT(ncclInvalidUsage, ncclSend(&one, 1, ncclInt, 0, large, NULL));
    EXPECT(ncclInvalidUsage, ncclGroupEnd());
    if (number != N - 1) {
        OK(ncclCommShrink(large, last, 1, &small, NULL, NCCL_SHRINK_DEFAULT));
        CHECK(sum_over(small) == N - 1);
    }
    meet();
    if (number != N - 1 && number != 0) {
        OK(ncclCommShrink(small, before, 1, &smaller, NULL, NCCL_SHRINK_ABORT));
        CHECK(sum_over(smaller) == N - 2);
        OK(ncclCommDestroy(smaller));
    }
    OK(ncclCommDestroy(small));
    OK(ncclCommDestroy(large));
}

static void communicators_shrink_and_grow(void) {
    ncclComm_t small = NULL, large = NULL;
    int excluded[] = {2}, number = -1;
    static ncclUniqueId id;
    if (rank != 2) {
        OK(ncclCommShrink(comm, excluded, 1, &small, NULL, NCCL_SHRINK_DEFAULT));
        OK(ncclCommUserRank(small, &number));
        CHECK(number == rank - (rank > 2) && sum_over(small) == N - 1);
        EXPECT(ncclInvalidArgument, ncclCommShrink(comm, excluded, 1, &large, NULL, 7));
        SAYS("shrinkFlags 7");
    }
    if (rank == 0)
        OK(ncclCommGetUniqueId(small, &shared->id));
    meet();
    id = shared->id;
    OK(ncclCommGrow(small, N, rank == 0 || rank == 2 ? &id : NULL, rank == 2 ? N - 1 : -1, &large, NULL));
    CHECK(sum_over(large) == N);
    OK(ncclCommUserRank(large, &number));
    CHECK(number == (rank == 2 ? N - 1 : rank - (rank > 2)));
    OK(ncclCommDestroy(small));
    end_by_shrinking(large, number);
    EXPECT(ncclInvalidArgument, ncclCommGrow(NULL, N, NULL, 0, &large, NULL));
}

static void creation_need_not_block(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t early = NULL;
    int one = 1, sum = 0;
    config.blocking = 0;
    config.commName = "early";
    ncclUniqueId id = new_id();
    EXPECT(ncclInProgress, ncclCommInitRankConfig(&early, N, id, rank, &config));
    CHECK(early != NULL);
    EXPECT(ncclInvalidArgument, ncclCommCount(early, &sum));
    wait_until_ready(early);
    OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, early, NULL));
    CHECK(sum == N);
    OK(ncclCommFinalize(early));
    wait_until_ready(early);
    OK(ncclCommDestroy(early));

    id = new_id();
    OK(ncclGroupStart());
    EXPECT(ncclInProgress, ncclCommInitRankConfig(&early, N, id, rank, &config));
    EXPECT(ncclInProgress, ncclGroupEnd());
    wait_until_ready(early);
    OK(ncclGroupStart());
    OK(ncclGroupEnd());
    meet(); /* nobody is told of the abort before */
    OK(ncclCommAbort(early));
}

/* The struct of any version: its size, that version, and bytes that are none of its fields. */
static ncclResult_t init_with(size_t size, unsigned version, unsigned magic, int offset, int value) {
    union {
        unsigned char bytes[128];
        struct {
            size_t size;
            unsigned magic, version;
            int ints[28];
        } head;
    } config;
    memset(&config, 0xee, sizeof config); /* beyond the end, and padding */
    for (size_t k = 0; k < 20; k++)
        if (16 + 4 * k < size)
            config.head.ints[k] = NCCL_CONFIG_UNDEF_INT;
    memset(config.bytes + 32, 0, 8); /* netName */
    if (size > 48)
        memset(config.bytes + 48, 0, 8); /* commName */
    if (version < 22600)
        memset(config.bytes + 44, 0xee, 4); /* padding behind splitShare */
    config.head.size = size;
    config.head.magic = magic;
    config.head.version = version;
    if (offset > 0)
        memcpy(config.bytes + offset, &value, sizeof value);
    ncclComm_t made = NULL;
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    ncclResult_t result = ncclCommInitRankConfig(&made, 1, id, 0, (ncclConfig_t *)config.bytes);
    if (result == ncclSuccess)
        OK(ncclCommDestroy(made));
    return result;
}

static void options_of_all_versions_are_read(void) {
    const unsigned magic = 0xcafebeef;
    OK(init_with(24, 21400, magic, 0, 0));
    OK(init_with(40, 21700, magic, 0, 0));
    OK(init_with(48, 21800, magic, 0, 0));
    OK(init_with(48, 22203, magic, 0, 0));
    OK(init_with(48, 22602, magic, 0, 0));
    OK(init_with(72, 22703, magic, 0, 0));
    OK(init_with(80, 22809, magic, 0, 0));
    OK(init_with(88, 22903, magic, 0, 0));
    OK(init_with(96, 23003, magic, 92, 12345)); /* padding there */
    OK(init_with(96, 23007, magic, 92, 1));
    OK(init_with(112, 23100, magic, 0, 0));
    EXPECT(ncclInvalidArgument, init_with(96, 23007, magic, 92, 12345));
    SAYS("graphStreamOrdering");
    EXPECT(ncclInvalidArgument, init_with(80, 22809, 0xcafe, 0, 0));
    SAYS("magic");
    EXPECT(ncclInvalidArgument, init_with(8, 22809, magic, 0, 0));
    EXPECT(ncclInvalidArgument, init_with(80, 22809, magic, 16, 2));
    SAYS("blocking");
    EXPECT(ncclInvalidArgument, init_with(80, 22809, magic, 24, 4));
    SAYS("minCTAs");
    OK(init_with(80, 22809, magic, 28, 4));
    OK(init_with(80, 22809, magic, 76, 1)); /* as nccl-tests sets it */
    OK(init_with(96, 23007, magic, 88, 2));
}

static void ends_are_noticed(void) {
    ncclComm_t made;
    ncclUniqueId id = new_id();
    int one = 1, sum;
    OK(ncclCommInitRank(&made, N, id, rank));
    OK(ncclCommFinalize(made));
    EXPECT(ncclInvalidArgument, ncclCommFinalize(made));
    EXPECT(ncclInvalidUsage, ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, made, NULL));
    OK(ncclCommDestroy(made));
    EXPECT(ncclInvalidArgument, ncclCommDestroy(made));
    EXPECT(ncclInvalidArgument, ncclCommAbort(made));
    OK(ncclCommFinalize(NULL));
    OK(ncclCommDestroy(NULL));
    OK(ncclCommAbort(NULL));
}

static void memory_is_given_and_may_be_registered(void) {
    void *handle = &handle;
    ncclWindow_t window = (ncclWindow_t)&handle;
    OK(ncclCommRegister(comm, in, sizeof in, &handle));
    OK(ncclCommDeregister(comm, handle));
    EXPECT(ncclInvalidArgument, ncclCommDeregister(comm, handle));
    OK(ncclCommDeregister(comm, NULL));
    OK(ncclCommWindowRegister(comm, in, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
    CHECK(window == NULL);
    OK(ncclCommWindowDeregister(comm, window));
    EXPECT(ncclInvalidArgument, ncclCommRegister(comm, in, sizeof in, NULL));
    float *memory = NULL;
    OK(ncclMemAlloc((void **)&memory, 1000));
    CHECK(memory != NULL && (uintptr_t)memory % NCCL_WIN_REQUIRED_ALIGNMENT == 0);
    memory[0] = (float)rank;
    OK(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comm, NULL));
    CHECK(memory[0] == N * (N - 1) / 2);
    OK(ncclMemFree(memory));
    OK(ncclMemFree(NULL));
    EXPECT(ncclInvalidArgument, ncclMemAlloc(NULL, 1));
}

/* Of every function that the library does not have: an error that names it. */
static void what_is_refused_says_so(void) {
    const char *names = getenv("NCCL_REFUSED"); /* "ncclX ncclY …" */
    char name[64];
    int length;
    CHECK(names != NULL && *names != '\0');
    for (; sscanf(names, " %63s%n", name, &length) == 1; names += length) {
        ncclResult_t (*function)(void *, void *, void *, void *, void *, void *);
        *(void **)&function = dlsym(RTLD_DEFAULT, name);
        CHECK(function != NULL);
        EXPECT(ncclInvalidUsage, function(NULL, NULL, NULL, NULL, NULL, NULL));
        SAYS(name);
    }
}

static void a_simulated_group_ends_without_running(void) {
    int one = 1, sum = 0;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    OK(ncclGroupStart());
    OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL));
    OK(ncclGroupStart()); /* of an inner group there is no time */
    OK(ncclGroupSimulateEnd(&info));
    CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
    OK(ncclGroupSimulateEnd(&info));
    CHECK(info.estimatedTime > 0 && sum == 0);
    EXPECT(ncclInvalidUsage, ncclGroupEnd());

    float single = info.estimatedTime;
    OK(ncclGroupStart());
    for (int k = 0; k < 3; k++)
        OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL));
    OK(ncclGroupSimulateEnd(&info));
    CHECK(info.estimatedTime > 2.9f * single && info.estimatedTime < 3.1f * single);

    OK(ncclGroupStart());
    EXPECT(ncclInvalidArgument, ncclAllReduce(&one, &sum, 1, (ncclDataType_t)99, ncclSum, comm, NULL));
    EXPECT(ncclInvalidArgument, ncclGroupSimulateEnd(&info));
    OK(ncclGroupStart());
    OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL));
    EXPECT(ncclInvalidArgument, ncclGroupSimulateEnd(NULL));
    SAYS("simInfo");
    info.magic = 0;
    OK(ncclGroupStart());
    EXPECT(ncclInvalidArgument, ncclGroupSimulateEnd(&info));
    CHECK(sum == 0);
    OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL));
    CHECK(sum == N);
}

/* The log then says what was chosen for them. */
static void allreduces_small_and_large(void) {
    static float small[16], large[1 << 18];
    OK(ncclAllReduce(small, small, 16, ncclFloat, ncclSum, comm, NULL));
    OK(ncclAllReduce(large, large, 1 << 18, ncclFloat, ncclSum, comm, NULL));
}

/* The last case: it leaves a communicator that has failed. */
static void a_rank_that_dies_is_noticed(void) {
    int one = 1, sum;
    ncclResult_t state = ncclSuccess;
    if (rank == N - 1)
        _exit(0); /* without a goodbye */
    ncclResult_t result = ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL);
    CHECK(result == ncclRemoteError);
    SAYS("rank 3");
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclRemoteError);
    OK(ncclCommAbort(comm));
    comm = NULL;
}

static const struct {
    const char *name;
    void (*run)(void);
} CASES[] = {
#define CASE(name)                                                                                                     \
    { #name, name }
    CASE(names_versions_and_texts),
    CASE(getters_answer),
    CASE(reductions_of_all_types_and_operators),
    CASE(averages_divide_toward_zero),
    CASE(averages_of_large_halves_are_no_infinity),
    CASE(sums_of_scaled_inputs),
    CASE(copies_of_all_types),
    CASE(gather_and_scatter),
    CASE(calls_take_options),
    CASE(wrong_options_of_a_call_are_named),
    CASE(a_call_has_its_own_algorithm),
    CASE(a_call_has_its_own_channels),
    CASE(calls_with_options_go_into_groups),
    CASE(options_that_differ_between_ranks_are_found),
    CASE(alltoall_in_place_succeeds),
    CASE(memory_of_a_communicator_is_counted),
    CASE(messages_meet),
    CASE(groups_nest_and_fail_as_a_whole),
    CASE(bad_arguments_are_refused),
    CASE(many_communicators_at_once),
    CASE(one_process_has_all_ranks),
    CASE(creation_need_not_block),
    CASE(communicators_are_split),
    CASE(a_split_need_not_block),
    CASE(communicators_shrink_and_grow),
    CASE(options_of_all_versions_are_read),
    CASE(ends_are_noticed),
    CASE(memory_is_given_and_may_be_registered),
    CASE(what_is_refused_says_so),
    CASE(a_simulated_group_ends_without_running),
    CASE(allreduces_small_and_large),
    CASE(a_rank_that_dies_is_noticed),
};

static void run_rank(int of, void (*run)(void)) {
    rank = of;
    alarm(60);
    ncclUniqueId id = new_id();
    OK(ncclCommInitRank(&comm, N, id, rank));
    run();
    OK(ncclCommDestroy(comm));
    _exit(0);
}

static int run_case(void (*run)(void)) {
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, N);
    pid_t pids[N];
    int bad = 0;
    fflush(stdout);
    for (int r = 0; r < N; r++)
        if ((pids[r] = fork()) == 0)
            run_rank(r, run);
    for (int r = 0; r < N; r++) {
        int status;
        pid_t ended = wait(&status);
        if (ended > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0) && bad++ == 0)
            for (int k = 0; k < N; k++)
                if (pids[k] != ended)
                    kill(pids[k], SIGKILL);
    }
    return bad == 0;
}

int main(int argc, char **argv) {
    int passed = 0, failed = 0;
    Dl_info place;
    setenv("COLLET_DEVICE", "host", 1);
    if (dladdr((void *)(uintptr_t)&ncclGetVersion, &place) != 0)
        printf("library: %s\n", place.dli_fname);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        if (argc > 1 && strcmp(argv[1], CASES[k].name) != 0)
            continue;
        int ok = run_case(CASES[k].run);
        printf("%s  %s\n", ok ? "ok  " : "FAIL", CASES[k].name);
        passed += ok;
        failed += !ok;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0 || passed == 0;
}
