/* SPDX-License-Identifier: Apache-2.0
 *
 * The perf programs: how fast is a collective, and are its results right? One file a collective, the rest is shared:
 *
 *   <name>_perf.c   what is called, how large its buffers are, which results it owes    (read all_reduce_perf.c first)
 *   main.c          the order of things: options, processes, communicator, header, sweep, footer
 *   options.c       the command line, with the flags and defaults of nccl-tests
 *   procs.c         --procs: forks local processes and watches over them
 *   job.c           makes the communicator, whoever started the processes; learns who the ranks are
 *   device.c        GPUs, where there are any: memory, streams; graph.c CUDA graphs of calls
 *   team.c          the ranks that one thread drives: barrier, reductions of small numbers, failures
 *   sweep.c         types × ops × roots × sizes: warm up, time, check
 *   pattern.h       inputs that have one right result in any order of reduction, and that result; pattern.c tables of them
 *   span.h          what a stretch of memory must hold: filled and checked on the host (span.c) or on a GPU (span_gpu.cu)
 *   verify.c        buffers between guard zones, as spans before a call and after it
 *   table.c         the rows as text; json.c as JSON, csv.c as CSV; files.c creates the files of these two
 *   format.c        their numbers; stats.c percentiles; progress.c the terminal
 *   probe.c         the machine: CPU model, binding, round trip of a cache line between two CPUs
 *
 * Ranks: `procs` processes of `threads` threads that drive `gpus` ranks each; rank r of a host is on GPU r modulo their
 * number; on host memory a "GPU" of nccl-tests is just one more rank. Rank (process·threads + thread)·gpus + i is the
 * i-th of its thread.
 */
#ifndef COLLET_EXAMPLES_PERF_H
#define COLLET_EXAMPLES_PERF_H

#include "base/types.h"
#include "collet.h"
#include "span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes: those of nccl-tests, and 2 for a command line that cannot be obeyed. */
enum perf_exit {
    PERF_OK = 0,
    PERF_FAILED = 1,      /* a call into collet or the operating system failed */
    PERF_BAD_USAGE = 2,   /* nothing was run */
    PERF_BAD_RESULTS = 7, /* wrong data, or slower than COLLET_TESTS_MIN_BW allows */
};

/* --------------------------------------------------------------------------------------------------- types and ops */

struct perf_op {
    const char *name;
    enum collet_op op;
    bool for_integers_only;
};

extern const struct type_format perf_types[]; /* all of collet; ends with a NULL name, as the next does */
extern const struct perf_op perf_ops[];
bool perf_op_takes(const struct perf_op *op, const struct type_format *type);
uint64_t pattern_scalar_bits(const struct type_format *type, int rank); /* of a pre-multiplied sum */

/* ------------------------------------------------------------------------------------------------------ collectives */

/* What one line of the table asks for, in elements. In place, rank r's input starts at element r·in_place_input of the
 * receive buffer and its result at element r·in_place_output. */
struct perf_shape {
    size_t count;  /* the count argument of the call */
    size_t input;  /* elements a rank puts in */
    size_t output; /* elements a rank gets */
    size_t in_place_input;
    size_t in_place_output;
};

/* One call by one rank. */
struct perf_call {
    const struct perf_collective *collective;
    const struct type_format *type;
    const struct perf_op *op; /* of no meaning where the collective has none */
    enum collet_op reduction; /* of op; a pre-multiplied sum is created for each call, as nccl-tests does it */
    struct perf_shape shape;
    int root;
    int rank;
    int nranks;
    bool in_place;
    struct collet_comm *comm;
    void *stream; /* NULL on host memory */
    const void *send;
    void *recv;
};

/* Where an element of the result comes from: element `element` of the inputs of `rank`, or of all ranks reduced. */
struct perf_origin {
    int rank; /* or PERF_ALL_RANKS, or PERF_UNTOUCHED: the call must leave it as it was */
    size_t element;
    size_t run; /* this one and the following are so many elements in a row; may reach beyond the end */
};

