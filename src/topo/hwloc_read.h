/* SPDX-License-Identifier: Apache-2.0
 *
 * What hwloc knows about a machine, this one or one in a file, as a graph. See hwloc_read.c.
 */
#ifndef COLLET_TOPO_HWLOC_READ_H
#define COLLET_TOPO_HWLOC_READ_H

#include "topo/topo.h"

/* This machine, not finished yet: who calls may add to it. */
enum collet_result topo_probe_hwloc(struct topo **topo_p);

/* hwloc's XML, finished. */
enum collet_result topo_read_hwloc(const char *text, size_t bytes, const char *name, struct topo **topo_p);

#endif
