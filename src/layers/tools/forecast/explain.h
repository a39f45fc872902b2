/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts in words, and the words that tools are asked in.
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_EXPLAIN_H
#define COLLET_LAYERS_TOOLS_FORECAST_EXPLAIN_H

#include "layers/tools/forecast/forecast.h"
#include "layers/tuner/cards.h"

/* "64", "1.5K", "64M", "2G", in units of 1024; false if it is none of 1 … 2^50. */
bool explain_read_size(const char *text, uint64_t *bytes_p);
/* "64M", or bytes if it is no whole number of a unit. */
const char *explain_size(uint64_t bytes, char text[24]);

/* Where the constants of the job's model are from, in half a sentence. */
const char *explain_constants(const struct forecast_job *job, char text[CARD_NOTE_BYTES]);

/* All candidates for a call, the choice first, and why it is chosen. */
enum collet_result explain_print(const struct forecast_job *job, enum prog_collective collective, uint64_t bytes,
                                 FILE *out);

#endif