/* The buffers of a collective. */
enum perf_extent {
    PERF_COUNT,     /* as long as its count */
    PERF_BLOCKS,    /* one block of that length per rank */
    PERF_DISTANCES, /* as long as its count, which is a multiple of 1 + 2 + … + (ranks − 1) */
    PERF_NOTHING,   /* there are none */
};

struct perf_job;
struct perf_collective {
    const char *program;
    const char *function; /* for error messages */
    const char *planned;  /* as collet_comm_plan() calls it; NULL: there is no plan to ask for */
    bool has_op;          /* sweeps over -o; the redop column is "none" otherwise */
    bool reduces;         /* inputs are made for the op, not just any bits */
    bool has_root;        /* sweeps over -r; the root column is -1 otherwise */
    bool has_in_place;    /* a rank's block then lies where it does among the blocks of the other buffer */
    enum perf_extent input, output;
    enum collet_result (*run)(const struct perf_call *call);
    struct perf_origin (*origin)(const struct perf_call *call, size_t element);
    double (*bus_factor)(int nranks); /* busbw ÷ algbw: traffic on the busiest link per byte of the operation */
    double (*alg_factor)(int nranks); /* algbw ÷ (size ÷ time); NULL: 1 */
    const char *(*refuses)(
        const struct perf_job *job); /* why it cannot run with such ranks, or NULL; NULL: it always can */
};

/* Origins that two collectives share: block s is from rank s, or the blocks of `from` are dealt out to the ranks. */
struct perf_origin perf_origin_gathered(const struct perf_call *call, size_t element);
struct perf_origin perf_origin_scattered(const struct perf_call *call, int from, size_t element);

/* For a line of elements·type_bytes. Blocks are multiples of 16 bytes, as with nccl-tests. */
struct perf_shape perf_shape_of(const struct perf_collective *collective, size_t elements, size_t type_bytes,
                                int nranks);
/* Where blocks differ they are 1, 2 … ranks − 1 units long; of how many elements is a unit? */
size_t perf_unit_of(const struct perf_call *call);
double perf_bus_factor_one(int nranks);
double perf_bus_factor_blocks(int nranks); /* (n−1)/n: all blocks travel, except a rank's own */

int perf_main(const struct perf_collective *collective, int argc, char **argv);

/* ---------------------------------------------------------------------------------------------------------- options */

enum { PERF_ALL_ROOTS = -1 };

struct perf_options {
    int procs; /* 0: one process, or as the launcher says */
    int threads, gpus;
    size_t min_bytes, max_bytes, step_bytes;
    int step_factor; /* used if > 1, else step_bytes */
    int iters, warmup_iters, agg_iters, cycles;
    int parallel_init, check, root, blocking, timeout_s;
    const struct type_format *type; /* NULL: all */
    const struct perf_op *op;       /* NULL: all */
    int report_cputime, report_timestamps, average, memory, unalign;
    int per_iter, per_iter_skip, plan, predict;
    int registered;                                                  /* enum perf_registered */
    int on_host;                                                     /* even if there are GPUs */
    int graph;                                                       /* launches of a graph; 0: none */
    int stream_null, cta_policy, device_implementation, device_ctas; /* only their defaults */
    const char *json_path, *csv_path;
    char **argv;
};

/* Fills *options. False after a one-line complaint that names the flag. Ends the program after -h and --version. */
bool options_parse(int argc, char **argv, struct perf_options *options);

/* -------------------------------------------------------------------------------------------------- ranks and teams */

/* The ranks that one thread drives, first_rank … first_rank+count−1, through groups when there are several. */
struct perf_team {
    struct collet_comm **comms; /* on host memory: for all that is not measured */
    int first_rank;
    int count;
    struct collet_comm **measured; /* on GPUs, or the same */
    void **streams;                /* theirs; all NULL on host memory */
};

