/* SPDX-License-Identifier: Apache-2.0
 *
 * Bandwidth of links in one direction, in GB/s. No file and no driver says these numbers.
 */
#ifndef COLLET_TOPO_PROBE_SPEEDS_H
#define COLLET_TOPO_PROBE_SPEEDS_H

#include "topo/probe/topo.h"

#define SPEED_LOCAL 5000.0    /* So large that a local link never limits. */
#define SPEED_NIC_MBITS 10000 /* Assumed for a port of unknown speed. */

/* Bandwidth of the link from a PCI function towards the CPU. If the link is unknown, 16 lanes of 8 GT/s are assumed. */
double speed_of_pci(const struct topo_pci *pci);
/* Chooses the number of lanes and their rate, so that their raw bandwidth is nearest to raw_gbps. */
void speed_guess_lanes(double raw_gbps, struct topo_pci *pci);
/* `pci` and `other` are two links in a row. If the other link is narrower, its rate and lanes replace those of *pci. */
void speed_narrow(struct topo_pci *pci, const struct topo_pci *other);

/* Bandwidth of one NVLink or xGMI link of this GPU. */
double speed_of_gpu_link(const struct topo_gpu *gpu);
/* Bandwidth between two CPUs of a host that are of this kind. */
double speed_of_sys(const struct topo_cpu *cpu);
/* Bandwidth of a network port. If the speed of the port is unknown, the result is that of its PCI link, or else
 * SPEED_NIC_MBITS. */
double speed_of_nic(const struct topo_node *nic);

#endif
