/* SPDX-License-Identifier: Apache-2.0
 *
 * The same results as JSON, with the keys of nccl-tests (version 3 of its file), and under "host" what is ours.
 * Booleans are strings there, so they are here.
 */
#define _GNU_SOURCE
#include "perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_VERSION = 3 };

struct json {
    FILE *file;
    int depth;
    bool has_items; /* the list or object that is open has had one */
};

/* ---------------------------------------------------------------------------------------------------------- writing */

/* Before each item: the comma, its own line where that helps a reader, its key (NULL in a list). */
static void put_key(struct json *json, const char *key) {
    fprintf(json->file, "%s", json->has_items ? "," : "");
    if (json->depth <= 2)
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    if (key)
        fprintf(json->file, "\"%s\": ", key);
    json->has_items = true;
}

static void open_item(struct json *json, const char *key, char bracket) {
    if (json->depth > 0)
        put_key(json, key);
    fputc(bracket, json->file);
    json->depth++;
    json->has_items = false;
}

static void close_item(struct json *json, char bracket) {
    json->depth--;
    if (json->has_items && json->depth <= 1)
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    fputc(bracket, json->file);
    json->has_items = true;
}

static void put_text(struct json *json, const char *key, const char *text) {
    put_key(json, key);
    fputc('"', json->file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c == '"' || *c == '\\')
            fprintf(json->file, "\\%c", *c);
        else if (*c < 0x20 || *c >= 0x7f) /* the environment need not be UTF-8 */
            fprintf(json->file, "\\u%04x", *c);
        else
            fputc(*c, json->file);
    fputc('"', json->file);
}

static void put_number(struct json *json, const char *key, double number) {
    put_key(json, key);
    fprintf(json->file, "%.9g", number);
}

static void put_integer(struct json *json, const char *key, long long number) {
    put_key(json, key);
    fprintf(json->file, "%lld", number);
}

static void put_bool(struct json *json, const char *key, bool value) { put_text(json, key, value ? "true" : "false"); }

static void put_null(struct json *json, const char *key) {
    put_key(json, key);
    fprintf(json->file, "null");
}

static void put_texts(struct json *json, const char *key, char **texts) {
    open_item(json, key, '[');
    for (; *texts; texts++)
        put_text(json, NULL, *texts);
    close_item(json, ']');
}

/* Of the environment only what steers the run; the rest, and the secret of a job, is nobody else's business. */
static void put_environment(struct json *json) {
    open_item(json, "env", '[');
    for (char **entry = environ; *entry; entry++)
        if ((strncmp(*entry, "COLLET_", 7) == 0 || strncmp(*entry, "NCCL_", 5) == 0) &&
            strncmp(*entry, "COLLET_SECRET=", 14) != 0)
            put_text(json, NULL, *entry);
    close_item(json, ']');
}

static void put_numbers(struct json *json, const char *key, const double *numbers, int count) {
    open_item(json, key, '[');
    for (int i = 0; i < count; i++)
        put_number(json, NULL, numbers[i]);
    close_item(json, ']');
}

static void put_time(struct json *json, const char *key) {
    char now[FORMAT_WIDTH];
    format_time(now);
    put_text(json, key, now);
}

/* ----------------------------------------------------------------------------------------------------------- header */

struct json *json_create(const char *path) {
    size_t room = strlen(path) + 16;
    char *name = perf_allocate(room);
    snprintf(name, room, "%s", path);
    FILE *file;
    for (int suffix = 0; !(file = fopen(name, "wx")) && errno == EEXIST; suffix++)
        snprintf(name, room, "%s.%d", path, suffix);
    struct json *json = NULL;
    if (file) {
        printf("# Writing JSON output to %s\n", name);
        json = perf_allocate(sizeof(*json));
        json->file = file;
    } else {
        printf("# skipping json output; %s: %s\n", name, strerror(errno));
    }
    free(name);
    return json;
}

static void put_devices(struct json *json, const struct perf_job *job) {
    open_item(json, "devices", '[');
    for (int rank = 0; rank < job->nranks; rank++) {
        const struct perf_card *card = &job->cards[rank];
        open_item(json, NULL, '{');
        put_integer(json, "rank", rank);
        put_integer(json, "group", 0);
        put_integer(json, "pid", card->pid);
        put_text(json, "hostname", card->host);
        put_integer(json, "device", COLLET_DEVICE_HOST);
        put_text(json, "device_hex", "0000:00:00");
        put_text(json, "device_info", card->cpu_model);
        put_text(json, "cpus", card->cpus);
        close_item(json, '}');
    }
    close_item(json, ']');
}

static void put_config(struct json *json, const struct perf_job *job) {
    const struct perf_options *options = job->options;
    bool by_factor = options->step_factor > 1;
    open_item(json, "config", '{');
    put_integer(json, "nthreads", options->threads);
    put_integer(json, "ngpus", options->gpus);
    put_integer(json, "minimum_bytes", (long long)options->min_bytes);
    put_integer(json, "maximum_bytes", (long long)options->max_bytes);
    put_integer(json, by_factor ? "step_factor" : "step_bytes",
                by_factor ? options->step_factor : (long long)options->step_bytes);
    put_integer(json, "warmup_iters", options->warmup_iters);
    put_integer(json, "iterations", options->iters);
    put_integer(json, "aggregated_iterations", options->agg_iters);
    put_integer(json, "validation", options->check);
    put_integer(json, "graph", options->graph);
    put_bool(json, "blocking_collectives", options->blocking);
    put_bool(json, "per_iter_timing", options->per_iter);
    put_integer(json, "per_iter_skip", options->per_iter_skip);
    put_bool(json, "parallel_init", options->parallel_init);
    put_devices(json, job);
    close_item(json, '}');
}

