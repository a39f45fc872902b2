/* SPDX-License-Identifier: Apache-2.0
 *
 * Skips what repeats in a simulation, without changing its result. See steady.c for how.
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_STEADY_H
#define COLLET_LAYERS_TOOLS_FORECAST_STEADY_H

#include "layers/tuner/sim.h"

extern const struct sim_skipper steady_skipper;

#endif
