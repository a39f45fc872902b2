/* SPDX-License-Identifier: Apache-2.0
 *
 * The results as JSON, with the keys of nccl-tests (version 3 of its file). The key "host" has facts that nccl-tests does not have.
 * Booleans are strings, as in nccl-tests.
 */
#define _GNU_SOURCE
#include "perf.h"
#include "layers/observe/json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_VERSION = 3 };

/* ---------------------------------------------------------------------------------------------------------- writing */

static void put_bool(struct json *json, const char *key, bool value) { json_text(json, key, value ? "true" : "false"); }

static void put_texts(struct json *json, const char *key, char **texts) {
    json_open(json, key, '[');
    for (; *texts; texts++)
        json_text(json, NULL, *texts);
    json_close(json, ']');
}

/* Writes only environment variables that influence the run. Other variables, and the secret of a job, are private. */
static void put_environment(struct json *json) {
    json_open(json, "env", '[');
    for (char **entry = environ; *entry; entry++)
        if ((strncmp(*entry, "COLLET_", 7) == 0 || strncmp(*entry, "NCCL_", 5) == 0) &&
            strncmp(*entry, "COLLET_SECRET=", 14) != 0)
            json_text(json, NULL, *entry);
    json_close(json, ']');
}

static void put_numbers(struct json *json, const char *key, const double *numbers, int count) {
    json_open(json, key, '[');
    for (int i = 0; i < count; i++)
        json_number(json, NULL, numbers[i]);
    json_close(json, ']');
}

static void put_time(struct json *json, const char *key) {
    char now[FORMAT_WIDTH];
    format_time(now);
    json_text(json, key, now);
}

/* ----------------------------------------------------------------------------------------------------------- header */

struct json *json_create(const char *path) {
    FILE *file = files_create(path);
    if (!file)
        return NULL;
    struct json *json = perf_allocate(sizeof(*json));
    json->file = file;
    return json;
}

