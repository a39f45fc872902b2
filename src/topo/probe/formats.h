/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of files. Each reader begins at the root of a parsed document. It does not finish the graph, so its caller
 * may add to it. If the graph is not TOPO_RECORDED, the kernel is asked for what the file does not say about PCI functions.
 */
#ifndef COLLET_TOPO_PROBE_FORMATS_H
#define COLLET_TOPO_PROBE_FORMATS_H

#include "topo/probe/topo.h"

#include <libxml/tree.h>

/* Reads NCCL's <system>. (xml_read.c) */
enum collet_result topo_read_nccl(const xmlNode *system, const char *name, enum topo_whose whose, struct topo **topo_p);

/* Reads hwloc's <topology>. (hwloc_read.c) */
enum collet_result topo_read_hwloc(const xmlNode *topology, const char *name, enum topo_whose whose,
                                   struct topo **topo_p);

#endif
