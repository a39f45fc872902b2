/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-tune: measures this machine and writes a file for COLLET_TUNER_FILE, or shows how good the choices of the cost model are.
 * Read next: tune/lab.h, tune/fit.c, tune/regret.h.
 */
#include "base/config_read.h"
#include "base/err.h"
#include "base/os.h"
#include "layers/gpu/gpu.h"
#include "layers/tuner/cards.h"
#include "layers/tuner/costs_file.h"
#include "layers/tools/common/machine.h"
#include "layers/tools/common/sink.h"
#include "layers/tools/tune/fit.h"
#include "layers/tools/tune/gpu_file.h"
#include "layers/tools/tune/regret.h"
#include "layers/tools/tune/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct command command = {
    "[options]\n"
    "       collet-tune --regret [options]\n"
    "       collet-tune --print [--costs FILE]\n"
    "\n"
    "Without --regret: measures allreduces of every algorithm and protocol on ranks that it forks, fits the constants of\n"
    "the cost model to them, and writes a tuning file. COLLET_TUNER_FILE=FILE on rank 0 makes all ranks use it.",
    "The machine should do nothing else meanwhile.\n"};

enum { LABS_MAX = 8 };

#define QUICK_ROUNDS 12
#define LIMITED_ROUNDS 5
#define MEASURED_SHARE 0.75 /* Share of a limited time after which measuring ends, and the fit begins. */
#define FITTED_SHARE 0.95   /* Share of a limited time after which the fit ends, and the file is written. */
#define ROUNDS 16
#define SMALLEST 8u
#define LARGEST (64u << 20)
#define QUICK_LARGEST (2u << 20)

struct tune_request {
    const char *procs, *transport, *sizes, *output, *costs, *save, *samples, *seconds; /* NULL: not given */
    bool quick, regret, all, print, device;
};

struct tune_task {
    struct lab_options options;
    int procs[LABS_MAX];
    int nprocs, nlabs;
    struct budget budget;
    const char *samples;             /* File of samples. NULL: they are measured now. */
    struct cost_table costs, before; /* before: the constants before the fit. */
    struct lab *labs[LABS_MAX];
};

/* -------------------------------------------------------------------------------------------------------- arguments */

static void parse_arguments(int argc, char **argv, struct tune_request *request) {
    const struct argument table[] = {
        ARGUMENT_VALUE("procs", "N,N...", &request->procs,
                       "numbers of ranks to measure with, 2 to 16; 2,4 unless given"),
        ARGUMENT_VALUE("transport", "NAME", &request->transport, "shm or tcp; shm unless given"),
        ARGUMENT_FLAG(
            "device", &request->device,
            "ranks on this process's GPUs, dealt to them in turn: in one group, and in threads; not with --regret"),
        ARGUMENT_VALUE(
            "seconds", "N", &request->seconds,
            "with --device: ends after so long, having measured what the model finds best; no limit unless given"),
        ARGUMENT_VALUE("sizes", "FROM:TO", &request->sizes,
                       "bytes, four times as many from one to the next; 8:67108864 unless given"),
        ARGUMENT_FLAG("quick", &request->quick,
                      "fewer samples, on host memory sizes to 2 MB: seconds instead of minutes"),
        ARGUMENT_OUTPUT(&request->output),
        ARGUMENT_FLAG("regret", &request->regret, "a table instead: the model's choice and the best one at every size"),
        ARGUMENT_VALUE("costs", "FILE", &request->costs, "constants to begin with; those built in unless given"),
        ARGUMENT_FLAG("all", &request->all, "before the table everything that was measured"),
        ARGUMENT_VALUE("save", "FILE", &request->save,
                       "all samples, to be judged or fitted later together with those of other runs"),
        ARGUMENT_VALUE("samples", "FILE,...", &request->samples, "instead of measuring: what other runs have saved"),
        ARGUMENT_FLAG("print", &request->print, "the constants alone"),
    };
    arguments_read_options(&command, table, sizeof table / sizeof *table, argc, argv);
}

