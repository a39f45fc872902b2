/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/exporter.h"

#include "api/comm.h"
#include "layers/outlet/apart.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/output.h"
#include "base/thread.h"
#include "boot/address.h"
#include "layers/observe/server.h"
#include "layers/observe/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_S 10
#define FIRST_NS 5000000000ull /* maximum time for the first page: an automounter may come first */
#define NEVER_NS (100ull * 365 * 86400 * 1000000000) /* a thread of its own may wait as long as it takes */

struct exporter {
    struct server server;
    struct watch_task start;
    char where[CONFIG_TEXT_BYTES]; /* COLLET_METRICS */
    bool is_file;
    struct address_set set;    /* else it listens at the first of these, … */
    int first, last;           /* at one of these ports */
    int fd;                    /* −1: not yet */
    struct collet_comm *comms; /* whose ranks it shows; with the process's lock */
};

/* ---- the page ---- */

/* With the process's lock. */
static void put_page(const struct collet_comm *comms, FILE *out) {
    SCOPED_FREE struct metrics_rank *ranks = NULL;
    SCOPED_FREE struct report *reports = NULL; /* of ranks */
    int n = 0;
    for (const struct collet_comm *comm = comms; comm != NULL; comm = comm->next_shown)
        n++;
    ranks = calloc((size_t)n + 1, sizeof *ranks);
    reports = calloc((size_t)n + 1, sizeof *reports);
    n = ranks != NULL && reports != NULL ? n : 0;
    for (int k = 0; k < n; k++, comms = comms->next_shown) {
        report_make(comms, (char *)&reports[k]);
        ranks[k] = (struct metrics_rank){.communicator = boot_tag(comms->boot),
                                         .name = comms->name,
                                         .rank = comms->rank,
                                         .host = boot_peers(comms->boot)[comms->rank].host,
                                         .report = &reports[k],
                                         .is_up = true,
                                         .blocks = -1};
    }
    metrics_print(ranks, n, out);
}

/* NULL: there is no memory. */
static char *make_page(size_t *bytes) {
    char *page = NULL;
    FILE *out = open_memstream(&page, bytes);
    if (out == NULL)
        return NULL;
    put_page(process_lock()->exporter->comms, out);
    process_unlock();
    fclose(out);
    return page;
}

/* ---- over HTTP ---- */

/* A request without a body ends with an empty line. */
static enum server_question read_request(const char *text, size_t bytes) {
    if (memcmp(text, "GET ", bytes < 4 ? bytes : 4) != 0)
        return SERVER_NONSENSE;
    const bool ends = memmem(text, bytes, "\n\r\n", 3) != NULL || memmem(text, bytes, "\n\n", 2) != NULL;
    return ends ? SERVER_COMPLETE : SERVER_INCOMPLETE;
}

static void answer(struct client *client) {
    size_t bytes = 0;
    char head[sizeof METRICS_HTTP_HEAD + 20];
    SCOPED_FREE char *page = make_page(&bytes);
    if (page == NULL)
        return;
    client_put(client, head, (size_t)snprintf(head, sizeof head, METRICS_HTTP_HEAD, bytes));
    client_put(client, page, bytes);
}

static enum collet_result bad_value(const char *text) {
    return err_set(
        COLLET_ERR_INVALID_USAGE,
        "COLLET_METRICS is '%s': give a port as 9400, ports as 9400-9407, ADDRESS:PORT, or the path of a file", text);
}

/* On this host alone, unless an address says otherwise. */
static enum collet_result read_where(struct exporter *exporter) {
    const char *text = exporter->where;
    char place[CONFIG_TEXT_BYTES + 16], host[ADDRESS_HOST_BYTES];
    int end = 0;
    snprintf(place, sizeof place, "%s%s", strchr(text, ':') != NULL ? "" : "127.0.0.1:", text);
    char *dash = strchr(strrchr(place, ':'), '-');
    if (dash != NULL && (sscanf(dash, "-%5d%n", &exporter->last, &end) != 1 || dash[end] != '\0'))
        return bad_value(text);
    if (dash != NULL)
        *dash = '\0';
    if (address_parse("COLLET_METRICS", place, host, &exporter->first) != COLLET_SUCCESS)
        return bad_value(text);
    if (dash == NULL)
        exporter->last = exporter->first;
    if (exporter->last < exporter->first || exporter->last > 65535)
        return bad_value(text);
    return address_resolve(host, 0, &exporter->set);
}

/* At the first port that is free. */
static enum collet_result listen_somewhere(struct exporter *exporter) {
    char text[ADDRESS_TEXT_BYTES];
    for (int port = exporter->first; exporter->fd < 0 && port <= exporter->last; port++)
        exporter->fd = address_listen_at(&exporter->set.addresses[0], port);
    const bool listens = exporter->fd >= 0;
    address_text(&exporter->set.addresses[0], listens ? address_port(exporter->fd) : exporter->last, text);
    if (!listens)
        return err_set(COLLET_ERR_SYSTEM,
                       "COLLET_METRICS=%s: cannot listen on %s: %m; each process of a host takes a port of its own, so "
                       "name as many: %d-%d",
                       exporter->where, text, exporter->first, exporter->first + 7);
    log_info(INIT, "metrics of process %d at http://%s/metrics", os_pid(), text);
    return COLLET_SUCCESS;
}

/* ---- into a file ---- */

