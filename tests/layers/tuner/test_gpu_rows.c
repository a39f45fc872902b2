/* SPDX-License-Identifier: Apache-2.0
 *
 * What ran on a GPU, replayed: the constants of its card and of the kernels that ran predict it, and choose well among it. The rows are
 * in gpu/, a file for each card and version of the kernels.
 */
#include "common/modelled.h"
#include "common/whole.h"

#include "base/err.h"
#include "layers/tuner/tuner.h"

#include <math.h>
#include <stdio.h>

enum { ROWS_MAX = 192 };
#define NEAR 1.5       /* predicted ÷ measured, or measured ÷ predicted … */
#define NEAR_SHARE 0.9 /* … of so many rows */
#define FAR 1.4        /* the same of every row */
#define GOOD 1.15      /* the choice ÷ the best */

struct row {
    int nranks;
    enum prog_collective collective;
    uint64_t bytes;
    struct plan_choice plan; /* predicted_ns: by the model */
    double us;
};

static struct row rows[ROWS_MAX];
static int nrows;

/* What was measured together, and on what. */
enum { H200_1, H200_2, H100_2, SETS };
static const struct set {
    const char *file;
    struct card_gpu gpu;
    uint32_t kernels; /* that ran */
    int nrows;        /* at least */
} sets[SETS] = {
    [H200_1] = {"h200-2026-11-26.rows", {"NVIDIA H200", 90}, 1, 69},
    [H200_2] = {"h200-2026-11-26-kernels-2.rows", {"NVIDIA H200", 90}, 2, 130},
    [H100_2] = {"h100-2026-11-26-kernels-2.rows", {"NVIDIA H100 80GB HBM3", 90}, 2, 102},
};
static int set; /* that was read */

/* ---- the machine of that day ---- */

static struct modelled jobs[SETS][NODE_RANKS_MAX + 1]; /* [set][ranks] */

/* The card's constants for the kernels that were measured, not for those of today. */
static struct modelled *job_of(int nranks) {
    struct modelled *job = &jobs[set][nranks];
    struct cost_table costs = costs_default;
    if (job->map != NULL)
        return job;
    modelled_open(job, "1 gpu h100", 1, nranks, 0);
    assert_int_equal(card_suit(sets[set].gpu, sets[set].kernels, &costs), COLLET_SUCCESS);
    ((struct chart *)job->map)->costs = costs;
    return job;
}

static uint64_t count_of(const struct row *row) {
    return prog_is_sliced(row->collective) ? row->bytes : row->bytes / (uint64_t)row->nranks;
}

static double predicted_us(const struct row *row) {
    struct modelled *job = job_of(row->nranks);
    struct cost_stage *stage;
    double ns;
    assert_int_equal(cost_stage_open(&job->model->machine, row->plan.algorithm, &stage), COLLET_SUCCESS);
    assert_int_equal(tuner_predict(&job->limits, stage, &row->plan, count_of(row), 1, &ns), COLLET_SUCCESS);
    cost_stage_close(stage);
    return ns / 1000;
}

/* ---- reading ---- */

static void read_row(const char *line) {
    char collective[32], algorithm[32], protocol[16];
    unsigned long long bytes;
    struct row *row = &rows[nrows++];
    assert_true(nrows <= ROWS_MAX);
    assert_int_equal(sscanf(line, "%d %31s %llu %31s %15s %d %u %lf", &row->nranks, collective, &bytes, algorithm,
                            protocol, &row->plan.nchannels, &row->plan.chunk_bytes, &row->us),
                     8);
    row->bytes = bytes;
    row->collective = modelled_collective(collective);
    row->plan.protocol = (enum protocol)modelled_word(protocol_names, PROTOCOL_COUNT, protocol);
    row->plan.algorithm = algorithm_find(row->collective, algorithm);
    assert_non_null(row->plan.algorithm);
    row->plan.predicted_ns = 1000 * predicted_us(row);
}

static int read_rows(int which) {
    char line[256];
    snprintf(line, sizeof line, "tests/layers/tuner/gpu/%s", sets[which].file);
    FILE *in = fopen(line, "re");
    assert_non_null(in);
    set = which;
    nrows = 0;
    while (fgets(line, sizeof line, in) != NULL)
        if (line[0] != '#')
            read_row(line);
    fclose(in);
    return 0;
}

static int read_h200_1(void **state) { return (void)state, read_rows(H200_1); }
static int read_h200_2(void **state) { return (void)state, read_rows(H200_2); }
static int read_h100_2(void **state) { return (void)state, read_rows(H100_2); }

