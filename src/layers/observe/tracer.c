/* SPDX-License-Identifier: Apache-2.0
 *
 * One file for all ranks of a host: each takes a lock and writes its events in front of the tail, so the file is complete JSON
 * whenever nobody holds the lock.
 */
#include "layers/observe/tracer.h"

#include "layers/outlet/apart.h"
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
#define SAVE_NS 2000000000ull /* then it is written */
#define ABORT_SAVE_NS 100000000ull

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

static void put_events(struct writer *w, const struct tracer *tracer) {
    for (enum tracer_thread thread = 0; thread < TRACER_THREADS; thread++) {
        const struct trace_ring *ring = &tracer->ring[thread];
        for (const struct trace_event *e = ring->next; e < ring->end; e++)
            put_event(w, e, thread);
        for (const struct trace_event *e = ring->events; e < ring->next; e++)
            put_event(w, e, thread);
    }
}

/* All events, as if others stood in front of them. NULL: no memory. */
static char *tracer_text(const struct tracer *tracer, size_t *bytes) {
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    struct writer w = {.owner = tracer->owner,
                       .tag = boot_tag(tracer->owner->boot),
                       .from = tracer->created,
                       .to = clock_read(),
                       .clock_ns = boot_clock_ns(tracer->owner->boot),
                       .timeline = {.out = out, .has_events = true}};
    if (out == NULL)
        return NULL;
    w.process = (int)(w.tag % 20000) * PROCESS_STRIDE + tracer->owner->rank;
    put_names(&w, tracer);
    put_track_names(&w, tracer);
    put_events(&w, tracer);
    timeline_end(&w.timeline);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------ the file */

/* What is written, by a thread that needs nothing else: if the file system does not answer, the communicator ends without it. */
struct saving {
    struct apart apart;
    char *pattern; /* Of the file's name. */
    int rank;      /* Of the name. */
    uint64_t lock_ns;
    char *text;
    size_t bytes;
    char why[80]; /* Why the text could not be written; empty: it is written. */
};

static bool is_of_this_job(const struct stat *about) {
    return about->st_size > (off_t)strlen(TIMELINE_TAIL) &&
           (about->st_mtim.tv_sec > first_ever.tv_sec ||
            (about->st_mtim.tv_sec == first_ever.tv_sec && about->st_mtim.tv_nsec >= first_ever.tv_nsec));
}

/* Other ranks have it while they write. One that is stopped with it must not hold up this one's end, least of all an abort. */
static bool get_lock(int fd, uint64_t lock_ns) {
    const uint64_t end_ns = os_now_ns() + lock_ns;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || os_now_ns() > end_ns)
            return false;
        usleep(1000);
    }
    return true;
}

/* A new file begins with a head, and the first event has no comma before it. Otherwise the text takes the place of the tail. */
static bool write_text(const struct saving *saving, int fd) {
    char *head = NULL;
    size_t bytes = 0;
    struct timeline timeline;
    struct stat about;
    if (!get_lock(fd, saving->lock_ns) || fstat(fd, &about) != 0)
        return false;
    if (is_of_this_job(&about))
        return lseek(fd, about.st_size - (off_t)strlen(TIMELINE_TAIL), SEEK_SET) >= 0 &&
               output_write(fd, saving->text, saving->bytes, 0);
    FILE *out = open_memstream(&head, &bytes);
    if (out == NULL)
        return false;
    timeline_begin(&timeline, out, "COLLET_TRACE, a measurement");
    const bool good = fclose(out) == 0 && ftruncate(fd, 0) == 0 && output_write(fd, head, bytes, 0) &&
                      output_write(fd, saving->text + 1, saving->bytes - 1, 0);
    free(head);
    return good;
}

/* Events go in front of a tail, so the file must be one. */
static void save(struct apart *job) {
    struct saving *saving = (struct saving *)job;
    struct stat about;
    const int fd = output_open(saving->pattern, saving->rank, 0);
    const char *why = NULL;
    if (fd < 0)
        why = output_why();
    else if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        why = "it is no regular file";
    else if (!write_text(saving, fd))
        why = strerror(errno);
    snprintf(saving->why, sizeof saving->why, "%s", why != NULL ? why : "");
    if (fd >= 0)
        close(fd); /* and the lock goes */
}

static void free_saving(struct apart *job) {
    struct saving *saving = (struct saving *)job;
    free(saving->pattern);
    free(saving->text);
    free(saving);
}

/* NULL: no memory. */
static struct saving *prepare(const struct tracer *tracer, bool aborts) {
    struct saving *saving = calloc(1, sizeof *saving);
    if (saving == NULL)
        return NULL;
    *saving = (struct saving){.apart = {.name = "collet-trace", .act = save, .free_job = free_saving},
                              .pattern = strdup(tracer->owner->config->trace),
                              .rank = tracer->owner->rank,
                              .lock_ns = aborts ? ABORT_LOCK_NS : LOCK_NS};
    saving->text = tracer_text(tracer, &saving->bytes);
    if (saving->pattern != NULL && saving->text != NULL)
        return saving;
    free_saving(&saving->apart);
    return NULL;
}

static void complain(const struct tracer *tracer, const char *why) {
    log_always(ERR, "cannot write COLLET_TRACE=%s: %s", tracer->owner->config->trace, why);
}

static void tracer_save(const struct tracer *tracer) {
    const bool aborts = boot_failed(tracer->owner->boot) == COLLET_ERR_ABORTED;
    struct saving *saving = prepare(tracer, aborts);
    if (saving == NULL) {
        complain(tracer, strerror(ENOMEM));
    } else if (!apart_call(&saving->apart, saving->lock_ns + (aborts ? ABORT_SAVE_NS : SAVE_NS))) {
        complain(tracer, "its file system does not answer");
    } else {
        if (saving->why[0] != '\0')
            complain(tracer, saving->why);
        apart_free(&saving->apart);
    }
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
