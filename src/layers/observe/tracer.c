/* SPDX-License-Identifier: Apache-2.0
 *
 * One file for all ranks of a host: each takes a lock and writes its events in front of the tail, so the file is complete JSON
 * whenever nobody holds the lock.
 */
#include "layers/observe/tracer.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/output.h"
#include "layers/observe/clock.h"
#include "layers/observe/timeline.h"

#include <errno.h>
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
#define LOCK_NS 10000000000ull
#define ABORT_LOCK_NS 200000000ull

/* A file that is older than the first communicator of this process is of an earlier job. */
static struct timespec first_ever;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void note_time(void) { clock_gettime(CLOCK_REALTIME_COARSE, &first_ever); }

/* The two counters are read as closely together as this thread can in a few tries. */
static struct trace_clock clock_read(void) {
    struct trace_clock best = {0, 0};
    uint64_t shortest = UINT64_MAX;
    for (int try = 0; try < 16; try++) {
        const uint64_t before = os_ticks(), ns = os_now_ns(), took = os_ticks() - before;
        if (took < shortest) {
            shortest = took;
            best = (struct trace_clock){before + took / 2, ns};
        }
    }
    return best;
}

enum collet_result tracer_create(const struct conn_owner *owner, struct tracer **tracer_p) {
    const size_t room = (size_t)owner->config->trace_events;
    struct tracer *tracer;
    pthread_once(&once, note_time);
    COLLET_TRY(memory_get(&tracer, 1, sizeof *tracer, "no memory for a tracer"));
    tracer->owner = owner;
    for (int thread = 0; thread <= TRACER_PROXY || thread < TRACER_PROXY + owner->config->proxy; thread++) {
        struct trace_event *events = calloc(room, sizeof *events);
        if (events == NULL) {
            tracer_end(tracer);
            return err_set(COLLET_ERR_NO_MEMORY, "no memory for %zu events (COLLET_TRACE_EVENTS)", room);
        }
        tracer->ring[thread] = (struct trace_ring){.events = events, .end = events + room, .next = events};
    }
    tracer->created = clock_read();
    *tracer_p = tracer;
    return COLLET_SUCCESS;
}

static void free_worker(struct trace_worker *worker) {
    free(worker->steps);
    free(worker->messages);
    free(worker);
}

struct trace_worker *tracer_add_worker(struct tracer *tracer, size_t nsteps, size_t nmessages) {
    struct trace_worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL)
        return NULL;
    worker->steps = calloc(nsteps + 1, sizeof *worker->steps);
    worker->messages = calloc(nmessages + 1, sizeof *worker->messages);
    if (worker->steps == NULL || worker->messages == NULL) {
        free_worker(worker);
        return NULL;
    }
    worker->ring = &tracer->ring[TRACER_EXECUTOR];
    worker->nsteps = (uint32_t)nsteps;
    worker->next = tracer->workers;
    return tracer->workers = worker;
}

enum collet_result tracer_progress(struct tracer *tracer, enum tracer_thread thread, struct conn *conn) {
    const uint64_t begin = os_ticks();
    const enum collet_result result = conn->transport->progress(conn);
    if (result == COLLET_SUCCESS)
        *trace_ring_next(&tracer->ring[thread]) = (struct trace_event){.begin = begin,
                                                                       .end = os_ticks(),
                                                                       .rank = conn->peer,
                                                                       .sending = conn->side == CONN_PRODUCER,
                                                                       .channel = (uint8_t)conn->channel,
                                                                       .lane = (uint16_t)conn->lane};
    return result;
}

/* ---- the file ---- */

struct writer {
    struct timeline timeline;
    int process; /* number of this rank in the file */
    const struct conn_owner *owner;
    uint64_t tag;
    struct trace_clock from, to; /* times of the two counters, … */
    int64_t clock_ns;            /* … and what leads from these to rank 0's clock */
};

static double us_of(const struct writer *w, uint64_t ticks) {
    const double ns_per_tick = (double)(w->to.ns - w->from.ns) / (double)(w->to.ticks - w->from.ticks);
    return ((double)((int64_t)w->from.ns + w->clock_ns) + (double)(int64_t)(ticks - w->from.ticks) * ns_per_tick) /
           1000;
}

static void put_bar(struct writer *w, int track, uint64_t begin, uint64_t end, const char *category, const char *name,
                    const char *members) {
    const double from_us = us_of(w, begin);
    timeline_bar(&w->timeline, category, name, w->process, track, from_us, us_of(w, end) - from_us, members);
}

static void put_wire(struct writer *w, const struct trace_event *e, enum tracer_thread thread) {
    char name[64], members[40];
    snprintf(name, sizeof name, "wire %s rank %d", e->sending ? "to" : "from", e->rank);
    snprintf(members, sizeof members, "\"channel\":%d,\"lane\":%d", e->channel, e->lane);
    put_bar(w, TRACK_WIRES + (int)thread, e->begin, e->end, "wire", name, members);
}

