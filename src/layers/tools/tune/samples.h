/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of labs in a file, so that several runs can be judged and fitted together: a machine may be near in one run and
 * far in the next.
 *
 *      collet-tune samples: 2 CPUs, shm
 *      # ranks bytes class round µs candidate
 *      2 8 near 0 0.1363 oneshot LL
 */
#ifndef COLLET_LAYERS_TOOLS_TUNE_SAMPLES_H
#define COLLET_LAYERS_TOOLS_TUNE_SAMPLES_H

#include "layers/tools/tune/lab.h"

#include <stdio.h>

void samples_write(struct lab *const *labs, int nlabs, FILE *out);
/* Adds what a file has, its rounds after those that are there. False, with err_last(): it cannot be read, or a line does not
 * fit the labs. */
bool samples_read(const char *path, struct lab *const *labs, int nlabs);

#endif
