/* SPDX-License-Identifier: Apache-2.0
 *
 * How near a NIC is to a GPU. Traffic between the two is slow if it crosses the interconnect between CPUs, because CPUs
 * forward peer-to-peer traffic badly. Then it may be better to send from pinned host memory next to the NIC.
 *
 *      CPU 0 ────SYS──── CPU 1        GPU and NIC 0   PIX   GPUDirect
 *        │PHB              │          GPU and NIC 1   PHB   GPUDirect, unless COLLET_NET_GDR_LEVEL is PXB or less
 *       ╱ ╲                NIC 2      GPU and NIC 2   SYS   pinned host memory, unless it is SYS
 *    PCI   NIC 1
 *    ╱ ╲
 *  GPU  NIC 0
 */
#ifndef COLLET_TRANSPORT_VERBS_VERBS_NEAR_H
#define COLLET_TRANSPORT_VERBS_VERBS_NEAR_H

#include "base/config.h"
#include "topo/probe/topo.h"

#include <stdbool.h>

/* The path on this machine between an RDMA device and GPU `ordinal`; NONE: not known. */
enum topo_class verbs_path_to_gpu(const struct config *config, const char *device, int ordinal);

/* Is this path short enough for COLLET_NET_GDR_LEVEL? An unknown path is. */
bool verbs_is_near(const struct config *config, enum topo_class path);

#endif
