/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-sim: predicts how long collectives take on up to 131072 ranks, and what their links carry. These are predictions of
 * the cost model (layers/tools/forecast/forecast.h), not measurements.
 */
#include "base/err.h"
#include "base/spelling.h"
#include "base/types.h"
#include "layers/tools/forecast/explain.h"
#include "layers/schedules/import.h"
#include "layers/tuner/tuner.h"
#include "layers/tools/common/machine.h"
#include "layers/tools/common/sink.h"
#include "layers/tools/sim/timeline.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct command command = {
    "[options]",
    "For each size and algorithm the fastest protocol, number of channels and chunk. 'how' says what was simulated:\n"
    "  each     every rank\n"
    "  grouped  one host, which stands for all, because all hosts behave alike\n"
    "  bound    grouped; the call has fewer elements than the algorithm has slices, of which some are therefore empty,\n"
    "           but taken to be as long as the others: the time is no more than this\n"
    "  fewer    every rank of as many hosts as --limit lets be, of half and of a quarter of them: the time grew equally\n"
    "           with each doubling, or in proportion to the hosts, and is taken to go on so; load is that of fewer hosts\n"
    "Load: bytes on the most loaded link of a kind, and the share of the time that the busiest of them is busy.\n"
    "These are predictions of a model, not measurements; docs/scaling.md says which model.\n"};

enum { RANKS_MAX = 131072, SIZES_MAX = 64 };

struct sim_request {
    struct machine_request machine;
    const char *collective, *type, *sizes, *factor, *algo, *limit, *timeline, *import, *output; /* NULL: not given */
    bool json, csv, registered;
};

struct sim_task {
    int nhosts, per_host, limit;
    enum prog_collective collective;
    enum collet_type type;
    uint64_t sizes[SIZES_MAX];
    int nsizes;
    struct algorithm *imported; /* NULL: no schedule is imported. */
    const struct algorithm *algorithms[ALGORITHMS_MAX];
    int nalgorithms;
    struct forecast results[ALGORITHMS_MAX][SIZES_MAX];
};

/* -------------------------------------------------------------------------------------------------------- arguments */

static void parse_arguments(int argc, char **argv, struct sim_request *request) {
    const struct argument table[] = {
        MACHINE_OPTIONS(&request->machine),
        ARGUMENT_VALUE("collective", "NAME", &request->collective, "the collective; allreduce unless given"),
        ARGUMENT_VALUE("type", "NAME", &request->type,
                       "type of its elements, like half: pieces are whole elements; uint8 unless given"),
        ARGUMENT_VALUE("sizes", "FROM:TO", &request->sizes,
                       "bytes, as the sizes of the perf programs; 1K:1G unless given"),
        ARGUMENT_VALUE("factor", "N", &request->factor, "from one size to the next; 4 unless given"),
        ARGUMENT_VALUE("algo", "NAME", &request->algo,
                       "one algorithm, as collet-prog --list shows them; all that apply unless given"),
        ARGUMENT_VALUE("import", "FILE", &request->import,
                       "beside them an MSCCL-style schedule, of its collective and for as many ranks"),
        ARGUMENT_VALUE("limit", "N", &request->limit,
                       "simulate at most N million steps for a prediction where one host stands for all,\n"
                       "and a fortieth of them where none does; 60 unless given"),
        ARGUMENT_VALUE("timeline", "FILE", &request->timeline,
                       "of one size: every step and message of the chosen algorithm, as a file for\n"
                       "chrome://tracing or ui.perfetto.dev; up to 128 ranks"),
        ARGUMENT_FLAG("registered", &request->registered,
                      "buffers of collet_mem_alloc(), which other processes of the host read by address"),
        ARGUMENT_FLAG("json", &request->json, "JSON instead of a table"),
        ARGUMENT_FLAG("csv", &request->csv, "comma-separated values instead of a table"),
        ARGUMENT_OUTPUT(&request->output),
    };
    arguments_read_options(&command, table, sizeof table / sizeof *table, argc, argv);
}

