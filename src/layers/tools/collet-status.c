/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-status: shows what every rank of a job is doing, and which rank holds the job up. It asks one process of the job, and this
 * process asks all others over the control plane.
 */
#include "layers/observe/json.h"
#include "base/os.h"
#include "base/types.h"
#include "layers/tools/common/arguments.h"
#include "layers/tools/common/sink.h"
#include "layers/tools/status/ask.h"
#include "layers/tools/status/blame.h"
#include "layers/tools/status/family.h"
#include "layers/tools/status/metrics.h"
#include "layers/tools/status/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command command = {
    "[options] [PID|COMM]",
    "PID is a process of the job on this host, or one that has started it: a launcher, a container's first process. COMM is\n"
    "the name of a communicator. Without them every communicator of every process that can be asked is shown. A rank waits if its call has not moved for half a second.\n"
    "Exit status: 0 if no rank holds others up, 1 if one does, 2 if nobody can be asked.\n"};

enum { PROCESSES_MAX = 1024, NOBODY = 2 };
#define ANSWER_NS 1900000000u

static const char *const fates[] = {
    "lives", "has left", "has died", "has ended without collet_comm_destroy()", "is out of reach", "?", "?", "?"};

/* Does the asked process still wait to hear that all ranks have come and are connected? */
static bool is_being_created(const struct status_job *job) {
    for (int k = 0; k < job->nranks; k++) {
        const struct query_rank *rank = &job->ranks[k].rank;
        if (rank->local && !rank->asked && rank->state == PEER_ALIVE)
            return true;
    }
    return false;
}

/* Describes a rank that is in no call. */
static const char *fate_of(const struct status_rank *r, bool created) {
    if (r->rank.state != PEER_ALIVE)
        return fates[r->rank.state & 7];
    if (r->rank.stopped)
        return "is stopped, by a signal or a debugger";
    if (!r->rank.answered && !created)
        return r->rank.local      ? "is in init, and waits for the other ranks"
               : r->rank.pid == 0 ? "is not known to that process: it hears of others when all have come"
                                  : "has come to init";
    if (!r->rank.answered)
        return "does not answer";
    return r->has_status ? r->status.failure != 0 ? "has failed" : "is in no call" : "is being created";
}

static const char *protocol_of(const struct status_call *call) {
    return call->protocol < PROTOCOL_COUNT ? protocol_names[call->protocol] : "?";
}

static int calls_of(const struct status_rank *r) {
    if (!r->has_status || r->rank.stopped || r->status.failure != 0)
        return 0;
    return r->status.ncalls < STATUS_CALLS ? r->status.ncalls : STATUS_CALLS;
}

/* ---- text ---- */

static void print_call(const struct status_call *call, FILE *out) {
    fprintf(out, "in call %llu, %s of %llu %s, %s, %s", (unsigned long long)call->facts.sequence,
            prog_collective_name((enum prog_collective)call->facts.collective), (unsigned long long)call->facts.count,
            type_name((enum collet_type)call->facts.type), call->algorithm, protocol_of(call));
    if (call->waits_for >= 0 && call->idle_ns > 0)
        fprintf(out, ": for %.1f s it has waited for rank %d's %s", (double)call->idle_ns / 1e9, call->waits_for,
                call->connecting ? "connection"
                : call->sending  ? "credit"
                                 : "data");
    fprintf(out, "\n");
}

static void print_rank(const struct status_rank *r, bool created, FILE *out) {
    const int ncalls = calls_of(r);
    fprintf(out, "  rank %-4d %-12s %7d  ", r->rank.rank, r->rank.host, r->rank.pid);
    if (ncalls == 0)
        fprintf(out, "%s", fate_of(r, created));
    if (ncalls == 0 && r->has_status)
        fprintf(out, "; its last is call %llu%s%s", (unsigned long long)r->status.calls, r->status.error[0] ? ": " : "",
                r->status.error);
    if (ncalls == 0)
        fprintf(out, "\n");
    for (int k = 0; k < ncalls; k++) {
        fprintf(out, "%*s", k == 0 ? 0 : 33, "");
        print_call(&r->status.call[k], out);
    }
}

