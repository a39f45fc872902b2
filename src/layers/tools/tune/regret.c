/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/tune/regret.h"

#include "layers/tools/forecast/explain.h"

#include <math.h>

/* The loss that still counts as good, unless the noise of the measurement is larger. */
#define REGRET_ALLOWED 0.15

/* The model's choice beside the best candidate, at one size. The best one must have samples of at least half as many rounds
 * as the choice, because others were left out early. */
struct regret {
    int choice, best;    /* Indices of candidates. best −1: nothing was measured. */
    double ratio, noise; /* Median and noise of the ratio choice ÷ best over all rounds. */
    int ncandidates;     /* Number of candidates that have samples in this class. */
    bool good;
};

/* Finds the best candidate: the one against which the choice does worst. */
static struct regret regret_of(struct lab *lab, const struct cost_table *costs, int size, enum lab_class class) {
    struct regret regret = {.choice = lab_choice(lab, costs, size, class), .best = -1};
    int enough = lab_value(lab, size, regret.choice, class).count / 2;
    for (int k = 0; k < lab->ncandidates; k++) {
        struct lab_value value = lab_compare(lab, size, regret.choice, k, class);
        regret.ncandidates += lab_value(lab, size, k, class).count > 0;
        if (value.count > 0 && value.count >= enough && (regret.best < 0 || value.median > regret.ratio)) {
            regret.best = k;
            regret.ratio = value.median;
            regret.noise = value.noise;
        }
    }
    regret.good = regret.best >= 0 && regret.ratio <= 1 + fmax(regret.noise, REGRET_ALLOWED);
    return regret;
}

static void print_row(struct lab *lab, const struct cost_table *costs, int size, enum lab_class class,
                      const struct regret *r, FILE *out) {
    char size_name[24], choice_name[LAB_NAME_BYTES], best_name[LAB_NAME_BYTES];
    fprintf(out, "| %s | %d | %s | ", explain_size(lab->options.sizes[size], size_name), r->ncandidates,
            lab_name(&lab->candidates[r->choice], choice_name));
    if (r->best < 0)
        fprintf(out, "| | | | | | %s |\n", r->ncandidates > 0 ? "left out as hopeless" : "not measured");
    else
        fprintf(out, "%.4g | %.4g | %s | %.4g | %.2f | %.2f | %s |\n", lab_value(lab, size, r->choice, class).median,
                lab_predict_us(lab, costs, size, r->choice, class), lab_name(&lab->candidates[r->best], best_name),
                lab_value(lab, size, r->best, class).median, r->ratio, r->noise, r->good ? "" : "worse");
}

static void print_class(struct lab *lab, const struct cost_table *costs, enum lab_class class, FILE *out) {
    int ngood = 0, nmeasured = 0;
    fprintf(out,
            "\n#### %d ranks on %d CPUs, %s\n\n"
            "| bytes | candidates | the model's choice | µs | predicted | best | µs | ratio | noise | |\n"
            "|---:|---:|---|---:|---:|---|---:|---:|---:|---|\n",
            lab->options.nranks, lab->cpus, lab_class_names[class]);
    for (int size = 0; size < lab->options.nsizes; size++) {
        struct regret regret = regret_of(lab, costs, size, class);
        nmeasured += regret.ncandidates > 0;
        ngood += regret.good;
        print_row(lab, costs, size, class, &regret, out);
    }
    fprintf(out, "\n%d ranks, %s: within %.0f %% (or noise) of the best at %d of %d sizes\n", lab->options.nranks,
            lab_class_names[class], 100 * REGRET_ALLOWED, ngood, nmeasured);
}

void regret_print(struct lab *lab, const struct cost_table *costs, FILE *out) {
    for (int class = 0; class < LAB_CLASSES; class ++)
        if (lab_saw(lab, (enum lab_class) class))
            print_class(lab, costs, (enum lab_class) class, out);
}

void regret_print_all(struct lab *lab, const struct cost_table *costs, FILE *out) {
    char name[LAB_NAME_BYTES];
    fprintf(out, "# ranks bytes class samples us noise predicted_us candidate\n");
    for (int size = 0; size < lab->options.nsizes; size++)
        for (int class = 0; class < LAB_CLASSES; class ++)
            for (int k = 0; k < lab->ncandidates; k++) {
                struct lab_value value = lab_value(lab, size, k, class);
                if (value.count > 0)
                    fprintf(out, "%d %llu %s %d %.4g %.2f %.4g %s\n", lab->options.nranks,
                            (unsigned long long)lab->options.sizes[size], lab_class_names[class], value.count,
                            value.median, value.noise, lab_predict_us(lab, costs, size, k, (enum lab_class) class),
                            lab_name(&lab->candidates[k], name));
            }
}
