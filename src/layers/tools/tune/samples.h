/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of labs in a file, so that several runs can be judged and fitted together: the CPUs of a machine may be near each other in one
 * run and far from each other in the next.
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
/* Adds the samples of a file. Its rounds come behind those that the labs have. False: the file cannot be read, or a line
 * does not fit the labs, as err_last() says. */
bool samples_read(const char *path, struct lab *const *labs, int nlabs);

#endif
