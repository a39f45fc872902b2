/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel says about devices of a graph: PCI links, network ports, RDMA ports. See sysfs.c.
 */
#ifndef COLLET_TOPO_PROBE_SYSFS_H
#define COLLET_TOPO_PROBE_SYSFS_H

#include "topo/probe/topo.h"

#include <dirent.h>

/* opendir(), whose descriptor is none of the terminal (base/os.h). */
DIR *sysfs_opendir(const char *path);

/* Fills in what is still unknown about a PCI function. root is "/sys", or a copy of parts of it. */
void topo_read_sysfs_pci(struct topo_pci *pci, const char *root);

/* Fills in all nodes of a graph that is not finished, and their network ports. */
void topo_read_sysfs(struct topo *topo, const char *root);

/* If there is no NIC on a PCI bus: adds the network interfaces of the host, next to the first CPU. */
void topo_add_interfaces(struct topo *topo, const char *root);

/* Is it known that this NIC has no link? It has the name of its RDMA device or of its interface. */
bool topo_nic_is_down(const char *nic, const char *root);

/* The network interface of a NIC. The NIC's name in graphs is that of an interface or of an RDMA device. False if this host
 * has no such interface. */
bool topo_find_interface(const char *nic, const char *root, char interface[TOPO_NAME_BYTES]);

#endif
