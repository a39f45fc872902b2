/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of a tool. All tools have one rule: -o FILE names the file, and "-" is standard output. A line on standard error names each
 * file that was written.
 */
#ifndef COLLET_LAYERS_TOOLS_COMMON_SINK_H
#define COLLET_LAYERS_TOOLS_COMMON_SINK_H

#include <stdbool.h>
#include <stdio.h>

/* The option -o, for the table of options of a tool that prints. */
#define ARGUMENT_OUTPUT(to)                                                                                            \
    { "output", 'o', "FILE", to, NULL, "what is printed goes there; - is standard output" }

/* Makes the file standard output. NULL or "-": standard output stays as it is. False: a message was printed. */
bool sink_begin(const char *path);
/* Ends the output. Returns the status, or EXIT_FAILURE after a message if not all could be written. */
int sink_end(int status);

/* Opens one more file for output. NULL: a message was printed, which names the option. */
FILE *sink_open(const char *option, const char *path);
/* Closes the file and says that it was written. False: not all could be written, and a message was printed. */
bool sink_close(const char *option, const char *path, FILE *file);
/* Says that the file was written, if other code has written it. */
void sink_wrote(const char *path);

#endif
