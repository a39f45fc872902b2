/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants of the cost model that fit what was measured.
 */
#ifndef COLLET_LAYERS_TOOLS_TUNE_FIT_H
#define COLLET_LAYERS_TOOLS_TUNE_FIT_H

#include "layers/tools/tune/lab.h"

/* Changes the constants of links over the wire, or of those over memory that were seen (and of CPUs that ranks share, where
 * they do), beginning with those that are there. Returns the remaining error: the mean of |ln (predicted ÷ measured)|
 * over candidates, near the best ones. It ends when nothing gets better, or with what it
 * has when its share of the time is used. */
double fit(struct lab *const *labs, int nlabs, bool wire, struct budget *budget, struct cost_table *costs);

#endif
