/* SPDX-License-Identifier: Apache-2.0
 *
 * All ranks of a host share one file. Each rank locks it and writes its events in front of the tail. So the file is
 * complete JSON whenever nobody holds the lock.
 */
#include "layers/observe/trace.h"

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

#define TRACK_WIRES 60000 /* tracks of wires: first the driver's, then the proxies' */
#define PROCESS_STRIDE 100000
#define LOCK_NS 10000000000ull
#define ABORT_LOCK_NS 200000000ull
/* Maximum time to get the lock and to write. After that, the file is given up. */
#define SAVE_NS (LOCK_NS + 2000000000ull)
#define ABORT_NS (ABORT_LOCK_NS + 100000000ull)

/* Time of the process's first communicator. A file that is older belongs to an earlier job. */
static struct timespec first_ever;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void note_time(void) { clock_gettime(CLOCK_REALTIME_COARSE, &first_ever); }

struct trace {
    const struct conn_owner *owner;
    struct trace_clock {
        uint64_t ticks, ns; /* both were read at the same moment */
    } created;
};

/* Reads both counters a few times. Takes the try in which the two readings were closest together. */
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

enum collet_result trace_begin(const struct collet_comm *comm, struct trace **trace_p) {
    struct trace *trace;
    pthread_once(&once, note_time);
    COLLET_TRY(memory_get(&trace, 1, sizeof *trace, "no memory for a trace"));
    trace->owner = &comm->chan->owner;
    trace->created = clock_read();
    *trace_p = trace;
    return COLLET_SUCCESS;
}

/* ---- the file ---- */

struct trace_writer {
    struct timeline timeline;
    int process; /* number of this rank in the file */
    bool *named; /* [track] the track has a name */
    const struct conn_owner *owner;
    uint64_t tag;
    struct trace_clock from, to; /* readings of the two counters at the beginning and at the end */
    int64_t clock_ns;            /* the time to add to this host's clock to get rank 0's clock */
};

static double us_of(const struct trace_writer *w, uint64_t ticks) {
    const double ns_per_tick = (double)(w->to.ns - w->from.ns) / (double)(w->to.ticks - w->from.ticks);
    return ((double)((int64_t)w->from.ns + w->clock_ns) + (double)(int64_t)(ticks - w->from.ticks) * ns_per_tick) /
           1000;
}

static void put_bar(struct trace_writer *w, int track, uint64_t begin, uint64_t end, const char *category,
                    const char *name, const char *members) {
    const double from_us = us_of(w, begin);
    timeline_bar(&w->timeline, category, name, w->process, track, from_us, us_of(w, end) - from_us, members);
}

static void put_wire(struct trace_writer *w, const struct event_wire *e, int thread) {
    char name[64], members[40];
    snprintf(name, sizeof name, "wire %s rank %d", e->sending ? "to" : "from", e->peer);
    snprintf(members, sizeof members, "\"channel\":%d,\"lane\":%d", e->channel, e->lane);
    put_bar(w, TRACK_WIRES + thread, e->begin, e->end, "wire", name, members);
}

/* ---- steps ---- */

/* Tracks below this number are for workers of collectives. Sends and receives may run at the same time, so they have tracks
 * above this number. */
#define TRACK_MESSAGES 1000

/* The step of an event: the step before the worker's position when the event was written. */
struct step_place {
    const struct prog *prog;
    int channel, track;
    uint32_t round, index;         /* index: place of the step in the worker's list */
    const struct prog_step *steps; /* the worker's list */
};

static int track_of(const struct prog *prog, int worker) {
    if (!prog_is_p2p(prog->collective))
        return worker;
    return TRACK_MESSAGES + 2 * (prog->peers[0].rank % 20000) + (prog->collective == PROG_RECV);
}

static struct step_place place_of(const struct event_step *e) {
    const struct interp_worker *worker = &e->program->workers[e->worker];
    const int channel = exec_channel_of(e->program, e->worker);
    const struct prog *prog = e->program->progs[channel];
    const bool wrapped = e->pc == 0;
    return (struct step_place){.prog = prog,
                               .channel = channel,
                               .track = track_of(prog, e->worker),
                               .round = e->round - wrapped,
                               .index = (wrapped ? worker->nsteps : e->pc) - 1,
                               .steps = &prog->steps[worker->first_step]};
}

/* Programs share tracks: worker 0 of every program is on the same track. A track gets its name when its first step is
 * written. */
