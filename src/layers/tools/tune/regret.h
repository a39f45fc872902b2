/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the choice of the cost model with the best candidate, at every size. The difference is what is lost by trusting the model.
 */
#ifndef COLLET_LAYERS_TOOLS_TUNE_REGRET_H
#define COLLET_LAYERS_TOOLS_TUNE_REGRET_H

#include "layers/tools/tune/lab.h"

#include <stdio.h>

/* Prints a table for each class that has samples, and "within 15 % (or noise) of the best at X of Y sizes". */
void regret_print(struct lab *lab, const struct cost_table *costs, FILE *out);
/* Prints the time and the prediction of every candidate at every size. */
void regret_print_all(struct lab *lab, const struct cost_table *costs, FILE *out);

#endif