/* Reads sizes such as "1K:1G", or a single size. */
static bool parse_sizes(const char *text, int factor, struct sim_task *task) {
    char from[32];
    uint64_t first, last;
    size_t length = strcspn(text, ":");
    snprintf(from, sizeof from, "%.*s", (int)length, text);
    if (length >= sizeof from || !explain_read_size(from, &first) ||
        !explain_read_size(text[length] == ':' ? text + length + 1 : from, &last) || first > last)
        return argument_refuse("--sizes", text, "two sizes, the smaller one first, like 1K:1G");
    for (uint64_t bytes = first; bytes <= last && task->nsizes < SIZES_MAX; bytes *= (uint64_t)factor)
        task->sizes[task->nsizes++] = bytes;
    return true;
}

static bool parse_task(const struct sim_request *request, struct sim_task *task) {
    int factor = 4;
    *task = (struct sim_task){
        .nhosts = 1, .limit = (int)(FORECAST_STEPS_MAX / 1e6), .collective = PROG_ALLREDUCE, .type = COLLET_UINT8};
    if (!argument_type("--type", request->type, &task->type) ||
        !machine_numbers(&request->machine, &task->nhosts, &task->per_host) ||
        !argument_number("--factor", request->factor, 2, 1 << 20, &factor) ||
        !argument_number("--limit", request->limit, 1, 100000, &task->limit))
        return false;
    return argument_collective("--collective", request->collective, &task->collective) &&
           parse_sizes(request->sizes != NULL ? request->sizes : "1K:1G", factor, task);
}

/* --------------------------------------------------------------------------------------------------------- computing */

/* Is this the name of the algorithm? "ring" and "allreduce_ring" both name ring of allreduce. */
static bool is_named(const struct algorithm *algorithm, const char *name) {
    const char *collective = prog_collective_name(algorithm->collective);
    size_t length = strlen(collective);
    if (strncasecmp(name, collective, length) == 0 && name[length] == '_')
        name += length + 1;
    return strcasecmp(algorithm->name, name) == 0;
}

/* Puts a schedule before the other algorithms, and takes its collective. */
static int import_schedule(const struct sim_request *request, const struct forecast_job *job, struct sim_task *task) {
    enum collet_result result = import_file(request->import, &task->imported);
    if (result == COLLET_SUCCESS)
        result = import_verify(task->imported);
    if (argument_failed("", result))
        return EXIT_BAD_INPUT;
    const struct algorithm *imported = task->imported;
    import_warn(imported, request->import);
    if (!algorithm_applies(imported, job->machine.whole) ||
        (request->collective != NULL && imported->collective != task->collective)) {
        fprintf(stderr, "collet-sim: --import is %s, an %s of %d ranks, but asked for is %s of %d\n", request->import,
                prog_collective_name(imported->collective), imported->nranks,
                prog_collective_name(request->collective != NULL ? task->collective : imported->collective),
                job->nranks);
        return EXIT_BAD_INPUT;
    }
    task->collective = imported->collective;
    task->algorithms[task->nalgorithms++] = imported;
    return 0;
}

static int list_algorithms(const char *name, struct forecast_job *job, struct sim_task *task) {
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        if (a->collective != task->collective || (name != NULL && !is_named(a, name)))
            continue;
        if (algorithm_applies(a, job->machine.whole)) {
            task->algorithms[task->nalgorithms++] = a;
            job->limits.algorithm_named[a - algorithms] |= name != NULL;
        } else if (name != NULL) {
            fprintf(stderr, "collet-sim: --algo is '%s', which takes %s, not %d rank(s) on %d host(s)\n", name,
                    a->where, job->nranks, job->nhosts);
            return EXIT_BAD_INPUT;
        }
    }
    if (task->nalgorithms > 0)
        return 0;
    struct spelling spelling = {name != NULL ? name : "", SPELLING_FAR, ""};
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        if (a->collective == task->collective)
            spelling_offer(&spelling, a->name);
    fprintf(stderr,
            "collet-sim: --algo is '%s', which is no algorithm of %s (--collective); collet-prog --list shows all%s\n",
            spelling.word, prog_collective_name(task->collective), spelling.hint);
    return EXIT_BAD_INPUT;
}