static void name_track(struct trace_writer *w, int track) {
    const int message = track - TRACK_MESSAGES;
    char name[64];
    if (w->named[track])
        return;
    w->named[track] = true;
    if (message < 0)
        snprintf(name, sizeof name, "worker %d", track);
    else
        snprintf(name, sizeof name, "%s rank %d", message % 2 == 0 ? "sends to" : "receives from", message / 2);
    timeline_name(&w->timeline, w->process, track, name, "");
}

static void put_wait(struct trace_writer *w, const struct event_step *e, const struct step_place *place) {
    char name[64], members[120];
    const int rank = place->prog->peers[e->blocked_on].rank;
    snprintf(name, sizeof name, "wait for rank %d's %s", rank, e->sending ? "credit" : "data");
    snprintf(members, sizeof members, "\"rank\":%d,\"step\":%u,\"call\":\"%s\",\"seq\":%llu", rank, place->index,
             prog_collective_name(place->prog->collective), (unsigned long long)e->sequence);
    put_bar(w, place->track, e->since, e->begin, "wait", name, members);
}

/* Number of messages of the round that go through the step's connection before this step. */
static int messages_before(const struct step_place *place, bool sent, int peer) {
    const struct prog_peer *peers = place->prog->peers, *of = &peers[peer];
    int count = 0;
    for (uint32_t k = 0; k < place->index; k++) {
        const struct prog_step *step = &place->steps[k];
        const int first = sent ? step->send_first : step->recv_first;
        for (int p = first; p < first + (sent ? step->send_count : step->recv_count); p++)
            count += peers[p].rank == of->rank && peers[p].lane == of->lane;
    }
    return count;
}

/* Draws one end of a message's arrow. It starts when the sender's step begins, and ends when the receiver's step ends. */
static void put_message(struct trace_writer *w, const struct event_step *e, const struct step_place *place, bool sent,
                        int peer) {
    const struct prog_peer *of = &place->prog->peers[peer];
    const int self = w->owner->rank, from = sent ? self : of->rank, to = sent ? of->rank : self;
    char id[120];
    snprintf(id, sizeof id, "%016llx.%d.%d.%d-%d.%s%llu.%u.%d", (unsigned long long)w->tag, place->channel, of->lane,
             from, to, place->track >= TRACK_MESSAGES ? "p" : "", (unsigned long long)e->sequence, place->round,
             messages_before(place, sent, peer));
    timeline_arrow(&w->timeline, sent ? 's' : 'f', id, w->process, place->track, us_of(w, sent ? e->begin : e->end));
}

static void put_step(struct trace_writer *w, const struct event_step *e) {
    const struct step_place place = place_of(e);
    const struct prog_step *step = &place.steps[place.index];
    char name[TIMELINE_STEP_BYTES], members[200];
    name_track(w, place.track);
    if (e->since != 0)
        put_wait(w, e, &place);
    timeline_step_name(place.index, step->recv_count > 0, step->send_count > 0, name);
    snprintf(members, sizeof members,
             "\"round\":%u,\"channel\":%d,\"receives\":%d,\"sends\":%d,\"bytes\":%u,\"call\":\"%s\",\"seq\":%llu",
             place.round, place.channel, step->recv_count, step->send_count, e->bytes,
             prog_collective_name(place.prog->collective), (unsigned long long)e->sequence);
    put_bar(w, place.track, e->begin, e->end, "step", name, members);
    for (int k = 0; k < step->recv_count; k++)
        put_message(w, e, &place, false, step->recv_first + k);
    for (int k = 0; k < step->send_count; k++)
        put_message(w, e, &place, true, step->send_first + k);
}

/* ---- all events ---- */

static void put_event(struct trace_writer *w, const union event *e, int thread) {
    if (e->kind == EVENT_WIRE)
        put_wire(w, &e->wire, thread);
    if (e->kind == EVENT_STEP)
        put_step(w, &e->step);
}

static void put_events(struct trace_writer *w, const struct recorder *recorder) {
    for (int thread = 0; thread < RECORDER_THREADS; thread++) {
        const struct ring *ring = &recorder->rings[thread];
        for (const union event *e = ring->next; e < ring->end; e++)
            put_event(w, e, thread);
        for (const union event *e = ring->events; e < ring->next; e++)
            put_event(w, e, thread);
    }
}

static bool has_events(const struct ring *ring) {
    for (const union event *e = ring->events; e < ring->end; e++)
        if (e->kind == EVENT_STEP || e->kind == EVENT_WIRE)
            return true;
    return false;
}

static bool any_events(const struct recorder *recorder) {
    for (int thread = 0; thread < RECORDER_THREADS; thread++)
        if (has_events(&recorder->rings[thread]))
            return true;
    return false;
}

