/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the acceptance share: how they report (accept_report.c), the ranks they run (accept_team.c), and the cases
 * they check (accept_case.c on the GPU, accept_mirror.c on the host). test_accept.c has the table of the parts.
 */
#ifndef COLLET_TESTS_ACCEPT_H
#define COLLET_TESTS_ACCEPT_H

#include "collet.h"
#include "common/gpu_side.h"
#include "common/trial.h"

#include <stdbool.h>
#include <stdint.h>

struct accept_kernels;
struct expect_region;
extern const struct gpu_side *side;
extern const struct accept_kernels *kernels;
extern bool slow;        /* what it runs on is slow: small sizes and few rounds */
extern int ngpus;        /* to be used; a part that forks counts them in its children */
extern int part_seconds; /* for each part that repeats itself; 0: once through */

/* ---- accept_report.c: what is said, and when ---- */

/* Every two seconds a line says how far the part is. If the part is ended by a signal, the last line says it, too. */
void report_begin(const char *part, uint64_t seed);
int report_end(void);          /* prints the part's line; how many cases were wrong */
void report_expect(int cases); /* so many more will come */
void report_doing(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* for the line of every two seconds */
int report_failures(void);
bool report_time_is_up(void);
unsigned report_seconds_left(void); /* of part_seconds, if there are any */

void judge(bool right, const char *name, const char *why);
void must(enum collet_result result, const char *what);

/* A line for people, and one for programs in the file of --results. What was not measured is 0, times are in microseconds. */
struct figure {
    const char *part, *mode, *plan;
    int nranks;
    size_t bytes;
    double predicted_us, measured_us, limit_us;
};
extern const char *report_results;
void report_figure(const struct figure *figure);

void random_seed(uint64_t seed);
uint64_t random_now(void);
uint32_t random_below(uint32_t n);

/* ---- accept_team.c: all ranks in this thread ---- */

#define RANKS 4 /* of a team, unless a part says otherwise */
#define RANKS_MOST 8

struct team {
    int nranks;
    struct collet_comm *comms[RANKS_MOST];
    void *streams[RANKS_MOST];
};

int team_gpu(const struct team *team, int rank);
void team_create(struct team *team, int nranks, const char *protocol); /* "": as the library chooses */
void team_destroy(struct team *team);
void team_wait(const struct team *team);

/* A number of each rank, on its GPU. */
struct numbers {
    float *of[RANKS_MOST];
};
struct numbers ones(const struct team *team);
void numbers_free(const struct team *team, struct numbers *numbers);
void sum_some(const struct team *team, int nranks, const struct numbers *numbers, void *const *streams);
void sum_once(const struct team *team, const struct numbers *numbers, void *const *streams);
void expect(const struct team *team, const char *name, const struct numbers *numbers, float expected);

/* ---- cases ---- */

size_t random_count(void);
struct trial_call call_of(enum prog_collective collective, int type, int op, bool in_place, int nranks);

/* A trial in memory of a GPU. */
struct mirror {
    struct trial host; /* what is put in, and taken out */
    struct trial gpu;  /* the same with addresses of the GPU; only its addresses are used */
    void *in, *out;
    int ordinal; /* of the GPU */
    enum gpu_side_memory kind;
    bool is_lent;
};
void mirror_create(struct mirror *m, const struct trial_call *call, int rank, int gpu, enum gpu_side_memory kind,
                   char *const *lent); /* for IN and OUT; NULL: taken anew */
bool mirror_check(struct mirror *m, char why[TRIAL_WHY_BYTES]);
void mirror_destroy(struct mirror *m);
void run_mirrored(const struct team *team, const struct trial_call *call, enum gpu_side_memory kind);

/* Cases in memory that was taken once, filled and checked by kernels. case_prepare() comes before the first communicator: a kernel
 * that is used for the first time may wait for all that run. */
void case_prepare(void);
void run_case(const struct team *team, const struct trial_call *call);
char *const *case_memory(const struct team *team, int rank);  /* for two buffers; NULL: nothing is prepared */
struct trial_call case_fitted(const struct trial_call *call); /* with no more elements than these hold */
void case_finish(void);

#define WINDOW_BYTES (1u << 20)

/* Looks at a region in which a kernel has found something wrong: on the host, element by element. */
void expect_explain(const struct expect_region *region, char *why, size_t room);

/* ---- parts ---- */

void part_abilities(void);
void part_small(void);
void part_small128(void);
void part_simple(void);
void part_ll(void);
void part_ll128(void);
void part_chosen(void);
void part_memory(void);
void part_streams(void);
void part_graphs(void);
void part_rankgraphs(void);
void part_replays(void);
void part_device(void);
void part_abort(void);
void part_processes(void);
void part_windows(void);
void part_modes(void);
void part_sweep(void);

bool lines_go_between_gpus(void); /* are GPUs 0 and 1 joined by NVLink, as collet sees it? */

#endif