static int close_jobs(void **state) {
    (void)state;
    for (struct modelled *job = &jobs[0][0]; job < &jobs[SETS - 1][NODE_RANKS_MAX + 1]; job++)
        if (job->map != NULL)
            modelled_close(job);
    return 0;
}

/* ---- predictions ---- */

static double off_of(const struct row *row) { return fabs(log(row->plan.predicted_ns / 1000 / row->us)); }

static void print_row(const struct row *row) {
    printf("%d %s %llu %s %s %d: measured %.2f, predicted %.2f\n", row->nranks, prog_collective_name(row->collective),
           (unsigned long long)row->bytes, row->plan.algorithm->name, protocol_names[row->plan.protocol],
           row->plan.nchannels, row->us, row->plan.predicted_ns / 1000);
}

static void nine_in_ten_rows_are_predicted_within_a_factor(void **state) {
    (void)state;
    int near = 0;
    for (int k = 0; k < nrows; k++) {
        near += off_of(&rows[k]) <= log(NEAR);
        if (off_of(&rows[k]) > log(NEAR))
            print_row(&rows[k]);
    }
    assert_true(nrows >= sets[set].nrows);
    assert_true(near >= NEAR_SHARE * nrows);
}

static void every_row_is_predicted_within_a_larger_factor(void **state) {
    (void)state;
    int far = 0;
    for (int k = 0; k < nrows; k++) {
        far += off_of(&rows[k]) > log(FAR);
        if (off_of(&rows[k]) > log(FAR))
            print_row(&rows[k]);
    }
    assert_int_equal(far, 0);
}

/* ---- choices ---- */

static bool same_call(const struct row *a, const struct row *b) {
    return a->nranks == b->nranks && a->collective == b->collective && a->bytes == b->bytes;
}

static bool is_first_of_call(int k) {
    int first = 0;
    while (!same_call(&rows[first], &rows[k]))
        first++;
    return first == k;
}

/* Of the measured plans of a call the one that is predicted best among those that a communicator may choose, or (measured) the best
 * of all; NULL: none. */
static const struct row *best_of_call(const struct row *call, bool measured) {
    const struct row *best = NULL;
    for (const struct row *row = rows; row < &rows[nrows]; row++) {
        bool allowed = job_of(row->nranks)->limits.protocol_allowed[row->plan.protocol];
        if (!same_call(row, call) || !(measured || allowed))
            continue;
        if (best == NULL || (measured ? row->us < best->us : row->plan.predicted_ns < best->plan.predicted_ns))
            best = row;
    }
    return best;
}

static void among_measured_plans_the_choice_is_near_the_best(void **state) {
    (void)state;
    int wrong = 0;
    for (int k = 0; k < nrows; k++) {
        const struct row *choice = is_first_of_call(k) ? best_of_call(&rows[k], false) : NULL;
        if (choice == NULL)
            continue;
        const struct row *best = best_of_call(choice, true);
        if (choice->us > GOOD * best->us) {
            wrong++;
            print_row(choice);
            print_row(best);
        }
    }
    assert_int_equal(wrong, 0);
}

/* Plans that nobody has measured for a call, but that are expected to be best by what was measured beside them. */
static const struct {
    int set;
    int nranks;
    const char *algorithm;
    enum protocol protocol;
    int nchannels;
    uint64_t from, to;
} expected[] = {
    {H200_1, 2, "oneshot", PROTOCOL_SIMPLE, 16, 256 << 10, 2 << 20},
    {H200_1, 2, "oneshot", PROTOCOL_SIMPLE, 32, 1 << 20, 4 << 20},
    {H200_1, 2, "oneshot", PROTOCOL_SIMPLE, 64, 4 << 20, 8 << 20},
    {H200_1, 2, "ring", PROTOCOL_SIMPLE, 64, 16 << 20, 256 << 20},
    {H200_1, 4, "ring", PROTOCOL_SIMPLE, 32, 16 << 20, 256 << 20},
    /* There only LL128 was measured, which is not chosen. In LL, 2 and 4 KB of a channel were measured with fewer ranks. */
    {H200_1, 2, "oneshot", PROTOCOL_LL, 16, 64 << 10, 64 << 10},
    {H200_1, 8, "oneshot", PROTOCOL_LL, 16, 32 << 10, 32 << 10},
    {H200_2, 1, "tree", PROTOCOL_SIMPLE, 32, 2 << 20, 2 << 20}, /* a copy; 64 MB were measured so */
    /* On 64 channels, 1 MB and 64 KB of LL were faster than on 16. */
    {H200_2, 2, "oneshot", PROTOCOL_SIMPLE, 64, 256 << 10, 256 << 10},
};

