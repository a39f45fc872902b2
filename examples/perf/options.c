/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: the flags of nccl-tests with their defaults and meanings, as one table. Flags for features that do not exist
 * here accept only their default, and say why.
 */
#include "perf.h"
#include "base/spelling.h"
#include "layers/tools/common/arguments.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const struct perf_options defaults = {
    .threads = 1,
    .gpus = 1,
    .min_bytes = 32 << 20,
    .max_bytes = 32 << 20,
    .step_bytes = 1 << 20,
    .step_factor = 1,
    .iters = 20,
    .warmup_iters = 1,
    .agg_iters = 1,
    .cycles = 1,
    .check = 1,
    .average = 1,
    .cta_policy = -1,
    .device_ctas = 16,
};

struct flag;
typedef bool parse_function(const struct flag *flag, const char *text, struct perf_options *options);
static parse_function parse_number, parse_size, parse_type, parse_op, parse_text;

struct flag {
    char letter; /* 0: the flag has only a name */
    const char *name;
    parse_function *parse;
    size_t offset; /* Offset of the field in struct perf_options */
    long min, max; /* Minimum and maximum of a number */
    const char *help;
    const char *limit; /* The reason for the range, if it is not obvious */
};

#define FIELD(name) offsetof(struct perf_options, name)
#define NAME_OF_TYPE(ENUM, name, ...) #name ", "
#define NAME_OF_OP(ENUM, name, ...) #name ", "
#define ONLY_DEFAULT "only the default is supported"

static const struct flag flags[] = {
    {0, "procs", parse_number, FIELD(procs), 1, 512, "fork this many local processes", NULL},
    {'t', "nthreads", parse_number, FIELD(threads), 1, 1024, "threads per process", NULL},
    {'g', "ngpus", parse_number, FIELD(gpus), 1, 1024, "ranks per thread", NULL},
    {0, "host", parse_number, FIELD(on_host), 0, 1, "1: host memory, even if there are GPUs", NULL},
    {'b', "minbytes", parse_size, FIELD(min_bytes), 0, 0, "smallest size; K, M and G are 1024-based", NULL},
    {'e', "maxbytes", parse_size, FIELD(max_bytes), 0, 0, "largest size", NULL},
    {'i', "stepbytes", parse_size, FIELD(step_bytes), 1, 0, "increment between sizes", "would never end"},
    {'f', "stepfactor", parse_number, FIELD(step_factor), 0, 1 << 20, "factor between sizes, used if above 1", NULL},
    {'n', "iters", parse_number, FIELD(iters), 1, INT_MAX, "timed iterations", NULL},
    {'m', "agg_iters", parse_number, FIELD(agg_iters), 1, 1 << 20, "operations in one group per iteration", NULL},
    {'w', "warmup_iters", parse_number, FIELD(warmup_iters), 0, INT_MAX, "iterations before, not timed", NULL},
    {'N', "run_cycles", parse_number, FIELD(cycles), 0, INT_MAX, "repetitions of the sweep; 0: without end", NULL},
    {'p', "parallel_init", parse_number, FIELD(parallel_init), 0, 1, "1: each thread creates its own ranks", NULL},
    {'c', "check", parse_number, FIELD(check), 0, INT_MAX, "checked iterations; 0: none", NULL},
    {'o', "op", parse_op, FIELD(op), 0, 0, COLLET_OPS(NAME_OF_OP) "or all", NULL},
    {'d', "datatype", parse_type, FIELD(type), 0, 0, COLLET_TYPES(NAME_OF_TYPE, ) "or all", NULL},
    {'r', "root", parse_number, FIELD(root), -1, INT_MAX, "root rank; -1: each in turn", NULL},
    {'z', "blocking", parse_number, FIELD(blocking), 0, 3,
     "after each iteration 1: a barrier, 2: none, 3: a barrier that is not timed", NULL},
    {'T', "timeout", parse_number, FIELD(timeout_s), 0, 864000, "seconds without progress before failing", NULL},
    {'C', "report_cputime", parse_number, FIELD(report_cputime), 0, 1,
     "1: the time until all calls have returned; the same on host memory, where they block", NULL},
    {'S', "report_timestamps", parse_number, FIELD(report_timestamps), 0, 1, "1: add the time of day", NULL},
    {'J', "output_file", parse_text, FIELD(json_path), 0, 0,
     "also write JSON to this file; -: to standard output, and the table to standard error", NULL},
    {0, "csv", parse_text, FIELD(csv_path), 0, 0, "also write the rows as CSV to this file; -: as with -J", NULL},
    {'a', "average", parse_number, FIELD(average), 0, 3, "time shown: 0 rank 0, 1 average, 2 min, 3 max", NULL},
    {'M', "memory", parse_number, FIELD(memory), 0, 1, "1: report memory use", NULL},
    {'u', "unalign", parse_number, FIELD(unalign), 0, VERIFY_MAX_UNALIGN / 8, "shift buffers by elements", NULL},
    {'I', "per_iter_timing", parse_number, FIELD(per_iter), 0, 1, "1: time each iteration by itself", NULL},
    {'K', "per_iter_skip", parse_number, FIELD(per_iter_skip), 0, INT_MAX, "leading samples left out of -I", NULL},
    {0, "plan", parse_number, FIELD(plan), 0, 1, "1: add what was chosen for each row, and its predicted time", NULL},
    {0, "predict", parse_number, FIELD(predict), 0, 1, "1: add the cost model's time of each row, for collet-plot",
     NULL},
    {'y', "stream_null", parse_number, FIELD(stream_null), 0, 0, NULL,
     ONLY_DEFAULT ": each rank has a stream of its own"},
    {'G', "cudagraph", parse_number, FIELD(graph), 0, INT_MAX,
     "on GPUs: the timed iterations become a CUDA graph, launched this many times; 0: no graph", NULL},
    {'R', "local_register", parse_number, FIELD(registered), 0, 2,
     "buffers of collet_mem_alloc(), registered with 1: collet_comm_register(), 2: collet_win_register()", NULL},
    {'x', "cta_policy", parse_number, FIELD(cta_policy), -1, -1, NULL, ONLY_DEFAULT},
    {'D', "device_implementation", parse_number, FIELD(device_implementation), 0, 0, NULL, ONLY_DEFAULT},
    {'V', "device_cta_count", parse_number, FIELD(device_ctas), 16, 16, NULL, ONLY_DEFAULT},
};
enum { FLAG_COUNT = sizeof(flags) / sizeof(flags[0]) };

