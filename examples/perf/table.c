/* SPDX-License-Identifier: Apache-2.0
 *
 * The text for standard output, in the format of nccl-tests, so that programs that read its output can read this, too. Lines
 * that start with '#' are remarks, and all others are rows of the table.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------------------- header */

static void print_parameters(const struct perf_options *options) {
    bool by_factor = options->step_factor > 1;
    printf("# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d agg iters: %d "
           "validation: %d graph: %d unalign: %d\n",
           options->threads, options->gpus, options->min_bytes, options->max_bytes,
           by_factor ? (size_t)options->step_factor : options->step_bytes, by_factor ? "factor" : "bytes",
           options->warmup_iters, options->iters, options->agg_iters, options->check, options->graph, options->unalign);

    static const char *const blocking[] = {
        NULL,
        "barrier after each iteration, timed with it",
        "calls are waited for after each iteration, without a barrier",
        "barrier after each iteration, not timed",
    };
    if (options->blocking)
        printf("# Blocking Enabled: %s\n", blocking[options->blocking]);
    if (options->per_iter) {
        printf("# Per-Iteration Report: i_* are of the slowest process of each iteration; the first %d are left out\n",
               options->per_iter_skip);
    }
    if (options->registered)
        printf("# %s Register Enabled: buffers of collet_mem_alloc(), %s\n",
               options->registered == PERF_REGISTERED ? "Local" : "Symmetric",
               options->registered == PERF_REGISTERED ? "registered" : "in windows");
    if (options->parallel_init)
        printf("# Parallel Init Enabled: each thread creates its own ranks\n");
}

static void print_ranks(const struct perf_job *job) {
    printf("# Using devices\n");
    for (int rank = 0; rank < job->nranks; rank++) {
        const struct perf_card *card = &job->cards[rank];
        const struct perf_gpu *gpu = &card->gpu;
        bool is_gpu = gpu->ordinal >= 0;
        printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s%s%s\n", rank, 0, card->pid, card->host,
               gpu->ordinal, is_gpu ? gpu->bus : "0000:00:00", is_gpu ? gpu->name : card->cpu_model, is_gpu ? " " : "",
               gpu->uuid);
    }
}

static void print_round_trip(double round_trip_ns) {
    if (round_trip_ns > 0)
        printf("%.0f ns (%s)\n", round_trip_ns, probe_class(round_trip_ns));
    else
        printf("not measured (%s)\n", probe_class(round_trip_ns));
}

static void print_machine(const struct perf_job *job) {
    printf("#\n# CPU %s, %d allowed\n", job->cards[0].cpu_model, job->cards[0].cpu_count);
    for (int rank = 0; rank < job->nranks; rank += job->team.count) {
        const struct perf_card *card = &job->cards[rank];
        printf("# Process %d on %s may run on CPUs %s\n", rank / job->team.count, card->host, card->cpus);
    }
    printf("# Line round trip between CPUs: ");
    print_round_trip(job->round_trip_ns);
}

/* Prints all transports that ranks have named. */
static void print_transports(const struct perf_job *job) {
    char seen[512] = " ";
    printf("# Transport:");
    for (int rank = 0; rank < job->nranks; rank++) {
        char names[PERF_TEXT_BYTES], word[PERF_TEXT_BYTES + 2], *rest = strcpy(names, job->cards[rank].transports);
        for (const char *name; (name = strsep(&rest, " ")) != NULL;) {
            snprintf(word, sizeof(word), " %s ", name);
            if (strstr(seen, word))
                continue;
            printf(" %s", name);
            snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s ", name);
        }
    }
    printf("\n");
}

void table_header(const struct perf_job *job) {
    int version;
    MUST(0, collet_get_version, &version);
    printf("# collet version %d.%d.%d collet-headers=%d collet-library=%d\n", version / 10000, version / 100 % 100,
           version % 100, COLLET_VERSION, version);
    printf("# Collective test starting: %s\n", job->collective->program);
    print_parameters(job->options);
    printf("#\n");
    print_ranks(job);
    print_machine(job);
    print_transports(job);
    if (job->max_bytes < job->options->max_bytes)
        printf("#\n# Reducing maxBytes to %zu due to memory limitation\n", job->max_bytes);
}

/* ------------------------------------------------------------------------------------------------------------ table */

static void print_half_titles(const struct perf_options *options, const char *const titles[8]) {
    printf("  %7s  %6s  %6s  %6s", titles[0], titles[1], titles[2], titles[3]);
    for (int i = 4; i < 8 && options->per_iter; i++)
        printf("  %7s", titles[i]);
}

static void print_titles(const struct perf_options *options, const char *const keys[5], const char *const titles[8],
                         const char *predicted, const char *timestamp) {
    printf("# %10s  %12s  %8s  %6s  %6s", keys[0], keys[1], keys[2], keys[3], keys[4]);
    print_half_titles(options, titles);
    print_half_titles(options, titles);
    if (options->predict)
        printf("  %7s", predicted);
    printf(" %*s%s\n", options->report_timestamps ? 19 : 0, options->report_timestamps ? timestamp : "",
           options->plan && keys[0][0] == 's' ? "  plan" : "");
}