static void put_names(struct trace_writer *w, const struct recorder *recorder) {
    char who[160], members[80];
    const struct peer_info *self = &w->owner->peers[w->owner->rank];
    snprintf(who, sizeof who, "rank %d (host %s, process %d)", w->owner->rank, self->host, self->pid);
    snprintf(members, sizeof members, "\"rank\":%d,\"communicator\":\"%016llx\"", w->owner->rank,
             (unsigned long long)w->tag);
    timeline_name(&w->timeline, w->process, -1, who, members);
    timeline_name(&w->timeline, w->process, TRACK_WIRES + RECORDER_DRIVER, "wires", "");
    for (int thread = RECORDER_PROXY; thread < RECORDER_THREADS; thread++)
        if (has_events(&recorder->rings[thread]))
            timeline_name(&w->timeline, w->process, TRACK_WIRES + thread, "wires, by a proxy", "");
}

/* Returns the text of all events. It begins with a comma. NULL: no memory. */
static char *text_of(const struct trace *trace, const struct recorder *recorder, size_t *bytes) {
    SCOPED_FREE bool *named = calloc(TRACK_WIRES, sizeof *named);
    char *text = NULL;
    FILE *out = named != NULL ? open_memstream(&text, bytes) : NULL;
    struct trace_writer w = {.named = named,
                             .owner = trace->owner,
                             .tag = boot_tag(trace->owner->boot),
                             .from = trace->created,
                             .to = clock_read(),
                             .clock_ns = boot_clock_ns(trace->owner->boot),
                             .timeline = {.out = out, .has_events = true}};
    if (out == NULL)
        return NULL;
    w.process = (int)(w.tag % 20000) * PROCESS_STRIDE + trace->owner->rank;
    put_names(&w, recorder);
    put_events(&w, recorder);
    timeline_end(&w.timeline);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- the file ---- */

/* The arguments of save(), which runs in a thread of its own: if the file system does not answer, the communicator ends
 * without it. */
struct saving {
    struct apart apart;
    char *pattern; /* Pattern of the file's name. */
    int rank;      /* Rank for the file's name. */
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

/* Locks the file, which other ranks lock while they write. A rank that is stopped with the lock must not block this
 * rank's end, least of all an abort. */
static bool get_lock(int fd, uint64_t lock_ns) {
    const uint64_t end_ns = os_now_ns() + lock_ns;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || os_now_ns() > end_ns)
            return false;
        usleep(1000);
    }
    return true;
}

/* In an earlier file of this job, the text replaces the tail. A new file begins with a head, and its first event has no
 * comma before it. */
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

/* The file must be a regular file, because events are inserted in front of its tail. */
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
        close(fd); /* this releases the lock */
}

static void free_saving(struct apart *job) {
    struct saving *saving = (struct saving *)job;
    free(saving->pattern);
    free(saving->text);
    free(saving);
}

/* Collects the arguments of save(). NULL: no memory. */
static struct saving *prepare(const struct trace *trace, const struct recorder *recorder, bool aborts) {
    struct saving *saving = calloc(1, sizeof *saving);
    if (saving == NULL)
        return NULL;
    *saving = (struct saving){.apart = {.name = "collet-trace", .act = save, .free_job = free_saving},
                              .pattern = strdup(trace->owner->config->trace),
                              .rank = trace->owner->rank,
                              .lock_ns = aborts ? ABORT_LOCK_NS : LOCK_NS};
    saving->text = text_of(trace, recorder, &saving->bytes);
    if (saving->pattern != NULL && saving->text != NULL)
        return saving;
    free_saving(&saving->apart);
    return NULL;
}

static void complain(const struct trace *trace, const char *why) {
    log_always(ERR, "cannot write COLLET_TRACE=%s: %s", trace->owner->config->trace, why);
}

static void trace_save(const struct trace *trace, const struct recorder *recorder) {
    const bool aborts = boot_failed(trace->owner->boot) == COLLET_ERR_ABORTED;
    struct saving *saving = prepare(trace, recorder, aborts);
    if (saving == NULL) {
        complain(trace, strerror(ENOMEM));
    } else if (!(aborts ? apart_call(&saving->apart, ABORT_NS, ABORT_NS)
                        : apart_call(&saving->apart, SAVE_NS, APART_BUSY * SAVE_NS))) {
        complain(trace, "its file system does not answer");
    } else {
        if (saving->why[0] != '\0')
            complain(trace, saving->why);
        apart_free(&saving->apart);
    }
}

void trace_end(struct trace *trace, const struct recorder *recorder) {
    if (any_events(recorder))
        trace_save(trace, recorder);
    free(trace);
}