static void put_devices(struct json *json, const struct perf_job *job) {
    json_open(json, "devices", '[');
    for (int rank = 0; rank < job->nranks; rank++) {
        const struct perf_card *card = &job->cards[rank];
        json_open(json, NULL, '{');
        json_integer(json, "rank", rank);
        json_integer(json, "group", 0);
        json_integer(json, "pid", card->pid);
        json_text(json, "hostname", card->host);
        bool is_gpu = card->gpu.ordinal >= 0;
        json_integer(json, "device", card->gpu.ordinal);
        json_text(json, "device_hex", is_gpu ? card->gpu.bus : "0000:00:00");
        json_text(json, "device_info", is_gpu ? card->gpu.name : card->cpu_model);
        if (is_gpu)
            json_text(json, "device_uuid", card->gpu.uuid);
        json_text(json, "cpus", card->cpus);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void put_config(struct json *json, const struct perf_job *job) {
    const struct perf_options *options = job->options;
    bool by_factor = options->step_factor > 1;
    json_open(json, "config", '{');
    json_integer(json, "nthreads", options->threads);
    json_integer(json, "ngpus", options->gpus);
    json_integer(json, "minimum_bytes", (long long)options->min_bytes);
    json_integer(json, "maximum_bytes", (long long)options->max_bytes);
    json_integer(json, by_factor ? "step_factor" : "step_bytes",
                 by_factor ? options->step_factor : (long long)options->step_bytes);
    json_integer(json, "warmup_iters", options->warmup_iters);
    json_integer(json, "iterations", options->iters);
    json_integer(json, "aggregated_iterations", options->agg_iters);
    json_integer(json, "validation", options->check);
    json_integer(json, "graph", options->graph);
    put_bool(json, "blocking_collectives", options->blocking);
    put_bool(json, "per_iter_timing", options->per_iter);
    json_integer(json, "per_iter_skip", options->per_iter_skip);
    put_bool(json, "parallel_init", options->parallel_init);
    json_integer(json, "local_register", options->registered);
    put_devices(json, job);
    json_close(json, '}');
}

void json_header(const struct perf_job *job) {
    struct json *json = job->json;
    if (!json)
        return;
    int version;
    MUST(0, collet_get_version, &version);
    json_open(json, NULL, '{');
    json_integer(json, "version", FILE_VERSION);
    put_time(json, "start_time");
    put_texts(json, "args", job->options->argv);
    put_environment(json);
    json_text(json, "library", "collet");
    json_integer(json, "nccl_version", version);
    put_config(json, job);
    json_open(json, "host", '{');
    json_text(json, "cpu_model", job->cards[0].cpu_model);
    json_integer(json, "cpus_allowed", job->cards[0].cpu_count);
    json_number(json, "line_round_trip_ns", job->round_trip_ns);
    json_text(json, "line_class", probe_class(job->round_trip_ns));
    json_close(json, '}');
    json_open(json, "results", '[');
}

/* ----------------------------------------------------------------------------------------------------- rows, footer */

static void put_half(struct json *json, const struct perf_options *options, const char *key,
                     const struct perf_half *half) {
    if (!half->ran) {
        json_null(json, key);
        return;
    }
    json_open(json, key, '{');
    json_number(json, options->report_cputime ? "cpu_time" : "time", half->time_us);
    json_number(json, "alg_bw", half->algbw);
    json_number(json, "bus_bw", half->busbw);
    if (half->checked)
        json_integer(json, "nwrong", half->wrong);
    else
        json_null(json, "nwrong");
    json_close(json, '}');
}

static void put_iterations(struct json *json, const struct perf_job *job, const char *key,
                           const struct perf_half *half) {
    const struct perf_stats *stats = &half->stats;
    int iters = job->options->iters;
    json_open(json, key, '{');
    json_integer(json, "skipped_iterations", job->options->per_iter_skip);
    json_number(json, "min_us", stats->min);
    json_number(json, "max_us", stats->max);
    json_number(json, "avg_us", stats->average);
    json_number(json, "p50_us", stats->p50);
    json_number(json, "p95_us", stats->p95);
    json_number(json, "p99_us", stats->p99);
    json_number(json, "stdev_us", stats->deviation);
    json_number(json, "cv_pct", stats->average > 0 ? 100 * stats->deviation / stats->average : 0);
    put_numbers(json, "times_us", half->iter_us, iters);
    if (job->nprocs > 1) {
        json_open(json, "per_process_max_times_us", '[');
        for (int proc = 0; proc < job->nprocs; proc++)
            put_numbers(json, NULL, half->proc_iter_us + (size_t)proc * (size_t)iters, iters);
        json_close(json, ']');
    }
    json_close(json, '}');
}

void json_row(const struct perf_job *job, const struct perf_row *row) {
    static const char *const keys[2] = {"out_of_place", "in_place"};
    static const char *const iteration_keys[2] = {"out_of_place_per_iter", "in_place_per_iter"};
    struct json *json = job->json;
    if (!json)
        return;
    char root[16];
    snprintf(root, sizeof(root), "%6d", row->root);
    json_open(json, NULL, '{');
    json_integer(json, "size", (long long)row->bytes);
    json_integer(json, "count", (long long)row->count);
    json_text(json, "type", row->type);
    json_text(json, "redop", row->op);
    json_text(json, "root", root);
    if (row->plan[0])
        json_text(json, "plan", row->plan);
    if (row->predicted_us > 0)
        json_number(json, "predicted_us", row->predicted_us);
    for (int i = 0; i < 2; i++) {
        put_half(json, job->options, keys[i], &row->halves[i]);
        if (job->options->per_iter && row->halves[i].ran)
            put_iterations(json, job, iteration_keys[i], &row->halves[i]);
    }
    json_integer(json, "actual_iterations", job->options->iters);
    json_text(json, "experiment_name", "");
    json_close(json, '}');
    fflush(json->file);
}

void json_footer(const struct perf_job *job, const struct perf_summary *summary, double round_trip_after_ns) {
    struct json *json = job->json;
    if (!json)
        return;
    json_close(json, ']');
    json_open(json, "out_of_bounds", '{');
    json_integer(json, "count", summary->failed_checks);
    put_bool(json, "okay", summary->failed_checks == 0);
    json_close(json, '}');
    json_open(json, "average_bus_bandwidth", '{');
    json_number(json, "bandwidth", summary_busbw(summary));
    if (job->min_busbw < 0)
        json_text(json, "okay", "unchecked");
    else
        put_bool(json, "okay", !summary_is_slow(summary, job->min_busbw));
    json_close(json, '}');
    json_number(json, "first_call_us", summary->first_call_us);
    json_number(json, "line_round_trip_after_ns", round_trip_after_ns);
    json_open(json, "errors", '[');
    json_close(json, ']');
    put_time(json, "end_time");
    json_close(json, '}');
    fputc('\n', json->file);
    fclose(json->file);
    free(json);
}