void table_columns(const struct perf_job *job) {
    const struct perf_options *options = job->options;
    const char *time = options->report_cputime ? "cputime" : "time";
    printf("#\n# %10s  %12s  %8s  %6s  %6s", "", "", "", "", "");
    if (options->per_iter) {
        printf(
            "              out-of-place (+ per-iteration)                                in-place (+ per-iteration)\n");
    } else {
        printf("           out-of-place                       in-place          \n");
    }
    print_titles(options, (const char *const[]){"size", "count", "type", "redop", "root"},
                 (const char *const[]){time, "algbw", "busbw", "#wrong", "i_min", "i_max", "i_p99", "i_cv%"}, "predict",
                 "timestamp");
    print_titles(options, (const char *const[]){"(B)", "(elements)", "", "", ""},
                 (const char *const[]){"(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(%)"}, "(us)",
                 "%Y-%m-%d %H:%M:%S");
    fflush(stdout);
}

static void print_cell(double value, int width, bool known) {
    char text[FORMAT_WIDTH] = "N/A";
    if (known)
        format_number(value, width, text);
    printf("  %*s", width, text);
}

static void print_half(const struct perf_options *options, const struct perf_half *half) {
    print_cell(half->time_us, 7, half->ran);
    print_cell(half->algbw, 6, half->ran);
    print_cell(half->busbw, 6, half->ran);
    if (half->ran && half->checked)
        printf("  %6g", (double)half->wrong);
    else
        printf("  %6s", "N/A");
    if (options->per_iter) {
        const struct perf_stats *stats = &half->stats;
        print_cell(stats->min, 7, half->ran);
        print_cell(stats->max, 7, half->ran);
        print_cell(stats->p99, 7, half->ran);
        print_cell(stats->average > 0 ? 100 * stats->deviation / stats->average : 0, 7, half->ran);
    }
}

void table_row(const struct perf_options *options, const struct perf_row *row) {
    printf("%12zu  %12zu  %8s  %6s  %6d", row->bytes, row->count, row->type, row->op, row->root);
    print_half(options, &row->halves[0]);
    print_half(options, &row->halves[1]);
    if (options->predict)
        print_cell(row->predicted_us, 7, row->predicted_us > 0);
    if (options->report_timestamps) {
        char now[FORMAT_WIDTH];
        format_time(now);
        printf("%21s", now);
    }
    printf("%s%s\n", row->plan[0] ? "  " : "", row->plan);
    fflush(stdout);
}

/* ----------------------------------------------------------------------------------------------------------- footer */

double summary_busbw(const struct perf_summary *summary) {
    return summary->busbw_count ? summary->busbw_sum / summary->busbw_count : 0;
}

bool summary_is_slow(const struct perf_summary *summary, double min_busbw) {
    return summary_busbw(summary) < min_busbw * 0.9;
}

static void print_memory(const struct perf_summary *summary) {
    char init[FORMAT_WIDTH], buffers[FORMAT_WIDTH], sweep[FORMAT_WIDTH], total[FORMAT_WIDTH];
    format_memory(summary->init_bytes, init);
    format_memory(summary->buffer_bytes, buffers);
    format_memory(summary->sweep_bytes, sweep);
    if (perf_device) {
        printf("# %-20s : User-Allocated %s\n", "GPU memory usage", buffers);
        format_memory(0, buffers);
    }
    format_memory(summary->init_bytes + (perf_device ? 0 : summary->buffer_bytes) + summary->sweep_bytes, total);
    printf("# %-20s : Initialization %s | User-Allocated %s | Collective %s | Total  %s\n", "Host memory usage", init,
           buffers, sweep, total);
}

void table_footer(const struct perf_job *job, const struct perf_summary *summary, double round_trip_after_ns) {
    if (strcmp(probe_class(job->round_trip_ns), probe_class(round_trip_after_ns)) != 0) {
        printf("# Line round trip has changed: now ");
        print_round_trip(round_trip_after_ns);
        printf("# The CPUs moved apart or together during the sweep: do not compare these times with others\n");
    } else {
        printf("# Line round trip after: ");
        print_round_trip(round_trip_after_ns);
    }
    const char *verdict = job->min_busbw < 0 ? "" : summary_is_slow(summary, job->min_busbw) ? "FAILED" : "OK";
    printf("# %-20s : %.0f us, with what it connects and plans\n", "First call", summary->first_call_us);
    printf("# %-20s : %d %s\n", "Out of bounds values", summary->failed_checks,
           summary->failed_checks ? "FAILED" : "OK");
    printf("# %-20s : %g %s\n", "Avg bus bandwidth", summary_busbw(summary), verdict);
    printf("#\n# Collective test concluded: %s\n", job->collective->program);
    if (job->options->memory)
        print_memory(summary);
    printf("#\n\n");
    fflush(stdout);
}