/* As nccl-tests and nvidia-smi call it. */
struct perf_gpu {
    int ordinal;           /* −1: none, the rank is on host memory; all else is then 0 */
    uint64_t memory_bytes; /* of it */
    char name[96], bus[24], uuid[48];
};

/* CUDA graphs of what is called in a stream (graph.c). */
struct perf_graphs {
    void (*begin)(void *stream);
    void (*order)(void *first,
                  void *then);  /* what comes in `then` waits for what is in `first`, whose GPU is current */
    void *(*end)(void *stream); /* ready to be launched */
    void (*launch)(void *graph, void *stream);
    void (*release)(void *graph);
};

/* Where measured buffers are when they are not the host's: GPUs, one of which is a thread's current one. Failures end the
 * program. */
struct perf_device {
    int (*count)(void); /* GPUs; 0 also if there is no driver */
    void (*describe)(int gpu, struct perf_gpu *out);
    void (*use)(int gpu); /* makes it the current one */
    void *(*allocate)(size_t bytes);
    void (*release)(void *memory);
    void *(*stream)(void); /* a new one; loads the kernels that fill and check, so that no first use of them waits */
    void (*wait)(void *stream);
    /* In the order of a stream; what is read is there on return. */
    void (*read)(void *to, const void *from, size_t bytes, void *stream);
    void (*clear)(void *memory, size_t bytes, void *stream);
    void (*fill)(void *memory, const struct perf_pattern *pattern, const struct perf_span *span, void *stream);
    void (*check)(const void *memory, const struct perf_pattern *pattern, const struct perf_span *span,
                  struct perf_wrong *wrong, void *stream);
    const struct perf_graphs *graphs;
};
/* NULL in a build without CUDA, and if there is no GPU or --device host was given (device.c). */
extern const struct perf_device *perf_device;
struct perf_job;
void device_choose(const struct perf_job *job);
int device_of(int rank); /* the GPU of a rank of this process */

/* -G: between begin and end the calls of a team are not run, but kept as a graph. It is launched in the stream of the first rank, when
 * the others have nothing to do. */
void graph_begin(const struct perf_team *team);
void *graph_end(const struct perf_team *team);
void graph_launch(const struct perf_team *team, void *graph);
void graph_free(const struct perf_team *team, void *graph);

void team_finish(const struct perf_team *team);      /* until all that was called is done */
void team_group_start(const struct perf_team *team); /* no-ops for a team of one */
void team_group_end(const struct perf_team *team);
/* Every team of the job calls these; values[i] is what the team's i-th rank gives. */
double team_reduce(const struct perf_team *team, const double *values, enum collet_op op);
double team_reduce_same(const struct perf_team *team, double value, enum collet_op op); /* every rank gives value */
void team_barrier(const struct perf_team *team);
/* rows[r·bytes] = the row that rank r gave; row holds one after the other those of the team's ranks. */
void team_gather(const struct perf_team *team, const void *row, size_t bytes, void *rows, int nranks);

/* Calls function(…) for a rank; a failure ends the process with one line: "rank R: function: kind: cause". */
#define MUST(rank, function, ...) team_must((rank), #function, function(__VA_ARGS__))
void team_must(int rank, const char *function, enum collet_result result);
void *perf_allocate(size_t bytes); /* zeroed, 64-byte aligned; ends the process when there is no memory */

enum { PERF_TEXT_BYTES = 64 };

/* Who a rank is; gathered from all ranks. */
struct perf_card {
    int pid, cpu_count;
    int first_cpu, second_cpu; /* of those allowed; second −1 if there is only one */
    uint64_t memory_bytes;     /* of the host */
    char host[PERF_TEXT_BYTES], cpu_model[PERF_TEXT_BYTES], cpus[PERF_TEXT_BYTES];
    char transports[PERF_TEXT_BYTES]; /* by which the rank reaches others */
    struct perf_gpu gpu;
};

/* What a sweep amounts to. */
struct perf_summary {
    int failed_checks; /* one for each thread and half that saw wrong data */
    double busbw_sum;
    int busbw_count;
    double init_bytes, buffer_bytes, sweep_bytes; /* memory, of the process that took most */
    double first_call_us;                         /* of the first row; it connects ranks */
};

