/* SPDX-License-Identifier: Apache-2.0
 *
 * Step programs as text that people may change (script.c says how it looks).
 */
#ifndef COLLET_TOOLS_PROG_SCRIPT_H
#define COLLET_TOOLS_PROG_SCRIPT_H

#include "program/cast.h"

#include <stdio.h>

void script_print(const struct cast *cast, FILE *out);

/* An algorithm for the collective of `of` whose programs for nranks ranks are this text. What is wrong with the text, building them
 * says. The text must outlive it. */
struct algorithm script_algorithm(const struct algorithm *of, int nranks, const char *text);

#endif
