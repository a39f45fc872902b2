/* SPDX-License-Identifier: Apache-2.0
 *
 * What links carry in one direction, in GB/s: numbers that no file and no driver tells.
 */
#ifndef COLLET_TOPO_PROBE_SPEEDS_H
#define COLLET_TOPO_PROBE_SPEEDS_H

#include "topo/probe/topo.h"

#define SPEED_LOCAL 5000.0    /* never binds */
#define SPEED_NIC_MBITS 10000 /* assumed for a port of unknown speed */

/* Bandwidth of a function's link towards the CPU. If it is unknown, 16 lanes of 8 GT/s are assumed. */
double speed_of_pci(const struct topo_pci *pci);
/* Chooses the number of lanes, and their rate, whose raw bandwidth is nearest. */
void speed_guess_lanes(double raw_gbps, struct topo_pci *pci);
/* Stores the narrower of two links in a row in *pci. */
void speed_narrow(struct topo_pci *pci, const struct topo_pci *other);

/* Bandwidth of one NVLink or xGMI link of this GPU. */
double speed_of_gpu_link(const struct topo_gpu *gpu);
/* Bandwidth between two CPUs of a host, of this kind. */
double speed_of_sys(const struct topo_cpu *cpu);
/* Bandwidth of a network port. If it is unknown, that of its PCI link; if that is unknown too, SPEED_NIC_MBITS. */
double speed_of_nic(const struct topo_node *nic);

#endif
