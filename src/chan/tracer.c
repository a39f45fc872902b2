/* SPDX-License-Identifier: Apache-2.0
 *
 * One file for all ranks of a host: each takes a lock and writes its events in front of the tail, so the file is complete JSON
 * whenever nobody holds the lock.
 */
#include "chan/tracer.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/timeline.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRACK_WIRES 60000 /* behind those of workers; then the proxy's */
#define PROCESS_STRIDE 100000

/* A file that is older than the first communicator of this process is of an earlier job. */
static struct timespec first_ever;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void note_time(void) { clock_gettime(CLOCK_REALTIME_COARSE, &first_ever); }

enum collet_result tracer_create(const struct conn_owner *owner, const char *name, struct tracer **tracer_p) {
    struct tracer *tracer;
    pthread_once(&once, note_time);
    COLLET_TRY(memory_get(&tracer, 1, sizeof *tracer, "no memory for a tracer"));
    tracer->owner = owner;
    tracer->name = name;
    tracer->room = (uint64_t)owner->config->trace_events;
    for (int thread = 0; thread < TRACER_THREADS; thread++) {
        tracer->ring[thread].events = calloc(tracer->room, sizeof(struct trace_event));
        if (tracer->ring[thread].events == NULL) {
            tracer_destroy(tracer);
            return err_set(COLLET_ERR_NO_MEMORY, "no memory for %llu events (COLLET_TRACE_EVENTS)",
                           (unsigned long long)tracer->room);
        }
    }
    *tracer_p = tracer;
    return COLLET_SUCCESS;
}

enum collet_result tracer_progress(struct tracer *tracer, enum tracer_thread thread, struct conn *conn) {
    const uint64_t begin_ns = os_now_ns();
    const enum collet_result result = conn->transport->progress(conn);
    if (result == COLLET_SUCCESS)
        *tracer_next(tracer, thread) = (struct trace_event){.begin_ns = begin_ns,
                                                            .end_ns = os_now_ns(),
                                                            .peer = conn->peer,
                                                            .track = TRACK_WIRES + (uint16_t)thread,
                                                            .kind = TRACE_WIRE,
                                                            .channel = (uint8_t)conn->channel,
                                                            .lane = (uint8_t)conn->lane,
                                                            .sends = conn->side == CONN_PRODUCER};
    return result;
}

/* ---- the file ---- */

struct writer {
    struct timeline timeline;
    int process;      /* number of this rank in the file */
    int64_t clock_ns; /* to rank 0's clock */
    const struct conn_owner *owner;
    uint64_t tag;
};

static double us_of(const struct writer *w, uint64_t ns) { return (double)((int64_t)ns + w->clock_ns) / 1000; }

static void put_bar(struct writer *w, const struct trace_event *e, const char *category, const char *name,
                    const char *members) {
    timeline_bar(&w->timeline, category, name, w->process, e->track, us_of(w, e->begin_ns),
                 (double)(e->end_ns - e->begin_ns) / 1000, members);
}

static void put_step(struct writer *w, const struct trace_event *e) {
    char name[TIMELINE_STEP_BYTES], members[200];
    timeline_step_name(e->step, e->receives > 0, e->sends > 0, name);
    snprintf(members, sizeof members,
             "\"round\":%u,\"channel\":%d,\"receives\":%u,\"sends\":%u,\"bytes\":%u,\"call\":\"%s\",\"seq\":%llu",
             e->round, e->channel, e->receives, e->sends, e->bytes, e->call, (unsigned long long)e->sequence);
    put_bar(w, e, "step", name, members);
}

static void put_wait(struct writer *w, const struct trace_event *e) {
    char name[64], members[120];
    snprintf(name, sizeof name, "wait for rank %d's %s", e->peer, e->sends ? "credit" : "data");
    snprintf(members, sizeof members, "\"rank\":%d,\"step\":%u,\"call\":\"%s\",\"seq\":%llu", e->peer, e->step, e->call,
             (unsigned long long)e->sequence);
    put_bar(w, e, "wait", name, members);
}

static void put_wire(struct writer *w, const struct trace_event *e) {
    char name[64], members[40];
    snprintf(name, sizeof name, "wire %s rank %d", e->sends ? "to" : "from", e->peer);
    snprintf(members, sizeof members, "\"channel\":%d,\"lane\":%d", e->channel, e->lane);
    put_bar(w, e, "wire", name, members);
}

