/* SPDX-License-Identifier: Apache-2.0
 *
 * The perf programs: how fast is a collective, and are its results right? Each collective has a file. The other files are shared:
 *
 *   <name>_perf.c   the call, the sizes of its buffers, and its right results    (read all_reduce_perf.c first)
 *   main.c          the whole run: options, processes, communicator, header, sweep, footer
 *   options.c       the command line, with the flags and defaults of nccl-tests
 *   procs.c         --procs: forks local processes and waits for them
 *   job.c           makes the communicator, however the processes were started; learns facts about the ranks
 *   device.c        GPUs, if there are any: memory, streams; graph.c: CUDA graphs of calls
 *   team.c          the ranks that one thread drives: barrier, reductions of small numbers, failures
 *   sweep.c         types × ops × roots × sizes: warm up, time, check
 *   pattern.h       inputs that have one right result in any order of reduction, and that result; pattern.c: types and operations
 *   span.h          the right content of a stretch of memory: filled and checked on the host (span.c) or on a GPU (span_gpu.cu)
 *   verify.c        buffers between guard zones, as spans before a call and after it
 *   table.c         the rows as text; json.c: as JSON; csv.c: as CSV; files.c creates the files of these two
 *   format.c        numbers as text; stats.c: percentiles; progress.c: the progress line on the terminal
 *   probe.c         the machine: CPU model, binding, round trip of a cache line between two CPUs
 *
 * Ranks: there are `procs` processes. Each has `threads` threads, and each thread drives `gpus` ranks. Rank r of a host is on GPU r modulo
 * the number of GPUs. On host memory, a "GPU" of nccl-tests is just one more rank. Rank (process·threads + thread)·gpus + i is the
 * i-th rank of its thread.
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

/* Exit codes: those of nccl-tests, and 2 for an invalid command line. */
enum perf_exit {
    PERF_OK = 0,
    PERF_FAILED = 1,      /* A call of collet or of the operating system failed */
    PERF_BAD_USAGE = 2,   /* The command line is invalid, and nothing was run */
    PERF_BAD_RESULTS = 7, /* Data was wrong, or the run was slower than COLLET_TESTS_MIN_BW allows */
};

/* --------------------------------------------------------------------------------------------------- types and ops */

struct perf_op {
    const char *name;
    enum collet_op op;
    bool for_integers_only;
};

extern const struct type_format perf_types[]; /* All types of collet. This array and the next end with a NULL name */
extern const struct perf_op perf_ops[];
bool perf_op_takes(const struct perf_op *op, const struct type_format *type);
uint64_t pattern_scalar_bits(const struct type_format *type, int rank); /* The scalar of a pre-multiplied sum */

/* ------------------------------------------------------------------------------------------------------ collectives */

/* The sizes of one line of the table, in elements. In place, rank r's input starts at element r·in_place_input of the
 * receive buffer and its result at element r·in_place_output. */
struct perf_shape {
    size_t count;  /* The count argument of the call */
    size_t input;  /* Number of elements of a rank's input */
    size_t output; /* Number of elements of a rank's result */
    size_t in_place_input;
    size_t in_place_output;
};

/* One call by one rank. */
struct perf_call {
    const struct perf_collective *collective;
    const struct type_format *type;
    const struct perf_op *op; /* Ignored if the collective has no operation */
    enum collet_op reduction; /* Operator for op. A pre-multiplied sum is created for each call, as in nccl-tests */
    struct perf_shape shape;
    int root;
    int rank;
    int nranks;
    bool in_place;
    struct collet_comm *comm;
    void *stream; /* NULL: the rank is on host memory */
    const void *send;
    void *recv;
};

/* The origin of an element of the result: element `element` of the input of `rank`, or of the inputs of all ranks, reduced. */
struct perf_origin {
    int rank; /* A rank; or PERF_ALL_RANKS; or PERF_UNTOUCHED: the call must not change the element */
    size_t element;
    size_t run; /* This many successive elements, from this one on, have successive origins. May reach beyond the end */
};