/* Which step it was, and of which round: the one before that where the worker went. */
struct trace_place {
    uint32_t round, index;
    const struct trace_step *step;
};
static struct trace_place traced_place(const struct trace_event *e) {
    const bool wrapped = e->next_step == 0;
    const uint32_t index = (wrapped ? e->worker->nsteps : e->next_step) - 1;
    return (struct trace_place){e->next_round - wrapped, index, &e->worker->steps[index]};
}

/* The rank that a step waited for. */
static int waited_for(const struct trace_event *e, const struct trace_step *step) {
    const uint32_t first = e->sending ? step->send_first - step->receives : step->recv_first;
    return e->worker->messages[step->first_message + e->blocked_on - first].rank;
}

static void put_wait(struct writer *w, const struct trace_event *e, const struct trace_place *place) {
    char name[64], members[120];
    const int rank = waited_for(e, place->step);
    snprintf(name, sizeof name, "wait for rank %d's %s", rank, e->sending ? "credit" : "data");
    snprintf(members, sizeof members, "\"rank\":%d,\"step\":%u,\"call\":\"%s\",\"seq\":%llu", rank, place->index,
             e->worker->call, (unsigned long long)e->sequence);
    put_bar(w, e->worker->track, e->since, e->begin, "wait", name, members);
}

/* It leaves when its step begins, and has come when the other step ends: in between is what both do for it. */
static void put_message(struct writer *w, const struct trace_event *e, uint32_t round,
                        const struct trace_message *message, bool sent) {
    const int self = w->owner->rank, from = sent ? self : message->rank, to = sent ? message->rank : self;
    char id[120];
    snprintf(id, sizeof id, "%016llx.%d.%d.%d-%d.%s%llu.%u.%u", (unsigned long long)w->tag, e->worker->channel,
             message->lane, from, to, e->worker->track >= TRACER_MESSAGES ? "p" : "", (unsigned long long)e->sequence,
             round, message->number);
    timeline_arrow(&w->timeline, sent ? 's' : 'f', id, w->process, e->worker->track,
                   us_of(w, sent ? e->begin : e->end));
}

static void put_step(struct writer *w, const struct trace_event *e) {
    const struct trace_place place = traced_place(e);
    const struct trace_step *step = place.step;
    const struct trace_message *message = &e->worker->messages[step->first_message];
    char name[TIMELINE_STEP_BYTES], members[200];
    if (e->since != 0)
        put_wait(w, e, &place);
    timeline_step_name(place.index, step->receives > 0, step->sends > 0, name);
    snprintf(members, sizeof members,
             "\"round\":%u,\"channel\":%d,\"receives\":%u,\"sends\":%u,\"bytes\":%u,\"call\":\"%s\",\"seq\":%llu",
             place.round, e->worker->channel, step->receives, step->sends, e->bytes, e->worker->call,
             (unsigned long long)e->sequence);
    put_bar(w, e->worker->track, e->begin, e->end, "step", name, members);
    for (uint32_t k = 0; k < step->receives + step->sends; k++)
        put_message(w, e, place.round, &message[k], k >= step->receives);
}

static void put_event(struct writer *w, const struct trace_event *e, enum tracer_thread thread) {
    if (e->end == 0)
        return;
    if (e->worker == NULL)
        put_wire(w, e, thread);
    else
        put_step(w, e);
}

static bool has_events(const struct trace_ring *ring) {
    return ring->next > ring->events || (ring->next != NULL && ring->next->end != 0);
}

static void put_names(struct writer *w, const struct tracer *tracer) {
    char who[160], members[80];
    const struct peer_info *self = &w->owner->peers[w->owner->rank];
    snprintf(who, sizeof who, "rank %d (host %s, process %d)", w->owner->rank, self->host, self->pid);
    snprintf(members, sizeof members, "\"rank\":%d,\"communicator\":\"%016llx\"", w->owner->rank,
             (unsigned long long)w->tag);
    timeline_name(&w->timeline, w->process, -1, who, members);
    timeline_name(&w->timeline, w->process, TRACK_WIRES + TRACER_EXECUTOR, "wires", "");
    for (int thread = TRACER_PROXY; thread < TRACER_THREADS; thread++)
        if (has_events(&tracer->ring[thread]))
            timeline_name(&w->timeline, w->process, TRACK_WIRES + thread, "wires, by a proxy", "");
}

static bool is_named_later(const struct trace_worker *worker) {
    for (const struct trace_worker *later = worker->next; later != NULL; later = later->next)
        if (later->track == worker->track)
            return true;
    return false;
}