/* It leaves when its step begins, and has come when the other step ends: in between is what both do for it. */
static void put_message(struct writer *w, const struct trace_event *e) {
    const bool sent = e->kind == TRACE_SENT;
    const int from = sent ? w->owner->rank : e->peer, to = sent ? e->peer : w->owner->rank;
    char id[100];
    snprintf(id, sizeof id, "%016llx.%d.%d.%d-%d.%llu", (unsigned long long)w->tag, e->channel, e->lane, from, to,
             (unsigned long long)e->message);
    timeline_arrow(&w->timeline, sent ? 's' : 'f', id, w->process, e->track, us_of(w, sent ? e->begin_ns : e->end_ns));
}

static void put_event(struct writer *w, const struct trace_event *e) {
    static void (*const puts[])(struct writer * w, const struct trace_event *e) = {[TRACE_STEP] = put_step,
                                                                                   [TRACE_WAIT] = put_wait,
                                                                                   [TRACE_SENT] = put_message,
                                                                                   [TRACE_RECEIVED] = put_message,
                                                                                   [TRACE_WIRE] = put_wire};
    puts[e->kind](w, e);
}

static void put_names(struct writer *w, const char *name) {
    char who[160], members[80];
    const struct peer_info *self = &w->owner->peers[w->owner->rank];
    snprintf(who, sizeof who, "rank %d (host %s, process %d)", w->owner->rank, self->host, self->pid);
    snprintf(members, sizeof members, "\"rank\":%d,\"communicator\":\"%016llx\"", w->owner->rank,
             (unsigned long long)w->tag);
    timeline_name(&w->timeline, w->process, -1, who, members);
    timeline_name(&w->timeline, w->process, TRACK_WIRES + TRACER_EXECUTOR, "wires", "");
    timeline_name(&w->timeline, w->process, TRACK_WIRES + TRACER_PROXY, "wires, by the proxy", "");
    (void)name;
}

static bool is_of_this_job(const struct stat *about) {
    return about->st_size > (off_t)strlen(TIMELINE_TAIL) &&
           (about->st_mtim.tv_sec > first_ever.tv_sec ||
            (about->st_mtim.tv_sec == first_ever.tv_sec && about->st_mtim.tv_nsec >= first_ever.tv_nsec));
}

/* Stands where the next event belongs. */
static bool begin_writing(struct writer *w, FILE *out) {
    struct stat about;
    if (fstat(fileno(out), &about) != 0)
        return false;
    if (!is_of_this_job(&about)) {
        timeline_begin(&w->timeline, out, "COLLET_TRACE, a measurement");
        return ftruncate(fileno(out), 0) == 0;
    }
    w->timeline = (struct timeline){.out = out, .has_events = true};
    return fseeko(out, about.st_size - (off_t)strlen(TIMELINE_TAIL), SEEK_SET) == 0;
}

static bool tracer_write(const struct tracer *tracer, FILE *out) {
    struct writer w = {
        .owner = tracer->owner, .tag = boot_tag(tracer->owner->boot), .clock_ns = boot_clock_ns(tracer->owner->boot)};
    w.process = (int)(w.tag % 20000) * PROCESS_STRIDE + tracer->owner->rank;
    if (flock(fileno(out), LOCK_EX) != 0 || !begin_writing(&w, out))
        return false;
    put_names(&w, tracer->name);
    for (int thread = 0; thread < TRACER_THREADS; thread++) {
        const uint64_t count = tracer->ring[thread].count;
        for (uint64_t k = count > tracer->room ? count - tracer->room : 0; k < count; k++)
            put_event(&w, &tracer->ring[thread].events[k % tracer->room]);
    }
    timeline_end(&w.timeline);
    return fflush(out) == 0;
}

void tracer_destroy(struct tracer *tracer) {
    if (tracer == NULL)
        return;
    if (tracer->ring[TRACER_EXECUTOR].count + tracer->ring[TRACER_PROXY].count > 0) {
        const int fd = output_open(tracer->owner->config->trace, tracer->owner->rank, 0);
        FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
        if (out == NULL || !tracer_write(tracer, out))
            log_always(ERR, "cannot write COLLET_TRACE=%s: %m", tracer->owner->config->trace);
        if (out != NULL)
            fclose(out);
    }
    for (int thread = 0; thread < TRACER_THREADS; thread++)
        free(tracer->ring[thread].events);
    free(tracer);
}
