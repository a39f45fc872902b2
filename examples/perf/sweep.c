/* SPDX-License-Identifier: Apache-2.0
 *
 * The sweep of one thread, for its ranks. All threads of all processes run the same loops at the same time: the collectives keep them
 * together. For each type, operation, root and size there are two halves, out of place and in place.
 * A half is:
 *
 *   fill, one call, warm-up calls, barrier | iterations, timed as a whole | average over ranks | fill, one call, check
 *
 * With -G, the iterations become a CUDA graph, whose launches are timed. The call that is checked becomes a graph, too.
 *
 * Successive iterations use successive parts of the buffers, so that small sizes are not measured in the cache only.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

struct sweep {
    struct perf_job *job;
    const struct perf_options *options;
    const struct perf_team *team;
    struct perf_buffers *buffers; /* [rank of the team]: its buffers */
    struct perf_call *calls;      /* [rank of the team]: the call that is measured now */
    struct perf_summary *summary;
    uint64_t seed;    /* Each fill has a new seed, which is equal on all ranks */
    double work_done; /* Work of the rows so far, in the unit of row_work() */
};

/* Sets the call of one half, for every rank of the team. */
static void set_calls(struct sweep *sweep, const struct perf_call *call) {
    for (int i = 0; i < sweep->team->count; i++) {
        sweep->calls[i] = *call;
        sweep->calls[i].rank = sweep->team->first_rank + i;
        sweep->calls[i].comm = sweep->team->measured[i];
        sweep->calls[i].stream = sweep->team->streams[i];
    }
}

static size_t row_bytes(const struct perf_call *call) {
    size_t elements = call->shape.input > call->shape.output ? call->shape.input : call->shape.output;
    return elements * call->type->bytes;
}

