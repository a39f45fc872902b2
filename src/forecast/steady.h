/* SPDX-License-Identifier: Apache-2.0
 *
 * Skips what repeats in a simulation, without changing what comes of it. See steady.c for how.
 */
#ifndef COLLET_FORECAST_STEADY_H
#define COLLET_FORECAST_STEADY_H

#include "plan/sim.h"

extern const struct sim_skipper steady_skipper;

#endif