/* ----------------------------------------------------------------------------------------------------------- values */

static bool complain(const struct flag *flag, const char *text, const char *why) {
    char name[64];
    if (flag->letter == 0)
        snprintf(name, sizeof(name), "--%s", flag->name);
    else
        snprintf(name, sizeof(name), "-%c", flag->letter);
    fprintf(stderr, "%s %s: %s\n", name, text, why);
    return false;
}

static bool parse_number(const struct flag *flag, const char *text, struct perf_options *options) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 0);
    if (end == text || *end != '\0' || errno != 0)
        return complain(flag, text, "not a whole number");
    if (number < flag->min || number > flag->max) {
        char range[96];
        snprintf(range, sizeof(range), "must be %ld to %ld", flag->min, flag->max);
        return complain(flag, text, flag->limit ? flag->limit : range);
    }
    *(int *)((char *)options + flag->offset) = (int)number;
    return true;
}

static bool parse_size(const struct flag *flag, const char *text, struct perf_options *options) {
    size_t bytes;
    if (!format_parse_size(text, &bytes))
        return complain(flag, text, "not a size; write for example 64, 8K, 32M or 1G");
    if (bytes < (size_t)flag->min)
        return complain(flag, text, flag->limit);
    *(size_t *)((char *)options + flag->offset) = bytes;
    return true;
}

static bool complain_of_name(const struct flag *flag, const struct spelling *spelling, const char *what) {
    char why[160];
    snprintf(why, sizeof(why), "not a%s %s of collet; -h lists them%s", *what == 'o' ? "n" : "", what, spelling->hint);
    return complain(flag, spelling->word, why);
}