static enum collet_result run_algorithm(const struct forecast_job *job, const struct sim_task *task,
                                        const struct algorithm *algorithm, struct forecast *results) {
    struct forecast_stage *stage;
    COLLET_TRY(forecast_stage_open(job, algorithm, &stage));
    enum collet_result result = COLLET_SUCCESS;
    for (int s = 0; s < task->nsizes && result == COLLET_SUCCESS; s++)
        result = forecast_best(stage, task->sizes[s], &results[s]);
    forecast_stage_close(stage);
    return result;
}

/* ---------------------------------------------------------------------------------------------------------- showing */

static const char *const kinds[] = {[FORECAST_EACH] = "each",
                                    [FORECAST_GROUPED] = "grouped",
                                    [FORECAST_BOUND] = "bound",
                                    [FORECAST_EXTENDED] = "fewer",
                                    [FORECAST_NONE] = "none"};

static bool has_medium(const struct net *net, enum topo_medium medium) {
    for (int link = 0; link < net->nlinks; link++)
        if (medium != MEDIUM_LOCAL && net_link_medium(net, link) == medium)
            return true;
    return false;
}

/* The algorithm that the tuner would pick for a size. */
static int picked(const struct sim_task *task, int size) {
    struct forecast of_size[ALGORITHMS_MAX];
    for (int a = 0; a < task->nalgorithms; a++)
        of_size[a] = task->results[a][size];
    return forecast_pick(of_size, task->nalgorithms);
}

static void print_head(const struct forecast_job *job, const struct sim_task *task) {
    char note[CARD_NOTE_BYTES];
    printf("# collet-sim: predictions of a model, not measurements (docs/scaling.md)\n");
    printf("# %s of %s on %d ranks: %d host%s of %d %s; %d ring%s\n", prog_collective_name(task->collective),
           type_name(task->type), job->nranks, job->nhosts, job->nhosts == 1 ? "" : "s", job->nlocal,
           !job->machine.gpu           ? "host ranks"
           : job->limits.gpu_ranks > 1 ? "ranks on GPUs"
                                       : "GPUs",
           job->net->nrings, job->net->nrings == 1 ? "" : "s");
    printf("# constants: %s\n", explain_constants(job, note));
    printf("#\n#%9s  %-9s  %-8s %8s %6s %12s %9s %9s  %-7s", "size", "algorithm", "protocol", "channels", "chunk",
           "time", "algbw", "busbw", "how");
    for (int medium = 0; medium < TOPO_MEDIUM_COUNT; medium++)
        if (has_medium(job->net, (enum topo_medium)medium))
            printf(" %16s", topo_medium_name((enum topo_medium)medium));
    printf("\n#%9s  %-9s  %-8s %8s %6s %12s %9s %9s  %-7s", "(B)", "", "", "", "(B)", "(us)", "(GB/s)", "(GB/s)", "");
    for (int medium = 0; medium < TOPO_MEDIUM_COUNT; medium++)
        if (has_medium(job->net, (enum topo_medium)medium))
            printf(" %16s", "(MB)   busy");
    printf("\n");
}

/* Says why there is no prediction. */
static void print_none(const struct forecast_job *job, const struct forecast *f) {
    if (!tuner_has_room(&job->limits, &job->machine, f->choice.algorithm)) {
        printf("not chosen: a rank has no memory for its connections; --algo %s forecasts it\n",
               f->choice.algorithm->name);
        return;
    }
    if (f->steps == 0) {
        printf("no prediction: its messages are too long for a slot\n");
        return;
    }
    printf("no prediction: %.0f million steps are too many", f->steps / 1e6);
    if (f->fewer_hosts > 0)
        printf(", and time grows irregularly: %.0f, %.0f, %.0f us on %d, %d, %d hosts", f->fewer_ns[2] / 1000,
               f->fewer_ns[1] / 1000, f->fewer_ns[0] / 1000, f->fewer_hosts / 4, f->fewer_hosts / 2, f->fewer_hosts);
    else
        printf(", and fewer hosts do not tell");
    printf("; --limit N allows more\n");
}

