/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that knobs name: logs, dumps, records, traces.
 */
#ifndef COLLET_BASE_OUTPUT_H
#define COLLET_BASE_OUTPUT_H

#include <limits.h>
#include <stdbool.h>

/* Opens the file that a pattern names, for writing, with these further flags of open(): %h in it is the host, %p the process,
 * %r the rank (−1: there is none), %% a percent sign. Only its owner may read a new file. A link in its place is refused, a file that is
 * not this user's alone, and a pipe that nobody reads. −1: output_why() says why not, as long as errno stays. */
int output_open(const char *pattern, int rank, int flags);
const char *output_why(void);
/* The path of that file. False: it is longer than a path may be. */
bool output_path(const char *pattern, int rank, char path[PATH_MAX]);

/* Writes all of it, in one write() if the system takes it so. A pipe, a socket or a terminal may keep it waiting for so many ms (−1: for
 * ever), up to PIPE_BUF bytes go there as a whole, and no signal comes. False: what was not taken is lost, errno says why. */
bool output_write(int fd, const char *text, unsigned long bytes, int wait_ms);

#endif
