/* SPDX-License-Identifier: Apache-2.0 */
#include "forecast/explain.h"

#include "base/err.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- words ---- */

bool explain_read_size(const char *text, uint64_t *bytes_p) {
    static const char units[] = "KMGT";
    char *end;
    double number = strtod(text, &end);
    const char *unit = *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (end == text || !isdigit((unsigned char)text[0]) || (*end != '\0' && (unit == NULL || end[1] != '\0')))
        return false;
    for (; unit != NULL && unit >= units; unit--)
        number *= 1024;
    if (!(number >= 1) || number > 0x1p50)
        return false;
    *bytes_p = (uint64_t)number;
    return true;
}

const char *explain_size(uint64_t bytes, char text[24]) {
    static const char *const units[] = {"", "K", "M", "G"};
    int unit = 0;
    for (; unit < 3 && bytes >= 1024 && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    snprintf(text, 24, "%llu%s", (unsigned long long)bytes, units[unit]);
    return text;
}

bool explain_read_collective(const char *text, enum prog_collective *collective_p) {
    char name[32];
    size_t n = 0;
    for (; *text != '\0' && n < sizeof name - 1; text++)
        if (*text != '_' && *text != '-')
            name[n++] = *text;
    name[n] = '\0';
    for (int c = 0; c < PROG_COLLECTIVE_COUNT; c++)
        if (strcasecmp(name, prog_collective_name((enum prog_collective)c)) == 0 &&
            !prog_is_p2p((enum prog_collective)c)) {
            *collective_p = (enum prog_collective)c;
            return true;
        }
    return false;
}

const char *explain_constants(const struct forecast_job *job) {
    return job->net->gpu ? "those of GPUs, assumed from data sheets, not measured"
                         : "those of host memory, measured on one machine, and guesses for networks";
}

/* ---- all candidates ---- */

#define CANDIDATES_MAX 128

struct candidates {
    struct forecast list[CANDIDATES_MAX];
    int count;
};

/* What is not known comes last. */
static int faster_first(const void *a, const void *b) {
    const struct forecast *x = a, *y = b;
    if (x->kind == FORECAST_NONE || y->kind == FORECAST_NONE)
        return (x->kind == FORECAST_NONE) - (y->kind == FORECAST_NONE);
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* Of two that differ in nothing but the chunk, the faster one stays. */
static void keep(struct candidates *all, const struct forecast *f) {
    const struct forecast_candidate *c = &f->candidate, *last = &all->list[all->count - 1].candidate;
    bool again = all->count > 0 && last->algorithm == c->algorithm && last->protocol == c->protocol &&
                 last->nchannels == c->nchannels;
    if (!again && all->count < CANDIDATES_MAX)
        all->list[all->count++] = *f;
    else if (again && faster_first(f, &all->list[all->count - 1]) < 0)
        all->list[all->count - 1] = *f;
}

static enum collet_result try_stage(struct forecast_stage *stage, uint64_t bytes, struct candidates *all) {
    struct forecast_wish wishes[FORECAST_OPTIONS];
    struct forecast forecast;
    int n = forecast_wishes(stage, bytes, wishes);
    for (int k = 0; k < n; k++) {
        wishes[k].latency = true;
        COLLET_TRY(forecast_run(stage, &wishes[k], &forecast));
        keep(all, &forecast);
    }
    return COLLET_SUCCESS;
}

static enum collet_result try_algorithm(struct forecast_job *job, const struct algorithm *algorithm, uint64_t bytes,
                                        struct candidates *all) {
    int channels[FORECAST_OPTIONS], n = forecast_channels(job, channels);
    for (int k = 0; k < n; k++) {
        struct forecast_stage *stage;
        COLLET_TRY(forecast_stage(job, algorithm, channels[k], &stage));
        enum collet_result result = try_stage(stage, bytes, all);
        forecast_unstage(stage);
        COLLET_TRY(result);
    }
    return COLLET_SUCCESS;
}

/* ---- the table ---- */

static double gbps_of(const struct forecast *f, uint64_t bytes, int nranks) {
    return (double)bytes / f->ns * forecast_bus_factor(f->candidate.algorithm->collective, nranks);
}

static void print_row(const struct forecast_job *job, const struct forecast *f, uint64_t bytes, FILE *out) {
    const struct forecast_candidate *c = &f->candidate;
    char chunk[24], link[200] = "-", latency[24] = "-";
    explain_size(c->chunk_bytes, chunk);
    if (f->kind == FORECAST_NONE) {
        fprintf(out, "  %-10s %-8s %8d %6s   not simulated: %.0f million steps are too many\n", c->algorithm->name,
                protocol_names[c->protocol], c->nchannels, chunk, f->steps / 1e6);
        return;
    }
    if (f->latency_ns >= 0)
        snprintf(latency, sizeof latency, "%.1f", f->latency_ns / 1000);
    if (f->link >= 0)
        net_link_name(job->net, f->link, link, sizeof link);
    fprintf(out, "  %-10s %-8s %8d %6s %s%11.1f %9.2f %11s %11.1f %11.1f  %s\n", c->algorithm->name,
            protocol_names[c->protocol], c->nchannels, chunk, f->kind == FORECAST_BOUND ? "≤" : " ", f->ns / 1000,
            gbps_of(f, bytes, job->nranks), latency, f->link_ns / 1000, f->engine_ns / 1000, link);
}

/* ---- the reason ---- */

enum bound { BOUND_LATENCY, BOUND_LINK, BOUND_ENGINE };

static enum bound bound_of(const struct forecast *f) {
    if (f->link_ns >= f->latency_ns && f->link_ns >= f->engine_ns)
        return BOUND_LINK;
    return f->latency_ns >= f->engine_ns ? BOUND_LATENCY : BOUND_ENGINE;
}

static void print_bound(const struct forecast_job *job, const struct forecast *f, FILE *out) {
    char link[200];
    switch (bound_of(f)) {
    case BOUND_LINK:
        fprintf(out, "its busiest link, %s: %.2f MB at %.1f GB/s take %.1f us, %.0f %% of the time",
                net_link_name(job->net, f->link, link, sizeof link), f->link_ns * job->net->link_gbps[f->link] / 1e6,
                job->net->link_gbps[f->link], f->link_ns / 1000, 100 * f->link_ns / f->ns);
        break;
    case BOUND_LATENCY:
        fprintf(out, "latency: its hops take %.1f us one after another, %.0f %% of the time", f->latency_ns / 1000,
                100 * f->latency_ns / f->ns);
        break;
    case BOUND_ENGINE:
        fprintf(out, "its busiest %s, which works %.1f us, %.0f %% of the time", job->net->gpu ? "block" : "CPU",
                f->engine_ns / 1000, 100 * f->engine_ns / f->ns);
    }
}

static void print_name(const struct forecast *f, FILE *out) {
    const struct forecast_candidate *c = &f->candidate;
    fprintf(out, "%s, %s, %d channel%s", c->algorithm->name, protocol_names[c->protocol], c->nchannels,
            c->nchannels == 1 ? "" : "s");
}

/* The best candidate, and the best one of each other algorithm. */
static void print_why(const struct forecast_job *job, const struct candidates *all, FILE *out) {
    const struct forecast *best = &all->list[0];
    fprintf(out, "\nwhy\n  ");
    print_name(best, out);
    fprintf(out, " is fastest with %.1f us. What binds it most is ", best->ns / 1000);
    print_bound(job, best, out);
    fprintf(out, ".\n");
    for (int k = 1; k < all->count; k++) {
        const struct forecast *f = &all->list[k];
        int same = 0;
        while (all->list[same].candidate.algorithm != f->candidate.algorithm)
            same++;
        if (same < k || f->kind == FORECAST_NONE)
            continue;
        fprintf(out, "  ");
        print_name(f, out);
        fprintf(out, " takes %.2f times as long: it is bound by ", f->ns / best->ns);
        print_bound(job, f, out);
        fprintf(out, ".\n");
    }
}

static void print_all(const struct forecast_job *job, enum prog_collective collective, uint64_t bytes,
                      const struct candidates *all, FILE *out) {
    char size[24];
    fprintf(out, "%s of %s bytes, %d ranks on %d host%s: predicted, fastest first\n", prog_collective_name(collective),
            explain_size(bytes, size), job->nranks, job->nhosts, job->nhosts == 1 ? "" : "s");
    fprintf(out, "constants: %s\n", explain_constants(job));
    fprintf(out, "  %-10s %-8s %8s %6s  %11s %9s %11s %11s %11s  %s\n", "algorithm", "protocol", "channels", "chunk",
            "time us", "bus GB/s", "latency us", "link us", "engine us", "busiest link");
    for (int k = 0; k < all->count; k++)
        print_row(job, &all->list[k], bytes, out);
    if (all->count > 0 && all->list[0].kind != FORECAST_NONE)
        print_why(job, all, out);
}

enum collet_result explain_print(struct forecast_job *job, enum prog_collective collective, uint64_t bytes, FILE *out) {
    struct prog_shape shape = {.nranks = job->nranks, .nnodes = job->nhosts, .node_ranks = job->net->nlocal};
    struct candidates *all = calloc(1, sizeof *all);
    enum collet_result result = COLLET_SUCCESS;
    if (all == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the candidates");
    for (const struct algorithm *a = algorithms; a->name != NULL && result == COLLET_SUCCESS; a++)
        if (a->collective == collective && algorithm_applies(a, &shape))
            result = try_algorithm(job, a, bytes, all);
    if (result == COLLET_SUCCESS) {
        qsort(all->list, (size_t)all->count, sizeof *all->list, faster_first);
        print_all(job, collective, bytes, all, out);
    }
    free(all);
    return result;
}
