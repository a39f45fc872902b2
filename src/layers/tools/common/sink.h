/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a tool writes. One rule for all: -o FILE, and "-" is standard output. One line on standard error names what was
 * written.
 */
#ifndef COLLET_LAYERS_TOOLS_COMMON_SINK_H
#define COLLET_LAYERS_TOOLS_COMMON_SINK_H

#include <stdbool.h>
#include <stdio.h>

/* For the table of options of a tool that prints. */
#define ARGUMENT_OUTPUT(to)                                                                                            \
    { "output", 'o', "FILE", to, NULL, "what is printed goes there; - is standard output" }

/* From now on standard output is the file (NULL, "-": it stays). False after a message. */
bool sink_begin(const char *path);
/* At the end. Returns the status, or EXIT_FAILURE after a message if not all could be written. */
int sink_end(int status);

/* Opens one more file for output. NULL after a message, which names the option. */
FILE *sink_open(const char *option, const char *path);
/* Also says that it was written; false after a message if not all could be. */
bool sink_close(const char *option, const char *path, FILE *file);
/* Says that the file was written, if other code has written it. */
void sink_wrote(const char *path);

#endif
