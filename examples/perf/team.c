/* SPDX-License-Identifier: Apache-2.0
 *
 * What the perf programs themselves need from a communicator: a barrier, reductions of a number over all
 * ranks, and rows gathered from all ranks. All use collet's own collectives, not MPI.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(int rank, const char *function, enum collet_result result, const struct collet_comm *comm) {
    if (result == COLLET_SUCCESS)
        return;
    progress_hide();
    fflush(stdout);
    const char *kind = collet_error_string(result), *cause = collet_last_error(comm);
    const char *separator = *cause ? ": " : "";
    if (rank >= 0)
        fprintf(stderr, "rank %d: %s: %s%s%s\n", rank, function, kind, separator, cause);
    else
        fprintf(stderr, "%s: %s%s%s\n", function, kind, separator, cause);
    /* Not exit(): other threads may be inside a call. The other ranks notice that this one has gone. */
    _exit(PERF_FAILED);
}

void team_must(int rank, const char *function, enum collet_result result) { must(rank, function, result, NULL); }

void *perf_allocate(size_t bytes) {
    size_t rounded = (bytes + 63) / 64 * 64;
    void *memory = aligned_alloc(64, rounded ? rounded : 64);
    if (!memory) {
        fprintf(stderr, "no memory for %zu bytes: choose a smaller -e or fewer ranks\n", bytes);
        _exit(PERF_FAILED);
    }
    return memset(memory, 0, rounded);
}

/* If a call fails on a GPU, its stream goes on all the same. So this also asks the communicators for errors. */
void team_finish(const struct perf_team *team) {
    for (int i = 0; perf_device && i < team->count; i++) {
        enum collet_result failure;
        perf_device->wait(team->streams[i]);
        MUST(team->first_rank + i, collet_comm_get_async_error, team->measured[i], &failure);
        must(team->first_rank + i, "a call on a GPU", failure, team->measured[i]);
    }
}

void team_group_start(const struct perf_team *team) {
    if (team->count > 1)
        MUST(team->first_rank, collet_group_start);
}

void team_group_end(const struct perf_team *team) {
    if (team->count > 1)
        MUST(team->first_rank, collet_group_end);
}

double team_reduce(const struct perf_team *team, const double *values, enum collet_op op) {
    double *results = perf_allocate((size_t)team->count * sizeof(*results));
    team_group_start(team);
    for (int i = 0; i < team->count; i++) {
        MUST(team->first_rank + i, collet_allreduce, &values[i], &results[i], 1, COLLET_FLOAT64, op, team->comms[i],
             NULL);
    }
    team_group_end(team);
    double result = results[0];
    free(results);
    return result;
}

double team_reduce_same(const struct perf_team *team, double value, enum collet_op op) {
    double *values = perf_allocate((size_t)team->count * sizeof(*values));
    for (int i = 0; i < team->count; i++)
        values[i] = value;
    double result = team_reduce(team, values, op);
    free(values);
    return result;
}

void team_barrier(const struct perf_team *team) { team_reduce_same(team, 0, COLLET_SUM); }

void team_gather(const struct perf_team *team, const void *row, size_t bytes, void *rows, int nranks) {
    size_t total = bytes * (size_t)nranks;
    unsigned char *results = perf_allocate(total * (size_t)team->count);
    team_group_start(team);
    for (int i = 0; i < team->count; i++) {
        MUST(team->first_rank + i, collet_allgather, (const unsigned char *)row + (size_t)i * bytes,
             results + (size_t)i * total, bytes, COLLET_UINT8, team->comms[i], NULL);
    }
    team_group_end(team);
    memcpy(rows, results, total);
    free(results);
}
