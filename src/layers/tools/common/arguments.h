/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of every program: one table says what is understood, --help prints it, --version works everywhere.
 * Messages begin with the program's name and name the argument. This file needs nothing of the library but base/spelling.h.
 */
#ifndef COLLET_LAYERS_TOOLS_COMMON_ARGUMENTS_H
#define COLLET_LAYERS_TOOLS_COMMON_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_BAD_INPUT = 2 };

/* An option. */
struct argument {
    const char *name;   /* --name */
    char letter;        /* -l; 0: none */
    const char *meta;   /* name of its value in --help; NULL: it takes no value */
    const char **value; /* where its value goes */
    bool *flag;         /* is set to true by an option without a value */
    const char *help;   /* may have several lines */
};

/* A value or a flag, for tables of options. */
#define ARGUMENT_VALUE(name, meta, to, help)                                                                           \
    { name, 0, meta, to, NULL, help }
#define ARGUMENT_FLAG(name, to, help)                                                                                  \
    { name, 0, NULL, NULL, to, help }

/* The texts of --help besides the options. */
struct command {
    const char *usage; /* after "usage: <program> " */
    const char *about; /* after the options, or NULL */
};

/* Reads options into where the table's n rows point. Ends the program after --help, -h and --version, and with
 * EXIT_BAD_INPUT after a message about an option that is none. Returns the place in argv of the first argument that is no
 * option; such arguments come last after this. */
int arguments_read(const struct command *command, const struct argument *table, size_t n, int argc, char **argv);

/* The same where every argument must be an option. */
void arguments_read_options(const struct command *command, const struct argument *table, size_t n, int argc,
                            char **argv);

/* Says what is wrong with an argument; false. */
bool argument_refuse(const char *name, const char *text, const char *wanted);

/* The same of a word that is none of those that were offered to spelling. */
struct spelling;
bool argument_refuse_name(const char *name, const struct spelling *spelling, const char *wanted);

/* A whole number in min … max; *number_p is left alone if text is NULL (the argument was not given). */
bool argument_number(const char *name, const char *text, int min, int max, int *number_p);

#endif
