/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of a program. One table lists the options, --help prints them, and every program has --version. Messages begin with the
 * program's name, and name the argument. This file needs nothing of the library but base/spelling.h.
 */
#ifndef COLLET_LAYERS_TOOLS_COMMON_ARGUMENTS_H
#define COLLET_LAYERS_TOOLS_COMMON_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_BAD_INPUT = 2 };

/* An option of a program. */
struct argument {
    const char *name;   /* Name of the option after "--". */
    char letter;        /* Letter of the option after "-". 0: it has none. */
    const char *meta;   /* Name of the option's value in --help. NULL: the option takes no value. */
    const char **value; /* Address at which the value is stored. */
    bool *flag;         /* Set to true by an option without a value. */
    const char *help;   /* Text in --help. It may have several lines. */
};

/* ARGUMENT_VALUE: an option with a value. ARGUMENT_FLAG: an option without. */
#define ARGUMENT_VALUE(name, meta, to, help)                                                                           \
    { name, 0, meta, to, NULL, help }
#define ARGUMENT_FLAG(name, to, help)                                                                                  \
    { name, 0, NULL, NULL, to, help }

/* The texts of --help besides the options. */
struct command {
    const char *usage; /* The text after "usage: <program> ". */
    const char *about; /* The text after the options. NULL: none. */
};

/* Reads options, as the n rows of the table say. --help, -h and --version end the program; so does an unknown option, after
 * a message, with EXIT_BAD_INPUT. Returns the index in argv of the first argument that is no option. Such arguments are last
 * in argv after this. */
int arguments_read(const struct command *command, const struct argument *table, size_t n, int argc, char **argv);

/* Works as arguments_read(), but every argument must be an option. */
void arguments_read_options(const struct command *command, const struct argument *table, size_t n, int argc,
                            char **argv);

/* Says what is wrong with an argument. Returns false. */
bool argument_refuse(const char *name, const char *text, const char *wanted);

/* Says that a word is none of those that were offered to `spelling`. Returns false. */
struct spelling;
bool argument_refuse_name(const char *name, const struct spelling *spelling, const char *wanted);

/* Reads a whole number in min … max. text NULL: the argument was not given, and *number_p does not change. False: a message
 * was printed. */
bool argument_number(const char *name, const char *text, int min, int max, int *number_p);

#endif