static bool is_expected(const struct row *call, const struct plan_choice *choice) {
    for (size_t k = 0; k < sizeof expected / sizeof *expected; k++)
        if (set == expected[k].set && call->nranks == expected[k].nranks &&
            strcmp(choice->algorithm->name, expected[k].algorithm) == 0 && choice->protocol == expected[k].protocol &&
            choice->nchannels == expected[k].nchannels && call->bytes >= expected[k].from &&
            call->bytes <= expected[k].to)
            return true;
    return false;
}

/* With this algorithm and protocol, on about as many channels, for so many ranks and about as many bytes. */
static bool is_measured(const struct row *call, const struct plan_choice *choice) {
    for (const struct row *row = rows; row < &rows[nrows]; row++)
        if (row->nranks == call->nranks && row->plan.algorithm == choice->algorithm &&
            row->plan.protocol == choice->protocol && row->plan.nchannels <= 2 * choice->nchannels &&
            2 * row->plan.nchannels >= choice->nchannels && row->bytes <= 4 * call->bytes &&
            4 * row->bytes >= call->bytes)
            return true;
    return false;
}

static void choose(const struct row *call, struct plan_choice *choice) {
    struct modelled *job = job_of(call->nranks);
    assert_int_equal(tuner_choose(&job->model->machine, &job->limits, call->collective, count_of(call), 1, choice),
                     COLLET_SUCCESS);
}

static void allreduces_get_plans_that_were_measured_or_are_expected(void **state) {
    (void)state;
    int wrong = 0;
    for (int k = 0; k < nrows; k++) {
        const struct row *call = &rows[k];
        struct plan_choice choice;
        if (!is_first_of_call(k) || call->collective != PROG_ALLREDUCE)
            continue;
        choose(call, &choice);
        if (is_measured(call, &choice) || is_expected(call, &choice))
            continue;
        wrong++;
        printf("%d ranks, %llu bytes: %s %s on %d channels was not measured\n", call->nranks,
               (unsigned long long)call->bytes, choice.algorithm->name, protocol_names[choice.protocol],
               choice.nchannels);
    }
    assert_int_equal(wrong, 0);
}

/* The row of just this plan; NULL: it was not measured. */
static const struct row *row_of(const struct row *call, const struct plan_choice *choice) {
    for (const struct row *row = rows; row < &rows[nrows]; row++)
        if (same_call(row, call) && row->plan.algorithm == choice->algorithm &&
            row->plan.protocol == choice->protocol && row->plan.nchannels == choice->nchannels)
            return row;
    return NULL;
}

/* Also where the best plan is one that the tuner does not try. */
static void chosen_plans_that_were_measured_are_near_the_best(void **state) {
    (void)state;
    int found = 0, wrong = 0;
    for (int k = 0; k < nrows; k++) {
        struct plan_choice choice;
        if (!is_first_of_call(k) || rows[k].collective != PROG_ALLREDUCE)
            continue;
        choose(&rows[k], &choice);
        const struct row *row = row_of(&rows[k], &choice), *best = best_of_call(&rows[k], true);
        found += row != NULL;
        if (row == NULL || row->us <= GOOD * best->us)
            continue;
        wrong++;
        print_row(row);
        print_row(best);
    }
    assert_true(found > 0);
    assert_int_equal(wrong, 0);
}

#define ALL_OF(read)                                                                                                   \
    cmocka_unit_test_setup(nine_in_ten_rows_are_predicted_within_a_factor, read),                                      \
        cmocka_unit_test_setup(every_row_is_predicted_within_a_larger_factor, read),                                   \
        cmocka_unit_test_setup(among_measured_plans_the_choice_is_near_the_best, read),                                \
        cmocka_unit_test_setup(allreduces_get_plans_that_were_measured_or_are_expected, read),                         \
        cmocka_unit_test_setup(chosen_plans_that_were_measured_are_near_the_best, read)

int main(void) {
    if (!library_is_whole) {
        printf("the rows are of algorithms of several layers\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {ALL_OF(read_h200_1), ALL_OF(read_h200_2), ALL_OF(read_h100_2)};
    return cmocka_run_group_tests(tests, NULL, close_jobs);
}