void json_header(const struct perf_job *job) {
    struct json *json = job->json;
    if (!json)
        return;
    int version;
    MUST(0, collet_get_version, &version);
    open_item(json, NULL, '{');
    put_integer(json, "version", FILE_VERSION);
    put_time(json, "start_time");
    put_texts(json, "args", job->options->argv);
    put_environment(json);
    put_text(json, "library", "collet");
    put_integer(json, "nccl_version", version);
    put_config(json, job);
    open_item(json, "host", '{');
    put_text(json, "cpu_model", job->cards[0].cpu_model);
    put_integer(json, "cpus_allowed", job->cards[0].cpu_count);
    put_number(json, "line_round_trip_ns", job->round_trip_ns);
    put_text(json, "line_class", probe_class(job->round_trip_ns));
    close_item(json, '}');
    open_item(json, "results", '[');
}

/* ----------------------------------------------------------------------------------------------------- rows, footer */

static void put_half(struct json *json, const struct perf_options *options, const char *key,
                     const struct perf_half *half) {
    if (!half->ran) {
        put_null(json, key);
        return;
    }
    open_item(json, key, '{');
    put_number(json, options->report_cputime ? "cpu_time" : "time", half->time_us);
    put_number(json, "alg_bw", half->algbw);
    put_number(json, "bus_bw", half->busbw);
    if (half->checked)
        put_integer(json, "nwrong", half->wrong);
    else
        put_null(json, "nwrong");
    close_item(json, '}');
}

static void put_iterations(struct json *json, const struct perf_job *job, const char *key,
                           const struct perf_half *half) {
    const struct perf_stats *stats = &half->stats;
    int iters = job->options->iters;
    open_item(json, key, '{');
    put_integer(json, "skipped_iterations", job->options->per_iter_skip);
    put_number(json, "min_us", stats->min);
    put_number(json, "max_us", stats->max);
    put_number(json, "avg_us", stats->average);
    put_number(json, "p50_us", stats->p50);
    put_number(json, "p95_us", stats->p95);
    put_number(json, "p99_us", stats->p99);
    put_number(json, "stdev_us", stats->deviation);
    put_number(json, "cv_pct", stats->average > 0 ? 100 * stats->deviation / stats->average : 0);
    put_numbers(json, "times_us", half->iter_us, iters);
    if (job->nprocs > 1) {
        open_item(json, "per_process_max_times_us", '[');
        for (int proc = 0; proc < job->nprocs; proc++)
            put_numbers(json, NULL, half->proc_iter_us + (size_t)proc * (size_t)iters, iters);
        close_item(json, ']');
    }
    close_item(json, '}');
}

void json_row(const struct perf_job *job, const struct perf_row *row) {
    static const char *const keys[2] = {"out_of_place", "in_place"};
    static const char *const iteration_keys[2] = {"out_of_place_per_iter", "in_place_per_iter"};
    struct json *json = job->json;
    if (!json)
        return;
    char root[16];
    snprintf(root, sizeof(root), "%6d", row->root);
    open_item(json, NULL, '{');
    put_integer(json, "size", (long long)row->bytes);
    put_integer(json, "count", (long long)row->count);
    put_text(json, "type", row->type);
    put_text(json, "redop", row->op);
    put_text(json, "root", root);
    for (int i = 0; i < 2; i++) {
        put_half(json, job->options, keys[i], &row->halves[i]);
        if (job->options->per_iter && row->halves[i].ran)
            put_iterations(json, job, iteration_keys[i], &row->halves[i]);
    }
    put_integer(json, "actual_iterations", job->options->iters);
    put_text(json, "experiment_name", "");
    close_item(json, '}');
    fflush(json->file);
}

void json_footer(const struct perf_job *job, const struct perf_summary *summary, double round_trip_after_ns) {
    struct json *json = job->json;
    if (!json)
        return;
    close_item(json, ']');
    open_item(json, "out_of_bounds", '{');
    put_integer(json, "count", summary->failed_checks);
    put_bool(json, "okay", summary->failed_checks == 0);
    close_item(json, '}');
    open_item(json, "average_bus_bandwidth", '{');
    put_number(json, "bandwidth", summary_busbw(summary));
    if (job->min_busbw < 0)
        put_text(json, "okay", "unchecked");
    else
        put_bool(json, "okay", !summary_is_slow(summary, job->min_busbw));
    close_item(json, '}');
    put_number(json, "line_round_trip_after_ns", round_trip_after_ns);
    open_item(json, "errors", '[');
    close_item(json, ']');
    put_time(json, "end_time");
    close_item(json, '}');
    fputc('\n', json->file);
    fclose(json->file);
    free(json);
}
