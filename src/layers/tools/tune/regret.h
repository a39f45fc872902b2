/* SPDX-License-Identifier: Apache-2.0
 *
 * How much is lost by trusting the cost model: its choice beside the best candidate, at every size.
 */
#ifndef COLLET_LAYERS_TOOLS_TUNE_REGRET_H
#define COLLET_LAYERS_TOOLS_TUNE_REGRET_H

#include "layers/tools/tune/lab.h"

#include <stdio.h>

/* A table for each class that was seen, and "within 15 % (or noise) of the best at X of Y sizes". */
void regret_print(struct lab *lab, const struct cost_table *costs, FILE *out);
/* Every candidate's time and prediction at every size. */
void regret_print_all(struct lab *lab, const struct cost_table *costs, FILE *out);

#endif