/* Programs share tracks: worker 0 of each is on the same one. */
static void put_track_names(struct writer *w, const struct tracer *tracer) {
    for (const struct trace_worker *worker = tracer->workers; worker != NULL; worker = worker->next) {
        const int track = worker->track, message = track - TRACER_MESSAGES;
        char name[64];
        if (is_named_later(worker))
            continue;
        if (message < 0)
            snprintf(name, sizeof name, "worker %d", track);
        else
            snprintf(name, sizeof name, "%s rank %d", message % 2 == 0 ? "sends to" : "receives from", message / 2);
        timeline_name(&w->timeline, w->process, track, name, "");
    }
}

static bool is_of_this_job(const struct stat *about) {
    return about->st_size > (off_t)strlen(TIMELINE_TAIL) &&
           (about->st_mtim.tv_sec > first_ever.tv_sec ||
            (about->st_mtim.tv_sec == first_ever.tv_sec && about->st_mtim.tv_nsec >= first_ever.tv_nsec));
}

/* Stands where the next event belongs. */
static bool begin_writing(struct writer *w, int fd, FILE *out) {
    struct stat about;
    if (fstat(fd, &about) != 0)
        return false;
    if (!is_of_this_job(&about)) {
        timeline_begin(&w->timeline, out, "COLLET_TRACE, a measurement");
        return ftruncate(fd, 0) == 0;
    }
    w->timeline = (struct timeline){.out = out, .has_events = true};
    return lseek(fd, about.st_size - (off_t)strlen(TIMELINE_TAIL), SEEK_SET) >= 0;
}

/* Other ranks have it while they write. One that is stopped with it must not hold up this one's end, least of all an abort. */
static bool get_lock(const struct tracer *tracer, int fd) {
    const bool aborts = boot_failed(tracer->owner->boot) == COLLET_ERR_ABORTED;
    const uint64_t end_ns = os_now_ns() + (aborts ? ABORT_LOCK_NS : LOCK_NS);
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || os_now_ns() > end_ns)
            return false;
        usleep(1000);
    }
    return true;
}

static void put_events(struct writer *w, const struct tracer *tracer) {
    for (enum tracer_thread thread = 0; thread < TRACER_THREADS; thread++) {
        const struct trace_ring *ring = &tracer->ring[thread];
        for (const struct trace_event *e = ring->next; e < ring->end; e++)
            put_event(w, e, thread);
        for (const struct trace_event *e = ring->events; e < ring->next; e++)
            put_event(w, e, thread);
    }
}

static bool tracer_write(const struct tracer *tracer, int fd, FILE *out) {
    struct writer w = {.owner = tracer->owner,
                       .tag = boot_tag(tracer->owner->boot),
                       .from = tracer->created,
                       .to = clock_read(),
                       .clock_ns = boot_clock_ns(tracer->owner->boot)};
    w.process = (int)(w.tag % 20000) * PROCESS_STRIDE + tracer->owner->rank;
    if (!get_lock(tracer, fd) || !begin_writing(&w, fd, out))
        return false;
    put_names(&w, tracer);
    put_track_names(&w, tracer);
    put_events(&w, tracer);
    timeline_end(&w.timeline);
    return fflush(out) == 0;
}

/* A stream's own write() would end the process where a file may not grow. */
static ssize_t stream_write(void *fd, const char *text, size_t bytes) {
    return output_write(*(const int *)fd, text, bytes, 0) ? (ssize_t)bytes : 0;
}

/* Events go in front of a tail, so the file must be one. */
static void tracer_save(const struct tracer *tracer) {
    struct stat about;
    int fd = output_open(tracer->owner->config->trace, tracer->owner->rank, 0);
    const char *why = fd < 0 ? output_why() : NULL;
    if (fd >= 0 && (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)))
        why = "it is no regular file";
    FILE *out = why == NULL ? fopencookie(&fd, "w", (cookie_io_functions_t){.write = stream_write}) : NULL;
    if (why == NULL && (out == NULL || !tracer_write(tracer, fd, out)))
        why = strerror(errno);
    if (why != NULL)
        log_always(ERR, "cannot write COLLET_TRACE=%s: %s", tracer->owner->config->trace, why);
    if (out != NULL)
        fclose(out);
    if (fd >= 0)
        close(fd); /* and the lock goes */
}

static bool any_events(const struct tracer *tracer) {
    for (int thread = 0; thread < TRACER_THREADS; thread++)
        if (has_events(&tracer->ring[thread]))
            return true;
    return false;
}

void tracer_end(struct tracer *tracer) {
    if (tracer == NULL)
        return;
    if (any_events(tracer))
        tracer_save(tracer);
    for (struct trace_worker *worker = tracer->workers, *next; worker != NULL; worker = next) {
        next = worker->next;
        free_worker(worker);
    }
    for (int thread = 0; thread < TRACER_THREADS; thread++)
        free(tracer->ring[thread].events);
    free(tracer);
}
