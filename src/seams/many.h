/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "many": algorithms for many ranks, many nodes and switches, beside the lines of program/registry.h.
 */
#ifndef COLLET_SEAMS_MANY_H
#define COLLET_SEAMS_MANY_H

#include "topo/shape.h"

/* Is the layer present? Only then its algorithms for any shape apply. */
bool many_apply(const struct prog_shape *shape);

/* Is the shape a grid: several nodes and several rails, at most RAILS_MAX (algo/many/rails.h)? */
bool rails_apply(const struct prog_shape *shape);

#endif
