/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "many": algorithms for many ranks, many nodes and switches, beside the lines of program/registry.h.
 */
#ifndef COLLET_SEAMS_MANY_H
#define COLLET_SEAMS_MANY_H

#include "topo/shape.h"

/* Is the layer there? Its algorithms that take any shape apply if it is. */
bool many_apply(const struct prog_shape *shape);

/* Is a shape a grid, of several nodes and of several rails, but no more than RAILS_MAX (algo/many/rails.h)? */
bool rails_apply(const struct prog_shape *shape);

#endif
