/* SPDX-License-Identifier: Apache-2.0
 *
 * Fits by trials. Each constant in turn is made a little larger and a little smaller, and a change that lessens the loss is kept. When no
 * change does, the changes become smaller. The model itself predicts, so all its constants can be fitted: small sizes determine latencies,
 * large sizes determine slopes, and more ranks than CPUs determine the cost of a switch.
 *
 *      loss = Σ over sizes   mean over candidates of (ln predicted ÷ measured)², those near the best weighing most
 *                          + REGRET_WEIGHT · (ln time of the candidate predicted best ÷ least time)²
 *           + PRIOR_WEIGHT · Σ over constants (ln constant ÷ where it began)²
 *
 * The second term is large if the tuner would choose a slow candidate. The last term keeps constants about which the measurements say
 * nothing.
 */
#include "layers/tools/tune/fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define REGRET_WEIGHT 8.0
#define PRIOR_WEIGHT 0.01
#define FIRST_FACTOR 1.6
#define LAST_FACTOR 1.02
#define PARAMETERS_MAX ((6 * LINK_CLASS_COUNT) * COSTS_PROTOCOLS + 4)
#define LEAST_NS 1e-4      /* A constant below this value counts as zero, and stays. */
#define MEMORY_GBPS 1000.0 /* If ranks share a GPU and gpu_memory_gbps is zero, the fit begins with this value. */

struct parameters {
    double *constant[PARAMETERS_MAX];
    double began[PARAMETERS_MAX];
    int count;
};

struct loss {
    double total, error, weight;
};

static void add(struct parameters *all, double *constant) {
    if (*constant < LEAST_NS)
        return;
    all->constant[all->count] = constant;
    all->began[all->count++] = *constant;
}

static void add_links(struct parameters *all, struct cost_table *costs, enum link_class class) {
    for (int protocol = 0; protocol < COSTS_PROTOCOLS; protocol++) {
        struct step_cost *step = &costs->step[class][protocol];
        if (class == LINK_MEMORY || class >= LINK_GPU) /* Only these classes have a step time of their own. */
            add(all, &step->step_ns);
        add(all, &step->peer_ns);
        add(all, &step->byte_ns);
        add(all, &step->alpha_ns);
        add(all, &step->wire_byte_ns);
        add(all, &step->fence_ns);
    }
}

static bool has_class(const struct lab *lab, enum link_class class) {
    return net_has_class(lab->machine[LAB_NEAR].net, class);
}

/* Lists the constants of blocks, of launches, and of what lies between these GPUs. */
static void list_of_gpus(struct lab *const *labs, int nlabs, struct cost_table *costs, struct parameters *all) {
    bool share = false;
    for (int k = 0; k < nlabs; k++)
        share |= labs[k]->limits.gpu_ranks > 1;
    for (int class = LINK_GPU; class <= LINK_GPU_NET; class ++) {
        bool seen = false;
        for (int k = 0; k < nlabs; k++)
            seen |= has_class(labs[k], (enum link_class) class);
        if (seen)
            add_links(all, costs, (enum link_class) class);
    }
    add(all, &costs->gpu_call_ns);
    add(all, &costs->gpu_block_ns);
    if (!share)
        return;
    costs->gpu_memory_gbps = costs->gpu_memory_gbps > 0 ? costs->gpu_memory_gbps : MEMORY_GBPS;
    add(all, &costs->gpu_memory_gbps);
}

/* Lists the constants that are fitted. Classes that were not measured keep theirs. */
static void list_parameters(struct lab *const *labs, int nlabs, bool wire, struct cost_table *costs,
                            struct parameters *all) {
    bool crowded = false, seen[LAB_CLASSES] = {false};
    all->count = 0;
    if (labs[0]->options.gpus) {
        list_of_gpus(labs, nlabs, costs, all);
        return;
    }
    for (int k = 0; k < nlabs; k++) {
        crowded |= labs[k]->options.nranks > labs[k]->cpus;
        for (int class = 0; class < LAB_CLASSES; class ++)
            seen[class] |= lab_saw(labs[k], (enum lab_class) class);
    }
    if (wire)
        add_links(all, costs, LINK_NET);
    if (!wire && seen[LAB_NEAR])
        add_links(all, costs, LINK_MEMORY);
    if (!wire && seen[LAB_FAR])
        add_links(all, costs, LINK_MEMORY_FAR);
    if (has_class(labs[0], LINK_LENT_CMA))
        add_links(all, costs, LINK_LENT_CMA);
    if (!wire)
        add(all, &costs->turns_share);
    if (crowded)
        add(all, &costs->switch_ns);
}