/* The new file gets another name first. Readers may look for names with an ending, which it has not. */
static bool output_replace(const char *pattern, const char *text, unsigned long bytes) {
    char path[PATH_MAX], fresh[PATH_MAX + 16];
    if (!output_path(pattern, -1, path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    snprintf(fresh, sizeof fresh, "%s.%d", path, os_tid()); /* several threads may write the same file */
    unlink(fresh);                                          /* left over from a thread of this number */
    const int fd = os_high(open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (fd < 0)
        return false;
    const bool whole = output_write(fd, text, bytes, 0);
    int error = errno;
    if (close(fd) == 0 && whole && rename(fresh, path) == 0)
        return true;
    error = whole ? errno : error;
    unlink(fresh);
    errno = error;
    return false;
}

/* A page on its way into the file. */
struct writing {
    struct apart apart;
    char where[CONFIG_TEXT_BYTES]; /* COLLET_METRICS */
    char *page;                    /* NULL: there is no memory. */
    size_t bytes;                  /* Of the page. */
    int error;                     /* errno, if it could not be written; otherwise 0. */
};

static void write_page(struct apart *job) {
    struct writing *writing = (struct writing *)job;
    errno = ENOMEM;
    writing->error = writing->page != NULL && output_replace(writing->where, writing->page, writing->bytes) ? 0 : errno;
}

static void free_writing(struct apart *job) {
    struct writing *writing = (struct writing *)job;
    free(writing->page);
    free(writing);
}

static enum collet_result write_file(const struct exporter *exporter, uint64_t limit_ns) {
    struct writing *writing;
    COLLET_TRY(memory_get(&writing, 1, sizeof *writing, "no memory for metrics"));
    writing->apart = (struct apart){.name = "collet-metrics", .act = write_page, .free_job = free_writing};
    memcpy(writing->where, exporter->where, sizeof writing->where);
    writing->page = make_page(&writing->bytes);
    const bool done = apart_call(&writing->apart, limit_ns);
    const int error = done ? writing->error : ETIMEDOUT;
    if (done)
        apart_free(&writing->apart);
    errno = error;
    return errno == 0 ? COLLET_SUCCESS
                      : err_set(COLLET_ERR_SYSTEM, "cannot write COLLET_METRICS=%s: %s", exporter->where, output_why());
}

/* A thread for it alone: where the file system hangs, the watch must not. */
static void *write_now_and_then(void *exporter) {
    const struct timespec pause = {.tv_sec = FILE_S};
    for (;;) {
        nanosleep(&pause, NULL);
        write_file(exporter, NEVER_NS);
    }
    return NULL;
}

static enum collet_result begin_to_write(struct exporter *exporter) {
    pthread_t thread;
    COLLET_TRY(os_thread_start(&thread, "collet-metrics", write_now_and_then, exporter));
    pthread_detach(thread);
    return COLLET_SUCCESS;
}

/* ---- life ---- */

static void begin_to_show(struct watch_task *task) {
    struct exporter *exporter = WATCH_OWNER(task, struct exporter, start);
    if (server_open(&exporter->server, exporter->fd) != COLLET_SUCCESS)
        log_warn(INIT, "COLLET_METRICS: %s", err_last());
}

static enum collet_result exporter_create(const char *where, struct exporter **exporter_p) {
    struct exporter *exporter;
    struct watch *watch;
    COLLET_TRY(watch_start(&watch));
    COLLET_TRY(memory_get(&exporter, 1, sizeof *exporter, "no memory for metrics"));
    exporter->fd = -1;
    exporter->is_file = strchr(where, '/') != NULL;
    exporter->server = (struct server){.reads = read_request, .answer = answer};
    snprintf(exporter->where, sizeof exporter->where, "%s", where);
    watch_task_init(&exporter->start, watch, begin_to_show);
    *exporter_p = exporter;
    return exporter->is_file ? COLLET_SUCCESS : read_where(exporter);
}

/* Begins to show ranks, unless another thread of this process was faster. */
static enum collet_result exporter_open(struct exporter *exporter) {
    struct process *process = process_lock();
    enum collet_result result = COLLET_SUCCESS;
    const bool is_first = process->exporter == NULL;
    if (is_first)
        result = exporter->is_file ? begin_to_write(exporter) : listen_somewhere(exporter);
    if (is_first && result == COLLET_SUCCESS) {
        process->exporter = exporter;
        if (!exporter->is_file)
            watch_post(&exporter->start);
    }
    process_unlock();
    return result;
}

static enum collet_result find_exporter(const char *where, struct exporter **exporter_p) {
    struct exporter *fresh = NULL;
    *exporter_p = process_lock()->exporter;
    process_unlock();
    if (*exporter_p != NULL)
        return COLLET_SUCCESS;
    enum collet_result result = exporter_create(where, &fresh);
    if (result == COLLET_SUCCESS)
        result = exporter_open(fresh);
    *exporter_p = process_lock()->exporter;
    process_unlock();
    if (*exporter_p != fresh)
        free(fresh);
    return result;
}

enum collet_result exporter_add(struct collet_comm *comm) {
    struct exporter *exporter;
    if (comm->config.metrics[0] == '\0')
        return COLLET_SUCCESS;
    COLLET_TRY(find_exporter(comm->config.metrics, &exporter));
    if (strcmp(exporter->where, comm->config.metrics) != 0)
        log_warn(INIT, "COLLET_METRICS=%s: this process shows its ranks at %s already", comm->config.metrics,
                 exporter->where);
    process_lock();
    comm->next_shown = exporter->comms;
    exporter->comms = comm;
    process_unlock();
    return exporter->is_file ? write_file(exporter, FIRST_NS) : COLLET_SUCCESS;
}

void exporter_remove(struct collet_comm *comm) {
    struct process *process = process_lock();
    struct collet_comm **link = process->exporter != NULL ? &process->exporter->comms : NULL;
    while (link != NULL && *link != NULL && *link != comm)
        link = &(*link)->next_shown;
    if (link != NULL && *link != NULL)
        *link = comm->next_shown;
    process_unlock();
}
