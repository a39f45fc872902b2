/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants of the cost model that fit what was measured.
 */
#ifndef COLLET_LAYERS_TOOLS_TUNE_FIT_H
#define COLLET_LAYERS_TOOLS_TUNE_FIT_H

#include "layers/tools/tune/lab.h"

/* Changes constants so that predictions fit the samples. With `wire` these are the constants of links over a wire; without
 * it, those of links over memory whose class has samples, and those of CPUs if ranks share CPUs. On GPUs, they are those of
 * GPUs. The fit begins with the values in *costs. It ends when no change makes the loss smaller, or when its share of the
 * budget is used. Returns the remaining error: the mean of |ln (predicted ÷ measured)| over candidates, in which those near
 * the best ones weigh most. */
double fit(struct lab *const *labs, int nlabs, bool wire, struct budget *budget, struct cost_table *costs);

#endif