static void print_row(const struct forecast_job *job, const struct sim_task *task, int a, int s) {
    const struct forecast *f = &task->results[a][s];
    const struct plan_choice *c = &f->choice;
    char size[24], chunk[24];
    explain_size(task->sizes[s], size);
    if (f->kind == FORECAST_NONE) {
        printf("%10s  %-9s  ", size, task->algorithms[a]->name);
        print_none(job, f);
        return;
    }
    explain_size(c->chunk_bytes, chunk);
    double algbw = (double)task->sizes[s] / c->predicted_ns;
    printf("%10s %c%-9s  %-8s %8d %6s %12.1f %9.3f %9.3f  %-7s", size, picked(task, s) == a ? '*' : ' ',
           c->algorithm->name, protocol_names[c->protocol], c->nchannels, chunk, c->predicted_ns / 1000, algbw,
           algbw * prog_bus_factor(task->collective, job->nranks), kinds[f->kind]);
    for (int medium = 0; medium < TOPO_MEDIUM_COUNT; medium++)
        if (has_medium(job->net, (enum topo_medium)medium))
            printf(" %10.3f %4.0f%%", f->load[medium] / 1e6, 100 * f->use[medium]);
    printf("\n");
}

static void print_table(const struct forecast_job *job, const struct sim_task *task) {
    print_head(job, task);
    for (int s = 0; s < task->nsizes; s++)
        for (int a = 0; a < task->nalgorithms; a++)
            print_row(job, task, a, s);
    if (task->nalgorithms > 1)
        printf("# * is the one that is chosen\n");
}

static void print_csv(const struct forecast_job *job, const struct sim_task *task) {
    printf("size,algorithm,protocol,channels,chunk,time_us,algbw,busbw,how,chosen\n");
    for (int s = 0; s < task->nsizes; s++)
        for (int a = 0; a < task->nalgorithms; a++) {
            const struct forecast *f = &task->results[a][s];
            const struct plan_choice *c = &f->choice;
            if (f->kind == FORECAST_NONE)
                continue;
            double algbw = (double)task->sizes[s] / c->predicted_ns;
            printf("%llu,%s,%s,%d,%u,%.3f,%.6g,%.6g,%s,%d\n", (unsigned long long)task->sizes[s], c->algorithm->name,
                   protocol_names[c->protocol], c->nchannels, c->chunk_bytes, c->predicted_ns / 1000, algbw,
                   algbw * prog_bus_factor(task->collective, job->nranks), kinds[f->kind], picked(task, s) == a);
        }
}

static void print_json_row(const struct forecast_job *job, const struct sim_task *task, int a, int s, bool first) {
    const struct forecast *f = &task->results[a][s];
    printf("%s\n    {\"size\": %llu, \"algorithm\": \"%s\", \"how\": \"%s\"", first ? "" : ",",
           (unsigned long long)task->sizes[s], task->algorithms[a]->name, kinds[f->kind]);
    if (f->kind != FORECAST_NONE) {
        const struct plan_choice *c = &f->choice;
        double algbw = (double)task->sizes[s] / c->predicted_ns;
        printf(", \"protocol\": \"%s\", \"channels\": %d, \"chunk\": %u, \"time_us\": %.3f, \"algbw\": %.4f, "
               "\"busbw\": %.4f, \"load\": {",
               protocol_names[c->protocol], c->nchannels, c->chunk_bytes, c->predicted_ns / 1000, algbw,
               algbw * prog_bus_factor(task->collective, job->nranks));
        const char *comma = "";
        for (int medium = 0; medium < TOPO_MEDIUM_COUNT; medium++)
            if (has_medium(job->net, (enum topo_medium)medium)) {
                printf("%s\"%s\": {\"bytes\": %.0f, \"busy\": %.4f}", comma, topo_medium_name((enum topo_medium)medium),
                       f->load[medium], f->use[medium]);
                comma = ", ";
            }
        printf("}");
    }
    printf("}");
}

