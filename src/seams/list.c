/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of the layers that do something at the moments of seams/layer.h. It is compiled for each link: MOMENTS names these layers.
 */
#include "seams/layer.h"

#include <stddef.h>

#define X(name) extern const struct layer layer_##name;
MOMENTS
#undef X

#define X(name) &layer_##name,
const struct layer *const layers[] = {MOMENTS NULL};
const int nlayers = sizeof layers / sizeof *layers - 1;