/* The buffers of a collective. */
enum perf_extent {
    PERF_COUNT,     /* The buffer has `count` elements */
    PERF_BLOCKS,    /* The buffer has a block of `count` elements per rank */
    PERF_DISTANCES, /* The buffer has `count` elements, a multiple of 1 + 2 + … + (ranks − 1) */
    PERF_NOTHING,   /* There is no buffer */
};

struct perf_job;
struct perf_collective {
    const char *program;
    const char *function; /* Name of the function, for error messages */
    const char *planned;  /* Name of the collective for collet_comm_plan(); NULL: there is no plan to ask for */
    bool has_op;          /* True: the sweep goes over -o. False: the redop column is "none" */
    bool reduces;         /* True: inputs are made for the operation. False: they are any bits */
    bool has_root;        /* True: the sweep goes over -r. False: the root column is -1 */
    bool has_in_place;    /* True: the collective may run in place */
    enum perf_extent input, output;
    enum collet_result (*run)(const struct perf_call *call);
    struct perf_origin (*origin)(const struct perf_call *call, size_t element);
    double (*bus_factor)(int nranks); /* busbw ÷ algbw: traffic on the busiest link per byte of the operation */
    double (*alg_factor)(int nranks); /* algbw ÷ (size ÷ time); NULL: 1 */
    /* Returns why the collective cannot run with these ranks, or NULL: it can. If the pointer is NULL, it always can. */
    const char *(*refuses)(const struct perf_job *job);
};

/* Origins that several collectives share. gathered: block s comes from rank s. scattered: each rank gets its block of rank `from`. */
struct perf_origin perf_origin_gathered(const struct perf_call *call, size_t element);
struct perf_origin perf_origin_scattered(const struct perf_call *call, int from, size_t element);

/* The sizes for a line of elements·type_bytes bytes. Blocks are multiples of 16 bytes, as in nccl-tests. */
struct perf_shape perf_shape_of(const struct perf_collective *collective, size_t elements, size_t type_bytes,
                                int nranks);
/* The number of elements of a unit: if blocks differ, they are 1, 2 … ranks − 1 units long. */
size_t perf_unit_of(const struct perf_call *call);
double perf_bus_factor_one(int nranks);
double perf_bus_factor_blocks(int nranks); /* (n−1)/n: all blocks travel, except a rank's own */

int perf_main(const struct perf_collective *collective, int argc, char **argv);

/* ---------------------------------------------------------------------------------------------------------- options */

enum { PERF_ALL_ROOTS = -1 };

struct perf_options {
    int procs; /* Number of processes to fork; 0: none, the launcher has started all processes */
    int threads, gpus;
    size_t min_bytes, max_bytes, step_bytes;
    int step_factor; /* Factor from size to size, if > 1. Otherwise step_bytes is added */
    int iters, warmup_iters, agg_iters, cycles;
    int parallel_init, check, root, blocking, timeout_s;
    const struct type_format *type; /* NULL: all types */
    const struct perf_op *op;       /* NULL: all operations */
    int report_cputime, report_timestamps, average, memory, unalign;
    int per_iter, per_iter_skip, plan, predict;
    int registered;                                                  /* enum perf_registered */
    int on_host;                                                     /* 1: use host memory, even if there are GPUs */
    int graph;                                                       /* Number of launches of a graph; 0: no graph */
    int stream_null, cta_policy, device_implementation, device_ctas; /* Flags that accept only their defaults */
    const char *json_path, *csv_path;
    char **argv;
};

/* Fills *options. False: the command line is invalid, and a line that names the flag was printed. Ends the program after -h and
 * --version. */
bool options_parse(int argc, char **argv, struct perf_options *options);

/* -------------------------------------------------------------------------------------------------- ranks and teams */

/* The ranks that one thread drives: first_rank … first_rank+count−1. If there are several, the thread calls them in groups. */
struct perf_team {
    struct collet_comm **comms; /* Communicators on host memory, for all calls that are not measured */
    int first_rank;
    int count;
    struct collet_comm **measured; /* Communicators that are measured: on GPUs, or equal to comms */
    void **streams;                /* Streams of measured calls; all NULL: the ranks are on host memory */
};