struct json;

/* One process's view of the run. */
struct perf_job {
    const struct perf_collective *collective;
    const struct perf_options *options;
    int proc, nprocs, nranks;
    int id_pipe;                 /* forked by --procs: where the unique id comes from; else −1 */
    struct perf_team team;       /* all ranks of this process */
    struct perf_card *cards;     /* of all ranks */
    size_t min_bytes, max_bytes; /* of options, less where memory is short */
    double round_trip_ns;        /* of a cache line between two CPUs; 0: one CPU */
    double min_busbw;            /* demanded by the environment; < 0: nothing */
    struct json *json;           /* NULL: none, or not rank 0 */
    FILE *csv;                   /* the same */
};

void job_join(struct perf_job *job);      /* makes the communicators */
void job_introduce(struct perf_job *job); /* fills cards, min_bytes and max_bytes */
void job_leave(struct perf_job *job);
bool job_prints(const struct perf_job *job); /* whether this process has rank 0 */
/* Rank 0 measures the round trip of a cache line, while the others are quiet and get 0. */
double job_probe(const struct perf_job *job);
/* Runs function for each thread of this process, thread 0 in the calling one, and waits for all. */
typedef void job_function(struct perf_job *job, const struct perf_team *team, int thread, void *context);
void job_run_threads(struct perf_job *job, job_function *function, void *context);

/* Forks count processes. In a child: returns true with job->proc, nprocs and id_pipe set. In the parent, which runs no
 * rank, returns false after all children have ended, with the exit code for main. */
bool procs_fork(struct perf_job *job, int count, int *exit_code);
void procs_receive_id(const struct perf_job *job, struct collet_unique_id *id);

/* ---------------------------------------------------------------------------------------------------------- buffers */

/* How calls know the buffers. All but the first are of collet_mem_alloc(). */
enum perf_registered { PERF_NOT_REGISTERED, PERF_REGISTERED, PERF_IN_WINDOWS };

/* A rank's two buffers, each long enough for the largest line, between guard zones that no call may touch. */
struct perf_buffers {
    unsigned char *memory[2]; /* as allocated: send, receive; on GPUs, a GPU's */
    unsigned char *send, *recv;
    struct perf_wrong *found; /* on GPUs, a GPU's: what kernels count; else NULL */
    enum perf_registered registered;
    struct collet_comm *comm; /* with which they are */
    struct collet_registration *registrations[2];
    struct collet_window *windows[2];
};

enum { VERIFY_MAX_UNALIGN = 4096, VERIFY_FOUND_BYTES = 4 * sizeof(struct perf_wrong) };
/* comm: of the calls that use them. Windows are there when the team's group has ended, and all ranks make them. */
void verify_allocate(struct perf_buffers *buffers, size_t max_bytes, int rank, enum perf_registered registered,
                     struct collet_comm *comm);
void verify_unalign(struct perf_buffers *buffers, size_t bytes); /* moves both by bytes, at most VERIFY_MAX_UNALIGN */
void verify_free(struct perf_buffers *buffers);
size_t verify_allocated_bytes(size_t max_bytes); /* of one rank's two buffers */
/* Points call->send and call->recv into the buffers, `shift` bytes in. */
void verify_aim(const struct perf_buffers *buffers, size_t shift, struct perf_call *call);
/* Writes the inputs of the call (aimed with shift 0), and guard bytes wherever no input is. On GPUs, this and the check
 * are ordered with the call by its stream. */
void verify_fill(const struct perf_buffers *buffers, const struct perf_call *call, uint64_t seed);
/* On GPUs: writes the first bytes of both buffers, for calls that are aimed elsewhere. On the host they were written when
 * they were allocated. */
