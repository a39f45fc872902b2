/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what the kernel says about devices of a graph: PCI links, network ports, RDMA ports. See sysfs.c.
 */
#ifndef COLLET_TOPO_PROBE_SYSFS_H
#define COLLET_TOPO_PROBE_SYSFS_H

#include "topo/probe/topo.h"

#include <dirent.h>

/* Works as opendir(), but the directory's descriptor is never 0, 1 or 2 (base/os.h). */
DIR *sysfs_opendir(const char *path);

/* Fills in what is still unknown about a PCI function. `root` is "/sys", or a copy of parts of it. */
void topo_read_sysfs_pci(struct topo_pci *pci, const char *root);

/* Fills in the PCI functions and network ports of a graph that is not finished. */
void topo_read_sysfs(struct topo *topo, const char *root);

/* Adds the network interfaces of the host next to the first CPU, if the graph has no NIC on a PCI bus. */
void topo_add_interfaces(struct topo *topo, const char *root);

/* Is this NIC known to have no link? `nic` is the name of an RDMA device or of an interface. */
bool topo_nic_is_down(const char *nic, const char *root);

/* Finds the network interface of a NIC. `nic` is the name of the NIC in graphs: that of an interface or of an RDMA device.
 * False: this host has no such interface. */
bool topo_find_interface(const char *nic, const char *root, char interface[TOPO_NAME_BYTES]);

#endif
