/* SPDX-License-Identifier: Apache-2.0
 *
 * NICs that somebody else has found: a plugin that carries all data knows what it uses. Then a graph of this machine has just
 * these NICs, where the plugin says that they are.
 */
#ifndef COLLET_TOPO_PROBE_DECLARED_H
#define COLLET_TOPO_PROBE_DECLARED_H

#include "topo/probe/topo.h"

#define TOPO_DECLARED_MAX 64

struct topo_declared {
    struct topo_nic nic;
    char busid[TOPO_BUSID_BYTES]; /* "": it is on no bus */
};

/* Declares NICs, for all graphs that this process makes from now on. 0 NICs: no declaration. */
void topo_declare_nics(const struct topo_declared *nics, int count);

/* Puts the declared NICs into a graph that is not finished. All other NICs become PCI functions without a NIC. */
void topo_add_declared(struct topo *topo);

#endif