void verify_spread(const struct perf_buffers *buffers, const struct perf_call *call, size_t bytes);
/* After the call: how many elements are not what they have to be, results, inputs and surroundings. Waits for the stream.
 * wrong: of the send and of the receive buffer; places count from its guard on. */
size_t verify_check(const struct perf_buffers *buffers, const struct perf_call *call, uint64_t seed,
                    struct perf_wrong wrong[2]);
/* Some of the wrong elements, a line each, to standard error. */
void verify_report(const struct perf_buffers *buffers, const struct perf_call *call, uint64_t seed,
                   const struct perf_wrong wrong[2]);

/* --------------------------------------------------------------------------------------------------- rows and sweep */

struct perf_stats {
    double min, max, average, p50, p95, p99, deviation;
};
void stats_compute(const double *samples, int count, struct perf_stats *stats);

/* One half of a line: out of place or in place. */
struct perf_half {
    bool ran, checked;
    double time_us, algbw, busbw; /* GB/s, 1 GB = 1e9 bytes */
    long long wrong;              /* elements, over all ranks */
    struct perf_stats stats;      /* with -I, in µs, of the slowest process of each iteration … */
    double *iter_us;              /* … of which these are the times: iters */
    double *proc_iter_us;         /* and these those of each process: nprocs·iters */
};

enum { PERF_PLAN_BYTES = 128 };
struct perf_row {
    size_t bytes, count;
    const char *type, *op;
    int root;
    char plan[PERF_PLAN_BYTES]; /* with --plan 1, else "" */
    double predicted_us;        /* with --predict 1; 0: the cost model does not know */
    struct perf_half halves[2]; /* out of place, in place */
};

/* Runs the whole sweep for one thread's ranks; every thread of every process does the same at the same time. */
void sweep_run(struct perf_job *job, const struct perf_team *team, struct perf_summary *summary);

/* --------------------------------------------------------------------------------------------------------- printers */

void table_header(const struct perf_job *job);
void table_columns(const struct perf_job *job);
void table_row(const struct perf_options *options, const struct perf_row *row);
void table_footer(const struct perf_job *job, const struct perf_summary *summary, double round_trip_after_ns);

/* Creates path or, where that exists, path.0, path.1 …, and says which. NULL, after a line that says why, if no file could
 * be made. */
FILE *files_create(const char *path);

/* Without a file these do nothing. */
void csv_header(const struct perf_job *job);
void csv_row(const struct perf_job *job, const struct perf_row *row);
struct json *json_create(const char *path);
void json_header(const struct perf_job *job);
void json_row(const struct perf_job *job, const struct perf_row *row);
void json_footer(const struct perf_job *job, const struct perf_summary *summary, double round_trip_after_ns);

double summary_busbw(const struct perf_summary *summary); /* mean over all halves of all lines */
bool summary_is_slow(const struct perf_summary *summary, double min_busbw);

enum { FORMAT_WIDTH = 32 };
/* Writes value right-aligned in width columns with 2 decimals, fewer when it does not fit, at last with an exponent. */
void format_number(double value, int width, char text[FORMAT_WIDTH]);
void format_memory(double bytes, char text[FORMAT_WIDTH]); /* "1.50 MB" */
void format_time(char text[FORMAT_WIDTH]);                 /* now, local time */
bool format_parse_size(const char *text, size_t *bytes);   /* "64", "1.5K", "32M", "2g" */

/* A line on the terminal about how far the sweep is, shown only when standard error is one and only after a while. */
void progress_start(double total);
void progress_show(double done, size_t bytes, bool in_place);
void progress_hide(void);

/* ---------------------------------------------------------------------------------------------------------- machine */

void probe_card(struct perf_card *card); /* of the calling process */
/* The round trip of a cache line between two CPUs, in ns, the best of 2 ms; 0 if they cannot be used. */
double probe_round_trip_ns(int cpu_a, int cpu_b);
const char *probe_class(double round_trip_ns); /* "near", "far" or "one CPU" */
double probe_resident_bytes(void);             /* memory this process has touched and still holds */
double probe_now_s(void);

#endif
