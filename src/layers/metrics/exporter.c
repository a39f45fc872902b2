/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLET_METRICS: this process publishes its ranks' state, even while the program hangs. The watch thread serves HTTP; a
 * thread of its own writes a file.
 *
 *      9400, 9400-9407, ADDRESS:9400     a server at the first of these ports that is free: HTTP, one page whatever is asked for
 *      /run/collet.%p.prom               a file, written anew every 10 s
 */
#include "seams/layer.h"

#include "api/comm.h"
#include "layers/outlet/outlet.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/output.h"
#include "base/thread.h"
#include "boot/address.h"
#include "layers/observe/comms.h"
#include "layers/observe/server.h"
#include "layers/metrics/metrics.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_S 10
#define FIRST_MS 5000          /* maximum time for the first page: an automounter may come first */
#define NEVER_MS (INT_MAX / 2) /* a thread of its own may wait without limit */

struct exporter {
    struct server server;
    struct watch_task start;
    char where[CONFIG_TEXT_BYTES]; /* value of COLLET_METRICS */
    bool is_file;
    struct address_set set; /* server: it listens at the first of these addresses … */
    int first, last;        /* … at a port from `first` to `last` */
    int fd;                 /* listening socket; −1: not yet */
};

PROCESS_LOCK(lock);
static struct exporter *current; /* the exporter of this process; NULL: there is none */

/* ---- the page ---- */

/* Writes the page. The caller has locked the list of communicators. */
static void put_page(const struct comms_entry *entries, FILE *out) {
    SCOPED_FREE struct metrics_rank *ranks = NULL;
    SCOPED_FREE struct status *statuses = NULL; /* [index in ranks] */
    int n = 0;
    for (const struct comms_entry *entry = entries; entry != NULL; entry = comms_next(entry))
        n++;
    ranks = calloc((size_t)n + 1, sizeof *ranks);
    statuses = calloc((size_t)n + 1, sizeof *statuses);
    n = ranks != NULL && statuses != NULL ? n : 0;
    for (int k = 0; k < n; k++, entries = comms_next(entries)) {
        const struct collet_comm *comm = entries->comm;
        status_make(entries, &statuses[k]);
        ranks[k] = (struct metrics_rank){.communicator = boot_tag(comm->boot),
                                         .name = comm->name,
                                         .rank = comm->rank,
                                         .host = boot_peers(comm->boot)[comm->rank].host,
                                         .status = &statuses[k],
                                         .is_up = true,
                                         .blocks = -1};
    }
    metrics_print(ranks, n, out);
}

/* Returns the page. NULL: no memory. */
static char *make_page(size_t *bytes) {
    char *page = NULL;
    FILE *out = open_memstream(&page, bytes);
    if (out == NULL)
        return NULL;
    put_page(comms_lock(), out);
    comms_unlock();
    fclose(out);
    return page;
}

/* ---- over HTTP ---- */

/* Recognizes a request: a GET without a body, which ends with an empty line. */
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

/* Reads the address and ports of COLLET_METRICS. Without an address, only this host is served. */
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

/* Listens at the first port that is free. */
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

static enum collet_result write_file(const struct exporter *exporter, int limit_ms) {
    size_t bytes = 0;
    SCOPED_FREE char *page = make_page(&bytes);
    errno = ENOMEM;
    return page != NULL && outlet_replace(exporter->where, page, bytes, limit_ms)
               ? COLLET_SUCCESS
               : err_set(COLLET_ERR_SYSTEM, "cannot write COLLET_METRICS=%s: %s", exporter->where, output_why());
}

/* The main function of a thread: if the file system hangs, the watch must go on. */
static void *write_now_and_then(void *exporter) {
    const struct timespec pause = {.tv_sec = FILE_S};
    for (;;) {
        nanosleep(&pause, NULL);
        write_file(exporter, NEVER_MS);
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

/* Starts the exporter, unless another thread of this process has started one. */
static enum collet_result exporter_open(struct exporter *fresh) {
    SCOPED_LOCK(&lock);
    if (current != NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(fresh->is_file ? begin_to_write(fresh) : listen_somewhere(fresh));
    current = fresh;
    if (!fresh->is_file)
        watch_post(&fresh->start);
    return COLLET_SUCCESS;
}

static const struct exporter *exporter_now(void) {
    SCOPED_LOCK(&lock);
    return current;
}

static enum collet_result exporter_find(const char *where) {
    struct exporter *fresh = NULL;
    if (exporter_now() != NULL)
        return COLLET_SUCCESS;
    enum collet_result result = exporter_create(where, &fresh);
    if (result == COLLET_SUCCESS)
        result = exporter_open(fresh);
    if (exporter_now() != fresh)
        free(fresh);
    return result;
}

static enum collet_result show(struct collet_comm *comm) {
    const char *where = comm->config.metrics;
    if (where[0] == '\0')
        return COLLET_SUCCESS;
    COLLET_TRY(exporter_find(where));
    const struct exporter *now = exporter_now();
    if (strcmp(now->where, where) != 0)
        log_warn(INIT, "COLLET_METRICS=%s: this process shows its ranks at %s already", where, now->where);
    return now->is_file ? write_file(now, FIRST_MS) : COLLET_SUCCESS;
}

const struct layer layer_metrics = {.comm_open = show};