/* Adds the loss of one size in one class of distance. */
static void add_loss(struct lab *lab, const struct cost_table *costs, int size, enum lab_class class,
                     struct loss *loss) {
    double us[LAB_CANDIDATES_MAX], predicted_us[LAB_CANDIDATES_MAX], least_us = INFINITY, chosen_us = 0,
                                                                     chosen_predicted = INFINITY;
    double sum = 0, weights = 0;
    for (int k = 0; k < lab->ncandidates; k++) {
        us[k] = lab_value(lab, size, k, class).median;
        if (us[k] <= 0)
            continue;
        predicted_us[k] = lab_predict_us(lab, costs, size, k, class);
        least_us = us[k] < least_us ? us[k] : least_us;
        if (predicted_us[k] < chosen_predicted) {
            chosen_predicted = predicted_us[k];
            chosen_us = us[k];
        }
    }
    for (int k = 0; k < lab->ncandidates; k++) {
        if (us[k] <= 0)
            continue;
        double weight = least_us / us[k] * (least_us / us[k]), off = log(predicted_us[k] / us[k]);
        sum += weight * off * off;
        weights += weight;
        loss->error += weight * fabs(off);
        loss->weight += weight;
    }
    if (weights > 0 && chosen_us > 0)
        loss->total += sum / weights + REGRET_WEIGHT * log(chosen_us / least_us) * log(chosen_us / least_us);
}

static struct loss loss_of(struct lab *const *labs, int nlabs, const struct cost_table *costs,
                           const struct parameters *all) {
    struct loss loss = {0, 0, 0};
    for (int l = 0; l < nlabs; l++)
        for (int size = 0; size < labs[l]->options.nsizes; size++)
            for (int class = 0; class < LAB_CLASSES; class ++)
                add_loss(labs[l], costs, size, (enum lab_class) class, &loss);
    for (int p = 0; p < all->count; p++)
        loss.total += PRIOR_WEIGHT * log(*all->constant[p] / all->began[p]) * log(*all->constant[p] / all->began[p]);
    return loss;
}

/* Multiplies one constant by the factor, and keeps the product if the loss is smaller. Returns whether it is. */
static bool try_constant(struct lab *const *labs, int nlabs, const struct cost_table *costs,
                         const struct parameters *all, double *constant, double factor, struct loss *best) {
    double before = *constant;
    *constant = before * factor;
    struct loss loss = loss_of(labs, nlabs, costs, all);
    if (loss.total >= best->total * 0.9999) {
        *constant = before;
        return false;
    }
    *best = loss;
    return true;
}

static double error_of(const struct loss *loss) { return loss->weight > 0 ? loss->error / loss->weight : 0; }

static void say(struct budget *budget, double factor, const struct loss *best) {
    budget_say(budget, false, "fit in steps of %.0f %%: mean error near the best %.0f %%", 100 * (factor - 1),
               100 * (exp(error_of(best)) - 1));
}

double fit(struct lab *const *labs, int nlabs, bool wire, struct budget *budget, struct cost_table *costs) {
    struct parameters all;
    list_parameters(labs, nlabs, wire, costs, &all);
    struct loss best = loss_of(labs, nlabs, costs, &all);
    for (double factor = FIRST_FACTOR; factor > LAST_FACTOR && !budget_is_over(budget);) {
        bool better = false;
        for (int p = 0; p < 2 * all.count && !budget_is_over(budget); p++) {
            better |= try_constant(labs, nlabs, costs, &all, all.constant[p / 2], p % 2 ? factor : 1 / factor, &best);
            say(budget, factor, &best);
        }
        if (!better)
            factor = sqrt(factor);
    }
    return error_of(&best);
}