static void print_jobs(const struct status_jobs *jobs, FILE *out) {
    for (int j = 0; j < jobs->count; j++) {
        const struct status_job *job = &jobs->job[j];
        const bool created = !is_being_created(job);
        fprintf(out, "communicator %s (%016llx) of %d ranks%s\n", job->name[0] ? job->name : "(unnamed)",
                (unsigned long long)job->tag, job->nranks, created ? "" : ", which is being created");
        for (int k = 0; k < job->nranks; k++)
            print_rank(&job->ranks[k], created, out);
        for (int k = 0; k < job->nranks; k++)
            if (job->ranks[k].blocks > 0) {
                char text[512];
                blame_describe(&job->ranks[k], text, sizeof(text));
                fprintf(out, "  held up by %s\n", text);
            }
    }
}

/* ---- JSON ---- */

static void put_call(struct json *json, const struct status_call *call) {
    json_open(json, NULL, '{');
    json_integer(json, "seq", (long long)call->facts.sequence);
    json_text(json, "collective", prog_collective_name((enum prog_collective)call->facts.collective));
    json_integer(json, "count", (long long)call->facts.count);
    json_text(json, "type", type_name((enum collet_type)call->facts.type));
    json_text(json, "algorithm", call->algorithm);
    json_text(json, "protocol", protocol_of(call));
    json_number(json, "idle_s", (double)call->idle_ns / 1e9);
    json_integer(json, "waits_for", call->waits_for);
    json_close(json, '}');
}

static void put_rank(struct json *json, const struct status_rank *r) {
    json_open(json, NULL, '{');
    json_integer(json, "rank", r->rank.rank);
    json_text(json, "host", r->rank.host);
    json_integer(json, "pid", r->rank.pid);
    json_text(json, "state", fates[r->rank.state & 7]);
    json_bool(json, "answered", r->rank.answered != 0);
    json_bool(json, "stopped", r->rank.stopped != 0);
    if (r->blocks > 0) {
        char text[512];
        blame_describe(r, text, sizeof(text));
        json_integer(json, "blocks", r->blocks);
        json_text(json, "held_up_by", text);
    }
    if (r->has_status) {
        json_integer(json, "calls", (long long)r->status.calls);
        json_text(json, "error", r->status.error);
        json_open(json, "in", '[');
        for (int k = 0; k < calls_of(r); k++)
            put_call(json, &r->status.call[k]);
        json_close(json, ']');
    }
    json_close(json, '}');
}

static void put_jobs(const struct status_jobs *jobs, FILE *out) {
    struct json json = {.file = out};
    json_open(&json, NULL, '[');
    for (int j = 0; j < jobs->count; j++) {
        const struct status_job *job = &jobs->job[j];
        char tag[20];
        snprintf(tag, sizeof(tag), "%016llx", (unsigned long long)job->tag);
        json_open(&json, NULL, '{');
        json_text(&json, "communicator", tag);
        json_text(&json, "name", job->name);
        json_integer(&json, "nranks", job->nranks);
        json_bool(&json, "being_created", is_being_created(job));
        json_open(&json, "ranks", '[');
        for (int k = 0; k < job->nranks; k++)
            put_rank(&json, &job->ranks[k]);
        json_close(&json, ']');
        json_close(&json, '}');
    }
    json_close(&json, ']');
    fprintf(out, "\n");
}

/* ---- asking ---- */

/* Keeps only the jobs of this name. */
static void select_jobs(struct status_jobs *jobs, const char *name) {
    int left = 0;
    for (int j = 0; j < jobs->count; j++) {
        if (strcmp(jobs->job[j].name, name) == 0)
            jobs->job[left++] = jobs->job[j];
        else
            free(jobs->job[j].ranks);
    }
    jobs->count = left;
}

static bool is_among(int pid, const int *pids, int count) {
    for (int k = 0; k < count; k++)
        if (pids[k] == pid)
            return true;
    return false;
}

/* Asks a process and the processes that it has started. pid 0: asks all processes of this host that are not stopped. Each communicator
 * is described by the first process that knows it. */
