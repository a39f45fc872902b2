/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process answers to collet-status: communicators, their ranks, and what those do. It is printed, too.
 */
#include "layers/tools/status/ask.c"
#include "layers/tools/status/blame.c"
#include "layers/tools/status/metrics.c"

#include "fuzz.h"

#define RANKS 3

/* A rank that waits for the next one. */
static struct query_rank rank_of(int rank) {
    struct status status = {.calls = 7, .ncalls = 1, .name = "name", .error = ""};
    struct query_rank of = {
        .rank = rank, .pid = 1000 + rank, .host = "host", .asked = 1, .answered = 1, .bytes = sizeof status};
    status.call[0] = (struct status_call){
        .facts.sequence = 7, .idle_ns = 1000000000, .waits_for = (rank + 1) % RANKS, .algorithm = "ring"};
    of.status = status;
    return of;
}

static void put_job(struct fuzz_input *input, FILE *out) {
    struct status_head head = {.version = COLLET_VERSION,
                               .rank_bytes = sizeof(struct query_rank),
                               .tag = fuzz_byte(input) % 2,
                               .nranks = RANKS};
    fuzz_patch(input, &head, sizeof head);
    fwrite(&head, sizeof head, 1, out);
    for (int rank = 0; rank < RANKS; rank++) {
        struct query_rank of = rank_of(rank);
        fuzz_patch(input, &of, sizeof of);
        fwrite(&of, sizeof of, 1, out);
    }
}

static void show(const struct status_jobs *jobs) {
    char *text = NULL, line[512];
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    status_print_metrics(jobs, out);
    fclose(out);
    free(text);
    for (int j = 0; j < jobs->count; j++) {
        struct status_job *job = &jobs->job[j];
        blame_find(job);
        for (int k = 0; k < job->nranks; k++)
            if (job->ranks[k].blocks > 0)
                blame_describe(&job->ranks[k], line, sizeof line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct status_jobs jobs = {0};
    struct status_job job;
    const char *why = "";
    char *said = NULL;
    size_t bytes;
    int pair[2], room = 1 << 20;
    FILE *out = open_memstream(&said, &bytes);
    do
        put_job(&input, out);
    while (input.size > 0 && fuzz_byte(&input) % 4 == 0);
    fclose(out);
    bytes -= fuzz_byte(&input) % 4 == 0 ? (fuzz_byte(&input) | (size_t)fuzz_byte(&input) << 8) % bytes : 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (send(pair[1], said, bytes, MSG_NOSIGNAL) < 0)
        abort();
    close(pair[1]);
    while (next_job(pair[0], &job, os_now_ns() + 1000000000u, &why)) {
        if (!grow(&jobs.job, (size_t)jobs.count, 1, &jobs.room, sizeof job))
            abort();
        jobs.job[jobs.count++] = job;
    }
    show(&jobs);
    status_jobs_free(&jobs);
    close(pair[0]);
    free(said);
    return 0;
}