static void run_call(struct perf_call *call) {
    bool created = call->collective->reduces && call->op->op == COLLET_PREMULSUM;
    uint64_t scalar = pattern_scalar_bits(call->type, call->rank);
    call->reduction = call->op->op;
    if (created)
        MUST(call->rank, collet_op_create_premul_sum, &call->reduction, &scalar, call->type->type, COLLET_SCALAR_HOST,
             call->comm);
    team_must(call->rank, call->collective->function, call->collective->run(call));
    if (created)
        MUST(call->rank, collet_op_destroy, call->reduction, call->comm);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* The number of calls of the row that can use separate parts of the buffers. */
static size_t places_of(const struct sweep *sweep) {
    size_t bytes = row_bytes(&sweep->calls[0]);
    return bytes && bytes < sweep->job->max_bytes ? sweep->job->max_bytes / bytes : 1;
}

static void call_team(struct sweep *sweep, size_t iteration) {
    size_t shift = row_bytes(&sweep->calls[0]) * (iteration % places_of(sweep));
    team_group_start(sweep->team);
    for (int i = 0; i < sweep->team->count; i++) {
        struct perf_call *call = &sweep->calls[i];
        verify_aim(&sweep->buffers[i], shift, call);
        run_call(call);
    }
    team_group_end(sweep->team);
}

/* The first call of all connects ranks and makes their programs. It is timed by itself. */
static void run_once(struct sweep *sweep, size_t iteration) {
    double begin = probe_now_s();
    call_team(sweep, iteration);
    if (sweep->summary->first_call_us > 0)
        return;
    team_finish(sweep->team);
    sweep->summary->first_call_us = (probe_now_s() - begin) * 1e6;
}

/* --------------------------------------------------------------------------------------------------------- one half */

static void fill(struct sweep *sweep) {
    sweep->seed++;
    for (int i = 0; i < sweep->team->count; i++)
        verify_fill(&sweep->buffers[i], &sweep->calls[i], sweep->seed);
}

static void run_iteration(struct sweep *sweep, int iteration) {
    int operations = sweep->options->agg_iters;
    if (operations > 1)
        MUST(sweep->team->first_rank, collet_group_start);
    for (int i = 0; i < operations; i++)
        run_once(sweep, (size_t)iteration * (size_t)operations + (size_t)i);
    if (operations > 1)
        MUST(sweep->team->first_rank, collet_group_end);
    if (sweep->options->blocking == 1 || sweep->options->blocking == 2)
        team_finish(sweep->team);
    if (sweep->options->blocking == 1)
        team_barrier(sweep->team);
}

static void run_iterations(struct sweep *sweep) {
    for (int iteration = 0; iteration < sweep->options->iters; iteration++)
        run_iteration(sweep, iteration);
}

/* The seconds from `begin` until all calls are done. With -C: until all calls have returned. */
static double seconds_since(const struct sweep *sweep, double begin) {
    double called = probe_now_s();
    team_finish(sweep->team);
    return (sweep->options->report_cputime ? called : probe_now_s()) - begin;
}

/* -G: returns the seconds of the launches alone. */
static double time_graphs(struct sweep *sweep) {
    graph_begin(sweep->team);
    run_iterations(sweep);
    void *graph = graph_end(sweep->team);
    team_barrier(sweep->team);
    double begin = probe_now_s();
    for (int launch = 0; launch < sweep->options->graph; launch++)
        graph_launch(sweep->team, graph);
    double seconds = seconds_since(sweep, begin);
    graph_free(sweep->team, graph);
    return seconds / sweep->options->graph;
}

/* Returns the seconds of one operation. Reading the clock takes time, so single iterations are timed only with -I. */
static double time_iterations(struct sweep *sweep, double *iter_us) {
    const struct perf_options *options = sweep->options;
    double operations = (double)options->iters * options->agg_iters;
    if (options->graph)
        return time_graphs(sweep) / operations;
    double begin = probe_now_s();
    if (!iter_us && options->blocking != 3) {
        run_iterations(sweep);
        return seconds_since(sweep, begin) / operations;
    }
    double total = 0;
    for (int iteration = 0; iteration < options->iters; iteration++) {
        double start = probe_now_s();
        run_iteration(sweep, iteration);
        double elapsed = seconds_since(sweep, start);
        total += elapsed;
        if (iter_us)
            iter_us[iteration] = elapsed / options->agg_iters * 1e6;
        if (options->blocking == 3)
            team_barrier(sweep->team);
    }
    return (options->blocking == 3 || options->report_cputime ? total : probe_now_s() - begin) / operations;
}

/* -a: makes one time from the times of all ranks. */
static double agree_on_time(struct sweep *sweep, double seconds) {
    static const enum collet_op ops[] = {COLLET_SUM, COLLET_AVG, COLLET_MIN, COLLET_MAX};
    int average = sweep->options->average;
    if (average == 0) { /* Rank 0's time is the sum of itself and of zeros */
        double *values = perf_allocate((size_t)sweep->team->count * sizeof(*values));
        values[0] = sweep->team->first_rank == 0 ? seconds : 0;
        seconds = team_reduce(sweep->team, values, ops[0]);
        free(values);
        return seconds;
    }
    return team_reduce_same(sweep->team, seconds, ops[average]);
}

/* Only the first check that fails prints wrong elements, because one fault mostly shows in many rows. */
static size_t check_rank(const struct sweep *sweep, int i) {
    struct perf_wrong wrong[2];
    size_t count = verify_check(&sweep->buffers[i], &sweep->calls[i], sweep->seed, wrong);
    if (count > 0 && sweep->summary->failed_checks == 0)
        verify_report(&sweep->buffers[i], &sweep->calls[i], sweep->seed, wrong);
    return count;
}

/* Runs the call in the way that was timed: through a graph or not. */
static void run_checked(struct sweep *sweep) {
    if (!sweep->options->graph) {
        run_once(sweep, 0);
        team_finish(sweep->team);
        return;
    }
    graph_begin(sweep->team);
    run_once(sweep, 0);
    void *graph = graph_end(sweep->team);
    team_finish(sweep->team);  /* Inputs are complete now */
    team_barrier(sweep->team); /* Making a graph might wait for kernels of ranks that were quicker */
    graph_launch(sweep->team, graph);
    team_finish(sweep->team);
    graph_free(sweep->team, graph);
}

/* Up to -c times, makes new inputs, runs one call, and compares every element. Returns the number of wrong elements over all ranks. */
static long long check(struct sweep *sweep) {
    double *wrong = perf_allocate((size_t)sweep->team->count * sizeof(*wrong));
    double total = 0;
    for (int round = 0; round < sweep->options->check && total == 0; round++) {
        fill(sweep);
        run_checked(sweep);
        double own = 0;
        for (int i = 0; i < sweep->team->count; i++) {
            wrong[i] = (double)check_rank(sweep, i);
            own += wrong[i];
        }
        sweep->summary->failed_checks += own > 0;
        total = team_reduce(sweep->team, wrong, COLLET_SUM);
    }
    free(wrong);
    return (long long)total;
}

/* -I: gathers the times of single iterations, of each process and of the slowest process, on all ranks. */
static void gather_iterations(struct sweep *sweep, const double *iter_us, struct perf_half *half) {
    size_t iters = (size_t)sweep->options->iters, count = (size_t)sweep->team->count;
    int nranks = sweep->job->nranks, ranks_per_proc = sweep->job->team.count;
    double *own = perf_allocate(count * iters * sizeof(*own));
    for (size_t i = 0; i < count * iters; i++)
        own[i] = iter_us[i % iters];
    double *all = perf_allocate((size_t)nranks * iters * sizeof(*all));
    team_gather(sweep->team, own, iters * sizeof(*own), all, nranks);

    half->iter_us = perf_allocate(iters * sizeof(double));
    half->proc_iter_us = perf_allocate((size_t)sweep->job->nprocs * iters * sizeof(double));
    for (size_t rank = 0; rank < (size_t)nranks; rank++) {
        double *proc_us = half->proc_iter_us + rank / (size_t)ranks_per_proc * iters;
        for (size_t iteration = 0; iteration < iters; iteration++) {
            double us = all[rank * iters + iteration];
            proc_us[iteration] = us > proc_us[iteration] ? us : proc_us[iteration];
            half->iter_us[iteration] = us > half->iter_us[iteration] ? us : half->iter_us[iteration];
        }
    }
    int skip = sweep->options->per_iter_skip;
    stats_compute(half->iter_us + skip, sweep->options->iters - skip, &half->stats);
    free(own);
    free(all);
}

/* Warms up with the calls of this half, not of later rows. So if a call hangs, all rows before it have been printed. */
static void warm_up(struct sweep *sweep) {
    size_t bytes = row_bytes(&sweep->calls[0]);
    size_t places = smaller(places_of(sweep), (size_t)sweep->options->iters * (size_t)sweep->options->agg_iters);
    for (int i = 0; i < sweep->team->count; i++)
        verify_spread(&sweep->buffers[i], &sweep->calls[i], places * bytes);
    fill(sweep);
    run_once(sweep, 0);
    for (int iteration = 0; iteration < sweep->options->warmup_iters; iteration++)
        run_once(sweep, (size_t)iteration);
    team_finish(sweep->team);
    team_barrier(sweep->team);
}

static void measure_half(struct sweep *sweep, struct perf_half *half) {
    const struct perf_options *options = sweep->options;
    const struct perf_call *call = &sweep->calls[0];
    double *iter_us = options->per_iter ? perf_allocate((size_t)options->iters * sizeof(*iter_us)) : NULL;

    warm_up(sweep);
    double seconds = agree_on_time(sweep, time_iterations(sweep, iter_us));

    half->ran = true;
    half->time_us = seconds * 1e6;
    half->algbw = (double)row_bytes(call) / seconds / 1e9;
    if (call->collective->alg_factor)
        half->algbw *= call->collective->alg_factor(call->nranks);
    half->busbw = half->algbw * call->collective->bus_factor(call->nranks);
    half->checked = options->check > 0;
    half->wrong = check(sweep);
    if (options->per_iter)
        gather_iterations(sweep, iter_us, half);
    sweep->summary->busbw_sum += half->busbw;
    sweep->summary->busbw_count++;
    free(iter_us);
}

/* --------------------------------------------------------------------------------------------------- rows and loops */

static size_t next_size(size_t size, const struct perf_options *options) {
    if (options->step_factor > 1)
        return size ? size * (size_t)options->step_factor : 1;
    return size + options->step_bytes;
}

/* A measure of how long the row of a size takes, for the progress line only. */
static double row_work(size_t size) { return (double)size + 65536; }

/* Asks the first measured communicator for the plan of the row. Sends and receives have no plan. */
static void ask_plan(const struct sweep *sweep, const struct perf_call *call, struct perf_row *row) {
    char text[PERF_PLAN_BYTES];
    if (!call->collective->planned)
        return;
    MUST(sweep->team->first_rank, collet_comm_plan, sweep->team->measured[0], call->collective->planned,
         call->shape.count, call->type->type, text, sizeof(text));
    const char *predicted = strstr(text, "predicted ");
    if (sweep->options->predict && predicted)
        row->predicted_us = atof(predicted + strlen("predicted "));
    if (sweep->options->plan)
        memcpy(row->plan, text, sizeof(text));
}

static void measure_row(struct sweep *sweep, struct perf_call *call, size_t size) {
    bool prints = sweep->team->first_rank == 0;
    call->shape = perf_shape_of(call->collective, size / call->type->bytes, call->type->bytes, call->nranks);
    struct perf_row row = {
        .bytes = row_bytes(call),
        .count = call->shape.count,
        .type = call->collective->input == PERF_NOTHING ? "none" : call->type->name,
        .op = call->collective->has_op ? call->op->name : "none",
        .root = call->collective->has_root ? call->root : -1,
    };
    if (sweep->options->plan || sweep->options->predict)
        ask_plan(sweep, call, &row);
    for (int in_place = 0; in_place <= call->collective->has_in_place; in_place++) {
        if (prints)
            progress_show(sweep->work_done, row.bytes, in_place);
        call->in_place = in_place;
        set_calls(sweep, call);
        measure_half(sweep, &row.halves[in_place]);
        sweep->work_done += row_work(size) / (1 + call->collective->has_in_place);
    }
    if (prints) {
        progress_hide();
        table_row(sweep->options, &row);
        json_row(sweep->job, &row);
        csv_row(sweep->job, &row);
    }
    for (int i = 0; i < 2; i++) {
        free(row.halves[i].iter_us);
        free(row.halves[i].proc_iter_us);
    }
}

/* Measures all sizes for one type, operation and root. */
static void sweep_sizes(struct sweep *sweep, struct perf_call *call) {
    const struct perf_options *options = sweep->options;
    for (int i = 0; i < sweep->team->count; i++)
        verify_unalign(&sweep->buffers[i], (size_t)options->unalign * call->type->bytes);
    team_barrier(sweep->team);
    for (int cycle = 0; cycle < options->cycles || options->cycles == 0; cycle += options->cycles != 0)
        for (size_t size = sweep->job->min_bytes; size <= sweep->job->max_bytes; size = next_size(size, options))
            measure_row(sweep, call, size);
}

static void sweep_roots(struct sweep *sweep, struct perf_call *call) {
    bool all = call->collective->has_root && sweep->options->root == PERF_ALL_ROOTS;
    call->root = all ? 0 : sweep->options->root;
    do {
        sweep_sizes(sweep, call);
    } while (all && ++call->root < call->nranks);
}

static void sweep_ops(struct sweep *sweep, struct perf_call *call) {
    bool all = call->collective->has_op && !sweep->options->op;
    call->op = sweep->options->op ? sweep->options->op : perf_ops;
    do {
        if (!call->collective->has_op || perf_op_takes(call->op, call->type))
            sweep_roots(sweep, call);
    } while (all && (++call->op)->name);
}

static void sweep_types(struct sweep *sweep, struct perf_call *call) {
    bool all = !sweep->options->type && call->collective->input != PERF_NOTHING;
    call->type = !sweep->options->type ? perf_types : sweep->options->type;
    do {
        sweep_ops(sweep, call);
    } while (all && (++call->type)->name);
}

/* The work of all rows of one cycle. */
static double total_work(const struct perf_job *job) {
    const struct perf_options *options = job->options;
    int types = 0, ops = 0;
    while (perf_types[types].name)
        types++;
    while (perf_ops[ops].name)
        ops++;
    double sweeps = options->cycles ? options->cycles : 1;
    sweeps *= options->type ? 1 : types;
    sweeps *= options->op || !job->collective->has_op ? 1 : ops;
    sweeps *= options->root == PERF_ALL_ROOTS && job->collective->has_root ? job->nranks : 1;
    double work = 0;
    for (size_t size = job->min_bytes; size <= job->max_bytes; size = next_size(size, options))
        work += row_work(size);
    return work * sweeps;
}

void sweep_run(struct perf_job *job, const struct perf_team *team, struct perf_summary *summary) {
    struct sweep sweep = {.job = job, .options = job->options, .team = team, .summary = summary};
    sweep.calls = perf_allocate((size_t)team->count * sizeof(*sweep.calls));
    sweep.buffers = perf_allocate((size_t)team->count * sizeof(*sweep.buffers));
    team_group_start(team);
    for (int i = 0; i < team->count; i++)
        verify_allocate(&sweep.buffers[i], job->max_bytes, team->first_rank + i,
                        (enum perf_registered)job->options->registered, team->measured[i]);
    team_group_end(team);
    if (team->first_rank == 0)
        progress_start(total_work(job));

    struct perf_call call = {.collective = job->collective, .nranks = job->nranks};
    sweep_types(&sweep, &call);

    for (int i = 0; i < team->count; i++)
        verify_free(&sweep.buffers[i]);
    free(sweep.buffers);
    free(sweep.calls);
}
