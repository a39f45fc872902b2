/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-status and what a process answers it: heads, and ranks with what they report of their calls.
 */
#include "fuzz.h"
#include "tools/status/ask.c"
#include "tools/status/blame.c"
#include "tools/status/metrics.c"

#define RANKS_LIKELY 64

static struct census_rank rank_of(int number, struct fuzz_input *input) {
    struct census_rank rank = {.rank = number, .pid = 77, .local = number == 0, .asked = 1, .host = "host"};
    struct report report = {.calls = 5, .ncalls = fuzz_byte(input) % 8, .name = "grads"};
    for (int k = 0; k < REPORT_CALLS; k++)
        report.call[k] = (struct report_call){
            .sequence = 6, .idle_ns = 1000000000, .waits_for = fuzz_byte(input) % 4, .algorithm = "ring"};
    rank.answered = fuzz_byte(input) % 4 != 0;
    fuzz_patch(input, &report, sizeof report);
    memcpy(rank.report, &report, rank.bytes = sizeof report);
    fuzz_patch(input, &rank, sizeof rank);
    return rank;
}

static void answer_with(int fd, struct fuzz_input *input) {
    struct reception_head head = {
        .version = COLLET_VERSION, .rank_bytes = sizeof(struct census_rank), .nranks = 1 + fuzz_byte(input) % 3};
    fuzz_patch(input, &head, sizeof head);
    if (head.nranks > RANKS_LIKELY && head.nranks <= NRANKS_MAX) /* longer answers are as good, and slow */
        head.nranks = head.nranks % RANKS_LIKELY + 1;
    if (send(fd, &head, sizeof head, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;
    for (int k = fuzz_byte(input) % 4, number = 0; number < k; number++) {
        const struct census_rank rank = rank_of(number, input);
        if (send(fd, &rank, sizeof rank, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return;
    }
}

static void use(struct status_job *job) {
    struct status_jobs jobs = {.count = 1, .job = job};
    char text[512], *page = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&page, &bytes);
    blame_find(job);
    for (int k = 0; k < job->nranks; k++)
        if (job->ranks[k].blocks > 0)
            blame_describe(&job->ranks[k], text, sizeof text);
    status_print_metrics(&jobs, out);
    fclose(out);
    free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct status_job job;
    const char *why;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        abort();
    for (int k = fuzz_byte(&input) % 3; k >= 0; k--)
        answer_with(pair[1], &input);
    shutdown(pair[1], SHUT_WR);
    while (next_job(pair[0], &job, os_now_ns() + 1000000000u, &why)) {
        use(&job);
        free(job.ranks);
    }
    close(pair[0]);
    close(pair[1]);
    return 0;
}
