/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/status/metrics.h"

#include "layers/metrics/metrics.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* ---- text ---- */

static struct metrics_rank describe_rank(const struct status_job *job, const struct status_rank *r) {
    return (struct metrics_rank){.communicator = job->tag,
                                 .name = job->name,
                                 .rank = r->rank.rank,
                                 .host = r->rank.host,
                                 .status = r->has_status ? &r->status : NULL,
                                 .is_up = r->rank.state == PEER_ALIVE && r->rank.answered,
                                 .is_stopped = r->rank.stopped,
                                 .blocks = r->blocks};
}

void status_print_metrics(const struct status_jobs *jobs, FILE *out) {
    int total = 0, n = 0;
    for (int j = 0; j < jobs->count; j++)
        total += jobs->job[j].nranks;
    struct metrics_rank *ranks = calloc((size_t)total + 1, sizeof(*ranks));
    for (int j = 0; ranks != NULL && j < jobs->count; j++)
        for (int k = 0; k < jobs->job[j].nranks; k++)
            ranks[n++] = describe_rank(&jobs->job[j], &jobs->job[j].ranks[k]);
    metrics_print(ranks, n, out);
    free(ranks);
}

/* ---- HTTP ---- */

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t bytes = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        fprintf(stderr, "collet-status: --metrics: cannot listen on 127.0.0.1:%d: %m\n", port);
        return -1;
    }
    printf("metrics at http://127.0.0.1:%d/metrics\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Answers a request with the one page, whatever it asks for. */
static void answer(int fd, void (*get)(struct status_jobs *jobs)) {
    const struct timeval patience = {.tv_sec = 2};
    struct status_jobs jobs = {0};
    char request[4096], *page = NULL;
    size_t bytes = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    FILE *out = recv(fd, request, sizeof(request), 0) > 0 ? open_memstream(&page, &bytes) : NULL;
    if (out != NULL) {
        get(&jobs);
        status_print_metrics(&jobs, out);
        fclose(out);
        dprintf(fd, METRICS_HTTP_HEAD "%s", bytes, page);
    }
    status_jobs_free(&jobs);
    free(page);
    shutdown(fd, SHUT_WR);
    close(fd);
}

int status_serve_metrics(int port, void (*get)(struct status_jobs *jobs)) {
    const int listener = listen_on(port);
    signal(SIGPIPE, SIG_IGN); /* A client may leave before it has its page. */
    while (listener >= 0) {
        const int fd = accept(listener, NULL, NULL);
        if (fd >= 0)
            answer(fd, get);
    }
    return 1;
}