static bool parse_procs(const char *text, struct tune_task *task) {
    const char *at = text;
    do {
        char *end;
        long n = strtol(at, &end, 10);
        if (end == at || n < 2 || n > LAB_RANKS_MAX || task->nprocs == LABS_MAX / 2 || (*end != '\0' && *end != ','))
            return argument_refuse("--procs", text, "up to four numbers from 2 to 16, with commas between");
        task->procs[task->nprocs++] = (int)n;
        at = end + 1;
        if (*end == '\0')
            return true;
    } while (true);
}

static bool parse_sizes(const char *text, bool quick, struct tune_task *task) {
    unsigned long long from = SMALLEST, to = quick && !task->options.gpus ? QUICK_LARGEST : LARGEST;
    char rest;
    if (text != NULL &&
        (sscanf(text, "%llu:%llu%c", &from, &to, &rest) != 2 || from < 4 || to < from || to > 1ull << 30))
        return argument_refuse("--sizes", text, "FROM:TO in bytes, from 4 to 1073741824");
    for (unsigned long long bytes = from; bytes <= to && task->options.nsizes < LAB_SIZES_MAX; bytes *= 4)
        task->options.sizes[task->options.nsizes++] = bytes / 4 * 4;
    if (task->options.sizes[task->options.nsizes - 1] != to)
        task->options.sizes[task->options.nsizes++] = to / 4 * 4;
    return true;
}

static bool parse_seconds(const struct tune_request *request, struct tune_task *task) {
    char *end;
    if (request->seconds == NULL)
        return true;
    task->budget.seconds = strtod(request->seconds, &end);
    if (end == request->seconds || *end != '\0' || !(task->budget.seconds >= 1 && task->budget.seconds <= 86400))
        return argument_refuse("--seconds", request->seconds, "a number from 1 to 86400");
    return request->device || argument_refuse("--seconds", request->seconds, "left out without --device");
}

static bool task_of(const struct tune_request *request, struct tune_task *task) {
    const char *transport = request->transport != NULL ? request->transport : "shm";
    if (strcmp(transport, "shm") != 0 && strcmp(transport, "tcp") != 0)
        return argument_refuse("--transport", transport, "shm or tcp");
    if (request->device && request->transport != NULL)
        return argument_refuse("--transport", transport, "left out beside --device");
    if (request->device && (request->regret || request->save != NULL || request->samples != NULL)) {
        fprintf(stderr,
                "collet-tune: --regret, --save and --samples are of ranks on host memory: leave out --device\n");
        return false;
    }
    task->options.transport = transport;
    task->samples = request->samples;
    task->options.gpus = request->device;
    task->options.most_nchannels = 64;
    task->costs = costs_default;
    if (request->costs != NULL && argument_failed("--costs", costs_read(request->costs, &task->costs)))
        return false;
    return parse_seconds(request, task) && parse_procs(request->procs != NULL ? request->procs : "2,4", task) &&
           parse_sizes(request->sizes, request->quick, task);
}

/* ------------------------------------------------------------------------------------------------------------- output */

static void print_cpu(FILE *out) {
    char line[256];
    FILE *in = fopen("/proc/cpuinfo", "re");
    while (in != NULL && fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
            fprintf(out, ", %.*s", (int)strcspn(strchr(line, ':') + 2, "\n"), strchr(line, ':') + 2);
            break;
        }
    if (in != NULL)
        fclose(in);
}

/* Prints machine and date, because a number says nothing without them. */
static void print_head(const struct tune_task *task, FILE *out) {
    char date[32];
    time_t now = time(NULL);
    struct tm tm;
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &tm));
    fprintf(out, "# %s, %s", date, os_host_name());
    print_cpu(out);
    fprintf(out, ", %d CPUs, %s\n", task->labs[0]->cpus, task->options.transport);
    if (task->samples != NULL)
        fprintf(out, "# samples of %s\n", task->samples);
    for (int k = 0; k < task->nlabs && task->samples == NULL; k++) {
        const struct lab *lab = task->labs[k];
        fprintf(out, "# %d ranks: round trip of a line near %.0f ns, far %.0f ns (0: not seen); %d samples dropped\n",
                lab->options.nranks, lab->trips_ns[LAB_NEAR], lab->trips_ns[LAB_FAR], lab->dropped);
    }
}

