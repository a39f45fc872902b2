/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams, graphs, and the current GPU of the caller.
 */
#include "gpu/accept.h"

#include <stdio.h>

/* More streams than there are queues of the hardware; operations of a communicator keep their order all the same. */
void part_streams(void) {
    enum { STREAMS = 12 };
    struct team team;
    void *streams[STREAMS];
    team_create(&team, ngpus == 1 ? RANKS : 1, "");
    for (int k = 0; k < STREAMS; k++)
        streams[k] = side->stream();
    for (int round = 0; round < (slow ? 2 : 20); round++) {
        struct numbers numbers = ones(&team);
        float expected = 1;
        for (int k = 0; k < 8; k++) {
            void *mine[RANKS];
            for (int rank = 0; rank < team.nranks; rank++)
                mine[rank] = streams[random_below(STREAMS)];
            sum_once(&team, &numbers, mine);
            expected *= (float)team.nranks;
        }
        for (int k = 0; k < STREAMS; k++)
            side->stream_wait(streams[k]);
        expect(&team, "8 sums in random streams", &numbers, expected);
        numbers_free(&team, &numbers);
    }
    for (int k = 0; k < STREAMS; k++)
        side->stream_free(streams[k]);
    team_destroy(&team);
}

/* All ranks in one stream, on one GPU. */
static void graphs_of_one_stream(const struct team *team) {
    struct numbers numbers = ones(team);
    void *streams[RANKS], *stream = team->streams[0];
    float expected = 1;
    for (int rank = 0; rank < RANKS; rank++)
        streams[rank] = stream;
    side->capture_begin(stream);
    sum_once(team, &numbers, streams);
    sum_once(team, &numbers, streams);
    void *graph = side->graph_make(side->capture_end(stream));
    for (int replay = 0; replay < 4; replay++) {
        side->graph_run(graph, stream);
        expected *= (float)(team->nranks * team->nranks);
    }
    sum_once(team, &numbers, streams); /* after the graph, in the same stream */
    expected *= (float)team->nranks;
    side->stream_wait(stream);
    expect(team, "4 replays of 2 sums, and one more", &numbers, expected);
    side->graph_free(graph);
    numbers_free(team, &numbers);
}

/* Each rank's stream has a capture and a graph of its own, on whichever GPU, though the calls are a group. Ranks that share a GPU need
 * CUDA_DEVICE_MAX_CONNECTIONS=32 then: each graph waits for the others, so none may be behind another one in a queue. */
static void graphs_of_each_rank(const struct team *team) {
    struct numbers numbers = ones(team);
    void *graphs[RANKS];
    float expected = 1;
    for (int rank = 0; rank < team->nranks; rank++) {
        side->use(team_gpu(team, rank));
        side->capture_begin(team->streams[rank]);
    }
    sum_once(team, &numbers, team->streams);
    for (int rank = 0; rank < team->nranks; rank++)
        graphs[rank] = side->capture_end(team->streams[rank]);
    for (int rank = 0; rank < team->nranks; rank++)
        graphs[rank] = side->graph_make(graphs[rank]);
    for (int replay = 0; replay < 4; replay++) {
        for (int rank = 0; rank < team->nranks; rank++)
            side->graph_run(graphs[rank], team->streams[rank]);
        expected *= (float)team->nranks;
    }
    team_wait(team);
    expect(team, "4 replays of a graph of each rank", &numbers, expected);
    for (int rank = 0; rank < team->nranks; rank++)
        side->graph_free(graphs[rank]);
    side->use(0);
    numbers_free(team, &numbers);
}

void part_graphs(void) {
    struct team team;
    ngpus = 1;
    report_expect(2 * RANKS);
    team_create(&team, RANKS, "");
    for (int warm = 0; warm < 2; warm++)
        graphs_of_one_stream(&team);
    team_destroy(&team);
}

void part_rankgraphs(void) {
    struct team team;
    report_expect(2 * RANKS);
    team_create(&team, RANKS, "");
    for (int warm = 0; warm < 2; warm++)
        graphs_of_each_rank(&team);
    team_destroy(&team);
}

/* Positions of connections move with each replay and live on the GPU: a mistake may show only when they have gone round often. */
static uint32_t power(uint32_t base, int exponent) {
    uint32_t result = 1;
    while (exponent-- > 0)
        result *= base;
    return result;
}

static void put_words(const struct team *team, uint32_t **words) {
    const uint32_t one = 1;
    for (int rank = 0; rank < team->nranks; rank++) {
        words[rank] = side->memory(sizeof(one), MEMORY_PLAIN);
        side->copy(words[rank], &one, sizeof(one));
    }
}

static void sum_words(const struct team *team, uint32_t *const *words) {
    must(collet_group_start(), "collet_group_start");
    for (int rank = 0; rank < team->nranks; rank++)
        must(collet_allreduce(words[rank], words[rank], 1, COLLET_UINT32, COLLET_SUM, team->comms[rank],
                              team->streams[0]),
             "collet_allreduce");
    must(collet_group_end(), "collet_group_end");
}

static void expect_words(const struct team *team, uint32_t *const *words, int sums) {
    char why[100];
    for (int rank = 0; rank < team->nranks; rank++) {
        uint32_t got, expected = power((uint32_t)team->nranks, sums);
        side->copy(&got, words[rank], sizeof(got));
        snprintf(why, sizeof(why), "after %d sums rank %d has %u, should have %u", sums, rank, got, expected);
        judge(got == expected, "replays", why);
    }
}

/* Three ranks: powers of 3 are odd, and never 0 in 32 bits. */
void part_replays(void) {
    const int replays = slow ? 50 : 10000, looks = 10;
    struct team team;
    uint32_t *words[RANKS];
    ngpus = 1;
    report_expect(3 * looks);
    team_create(&team, 3, "");
    put_words(&team, words);
    side->capture_begin(team.streams[0]);
    sum_words(&team, words);
    void *graph = side->graph_make(side->capture_end(team.streams[0]));
    for (int look = 1; look <= looks; look++) {
        for (int k = 0; k < replays / looks; k++)
            side->graph_run(graph, team.streams[0]);
        side->stream_wait(team.streams[0]);
        expect_words(&team, words, look * (replays / looks));
    }
    side->graph_free(graph);
    for (int rank = 0; rank < team.nranks; rank++)
        side->memory_free(words[rank], MEMORY_PLAIN);
    team_destroy(&team);
}

void part_device(void) {
    struct team team;
    int before = ngpus - 1;
    team_create(&team, 1, "");
    struct numbers numbers = ones(&team);
    side->use(before);
    sum_once(&team, &numbers, team.streams);
    judge(side->current() == before, "the current GPU", "a call of collet has changed it");
    side->stream_wait(team.streams[0]);
    numbers_free(&team, &numbers);
    team_destroy(&team);
    judge(side->current() == before, "the current GPU", "destroying a communicator has changed it");
    side->use(0);
}
