/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/status/metrics.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* ---- values ---- */

static double is_up(const struct status_rank *r) { return r->rank.state == PEER_ALIVE && r->rank.answered; }
static double is_stopped(const struct status_rank *r) { return r->rank.stopped; }
static double has_failed(const struct status_rank *r) { return r->has_report && r->report.failure != 0; }
static double calls_of(const struct status_rank *r) { return r->has_report ? (double)r->report.calls : 0; }
static double in_flight(const struct status_rank *r) { return r->has_report ? r->report.ncalls : 0; }
static double blocks(const struct status_rank *r) { return r->blocks; }

static double idle_of(const struct status_rank *r) {
    uint64_t longest_ns = 0;
    for (int k = 0; r->has_report && k < r->report.ncalls && k < REPORT_CALLS; k++)
        if (r->report.call[k].idle_ns > longest_ns)
            longest_ns = r->report.call[k].idle_ns;
    return (double)longest_ns / 1e9;
}

static const struct metric {
    const char *name, *type, *help;
    double (*value)(const struct status_rank *rank);
} metrics[] = {
    {"collet_rank_up", "gauge", "1 if the rank lives and has answered", is_up},
    {"collet_rank_stopped", "gauge", "1 if its process is stopped", is_stopped},
    {"collet_rank_failed", "gauge", "1 if its communicator has failed", has_failed},
    {"collet_rank_blocks", "gauge", "ranks that wait for it", blocks},
    {"collet_calls_total", "counter", "collectives called", calls_of},
    {"collet_calls_in_flight", "gauge", "operations under way", in_flight},
    {"collet_idle_seconds", "gauge", "how long its longest wait has lasted", idle_of},
};

/* ---- text ---- */

/* The name of a communicator is the program's: quotes and backslashes may be in it. */
static void put_label(const char *name, const char *text, FILE *out) {
    fprintf(out, "%s=\"", name);
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text >= 0x20)
            fputc(*text, out);
    fputc('"', out);
}

static void put_value(const struct metric *metric, const struct status_job *job, const struct status_rank *r,
                      FILE *out) {
    fprintf(out, "%s{communicator=\"%016llx\",", metric->name, (unsigned long long)job->tag);
    put_label("name", job->name, out);
    fprintf(out, ",rank=\"%d\",", r->rank.rank);
    put_label("host", r->rank.host, out);
    fprintf(out, "} %.9g\n", metric->value(r));
}

void metrics_print(const struct status_jobs *jobs, FILE *out) {
    for (size_t m = 0; m < sizeof(metrics) / sizeof(*metrics); m++) {
        fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[m].name, metrics[m].help, metrics[m].name,
                metrics[m].type);
        for (int j = 0; j < jobs->count; j++)
            for (int k = 0; k < jobs->job[j].nranks; k++)
                put_value(&metrics[m], &jobs->job[j], &jobs->job[j].ranks[k], out);
    }
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

/* One page, whatever is asked for. */
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
        metrics_print(&jobs, out);
        fclose(out);
        dprintf(fd,
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %zu\r\n"
                "Connection: close\r\n\r\n%s",
                bytes, page);
    }
    status_jobs_free(&jobs);
    free(page);
    shutdown(fd, SHUT_WR);
    close(fd);
}

int metrics_serve(int port, void (*get)(struct status_jobs *jobs)) {
    const int listener = listen_on(port);
    signal(SIGPIPE, SIG_IGN); /* a client may leave before it has its page */
    while (listener >= 0) {
        const int fd = accept(listener, NULL, NULL);
        if (fd >= 0)
            answer(fd, get);
    }
    return 1;
}
