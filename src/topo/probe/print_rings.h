/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints rings and trees: what they are, what they carry, and why.
 */
#ifndef COLLET_TOPO_PROBE_PRINT_RINGS_H
#define COLLET_TOPO_PROBE_PRINT_RINGS_H

#include "topo/probe/search.h"

enum collet_result topo_print_rings(const struct topo_rings *rings, FILE *out); /* routes, hop by hop */
enum collet_result topo_print_trees(const struct topo_rings *rings, FILE *out); /* chains, and trees of their heads */
enum collet_result topo_print_bandwidth(const struct topo_rings *rings, FILE *out); /* and the links that bind */
enum collet_result topo_print_reasons(const struct topo_rings *rings, FILE *out);   /* of every NIC */

#endif