static bool parse_type(const struct flag *flag, const char *text, struct perf_options *options) {
    struct spelling spelling = {text, SPELLING_FAR, ""};
    for (const struct type_format *type = perf_types; type->name; type++) {
        spelling_offer(&spelling, type->name);
        if (strcmp(type->name, text) == 0) {
            options->type = type;
            return true;
        }
    }
    options->type = NULL;
    return strcmp(text, "all") == 0 || complain_of_name(flag, &spelling, "data type");
}

static bool parse_op(const struct flag *flag, const char *text, struct perf_options *options) {
    struct spelling spelling = {text, SPELLING_FAR, ""};
    for (const struct perf_op *op = perf_ops; op->name; op++) {
        spelling_offer(&spelling, op->name);
        if (strcmp(op->name, text) == 0) {
            options->op = op;
            return true;
        }
    }
    options->op = NULL;
    return strcmp(text, "all") == 0 || complain_of_name(flag, &spelling, "operation");
}

static bool parse_text(const struct flag *flag, const char *text, struct perf_options *options) {
    *(const char **)((char *)options + flag->offset) = text;
    return true;
}

/* ----------------------------------------------------------------------------------------------------- command line */

static bool is_output(const char *path) { return path && strcmp(path, "-") == 0; }

static bool files_agree(const struct perf_options *options) {
    const char *json = options->json_path, *end = json ? strrchr(json, '.') : NULL;
    if (json && !is_output(json) && (!end || strcmp(end, ".json") != 0)) {
        fprintf(stderr, "-J %s: only JSON is written, to names that end in .json\n", json);
        return false;
    }
    if (is_output(json) && is_output(options->csv_path)) {
        fprintf(stderr, "--csv -: -J has standard output already\n");
        return false;
    }
    return true;
}

/* Checks that no two flags contradict each other. */
static bool options_agree(const struct perf_options *options) {
    if (options->min_bytes > options->max_bytes) {
        fprintf(stderr, "-b %zu: more than -e %zu\n", options->min_bytes, options->max_bytes);
        return false;
    }
    if (options->op && options->type && !perf_op_takes(options->op, options->type)) {
        fprintf(stderr, "-o %s: only for integers, not for -d %s\n", options->op->name, options->type->name);
        return false;
    }
    if (options->per_iter_skip > 0 && !options->per_iter) {
        fprintf(stderr, "-K %d: needs -I 1\n", options->per_iter_skip);
        return false;
    }
    if (options->per_iter_skip >= options->iters) {
        fprintf(stderr, "-K %d: must be less than -n %d\n", options->per_iter_skip, options->iters);
        return false;
    }
    if (options->graph && (options->per_iter || options->blocking)) {
        fprintf(stderr, "-G %d: a graph holds all iterations, and nothing waits between them: leave out -I and -z\n",
                options->graph);
        return false;
    }
    return files_agree(options);
}

/* The name of a flag's value in --help. */
static const char *meta_of(const struct flag *flag) {
    return flag->parse == parse_number ? "N"
           : flag->parse == parse_size ? "BYTES"
           : flag->parse == parse_text ? "FILE"
                                       : "NAME";
}

static const struct command command = {
    "[flags]", "Ranks: processes x threads x ranks per thread. Processes: --procs, or mpirun, srun, torchrun.\n"
               "COLLET_TESTS_MIN_BW=<GB/s>: exit with 7 if the average bus bandwidth is below 90 % of it.\n"};

bool options_parse(int argc, char **argv, struct perf_options *options) {
    const char *texts[FLAG_COUNT] = {NULL};
    struct argument arguments[FLAG_COUNT];
    for (int i = 0; i < FLAG_COUNT; i++) {
        const struct flag *flag = &flags[i];
        arguments[i] = (struct argument){flag->name, flag->letter, meta_of(flag),
                                         &texts[i],  NULL,         flag->help != NULL ? flag->help : flag->limit};
    }
    arguments_read_options(&command, arguments, FLAG_COUNT, argc, argv);

    *options = defaults;
    options->type = &perf_types[COLLET_FLOAT32];
    options->op = perf_ops;
    options->argv = argv;
    for (int i = 0; i < FLAG_COUNT; i++)
        if (texts[i] != NULL && !flags[i].parse(&flags[i], texts[i], options))
            return false;
    return options_agree(options);
}
