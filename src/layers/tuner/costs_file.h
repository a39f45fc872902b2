/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost table as text, which collet-tune writes and COLLET_TUNER_FILE loads: a line for each constant, its name, value
 * and unit; # begins a comment. Constants that a file does not name keep their defaults.
 *
 *      memory.Simple.byte   0.022   ns/byte      # a class of links (costs.h) · protocol · what
 *      host.switch          900     ns
 */
#ifndef COLLET_LAYERS_TUNER_COSTS_FILE_H
#define COLLET_LAYERS_TUNER_COSTS_FILE_H

#include "layers/tuner/costs.h"

#include "collet.h"

#include <stdio.h>

/* Reads constants from a file. A constant that the file does not name keeps its value in *costs. Error: INVALID_USAGE if the
 * file cannot be read or has a wrong line; the message has file, line and reason, and *costs is not written. */
enum collet_result costs_read(const char *path, struct cost_table *costs);
/* Reads constants from a text in memory. `name` names the text in messages. */
enum collet_result costs_read_text(const char *text, const char *name, struct cost_table *costs);

/* Writes the constants whose names begin with `prefix`, in the format of a tuning file. */
void costs_print(const struct cost_table *costs, const char *prefix, FILE *out);

#endif
