/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that knobs name: logs, dumps, records, traces. These functions block if the file system blocks, for
 * example because its server is gone. seams/outlet.h has such functions that do not block.
 */
#ifndef COLLET_BASE_OUTPUT_H
#define COLLET_BASE_OUTPUT_H

#include <limits.h>
#include <stdbool.h>

/* Opens the file that a pattern names, for writing. flags: further flags of open(). In the pattern %h is the host, %p the process, %r the
 * rank (−1: there is none), %% a percent sign. Only the owner may read a new file. Links, files that do not belong to this user alone,
 * and pipes without a reader are refused. −1: it failed, and output_why() says why, as long as errno is unchanged. */
int output_open(const char *pattern, int rank, int flags);
const char *output_why(void);
/* Makes the path that a pattern names. False: it is too long for a path. */
bool output_path(const char *pattern, int rank, char path[PATH_MAX]);

/* Writes all bytes, if possible with one write(). Waits at most wait_ms for a pipe, socket or terminal (−1: no limit). Up to PIPE_BUF bytes
 * are written as a whole. No signal is raised. False: some bytes are lost, and errno says why. */
bool output_write(int fd, const char *text, unsigned long bytes, int wait_ms);

#endif
