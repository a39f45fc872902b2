/* SPDX-License-Identifier: Apache-2.0
 *
 * Step programs as text that people may change (script.c says how it looks).
 */
#ifndef COLLET_LAYERS_TOOLS_PROG_SCRIPT_H
#define COLLET_LAYERS_TOOLS_PROG_SCRIPT_H

#include "layers/verifier/cast.h"

#include <stdio.h>

void script_print(const struct cast *cast, FILE *out);

/* An algorithm for the collective of `of`. Its programs for nranks ranks are this text. Errors in the text are found when the
 * programs are built. The text must outlive the algorithm. */
struct algorithm script_algorithm(const struct algorithm *of, int nranks, const char *text);

#endif
