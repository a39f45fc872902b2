/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tune/regret.h"

static const char *const class_names[LAB_CLASSES] = {[LAB_NEAR] = "near", [LAB_FAR] = "far"};

static const char *size_text(uint64_t bytes, char text[16]) {
    static const char *const units[] = {"", "K", "M", "G"};
    int unit = 0;
    for (; bytes >= 1024 && bytes % 1024 == 0 && unit < 3; unit++)
        bytes /= 1024;
    snprintf(text, 16, "%llu%s", (unsigned long long)bytes, units[unit]);
    return text;
}

struct regret regret_of(struct lab *lab, const struct cost_table *costs, int size) {
    struct regret regret = {.best = -1, .class = lab_class_of(lab, size)};
    struct lab_value best = {0, 0};
    regret.choice = lab_choice(lab, costs, size);
    struct lab_value choice = lab_value(lab, size, regret.choice, regret.class);
    for (int k = 0; k < lab->ncandidates; k++) {
        struct lab_value value = lab_value(lab, size, k, regret.class);
        regret.ncandidates += value.us > 0;
        if (value.us > 0 && (regret.best < 0 || value.us < best.us)) {
            best = value;
            regret.best = k;
        }
    }
    if (choice.us <= 0 || regret.best < 0)
        return regret;
    regret.ratio = choice.us / best.us;
    regret.noise = choice.noise + best.noise;
    regret.good = regret.ratio <= 1 + (regret.noise > REGRET_ALLOWED ? regret.noise : REGRET_ALLOWED);
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
        if (r.best < 0)
            continue;
        fprintf(out, "| %s | %s | %d | %s | %.4g | %.4g | %s | %.4g | %.2f | %.2f | %s |\n",
                size_text(lab->options.sizes[size], size_name), class_names[r.class], r.ncandidates,
                lab_name(&lab->candidates[r.choice], choice_name), lab_value(lab, size, r.choice, r.class).us,
                lab_predict_us(lab, costs, size, r.choice), lab_name(&lab->candidates[r.best], best_name),
                lab_value(lab, size, r.best, r.class).us, r.ratio, r.noise, r.good ? "" : "worse");
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
                if (value.us > 0)
                    fprintf(out, "%d %llu %s %d %.4g %.2f %.4g %s\n", lab->options.nranks,
                            (unsigned long long)lab->options.sizes[size], class_names[class],
                            lab->cells[size][k].count[class], value.us, value.noise,
                            lab_predict_us(lab, costs, size, k), lab_name(&lab->candidates[k], name));
            }
}