/* A rank's GPU, with the names that nccl-tests and nvidia-smi use. */
struct perf_gpu {
    int ordinal;           /* −1: the rank is on host memory, and all other fields are 0 */
    uint64_t memory_bytes; /* Size of its memory */
    char name[96], bus[24], uuid[48];
};

/* CUDA graphs, captured from calls in a stream (graph.c). */
struct perf_graphs {
    void (*begin)(void *stream);
    /* Later work in the stream `then` waits for the work that is in the stream `first`. The GPU of `first` must be current. */
    void (*order)(void *first, void *then);
    void *(*end)(void *stream); /* Returns a graph that can be launched */
    void (*launch)(void *graph, void *stream);
    void (*release)(void *graph);
};

/* Functions for measured buffers on GPUs. Each thread has a current GPU. Failures end the program. */
struct perf_device {
    int (*count)(void); /* Number of GPUs; 0 also if there is no driver */
    void (*describe)(int gpu, struct perf_gpu *out);
    void (*use)(int gpu); /* Makes the GPU current */
    void *(*allocate)(size_t bytes);
    void (*release)(void *memory);
    void *(*stream)(void); /* Creates a stream, and loads the kernels that fill and check (see span_gpu_load()) */
    void (*wait)(void *stream);
    /* These run in the order of the stream. read() also waits until the data has come. */
    void (*read)(void *to, const void *from, size_t bytes, void *stream);
    void (*clear)(void *memory, size_t bytes, void *stream);
    void (*fill)(void *memory, const struct perf_pattern *pattern, const struct perf_span *span, void *stream);
    void (*check)(const void *memory, const struct perf_pattern *pattern, const struct perf_span *span,
                  struct perf_wrong *wrong, void *stream);
    const struct perf_graphs *graphs;
};
/* NULL: the build has no CUDA, there is no GPU, or --device host was given (device.c). */
extern const struct perf_device *perf_device;
struct perf_job;
void device_choose(const struct perf_job *job);
int device_of(int rank); /* The GPU of a rank of this process */

/* -G: between begin and end the calls of a team are not run, but captured as a graph. The graph is launched in the stream of the first
 * rank, while the other streams are idle. */
void graph_begin(const struct perf_team *team);
void *graph_end(const struct perf_team *team);
void graph_launch(const struct perf_team *team, void *graph);
void graph_free(const struct perf_team *team, void *graph);

void team_finish(const struct perf_team *team);      /* Waits until all calls are done */
void team_group_start(const struct perf_team *team); /* This and team_group_end() do nothing for a team of one */
void team_group_end(const struct perf_team *team);
/* Every team of the job must call these. values[i]: the value of the team's i-th rank. */
double team_reduce(const struct perf_team *team, const double *values, enum collet_op op);
/* Every rank of the team gives `value`. */
double team_reduce_same(const struct perf_team *team, double value, enum collet_op op);
void team_barrier(const struct perf_team *team);
/* Gathers a row of `bytes` bytes from every rank. row: the rows of the team's ranks, one after the other. The row of rank r goes to rows +
 * r·bytes. */
void team_gather(const struct perf_team *team, const void *row, size_t bytes, void *rows, int nranks);

/* Calls function(…) for a rank. A failure ends the process, after a line "rank R: function: kind: cause". */
#define MUST(rank, function, ...) team_must((rank), #function, function(__VA_ARGS__))
void team_must(int rank, const char *function, enum collet_result result);
void *perf_allocate(size_t bytes); /* Zeroed memory, aligned to 64 bytes. Ends the process if there is no memory */

enum { PERF_TEXT_BYTES = 64 };

/* Facts about a rank. They are gathered from all ranks. */
struct perf_card {
    int pid, cpu_count;
    int first_cpu, second_cpu; /* The first two CPUs that the rank may use. second_cpu −1: there is only one */
    uint64_t memory_bytes;     /* Memory of the host */
    char host[PERF_TEXT_BYTES], cpu_model[PERF_TEXT_BYTES], cpus[PERF_TEXT_BYTES];
    char transports[PERF_TEXT_BYTES]; /* Transports by which the rank reaches others */
    struct perf_gpu gpu;
};

