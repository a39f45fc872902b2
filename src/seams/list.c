/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of the layers that have functions for the moments of seams/layer.h. This file is compiled for each library: MOMENTS names
 * the library's layers.
 */
#include "seams/layer.h"

#include <stddef.h>

#define X(name) extern const struct layer layer_##name;
MOMENTS
#undef X

#define X(name) &layer_##name,
const struct layer *const layers[] = {MOMENTS NULL};
const int nlayers = sizeof layers / sizeof *layers - 1;