static void ask_whom(int pid, struct status_jobs *jobs, const char **why) {
    static int pids[PROCESSES_MAX], family[PROCESSES_MAX];
    const uint64_t deadline_ns = os_now_ns() + ANSWER_NS;
    const int nfamily = pid != 0 ? family_of(pid, family, PROCESSES_MAX) : 0;
    bool asked = false;
    if (pid != 0)
        family_enter_network(pid);
    const int n = ask_list(pids, PROCESSES_MAX);
    for (int k = 0; k < n && k < PROCESSES_MAX; k++) {
        if (pid != 0 ? !is_among(pids[k], family, nfamily) : os_process_is(pids[k], OS_STOPPED))
            continue;
        asked = true;
        ask_process(pids[k], deadline_ns, jobs, why);
    }
    if (pid != 0 && !asked)
        *why = family_why_silent(family, nfamily);
}

/* Finds what the jobs of `whom` do (NULL: all jobs), and which ranks hold them up. If there are no jobs, *why says why. */
static void find_jobs(const char *whom, struct status_jobs *jobs, const char **why) {
    char *end = "";
    const long pid = whom != NULL ? strtol(whom, &end, 10) : 0;
    const bool is_pid = whom != NULL && *end == '\0' && pid > 0;
    *why = "no process of this user on this host has a communicator of several processes";
    ask_whom(is_pid ? (int)pid : 0, jobs, why);
    if (whom != NULL && !is_pid) {
        select_jobs(jobs, whom);
        *why = "no communicator has this name";
    }
    for (int j = 0; j < jobs->count; j++)
        blame_find(&jobs->job[j]);
}

static void find_all(struct status_jobs *jobs) {
    const char *why;
    find_jobs(NULL, jobs, &why);
}

static bool is_held_up(const struct status_jobs *jobs) {
    for (int j = 0; j < jobs->count; j++)
        for (int k = 0; k < jobs->job[j].nranks; k++)
            if (jobs->job[j].ranks[k].blocks > 0)
                return true;
    return false;
}

typedef void print_status(const struct status_jobs *jobs, FILE *out);

static int show(const char *whom, print_status *print, FILE *out, FILE *trouble) {
    struct status_jobs jobs = {0};
    const char *why;
    find_jobs(whom, &jobs, &why);
    if (jobs.count == 0)
        fprintf(trouble, "collet-status: %s%s%s\n", whom != NULL ? whom : "", whom != NULL ? ": " : "", why);
    else
        print(&jobs, out);
    const int status = jobs.count == 0 ? NOBODY : is_held_up(&jobs);
    status_jobs_free(&jobs);
    return status;
}

struct status_view {
    const char *whom;
    print_status *print;
};

static char *text_of_view(void *context) {
    const struct status_view *view = context;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    show(view->whom, view->print, out, out);
    fclose(out);
    return text;
}

int main(int argc, char **argv) {
    const char *watch = NULL, *serve = NULL, *output = NULL;
    bool as_json = false, as_metrics = false;
    int seconds = 1, port = 0;
    const struct argument table[] = {
        ARGUMENT_VALUE("watch", "SECONDS", &watch, "again and again, so long after each other, on the whole screen"),
        ARGUMENT_FLAG("json", &as_json, "JSON instead of text"),
        ARGUMENT_FLAG("metrics", &as_metrics, "metrics of Prometheus instead of text"),
        ARGUMENT_VALUE("serve", "PORT", &serve,
                       "these metrics over HTTP, on this port of 127.0.0.1 (0: any), of all jobs, until it is ended"),
        ARGUMENT_OUTPUT(&output),
    };
    const int first = arguments_read(&command, table, sizeof table / sizeof *table, argc, argv);
    if (argc - first > 1) {
        fprintf(stderr, "collet-status: '%s' is one argument too many\n", argv[first + 1]);
        return EXIT_BAD_INPUT;
    }
    if (!argument_number("--watch", watch, 1, 86400, &seconds) || !argument_number("--serve", serve, 0, 65535, &port))
        return EXIT_BAD_INPUT;
    if (!sink_begin(output))
        return EXIT_BAD_INPUT;
    if (serve != NULL)
        return status_serve_metrics(port, find_all);
    struct status_view view = {first < argc ? argv[first] : NULL, as_json      ? put_jobs
                                                                  : as_metrics ? status_print_metrics
                                                                               : print_jobs};
    if (watch == NULL)
        return sink_end(show(view.whom, view.print, stdout, stderr));
    screen_watch(seconds, text_of_view, &view);
    return sink_end(EXIT_SUCCESS);
}
