/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads files that knobs name: graphs, schedules, constants of the cost model. Length and time of reading are limited.
 */
#ifndef COLLET_TOPO_PROBE_TEXT_H
#define COLLET_TOPO_PROBE_TEXT_H

#include "collet.h"

#include <stddef.h>

#define TEXT_BYTES_MAX (4 << 20)

/* Reads a whole file into *text_p, with a zero behind it. The caller frees the text. Reading takes at most 2 s from a pipe,
 * and 10 s from a file. `bad` is the error if the file cannot be read, is empty, is longer than TEXT_BYTES_MAX, or is a pipe
 * that nobody writes into. In messages, `knob` stands before the path; it may be "". */
enum collet_result text_load(const char *knob, const char *path, enum collet_result bad, char **text_p,
                             size_t *bytes_p);

#endif
