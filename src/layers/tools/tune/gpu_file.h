/* SPDX-License-Identifier: Apache-2.0
 *
 * A tuning file of GPUs. Its remarks say what was measured, and on which machine. Its first line is that of a card's file
 * (layers/tuner/cards.h).
 */
#ifndef COLLET_LAYERS_TOOLS_TUNE_GPU_FILE_H
#define COLLET_LAYERS_TOOLS_TUNE_GPU_FILE_H

#include "layers/tools/tune/lab.h"

#include <stdio.h>

/* Writes the fitted constants with their remaining error, and a row for each sample: the measured time, and the predictions
 * before and after the fit. */
void gpu_file_print(struct lab *const *labs, int nlabs, const struct cost_table *before,
                    const struct cost_table *fitted, double error, FILE *out);

#endif