/* The summary of a sweep. */
struct perf_summary {
    int failed_checks; /* Number of halves with wrong data, added up over threads */
    double busbw_sum;
    int busbw_count;
    double init_bytes, buffer_bytes, sweep_bytes; /* Memory of the process that took most */
    double first_call_us;                         /* Time of the first call of all, which connects ranks */
};

struct json;

/* One process's view of the run. */
struct perf_job {
    const struct perf_collective *collective;
    const struct perf_options *options;
    int proc, nprocs, nranks;
    /* Pipe from which a process forked by --procs reads the unique id; −1: there is none. */
    int id_pipe;
    struct perf_team team;       /* All ranks of this process */
    struct perf_card *cards;     /* [rank]: card of the rank */
    size_t min_bytes, max_bytes; /* Sizes of the options, or less if memory is short */
    double round_trip_ns;        /* Round trip of a cache line between two CPUs; 0: there is one CPU */
    double min_busbw;            /* Minimum that the environment demands; < 0: it demands none */
    struct json *json;           /* NULL: no JSON file is wanted, or this process does not have rank 0 */
    FILE *csv;                   /* NULL: no CSV file is wanted, or this process does not have rank 0 */
};

void job_join(struct perf_job *job);      /* Makes the communicators */
void job_introduce(struct perf_job *job); /* Fills cards, min_bytes and max_bytes */
void job_leave(struct perf_job *job);
bool job_prints(const struct perf_job *job); /* Does this process have rank 0? */
/* Rank 0 measures the round trip of a cache line, while the other ranks are quiet and get 0. */
double job_probe(const struct perf_job *job);
/* Runs a function for each thread of this process, and waits for all. The calling thread is thread 0. */
typedef void job_function(struct perf_job *job, const struct perf_team *team, int thread, void *context);
void job_run_threads(struct perf_job *job, job_function *function, void *context);

/* Forks `count` processes. In a child it returns true, with job->proc, nprocs and id_pipe set. In the parent, which runs no
 * rank, it returns false after all children have ended. *exit_code: the exit code for main(). */
bool procs_fork(struct perf_job *job, int count, int *exit_code);
void procs_receive_id(const struct perf_job *job, struct collet_unique_id *id);

/* ---------------------------------------------------------------------------------------------------------- buffers */

/* How are buffers made known to collet? Except for NOT_REGISTERED, they come from collet_mem_alloc(). */
enum perf_registered { PERF_NOT_REGISTERED, PERF_REGISTERED, PERF_IN_WINDOWS };

/* A rank's two buffers, each long enough for the largest line, between guard zones that no call may touch. */
struct perf_buffers {
    unsigned char *memory[2]; /* Allocated memory for send and receive, on the host or on a GPU */
    unsigned char *send, *recv;
    struct perf_wrong *found; /* GPU memory in which kernels count wrong elements; NULL: the rank is on host memory */
    enum perf_registered registered;
    struct collet_comm *comm; /* Communicator with which they are registered */
    struct collet_registration *registrations[2];
    struct collet_window *windows[2];
};

enum { VERIFY_MAX_UNALIGN = 4096, VERIFY_FOUND_BYTES = 4 * sizeof(struct perf_wrong) };
/* comm: the communicator of the calls that use the buffers. All ranks must make windows. The windows exist when the team's group has
 * ended. */
void verify_allocate(struct perf_buffers *buffers, size_t max_bytes, int rank, enum perf_registered registered,
                     struct collet_comm *comm);
/* Moves both buffers by `bytes`, at most VERIFY_MAX_UNALIGN. */
void verify_unalign(struct perf_buffers *buffers, size_t bytes);
void verify_free(struct perf_buffers *buffers);
size_t verify_allocated_bytes(size_t max_bytes); /* The size of one rank's two buffers together */
/* Points call->send and call->recv into the buffers, at offset `shift`. */
void verify_aim(const struct perf_buffers *buffers, size_t shift, struct perf_call *call);
/* Writes the inputs of a call (aimed with shift 0), and guard bytes everywhere else. On GPUs, this and the check
 * run in the call's stream. */
