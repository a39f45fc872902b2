/* SPDX-License-Identifier: Apache-2.0
 *
 * A small job of two processes on host memory (COLLET_DEVICE=host), as a program for NCCL makes it: a short and a long allreduce, the other
 * collectives once, a message. It exits with 0 if all results are right. test_settings.sh starts it with a setting at a time.
 */
#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 2
#define LONG 100000 /* elements */

static int rank;
static ncclComm_t comm;
static float in[RANKS * LONG], out[RANKS * LONG];

#define OK(call) must(call, #call)
static void must(ncclResult_t result, const char *call) {
    if (result == ncclSuccess)
        return;
    fprintf(stderr, "rank %d: %s: %s: %s\n", rank, call, ncclGetErrorString(result), ncclGetLastError(NULL));
    _exit(1);
}

static float value_of(int of_rank, size_t k) { return (float)((k + 3 * (size_t)of_rank) % 17); }
static float sum_of(size_t k) { return value_of(0, k) + value_of(1, k); }

static void check(const char *what, size_t k, float is, float should_be) {
    if (is == should_be)
        return;
    fprintf(stderr, "rank %d: %s: element %zu is %g, not %g\n", rank, what, k, (double)is, (double)should_be);
    _exit(1);
}

static void allreduce(size_t count) {
    OK(ncclAllReduce(in, out, count, ncclFloat32, ncclSum, comm, NULL));
    for (size_t k = 0; k < count; k++)
        check("allreduce", k, out[k], sum_of(k));
}

static void others(size_t count) {
    OK(ncclAllGather(in, out, count, ncclFloat32, comm, NULL));
    for (size_t k = 0; k < RANKS * count; k++)
        check("allgather", k, out[k], value_of((int)(k / count), k % count));
    OK(ncclReduceScatter(in, out, count, ncclFloat32, ncclSum, comm, NULL));
    for (size_t k = 0; k < count; k++)
        check("reducescatter", k, out[k], sum_of(k + (size_t)rank * count));
    OK(ncclBroadcast(in, out, count, ncclFloat32, 1, comm, NULL));
    for (size_t k = 0; k < count; k++)
        check("broadcast", k, out[k], value_of(1, k));
    OK(ncclReduce(in, out, count, ncclFloat32, ncclSum, 0, comm, NULL));
    for (size_t k = 0; k < count && rank == 0; k++)
        check("reduce", k, out[k], sum_of(k));
    OK(ncclGroupStart());
    OK(ncclSend(in, count, ncclFloat32, 1 - rank, comm, NULL));
    OK(ncclRecv(out, count, ncclFloat32, 1 - rank, comm, NULL));
    OK(ncclGroupEnd());
    for (size_t k = 0; k < count; k++)
        check("message", k, out[k], value_of(1 - rank, k));
}

static int run(const ncclUniqueId *id) {
    for (size_t k = 0; k < RANKS * LONG; k++)
        in[k] = value_of(rank, k);
    OK(ncclCommInitRank(&comm, RANKS, *id, rank));
    allreduce(8);
    allreduce(LONG);
    others(1000);
    OK(ncclCommDestroy(comm));
    return 0;
}

/* Rank 1 is a child, and gets the id through a pipe. */
int main(void) {
    ncclUniqueId id;
    int ends[2], status = 1;
    if (pipe(ends) != 0)
        return 1;
    const pid_t child = fork();
    rank = child == 0;
    if (child != 0) {
        OK(ncclGetUniqueId(&id));
        status = write(ends[1], &id, sizeof id) != sizeof id;
    } else {
        close(ends[1]);
        status = read(ends[0], &id, sizeof id) != sizeof id;
    }
    if (status != 0 || run(&id) != 0)
        return 1;
    return child != 0 && (waitpid(child, &status, 0) != child || status != 0);
}