static bool is_wire(const struct tune_task *task) { return strcmp(task->options.transport, "tcp") == 0; }

static void print_constants(const struct tune_task *task, double error, FILE *out) {
    fprintf(out, "# Constants of collet's cost model, fitted by collet-tune; COLLET_TUNER_FILE loads them.\n");
    print_head(task, out);
    fprintf(
        out,
        "# Fitted so that predictions are near the measured times of every algorithm and protocol, nearest for the\n"
        "# best ones, and so that what is predicted best is: small sizes settle latencies (step, peer, alpha), large\n"
        "# ones slopes (byte), more ranks than CPUs the price of a switch. Mean error near the best: %.0f %%.\n",
        100 * (exp(error) - 1));
    costs_print(&task->costs, is_wire(task) ? "net." : "memory", out);
    costs_print(&task->costs, "host.", out);
}

/* Is the path a file, and not standard output? */
static bool is_file(const char *path) { return path != NULL && strcmp(path, "-") != 0; }

/* Writes the constants. The old content of the file stays until all was measured. */
static int write_constants(const struct tune_task *task, double error, const char *path) {
    FILE *out = is_file(path) ? sink_open("--output", path) : stdout;
    if (out == NULL)
        return EXIT_FAILURE;
    if (task->options.gpus)
        gpu_file_print(task->labs, task->nlabs, &task->before, &task->costs, error, out);
    else
        print_constants(task, error, out);
    return out == stdout || sink_close("--output", path, out) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void print_tables(const struct tune_task *task, bool all) {
    print_head(task, stdout);
    for (int k = 0; k < task->nlabs; k++) {
        if (all)
            regret_print_all(task->labs[k], &task->costs, stdout);
        regret_print(task->labs[k], &task->costs, stdout);
    }
}

/* --------------------------------------------------------------------------------------------------------------- main */

static bool has_gpus(void) {
    const char *why = "this build of collet drives host memory only";
    if (gpu_driver() != NULL && gpu_driver()->count(&why) > 0)
        return true;
    fprintf(stderr, "collet-tune: --device: no CUDA device: %s\n", why);
    return false;
}

static bool read_samples(struct tune_task *task) {
    char path[256];
    for (const char *at = task->samples; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        snprintf(path, sizeof path, "%.*s", (int)strcspn(at, ","), at);
        if (!samples_read(path, task->labs, task->nlabs)) {
            fprintf(stderr, "collet-tune: --samples: %s\n", err_last());
            return false;
        }
    }
    return true;
}

static bool save_samples(const char *path, const struct tune_task *task) {
    FILE *out = sink_open("--save", path);
    if (out == NULL)
        return false;
    samples_write(task->labs, task->nlabs, out);
    return sink_close("--save", path, out);
}

/* Limits the time of calls: a call that makes no progress ends when the run has to, or sooner if COLLET_TIMEOUT says so. */
static void limit_calls(const struct tune_task *task) {
    struct config config;
    char text[24];
    if (task->budget.seconds <= 0 || config_read(&config) != COLLET_SUCCESS)
        return; /* A mistake in the configuration is reported when communicators are created. */
    snprintf(text, sizeof text, "%.0f", fmin((double)config.timeout, fmax(1, budget_left(&task->budget))));
    setenv("COLLET_TIMEOUT", text, 1);
}

/* Measures in one group and in threads, each for its share of the time. False: a call has failed. */
static bool gather_on_gpus(const struct tune_request *request, struct tune_task *task) {
    const int nstages = 2 * task->nprocs;
    int rounds = task->budget.seconds > 0 ? LIMITED_ROUNDS : request->quick ? QUICK_ROUNDS : ROUNDS;
    bool failed = false;
    for (int stage = 0; stage < nstages && !failed; stage++) {
        struct lab **lab = &task->labs[task->nlabs++];
        task->options.nranks = task->procs[stage / 2];
        task->options.threads = stage % 2;
        task->budget.share = MEASURED_SHARE * (stage + 1) / nstages;
        limit_calls(task);
        lab_measure_gpus(&task->options, &task->costs, rounds, lab);
        failed = (*lab)->failed;
        budget_say(&task->budget, true, "%d ranks, %s: %d of %d candidates have been measured", (*lab)->options.nranks,
                   lab_mode_name(*lab), (*lab)->ndone, (*lab)->ncandidates);
    }
    task->budget.share = FITTED_SHARE;
    return !failed;
}

static bool gather(const struct tune_request *request, struct tune_task *task) {
    int rounds = request->quick ? QUICK_ROUNDS : ROUNDS;
    for (; task->nlabs < task->nprocs; task->nlabs++) {
        const int k = task->nlabs;
        task->options.nranks = task->procs[k];
        lab_create(&task->options, &task->costs, &task->labs[k]);
        if (request->samples == NULL)
            lab_measure(task->labs[k], rounds);
    }
    return (request->samples == NULL || read_samples(task)) &&
           (request->save == NULL || save_samples(request->save, task));
}

static int tell(const struct tune_request *request, struct tune_task *task) {
    if (request->regret) {
        print_tables(task, request->all);
        return EXIT_SUCCESS;
    }
    task->before = task->costs;
    double error = fit(task->labs, task->nlabs, is_wire(task), &task->budget, &task->costs);
    int status = write_constants(task, error, request->output);
    if (request->all && !request->device)
        print_tables(task, true);
    return status;
}

/* Can the file be written? Asked before measurements that take minutes. */
static bool can_write(const char *path) {
    FILE *out = is_file(path) ? fopen(path, "ae") : NULL;
    if (out != NULL)
        fclose(out);
    return !is_file(path) || out != NULL || argument_refuse("--output", path, "a file that can be written");
}

static int run(const struct tune_request *request, struct tune_task *task) {
    if (!(request->regret ? sink_begin(request->output) : can_write(request->output)))
        return EXIT_BAD_INPUT;
    bool gathered = request->device ? gather_on_gpus(request, task) : gather(request, task);
    int status = gathered || request->device ? tell(request, task) : EXIT_BAD_INPUT;
    if (!gathered && request->device)
        status = EXIT_FAILURE; /* The file has what was measured before the failure. */
    for (int k = 0; k < task->nlabs; k++)
        lab_destroy(task->labs[k]);
    return status;
}

/* Takes the constants that this library has for the first GPU. */
static enum collet_result take_constants(struct cost_table *costs) {
    char name[GPU_MODEL_BYTES];
    gpu_driver()->model(0, name);
    return card_suit((struct card_gpu){name, (int)gpu_driver()->capability(0)}, CARD_KERNELS, costs);
}

int main(int argc, char **argv) {
    struct tune_request request = {.quick = false};
    struct tune_task task = {.budget.now_ns = os_now_ns};
    parse_arguments(argc, argv, &request);
    if (!task_of(&request, &task))
        return EXIT_BAD_INPUT;
    if (request.print) {
        if (!sink_begin(request.output))
            return EXIT_BAD_INPUT;
        costs_print(&task.costs, "", stdout);
        return sink_end(EXIT_SUCCESS);
    }
    if (request.device && !has_gpus())
        return EXIT_FAILURE;
    if (request.device && request.costs == NULL && argument_failed("--device", take_constants(&task.costs)))
        return EXIT_FAILURE;
    task.budget.began_ns = os_now_ns();
    task.options.budget = &task.budget;
    if (request.device) /* Progress goes to standard error if the constants go to standard output. */
        task.budget.out = is_file(request.output) ? stdout : stderr;
    return sink_end(run(&request, &task));
}
