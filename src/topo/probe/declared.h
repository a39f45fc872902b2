/* SPDX-License-Identifier: Apache-2.0
 *
 * NICs that a plugin declares. A plugin that carries all data knows which NICs it uses. A graph of this machine then has only these NICs,
 * at the bus ids that the plugin says.
 */
#ifndef COLLET_TOPO_PROBE_DECLARED_H
#define COLLET_TOPO_PROBE_DECLARED_H

#include "topo/probe/topo.h"

#define TOPO_DECLARED_MAX 64

struct topo_declared {
    struct topo_nic nic;
    char busid[TOPO_BUSID_BYTES]; /* Bus id of the NIC. "": the NIC is on no bus. */
};

/* Declares NICs for all graphs that this process makes from now on. count 0 withdraws the declaration. */
void topo_declare_nics(const struct topo_declared *nics, int count);

/* Puts the declared NICs into a graph that is not finished. All other NICs become PCI functions without a NIC. */
void topo_add_declared(struct topo *topo);

#endif
