/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tune/regret.h"

#include <math.h>

static const char *size_text(uint64_t bytes, char text[16]) {
    static const char *const units[] = {"", "K", "M", "G"};
    int unit = 0;
    for (; bytes >= 1024 && bytes % 1024 == 0 && unit < 3; unit++)
        bytes /= 1024;
    snprintf(text, 16, "%llu%s", (unsigned long long)bytes, units[unit]);
    return text;
}

/* The best candidate is the one against which the choice does worst. */
struct regret regret_of(struct lab *lab, const struct cost_table *costs, int size) {
    struct regret regret = {.best = -1, .class = lab_class_of(lab, size)};
    regret.choice = lab_choice(lab, costs, size, regret.class);
    int enough = lab_value(lab, size, regret.choice, regret.class).count / 2;
    for (int k = 0; k < lab->ncandidates; k++) {
        struct lab_value value = lab_compare(lab, size, regret.choice, k, regret.class);
        regret.ncandidates += value.count > 0;
        if (value.count > 0 && value.count >= enough && (regret.best < 0 || value.median > regret.ratio)) {
            regret.best = k;
            regret.ratio = value.median;
            regret.noise = value.noise;
        }
    }
    regret.good = regret.best >= 0 && regret.ratio <= 1 + fmax(regret.noise, REGRET_ALLOWED);
    return regret;
}

void regret_print(struct lab *lab, const struct cost_table *costs, FILE *out) {
    char size_name[16], choice_name[LAB_NAME_BYTES], best_name[LAB_NAME_BYTES];
    int ngood = 0, nsizes = lab->options.nsizes;
    fprintf(out, "| bytes | class | candidates | the model's choice | µs | predicted | best | µs | ratio | noise | |\n"
                 "|---:|---|---:|---|---:|---:|---|---:|---:|---:|---|\n");
    for (int size = 0; size < nsizes; size++) {
        struct regret r = regret_of(lab, costs, size);
        ngood += r.good;
        if (r.best < 0) {
            fprintf(out, "| %s | %s | %d | %s | | | | | | | not measured |\n",
                    size_text(lab->options.sizes[size], size_name), lab_class_names[r.class], r.ncandidates,
                    lab_name(&lab->candidates[r.choice], choice_name));
            continue;
        }
        fprintf(out, "| %s | %s | %d | %s | %.4g | %.4g | %s | %.4g | %.2f | %.2f | %s |\n",
                size_text(lab->options.sizes[size], size_name), lab_class_names[r.class], r.ncandidates,
                lab_name(&lab->candidates[r.choice], choice_name), lab_value(lab, size, r.choice, r.class).median,
                lab_predict_us(lab, costs, size, r.choice, r.class), lab_name(&lab->candidates[r.best], best_name),
                lab_value(lab, size, r.best, r.class).median, r.ratio, r.noise, r.good ? "" : "worse");
    }
    fprintf(out, "\n%d ranks: within %.0f %% (or noise) of the best at %d of %d sizes; %d samples dropped\n",
            lab->options.nranks, 100 * REGRET_ALLOWED, ngood, nsizes, lab->dropped);
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
