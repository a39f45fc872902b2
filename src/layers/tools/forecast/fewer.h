/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts from fewer hosts. Every rank of N hosts is simulated, and of a half and a quarter of them; N is as large as affordable.
 * Suppose that the time grew equally from N/4 to N/2 and from N/2 to N hosts, as with a tree: then it grows so with every further
 * doubling. Or suppose that the second growth was twice the first, as with a chain: then the time grows with the number of hosts.
 * If neither holds, there is no forecast.
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_FEWER_H
#define COLLET_LAYERS_TOOLS_FORECAST_FEWER_H

#include "layers/tools/forecast/simulated.h"

struct fewer_hosts;

/* Opens the smaller jobs. *fewer_p stays NULL if the job itself has too few hosts. */
enum collet_result fewer_open(const struct simulated *whole, struct fewer_hosts **fewer_p);
void fewer_close(struct fewer_hosts *fewer); /* `fewer` may be NULL. */

/* Works as forecast_run(): predicts the whole job. f->kind stays NONE if there is no forecast. */
enum collet_result fewer_run(struct fewer_hosts *fewer, const struct plan_choice *choice, uint64_t bytes, bool latency,
                             struct forecast *f);

/* The smaller job with the most hosts. */
const struct simulated *fewer_largest(const struct fewer_hosts *fewer);

#endif
