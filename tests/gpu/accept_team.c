/* SPDX-License-Identifier: Apache-2.0
 *
 * All ranks of a communicator in one thread, on the GPUs there are, and a number of each rank that is summed.
 */
#include "gpu/accept.h"

#include <stdio.h>
#include <stdlib.h>

int team_gpu(const struct team *team, int rank) { return rank * ngpus / team->nranks; }

void team_create(struct team *team, int nranks, const char *protocol) {
    int devices[RANKS_MOST];
    setenv("COLLET_PROTO", protocol, 1);
    team->nranks = nranks;
    for (int rank = 0; rank < nranks; rank++) {
        devices[rank] = COLLET_DEVICE_CUDA(team_gpu(team, rank));
        side->use(team_gpu(team, rank));
        team->streams[rank] = side->stream();
    }
    must(collet_comm_init_all(team->comms, nranks, devices), "collet_comm_init_all");
    side->use(0);
    unsetenv("COLLET_PROTO");
}

void team_destroy(struct team *team) {
    for (int rank = 0; rank < team->nranks; rank++)
        must(collet_comm_destroy(team->comms[rank]), "collet_comm_destroy");
    for (int rank = 0; rank < team->nranks; rank++)
        side->stream_free(team->streams[rank]);
}

void team_wait(const struct team *team) {
    for (int rank = 0; rank < team->nranks; rank++)
        side->stream_wait(team->streams[rank]);
}

struct numbers ones(const struct team *team) {
    const float one = 1;
    struct numbers numbers;
    int before = side->current();
    for (int rank = 0; rank < team->nranks; rank++) {
        side->use(team_gpu(team, rank));
        numbers.of[rank] = side->memory(sizeof(one), MEMORY_PLAIN);
        side->copy(numbers.of[rank], &one, sizeof(one));
    }
    side->use(before);
    return numbers;
}

void numbers_free(const struct team *team, struct numbers *numbers) {
    for (int rank = 0; rank < team->nranks; rank++)
        side->memory_free(numbers->of[rank], MEMORY_PLAIN);
}

void sum_some(const struct team *team, int nranks, const struct numbers *numbers, void *const *streams) {
    must(collet_group_start(), "collet_group_start");
    for (int rank = 0; rank < nranks; rank++)
        must(collet_allreduce(numbers->of[rank], numbers->of[rank], 1, COLLET_FLOAT32, COLLET_SUM, team->comms[rank],
                              streams[rank]),
             "collet_allreduce");
    must(collet_group_end(), "collet_group_end");
}

void sum_once(const struct team *team, const struct numbers *numbers, void *const *streams) {
    sum_some(team, team->nranks, numbers, streams);
}

void expect(const struct team *team, const char *name, const struct numbers *numbers, float expected) {
    char why[80];
    for (int rank = 0; rank < team->nranks; rank++) {
        float got;
        side->copy(&got, numbers->of[rank], sizeof(got));
        snprintf(why, sizeof(why), "rank %d has %g, should have %g", rank, (double)got, (double)expected);
        judge(got == expected, name, why);
    }
}