void verify_fill(const struct perf_buffers *buffers, const struct perf_call *call, uint64_t seed);
/* On GPUs: writes the first `bytes` of both buffers, for calls that use other parts of the buffers. On the host, buffers were written when
 * they were allocated. */
void verify_spread(const struct perf_buffers *buffers, const struct perf_call *call, size_t bytes);
/* Call it after the call: returns the number of wrong elements among results, inputs and guard zones. Waits for the stream.
 * wrong: what was found in the send buffer, and in the receive buffer. Places count from the buffer's first guard on. */
size_t verify_check(const struct perf_buffers *buffers, const struct perf_call *call, uint64_t seed,
                    struct perf_wrong wrong[2]);
/* Prints some of the wrong elements to standard error, one per line. */
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
    long long wrong;              /* Number of wrong elements over all ranks */
    struct perf_stats stats;      /* With -I: statistics of iter_us */
    double *iter_us;              /* With -I: [iteration]: time of the slowest process, in µs */
    double *proc_iter_us;         /* With -I: [process][iteration]: time, in µs */
};

enum { PERF_PLAN_BYTES = 128 };
struct perf_row {
    size_t bytes, count;
    const char *type, *op;
    int root;
    char plan[PERF_PLAN_BYTES]; /* The plan with --plan 1, else "" */
    double predicted_us;        /* The predicted time with --predict 1; 0: the cost model does not know it */
    struct perf_half halves[2]; /* Out of place, in place */
};

/* Runs the whole sweep for one thread's ranks. Every thread of every process must call this at the same time. */
void sweep_run(struct perf_job *job, const struct perf_team *team, struct perf_summary *summary);

/* --------------------------------------------------------------------------------------------------------- printers */

void table_header(const struct perf_job *job);
void table_columns(const struct perf_job *job);
void table_row(const struct perf_options *options, const struct perf_row *row);
void table_footer(const struct perf_job *job, const struct perf_summary *summary, double round_trip_after_ns);

/* Creates the file `path` or, if it exists, path.0, path.1 …, and prints its name. NULL: no file could be created, and a line that says why
 * was printed. */
FILE *files_create(const char *path);

/* These do nothing if no such file is wanted. */
void csv_header(const struct perf_job *job);
void csv_row(const struct perf_job *job, const struct perf_row *row);
struct json *json_create(const char *path);
void json_header(const struct perf_job *job);
void json_row(const struct perf_job *job, const struct perf_row *row);
void json_footer(const struct perf_job *job, const struct perf_summary *summary, double round_trip_after_ns);

double summary_busbw(const struct perf_summary *summary); /* The mean over all halves of all lines */
bool summary_is_slow(const struct perf_summary *summary, double min_busbw);

enum { FORMAT_WIDTH = 32 };
/* Writes a number right-aligned in `width` columns, with 2 decimals. If it does not fit, it gets fewer decimals, and at last an
 * exponent. */
void format_number(double value, int width, char text[FORMAT_WIDTH]);
void format_memory(double bytes, char text[FORMAT_WIDTH]); /* "1.50 MB" */
void format_time(char text[FORMAT_WIDTH]);                 /* The present local time */
bool format_parse_size(const char *text, size_t *bytes);   /* "64", "1.5K", "32M", "2g" */

/* A line on the terminal that shows the progress of the sweep. It is shown only if standard error is a terminal, and only after a while. */
void progress_start(double total);
void progress_show(double done, size_t bytes, bool in_place);
void progress_hide(void);

/* ---------------------------------------------------------------------------------------------------------- machine */

void probe_card(struct perf_card *card); /* Fills the card of the calling process */
/* The round trip of a cache line between two CPUs, in ns: the best one in 2 ms. 0: the CPUs cannot be used. */
double probe_round_trip_ns(int cpu_a, int cpu_b);
const char *probe_class(double round_trip_ns); /* "near", "far" or "one CPU" */
double probe_resident_bytes(void);             /* Memory that this process has touched and still holds */
double probe_now_s(void);

#endif
