/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole run of a perf program. main() itself is in the file of the collective.
 */
#include "perf.h"

#include <stdlib.h>

/* The number of elements of each of `parts` equal parts. A part is a multiple of 16 bytes. */
static size_t part_of(size_t elements, size_t parts, size_t type_bytes) {
    size_t elements_per_16_bytes = 16 / type_bytes;
    return parts == 0 ? 0 : elements / parts / elements_per_16_bytes * elements_per_16_bytes;
}

struct perf_shape perf_shape_of(const struct perf_collective *collective, size_t elements, size_t type_bytes,
                                int nranks) {
    bool blocks = collective->input == PERF_BLOCKS || collective->output == PERF_BLOCKS;
    size_t ranks = (size_t)nranks, distances = ranks * (ranks - 1) / 2;
    size_t count = elements;
    if (blocks)
        count = part_of(elements, ranks, type_bytes);
    else if (collective->input == PERF_DISTANCES)
        count = part_of(elements, distances, type_bytes) * distances;
    else if (collective->input == PERF_NOTHING)
        count = 0;
    return (struct perf_shape){
        .count = count,
        .input = collective->input == PERF_BLOCKS ? count * (size_t)nranks : count,
        .output = collective->output == PERF_BLOCKS ? count * (size_t)nranks : count,
        .in_place_input = blocks && collective->input == PERF_COUNT ? count : 0,
        .in_place_output = blocks && collective->output == PERF_COUNT ? count : 0,
    };
}

size_t perf_unit_of(const struct perf_call *call) {
    size_t ranks = (size_t)call->nranks;
    return ranks == 1 ? 0 : call->shape.count / (ranks * (ranks - 1) / 2);
}

double perf_bus_factor_one(int nranks) {
    (void)nranks;
    return 1;
}

double perf_bus_factor_blocks(int nranks) { return (double)(nranks - 1) / nranks; }

struct perf_origin perf_origin_gathered(const struct perf_call *call, size_t element) {
    size_t block = call->shape.count;
    return (struct perf_origin){(int)(element / block), element % block, block - element % block};
}

struct perf_origin perf_origin_scattered(const struct perf_call *call, int from, size_t element) {
    return (struct perf_origin){from, (size_t)call->rank * call->shape.count + element, SIZE_MAX};
}

/* Sets COLLET_TIMEOUT: a call that makes no progress for this long fails, and its error names the ranks that it waited for. */
static void set_timeout(int timeout_s) {
    if (timeout_s > 0) {
        char text[16];
        snprintf(text, sizeof(text), "%d", timeout_s);
        setenv("COLLET_TIMEOUT", text, 1);
    }
}

/* Graphs of threads that share a GPU wait for each other, so they must not stand behind each other in one queue of the GPU. */
static void ask_for_queues(const struct perf_options *options) {
    if (options->graph > 0 && options->threads > 1)
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

static double demanded_busbw(void) {
    const char *text = getenv("COLLET_TESTS_MIN_BW");
    text = text ? text : getenv("NCCL_TESTS_MIN_BW");
    return text ? atof(text) : -1;
}

/* Can these ranks do what the options ask for? If not, it says why. */
static bool job_can_run(const struct perf_job *job) {
    const struct perf_collective *collective = job->collective;
    const char *why = collective->refuses ? collective->refuses(job) : NULL;
    bool root_exists = job->options->root < job->nranks;
    if (!root_exists && job_prints(job))
        fprintf(stderr, "-r %d: there are only ranks 0 to %d\n", job->options->root, job->nranks - 1);
    else if (why && job_prints(job))
        fprintf(stderr, "%s: %s\n", collective->program, why);
    bool has_graphs = perf_device || job->options->graph == 0;
    if (!has_graphs && job_prints(job))
        fprintf(stderr, "-G %d: needs a GPU; calls on host memory cannot be captured\n", job->options->graph);
    return root_exists && !why && has_graphs;
}

static void print_header(struct perf_job *job) {
    if (job_prints(job)) {
        job->json = job->options->json_path ? json_create(job->options->json_path) : NULL;
        job->csv = job->options->csv_path ? files_create(job->options->csv_path) : NULL;
        table_header(job);
        table_columns(job);
        json_header(job);
        csv_header(job);
    }
}

static void sweep_thread(struct perf_job *job, const struct perf_team *team, int thread, void *summaries) {
    sweep_run(job, team, (struct perf_summary *)summaries + thread);
}

/* Runs the sweep on all threads. *summary becomes the summary of the whole job, and is equal in every process. */
static void run_sweep(struct perf_job *job, struct perf_summary *summary) {
    int threads = job->options->threads;
    struct perf_summary *summaries = perf_allocate((size_t)threads * sizeof(*summaries));
    job_run_threads(job, sweep_thread, summaries);

    double *failed = perf_allocate((size_t)job->team.count * sizeof(*failed));
    for (int thread = 0; thread < threads; thread++)
        failed[0] += summaries[thread].failed_checks;
    *summary = summaries[0]; /* Bandwidths are equal in all */
    summary->failed_checks = (int)team_reduce(&job->team, failed, COLLET_SUM);
    free(failed);
    free(summaries);
}

/* -M: computes memory from the resident bytes before and after the communicators were made, and after the sweep has freed its buffers. */
static void report_memory(struct perf_job *job, double before, double joined, struct perf_summary *summary) {
    double buffers = (double)job->team.count * (double)verify_allocated_bytes(job->max_bytes);
    summary->init_bytes = team_reduce_same(&job->team, joined - before, COLLET_MAX);
    summary->buffer_bytes = team_reduce_same(&job->team, buffers, COLLET_MAX);
    summary->sweep_bytes = team_reduce_same(&job->team, probe_resident_bytes() - joined, COLLET_MAX);
}

int perf_main(const struct perf_collective *collective, int argc, char **argv) {
    struct perf_options options;
    int exit_code;
    setvbuf(stdout, NULL, _IOLBF, 0); /* If the program is ended early, its output is complete so far */
    if (!options_parse(argc, argv, &options))
        return PERF_BAD_USAGE;
    set_timeout(options.timeout_s);
    ask_for_queues(&options);
    if (collective->input == PERF_NOTHING)
        options.min_bytes = options.max_bytes = 0;

    struct perf_job job = {.collective = collective, .options = &options, .id_pipe = -1, .min_busbw = demanded_busbw()};
    if (options.procs > 0 && !procs_fork(&job, options.procs, &exit_code))
        return exit_code;
    double before = probe_resident_bytes();
    job_join(&job);
    double joined = probe_resident_bytes();
    job_introduce(&job);
    if (!job_can_run(&job)) {
        job_leave(&job);
        return PERF_BAD_USAGE;
    }

    struct perf_summary summary;
    job.round_trip_ns = job_probe(&job);
    print_header(&job);
    run_sweep(&job, &summary);
    report_memory(&job, before, joined, &summary);
    double round_trip_after_ns = job_probe(&job);
    if (job_prints(&job)) {
        table_footer(&job, &summary, round_trip_after_ns);
        json_footer(&job, &summary, round_trip_after_ns);
        if (job.csv)
            fclose(job.csv);
    }
    job_leave(&job);
    return summary.failed_checks || summary_is_slow(&summary, job.min_busbw) ? PERF_BAD_RESULTS : PERF_OK;
}
