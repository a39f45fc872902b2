/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/metrics/metrics.h"

#include "base/plain.h"

/* ---- values ---- */

static double is_up(const struct metrics_rank *r) { return r->is_up; }
static double is_stopped(const struct metrics_rank *r) { return r->is_stopped; }
static double has_failed(const struct metrics_rank *r) { return r->status != NULL && r->status->failure != 0; }
static double blocks(const struct metrics_rank *r) { return r->blocks; }
static double calls_of(const struct metrics_rank *r) { return r->status != NULL ? (double)r->status->calls : 0; }
static double in_flight(const struct metrics_rank *r) { return r->status != NULL ? r->status->ncalls : 0; }

static double counted(const struct metrics_rank *r, enum conn_counter counter) {
    return r->status != NULL ? (double)r->status->counters[counter] : 0;
}
static double rails_lost(const struct metrics_rank *r) { return counted(r, CONN_RAILS_LOST); }
static double rails_returned(const struct metrics_rank *r) { return counted(r, CONN_RAILS_RETURNED); }

static double idle_of(const struct metrics_rank *r) {
    uint64_t longest_ns = 0;
    for (int k = 0; r->status != NULL && k < r->status->ncalls && k < STATUS_CALLS; k++)
        if (r->status->call[k].idle_ns > longest_ns)
            longest_ns = r->status->call[k].idle_ns;
    return (double)longest_ns / 1e9;
}

static const struct metric {
    const char *name, *type, *help;
    double (*value)(const struct metrics_rank *rank);
} metrics[] = {
    {"collet_rank_up", "gauge", "1 if the rank lives and has answered", is_up},
    {"collet_rank_stopped", "gauge", "1 if its process is stopped", is_stopped},
    {"collet_rank_failed", "gauge", "1 if its communicator has failed", has_failed},
    {"collet_rank_blocks", "gauge", "ranks that wait for it", blocks},
    {"collet_calls_total", "counter", "collectives called", calls_of},
    {"collet_calls_in_flight", "gauge", "operations under way", in_flight},
    {"collet_rails_lost_total", "counter", "RDMA rails that its connections lost", rails_lost},
    {"collet_rails_returned_total", "counter", "of them, those that were tested and are used again", rails_returned},
    {"collet_idle_seconds", "gauge", "how long its longest wait has lasted", idle_of},
};

/* ---- text ---- */

/* Writes a label. The program chooses the communicator's name, so it may contain quotes and backslashes. */
static void put_label(const char *name, const char *text, FILE *out) {
    fprintf(out, "%s=\"", name);
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text >= 0x20)
            fputc(*text, out);
    fputc('"', out);
}

static void put_value(const struct metric *metric, const struct metrics_rank *r, FILE *out) {
    fprintf(out, "%s{communicator=\"%016llx\",", metric->name, (unsigned long long)r->communicator);
    put_label("name", r->name, out);
    fprintf(out, ",rank=\"%d\",", r->rank);
    put_label("host", r->host, out);
    const locale_t before = plain_begin();
    fprintf(out, "} %.9g\n", metric->value(r));
    plain_end(before);
}

void metrics_print(const struct metrics_rank *ranks, int nranks, FILE *out) {
    for (const struct metric *m = metrics; m < metrics + sizeof metrics / sizeof *metrics; m++) {
        fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, m->type);
        for (int k = 0; k < nranks; k++)
            if (m->value != blocks || ranks[k].blocks >= 0)
                put_value(m, &ranks[k], out);
    }
}
