/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/tune/gpu_file.h"

#include "layers/gpu/gpu.h"
#include "layers/gpu/kernels_version.h"
#include "layers/tuner/costs_file.h"

#include <math.h>
#include <time.h>

/* The share of the measurements of a lab that these costs predict within a factor of NEAR. */
#define NEAR 1.5

static double near_share(struct lab *lab, const struct cost_table *costs) {
    int near = 0, count = 0;
    for (int size = 0; size < lab->options.nsizes; size++)
        for (int k = 0; k < lab->ncandidates; k++) {
            double us = lab_value(lab, size, k, LAB_NEAR).median;
            count += us > 0;
            near += us > 0 && fabs(log(lab_predict_us(lab, costs, size, k, LAB_NEAR) / us)) <= log(NEAR);
        }
    return count > 0 ? (double)near / count : 0;
}

static void print_lab(struct lab *lab, const struct cost_table *before, const struct cost_table *fitted, FILE *out) {
    fprintf(
        out,
        "# %d ranks, %s: %d of %d candidates; within a factor of %.1f were predicted %.0f %% of the measurements, and are "
        "with these constants %.0f %%\n",
        lab->options.nranks, lab_mode_name(lab), lab->ndone, lab->ncandidates, NEAR, 100 * near_share(lab, before),
        100 * near_share(lab, fitted));
}

static void print_head(struct lab *const *labs, double error, FILE *out) {
    const struct tuner_limits *limits = &labs[0]->limits;
    char date[32];
    time_t now = time(NULL);
    struct tm tm;
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &tm));
    fprintf(
        out,
        "# measured on %s: GPUs of compute capability %.1f with %d blocks at once, up to %d ranks on one, kernels of "
        "version %d\n",
        date, gpu_driver()->capability(0) / 10.0, limits->gpu_blocks, limits->gpu_ranks, GPU_KERNELS_VERSION);
    fprintf(out, "# Fitted by collet-tune; COLLET_TUNER_FILE loads it. Mean error near the best: %.0f %%.\n",
            100 * (exp(error) - 1));
}

/* Prints the constants of what lies between these ranks. The others were not fitted. */
static void print_constants(struct lab *const *labs, int nlabs, const struct cost_table *fitted, FILE *out) {
    static const char *const prefixes[] = {"gpu.", "gpu-nvlink.", "gpu-pci.", "gpu-host."}; /* [class − LINK_GPU]. */
    for (int class = 0; class < (int)(sizeof prefixes / sizeof *prefixes); class ++) {
        bool seen = false;
        for (int k = 0; k < nlabs; k++)
            seen |= net_has_class(labs[k]->machine[LAB_NEAR].net, (enum link_class)(LINK_GPU + class));
        if (seen)
            costs_print(fitted, prefixes[class], out);
    }
}

static void print_rows(struct lab *lab, const struct cost_table *before, const struct cost_table *fitted, FILE *out) {
    for (int size = 0; size < lab->options.nsizes; size++)
        for (int k = 0; k < lab->ncandidates; k++) {
            const struct plan_choice *c = &lab->candidates[k];
            struct lab_value value = lab_value(lab, size, k, LAB_NEAR);
            if (value.count == 0)
                continue;
            fprintf(out, "# %d allreduce %llu %s %s %d %u %.2f %s %.2f %.2f %.2f\n", lab->options.nranks,
                    (unsigned long long)lab->options.sizes[size], c->algorithm->name, protocol_names[c->protocol],
                    c->nchannels, c->chunk_bytes, value.median, lab_mode_name(lab), value.noise,
                    lab_predict_us(lab, before, size, k, LAB_NEAR), lab_predict_us(lab, fitted, size, k, LAB_NEAR));
        }
}

void gpu_file_print(struct lab *const *labs, int nlabs, const struct cost_table *before,
                    const struct cost_table *fitted, double error, FILE *out) {
    print_head(labs, error, out);
    for (int k = 0; k < nlabs; k++)
        print_lab(labs[k], before, fitted, out);
    print_constants(labs, nlabs, fitted, out);
    fprintf(out, "#\n# ranks collective bytes algorithm protocol channels chunk µs mode noise predicted fitted\n");
    for (int k = 0; k < nlabs; k++)
        print_rows(labs[k], before, fitted, out);
}
