/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that knobs name: logs, dumps, records, traces.
 */
#ifndef COLLET_BASE_OUTPUT_H
#define COLLET_BASE_OUTPUT_H

#include <stdbool.h>

/* Opens the file that a pattern names, for writing, with these further flags of open(): %h in it is the host, %p the process,
 * %r the rank (−1: there is none), %% a percent sign. Only its owner may read a new file; a link in its place is refused.
 * −1: errno says why not. */
int output_open(const char *pattern, int rank, int flags);

/* The file that a pattern names becomes this text, at once: nobody reads half of it. All may read it. False: errno says why not. */
bool output_replace(const char *pattern, const char *text, unsigned long bytes);

/* Writes all of it, in one write() if the system takes it so. False: what could not be written is lost, errno says why. */
bool output_write(int fd, const char *text, unsigned long bytes);

#endif
