/* SPDX-License-Identifier: Apache-2.0
 *
 * The samples of a lab as numbers that can be compared, and the model's predictions for the same candidates.
 */
#include "layers/tools/tune/lab.h"

#include "base/err.h"
#include "bench/board.h"
#include "exec/exec.h"

#include <stdio.h>
#include <stdlib.h>

const char *const lab_class_names[LAB_CLASSES] = {[LAB_NEAR] = "near", [LAB_FAR] = "far"};

const char *lab_name(const struct plan_choice *candidate, char name[LAB_NAME_BYTES]) {
    int at = snprintf(name, LAB_NAME_BYTES, "%s %s", candidate->algorithm->name, protocol_names[candidate->protocol]);
    if (candidate->protocol == PROTOCOL_SIMPLE)
        snprintf(name + at, LAB_NAME_BYTES - (size_t)at, " %uK", candidate->chunk_bytes >> 10);
    return name;
}

const char *lab_mode_name(const struct lab *lab) { return lab->options.threads ? "threads" : "group"; }

/* ---- what was measured ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct lab_value value_of(double *samples, int n) {
    if (n == 0)
        return (struct lab_value){0, 0, 0};
    qsort(samples, (size_t)n, sizeof *samples, by_value);
    double median = (samples[(n - 1) / 2] + samples[n / 2]) / 2;
    return (struct lab_value){median, (samples[n - 1 - n / 4] - samples[n / 4]) / 2 / median, n};
}

struct lab_value lab_value(const struct lab *lab, int size, int candidate, enum lab_class class) {
    const struct lab_cell *cell = &lab->cells[size][candidate];
    double samples[LAB_ROUNDS_MAX];
    int n = 0;
    for (int round = 0; round < lab->rounds; round++)
        if (cell->class[round] == class)
            samples[n++] = cell->us[round];
    return value_of(samples, n);
}

struct lab_value lab_compare(const struct lab *lab, int size, int candidate, int other, enum lab_class class) {
    const struct lab_cell *a = &lab->cells[size][candidate], *b = &lab->cells[size][other];
    double ratios[LAB_ROUNDS_MAX];
    int n = 0;
    for (int round = 0; round < lab->rounds; round++)
        if (a->class[round] == class && b->class[round] == class)
            ratios[n++] = a->us[round] / b->us[round];
    return value_of(ratios, n);
}

bool lab_saw(const struct lab *lab, enum lab_class class) {
    for (int size = 0; size < lab->options.nsizes; size++)
        for (int k = 0; k < lab->ncandidates; k++)
            if (lab_value(lab, size, k, class).count > 0)
                return true;
    return false;
}

/* ---- what is predicted ---- */

static struct cost_stage *stage_of(struct lab *lab, enum lab_class class, const struct algorithm *algorithm) {
    struct cost_stage **stage = &lab->stages[class][algorithm - algorithms];
    if (*stage == NULL && cost_stage_open(&lab->machine[class], algorithm, stage) != COLLET_SUCCESS)
        bench_die("%s", err_last());
    return *stage;
}

double lab_predict_us(struct lab *lab, const struct cost_table *costs, int size, int candidate, enum lab_class class) {
    const struct plan_choice *choice = &lab->candidates[candidate];
    double ns;
    lab->machine[class].costs = costs;
    if (tuner_predict(&lab->limits, stage_of(lab, class, choice->algorithm), choice, lab->options.sizes[size], 1,
                      &ns) != COLLET_SUCCESS)
        bench_die("%s", err_last());
    return ns / 1000;
}

int lab_choice(struct lab *lab, const struct cost_table *costs, int size, enum lab_class class) {
    struct plan_choice choice;
    lab->machine[class].costs = costs;
    if (tuner_choose(&lab->machine[class], &lab->limits, PROG_ALLREDUCE, lab->options.sizes[size], 1, &choice) !=
        COLLET_SUCCESS)
        bench_die("%s", err_last());
    int k = 0;
    while (k < lab->ncandidates &&
           (lab->candidates[k].algorithm != choice.algorithm || lab->candidates[k].protocol != choice.protocol ||
            lab->candidates[k].chunk_bytes != choice.chunk_bytes))
        k++;
    if (k == lab->ncandidates)
        bench_die("the tuner chose %s with a chunk of %u bytes, which is no candidate here", choice.algorithm->name,
                  choice.chunk_bytes);
    return k;
}
