/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants of the cost model that fit what was measured.
 */
#ifndef COLLET_TOOLS_TUNE_FIT_H
#define COLLET_TOOLS_TUNE_FIT_H

#include "tools/tune/lab.h"

/* Changes the constants of one class of links (and of CPUs that ranks share, where they do), beginning with those that are
 * there. Returns the remaining error: the mean of |ln (predicted ÷ measured)| over candidates, near the best ones. */
double fit(struct lab *const *labs, int nlabs, enum link_class class, struct cost_table *costs);

#endif
