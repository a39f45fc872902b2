/* SPDX-License-Identifier: Apache-2.0
 *
 * What hwloc knows about a machine, this one or one in a file, as a graph. See hwloc_read.c.
 */
#ifndef COLLET_TOPO_HWLOC_READ_H
#define COLLET_TOPO_HWLOC_READ_H

#include "topo/topo.h"

#include <libxml/tree.h>

/* Hwloc's XML, <topology> with all that is in it. The graph is not finished yet: who calls may add to it. */
enum collet_result topo_read_hwloc(const xmlNode *topology, const char *name, struct topo **topo_p);

#endif
