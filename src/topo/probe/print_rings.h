/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints rings and trees: what they are, what they carry, and why.
 */
#ifndef COLLET_TOPO_PROBE_PRINT_RINGS_H
#define COLLET_TOPO_PROBE_PRINT_RINGS_H

#include "topo/probe/search.h"

enum collet_result topo_print_rings(const struct topo_rings *rings, FILE *out); /* Prints the routes, hop by hop. */
/* Prints the chains, and the trees of their heads. */
enum collet_result topo_print_trees(const struct topo_rings *rings, FILE *out);
/* Prints the expected bandwidth, and the links that limit it. */
enum collet_result topo_print_bandwidth(const struct topo_rings *rings, FILE *out);
/* Prints why each NIC is used as it is. */
enum collet_result topo_print_reasons(const struct topo_rings *rings, FILE *out);

#endif
