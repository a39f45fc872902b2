/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that knobs name, to be read: graphs, schedules, constants of the cost model. Nobody reads without end, or waits without end.
 */
#ifndef COLLET_TOPO_PROBE_TEXT_H
#define COLLET_TOPO_PROBE_TEXT_H

#include "collet.h"

#include <stddef.h>

#define TEXT_BYTES_MAX (4 << 20)

/* The text of a file, to be freed, with a zero behind it. A pipe is read for 2 s at most, a file for 10 s. `bad` is the error of a file that cannot be
 * read, is empty, is longer than TEXT_BYTES_MAX, or is a pipe that nobody writes into. In messages, `knob` goes before the path; "" is
 * fine. */
enum collet_result text_load(const char *knob, const char *path, enum collet_result bad, char **text_p,
                             size_t *bytes_p);

#endif
