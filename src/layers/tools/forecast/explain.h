/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints forecasts in words, and reads sizes that users write.
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_EXPLAIN_H
#define COLLET_LAYERS_TOOLS_FORECAST_EXPLAIN_H

#include "layers/tools/forecast/forecast.h"
#include "layers/tuner/cards.h"

/* Reads a size such as "64", "1.5K", "64M" or "2G", in units of 1024. False: it is not a number from 1 to 2^50. */
bool explain_read_size(const char *text, uint64_t *bytes_p);
/* Writes a size such as "64M". If `bytes` is no whole number of K, M or G, writes the number of bytes. Returns `text`. */
const char *explain_size(uint64_t bytes, char text[24]);

/* Says in half a sentence where the constants of the job's model come from. Returns `text`. */
const char *explain_constants(const struct forecast_job *job, char text[CARD_NOTE_BYTES]);

/* Prints all candidates for a call, the choice first, and why it is chosen. */
enum collet_result explain_print(const struct forecast_job *job, enum prog_collective collective, uint64_t bytes,
                                 FILE *out);

#endif
