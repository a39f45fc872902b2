/* SPDX-License-Identifier: Apache-2.0
 *
 * From fewer hosts to more: N hosts that are affordable, a half and a quarter of them, each rank simulated. If time grew
 * equally from each to the next, as of a tree, it goes on to do so with every doubling; if it grew twice as much, as of a
 * chain, it grows with the number of hosts. If neither holds, there is no forecast.
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_FEWER_H
#define COLLET_LAYERS_TOOLS_FORECAST_FEWER_H

#include "layers/tools/forecast/simulated.h"

struct fewer_hosts;

/* Opens the smaller jobs. *fewer_p stays NULL if the job itself has too few hosts for that. */
enum collet_result fewer_open(const struct simulated *whole, struct fewer_hosts **fewer_p);
void fewer_close(struct fewer_hosts *fewer); /* NULL is fine */

/* Like forecast_run(): predicts the whole job. f->kind stays NONE if there is no forecast. */
enum collet_result fewer_run(struct fewer_hosts *fewer, const struct plan_choice *choice, uint64_t bytes, bool latency,
                             struct forecast *f);

/* The smaller job with the most hosts. */
const struct simulated *fewer_largest(const struct fewer_hosts *fewer);

#endif
