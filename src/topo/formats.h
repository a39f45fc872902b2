/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of files, each read from the root of its document, which is already parsed. The graph is not finished
 * yet: who calls may add to it. Unless it is TOPO_RECORDED, what the file does not say about PCI functions is asked
 * of the kernel.
 */
#ifndef COLLET_TOPO_FORMATS_H
#define COLLET_TOPO_FORMATS_H

#include "topo/topo.h"

#include <libxml/tree.h>

/* NCCL's <system>. (xml_read.c) */
enum collet_result topo_read_nccl(const xmlNode *system, const char *name, enum topo_whose whose, struct topo **topo_p);

/* hwloc's <topology>. (hwloc_read.c) */
enum collet_result topo_read_hwloc(const xmlNode *topology, const char *name, enum topo_whose whose,
                                   struct topo **topo_p);

#endif