static void print_json(const struct forecast_job *job, const struct sim_task *task) {
    printf(
        "{\n  \"program\": \"collet-sim\", \"measured\": false, \"op\": \"%s\", \"type\": \"%s\", \"ranks\": %d, \"hosts\": %d,\n"
        "  \"rows\": [",
        prog_collective_name(task->collective), type_name(task->type), job->nranks, job->nhosts);
    for (int s = 0; s < task->nsizes; s++)
        for (int a = 0; a < task->nalgorithms; a++)
            print_json_row(job, task, a, s, s == 0 && a == 0);
    printf("\n  ]\n}\n");
}

/* Writes the timeline of the algorithm that is chosen. If the call is long, the timeline has only the rounds that are simulated, the
 * first ones. */
static int write_timeline(const struct sim_request *request, const struct forecast_job *job,
                          const struct sim_task *task) {
    int best = picked(task, 0);
    if (best < 0 || task->nsizes != 1) {
        fprintf(stderr, "collet-sim: --timeline is of one size that has a prediction: give --sizes one, like 64K\n");
        return EXIT_BAD_INPUT;
    }
    FILE *out = sink_open("--timeline", request->timeline);
    if (out == NULL)
        return EXIT_FAILURE;
    bool failed = argument_failed("", timeline_write(job, &task->results[best][0].choice, task->sizes[0], out));
    if (failed)
        fclose(out);
    else
        failed = !sink_close("--timeline", request->timeline, out);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int simulate(const struct sim_request *request, struct sim_task *task, struct forecast_job *job) {
    if (job->nranks > RANKS_MAX) {
        fprintf(stderr, "collet-sim: %d hosts of %d ranks are %d ranks: at most %d can be simulated\n", job->nhosts,
                job->nlocal, job->nranks, RANKS_MAX);
        return EXIT_BAD_INPUT;
    }
    if (job->nranks < 2) {
        fprintf(stderr, "collet-sim: one rank alone sends nothing: give more --nodes or --ranks\n");
        return EXIT_BAD_INPUT;
    }
    int status = request->import != NULL ? import_schedule(request, job, task) : 0;
    if (status == 0)
        status = list_algorithms(request->algo, job, task);
    if (status != 0)
        return status;
    job->steps_max = task->limit * 1e6;
    job->elem_bytes = (uint32_t)collet_type_size(task->type);
    for (int a = 0; a < task->nalgorithms; a++)
        if (argument_failed("", run_algorithm(job, task, task->algorithms[a], task->results[a])))
            return EXIT_FAILURE;
    (request->json ? print_json : request->csv ? print_csv : print_table)(job, task);
    return request->timeline != NULL ? write_timeline(request, job, task) : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    struct sim_request request = {0};
    static struct sim_task task; /* Static, because it is large. */
    struct topo *topo = NULL;
    struct forecast_job *job = NULL;
    parse_arguments(argc, argv, &request);
    if (!parse_task(&request, &task) || !sink_begin(request.output))
        return EXIT_BAD_INPUT;
    /* Two hosts are enough to show what lies between hosts. */
    int status = machine_open(&request.machine, 2, &task.nhosts, &topo);
    if (status == 0 && argument_failed("", forecast_open(topo, task.nhosts, task.per_host, &job)))
        status = EXIT_FAILURE;
    if (status == 0 && request.registered)
        net_lend_by_address(job->net);
    if (status == 0)
        status = simulate(&request, &task, job);
    import_destroy(task.imported);
    forecast_close(job);
    topo_destroy(topo);
    return sink_end(status);
}
