/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/forecast/explain.h"

#include "base/err.h"
#include "layers/tuner/host.h"

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

const char *explain_constants(const struct forecast_job *job, char text[CARD_NOTE_BYTES]) {
    if (!job->machine.gpu && job->costs.host.line_ns > 0)
        return host_text(&job->costs.host, text);
    if (!job->machine.gpu)
        return "those of host memory, measured on one machine, and guesses for networks";
    const struct topo_node *first = &job->rings->topo->nodes[job->rings->place[0]];
    return card_note((struct card_gpu){.sm = first->gpu.sm}, CARD_KERNELS, text);
}

/* ---- all candidates ---- */

struct candidates {
    struct forecast list[FORECASTS_MAX];
    int count;
};

/* Sorts by time. A candidate without a time comes last, because its time is infinite. */
static int faster_first(const void *a, const void *b) {
    double x = ((const struct forecast *)a)->choice.predicted_ns, y = ((const struct forecast *)b)->choice.predicted_ns;
    return x < y ? -1 : x > y;
}

/* Adds a candidate. Of two candidates that differ only in the chunk, the faster one stays. */
static void keep(struct candidates *all, const struct forecast *f) {
    const struct plan_choice *c = &f->choice;
    for (struct forecast *known = all->list; known < &all->list[all->count]; known++) {
        const struct plan_choice *k = &known->choice;
        if (k->algorithm != c->algorithm || k->protocol != c->protocol || k->nchannels != c->nchannels)
            continue;
        if (faster_first(f, known) < 0)
            *known = *f;
        return;
    }
    if (all->count < FORECASTS_MAX)
        all->list[all->count++] = *f;
}

static enum collet_result try_stage(struct forecast_stage *stage, uint64_t bytes, struct candidates *all) {
    struct tuner_try tries[TUNER_TRIES_MAX];
    int n = tuner_list(&stage->whole->job->limits, stage->whole->cost, simulated_count(stage->whole, bytes), 1, tries);
    for (int k = 0; k < n; k++) {
        struct forecast forecast;
        COLLET_TRY(forecast_run(stage, &tries[k].choice, bytes, true, &forecast));
        keep(all, &forecast);
    }
    return COLLET_SUCCESS;
}

static enum collet_result try_algorithm(const struct forecast_job *job, const struct algorithm *algorithm,
                                        uint64_t bytes, struct candidates *all) {
    struct forecast_stage *stage;
    COLLET_TRY(forecast_stage_open(job, algorithm, &stage));
    enum collet_result result = try_stage(stage, bytes, all);
    forecast_stage_close(stage);
    return result;
}

/* Sorts by time, but puts the tuner's choice first. Others may be faster by a negligible time. */
static void sort(struct candidates *all) {
    qsort(all->list, (size_t)all->count, sizeof(*all->list), faster_first);
    int pick = forecast_pick(all->list, all->count);
    for (; pick > 0; pick--) {
        struct forecast before = all->list[pick - 1];
        all->list[pick - 1] = all->list[pick];
        all->list[pick] = before;
    }
}

/* ---- the table ---- */

static double gbps_of(const struct forecast *f, uint64_t bytes, int nranks) {
    return (double)bytes / f->choice.predicted_ns * prog_bus_factor(f->choice.algorithm->collective, nranks);
}

static void print_row(const struct forecast_job *job, const struct forecast *f, uint64_t bytes, FILE *out) {
    const struct plan_choice *c = &f->choice;
    char chunk[24], link[200] = "-", latency[24] = "-";
    explain_size(c->chunk_bytes, chunk);
    if (f->kind == FORECAST_NONE) {
        fprintf(out, "  %-10s %-8s %8d %6s   not simulated: %.0f million steps are too many\n", c->algorithm->name,
                protocol_names[c->protocol], c->nchannels, chunk, f->steps / 1e6);
        return;
    }
    if (f->latency_ns >= 0)
        snprintf(latency, sizeof latency, "%.1f", f->latency_ns / 1000);
    if (f->bounds.link >= 0)
        net_link_name(job->net, f->bounds.link, link, sizeof link);
    fprintf(out, "  %-10s %-8s %8d %6s %s%11.1f %9.2f %11s %11.1f %11.1f  %s\n", c->algorithm->name,
            protocol_names[c->protocol], c->nchannels, chunk, f->kind == FORECAST_BOUND ? "≤" : " ",
            f->choice.predicted_ns / 1000, gbps_of(f, bytes, job->nranks), latency, f->bounds.link_ns / 1000,
            f->bounds.engine_ns / 1000, link);
}

