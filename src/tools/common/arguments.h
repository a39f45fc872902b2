/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tools have in common on their command lines. Messages begin with the tool's name and name the argument.
 */
#ifndef COLLET_TOOLS_COMMON_ARGUMENTS_H
#define COLLET_TOOLS_COMMON_ARGUMENTS_H

#include "topo/topo.h"

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_BAD_INPUT = 2 };

/* An option: --name, or -n if the name has one letter. */
struct argument {
    const char *name;
    const char **value; /* takes one, which goes here; NULL: it takes none, and … */
    bool *flag;         /* … is noted here */
};

/* Reads options into where the table's n rows point. The place in argv of the first argument that is no option (they come
 * last after this); −1 after a message. */
int arguments_read(const struct argument *table, size_t n, int argc, char **argv);

/* Says what is wrong with an argument; false. */
bool argument_refuse(const char *name, const char *text, const char *wanted);

/* A whole number in min … max; *number_p is left alone if text is NULL (the argument was not given). */
bool argument_number(const char *name, const char *text, int min, int max, int *number_p);

/* Says what err_last() does, about an argument ("": none in particular); false if status is SUCCESS. */
bool argument_failed(const char *name, enum collet_result status);

/* The machine that an option named `name` gives the file of, or --synthetic describes, or this one if both are NULL.
 * Returns what to exit with after a message, 0 without. */
int argument_machine(const char *name, const char *file, const char *synthetic, struct topo **topo_p);

#endif
