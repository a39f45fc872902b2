/* SPDX-License-Identifier: Apache-2.0
 *
 * What links carry in one direction, in GB/s: numbers that no file and no driver tells.
 */
#ifndef COLLET_TOPO_PROBE_SPEEDS_H
#define COLLET_TOPO_PROBE_SPEEDS_H

#include "topo/probe/topo.h"

#define SPEED_LOCAL 5000.0    /* never binds */
#define SPEED_NIC_MBITS 10000 /* of a port of unknown speed */

/* The link of this function towards the CPU; where it is unknown, 16 lanes of 8 GT/s. */
double speed_of_pci(const struct topo_pci *pci);
/* Sets the lanes and their rate whose raw bandwidth comes nearest. */
void speed_guess_lanes(double raw_gbps, struct topo_pci *pci);
/* The narrower of two links in a row, into *pci. */
void speed_narrow(struct topo_pci *pci, const struct topo_pci *other);

/* One NVLink or xGMI link of this GPU. */
double speed_of_gpu_link(const struct topo_gpu *gpu);
/* Between two CPUs of a host, of this kind. */
double speed_of_sys(const struct topo_cpu *cpu);
/* A network port; where it is unknown its PCI link, and where that is too, SPEED_NIC_MBITS. */
double speed_of_nic(const struct topo_node *nic);

#endif