/* ---- the reason ---- */

enum bound { BOUND_LATENCY, BOUND_LINK, BOUND_ENGINE };

static enum bound bound_of(const struct forecast *f) {
    if (f->bounds.link_ns >= f->latency_ns && f->bounds.link_ns >= f->bounds.engine_ns)
        return BOUND_LINK;
    return f->latency_ns >= f->bounds.engine_ns ? BOUND_LATENCY : BOUND_ENGINE;
}

static void print_bound(const struct forecast_job *job, const struct forecast *f, FILE *out) {
    char link[200];
    double gbps;
    switch (bound_of(f)) {
    case BOUND_LINK:
        gbps = sim_link_gbps(job->net->link_gbps, &job->costs, f->bounds.link);
        fprintf(out, "its busiest link, %s: %.2f MB at %.1f GB/s take %.1f us, %.0f %% of the time",
                net_link_name(job->net, f->bounds.link, link, sizeof link), f->bounds.link_ns * gbps / 1e6, gbps,
                f->bounds.link_ns / 1000, 100 * f->bounds.link_ns / f->choice.predicted_ns);
        break;
    case BOUND_LATENCY:
        fprintf(out, "latency: its hops take %.1f us one after another, %.0f %% of the time", f->latency_ns / 1000,
                100 * f->latency_ns / f->choice.predicted_ns);
        break;
    case BOUND_ENGINE:
        fprintf(out, "its busiest %s, which works %.1f us, %.0f %% of the time", job->machine.gpu ? "block" : "CPU",
                f->bounds.engine_ns / 1000, 100 * f->bounds.engine_ns / f->choice.predicted_ns);
    }
}

static void print_name(const struct forecast *f, FILE *out) {
    const struct plan_choice *c = &f->choice;
    fprintf(out, "%s, %s, %d channel%s", c->algorithm->name, protocol_names[c->protocol], c->nchannels,
            c->nchannels == 1 ? "" : "s");
}

/* Prints the best candidate, and the best one of each other algorithm. */
static void print_why(const struct forecast_job *job, const struct candidates *all, FILE *out) {
    const struct forecast *best = &all->list[0];
    fprintf(out, "\nwhy\n  ");
    print_name(best, out);
    fprintf(out, " is chosen: %.1f us. What binds it most is ", best->choice.predicted_ns / 1000);
    print_bound(job, best, out);
    fprintf(out, ".\n");
    for (int k = 1; k < all->count; k++) {
        const struct forecast *f = &all->list[k];
        int same = 0;
        while (all->list[same].choice.algorithm != f->choice.algorithm)
            same++;
        if (same < k || f->kind == FORECAST_NONE)
            continue;
        fprintf(out, "  ");
        print_name(f, out);
        fprintf(out, " takes %.2f times as long: it is bound by ", f->choice.predicted_ns / best->choice.predicted_ns);
        print_bound(job, f, out);
        fprintf(out, ".\n");
    }
}

static void print_all(const struct forecast_job *job, enum prog_collective collective, uint64_t bytes,
                      const struct candidates *all, FILE *out) {
    char size[24], note[CARD_NOTE_BYTES];
    fprintf(out, "%s of %s bytes, %d ranks on %d host%s: predicted, the choice first, then by time\n",
            prog_collective_name(collective), explain_size(bytes, size), job->nranks, job->nhosts,
            job->nhosts == 1 ? "" : "s");
    fprintf(out, "constants: %s\n", explain_constants(job, note));
    fprintf(out, "  %-10s %-8s %8s %6s  %11s %9s %11s %11s %11s  %s\n", "algorithm", "protocol", "channels", "chunk",
            "time us", "bus GB/s", "latency us", "link us", "engine us", "busiest link");
    for (int k = 0; k < all->count; k++)
        print_row(job, &all->list[k], bytes, out);
    if (all->count > 0 && all->list[0].kind != FORECAST_NONE)
        print_why(job, all, out);
}

enum collet_result explain_print(const struct forecast_job *job, enum prog_collective collective, uint64_t bytes,
                                 FILE *out) {
    struct candidates *all = calloc(1, sizeof *all);
    enum collet_result result = COLLET_SUCCESS;
    if (all == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the candidates");
    for (const struct algorithm *a = algorithms; a->name != NULL && result == COLLET_SUCCESS; a++)
        if (a->collective == collective && algorithm_applies(a, job->machine.whole))
            result = try_algorithm(job, a, bytes, all);
    if (result == COLLET_SUCCESS) {
        sort(all);
        print_all(job, collective, bytes, all, out);
    }
    free(all);
    return result;
}
