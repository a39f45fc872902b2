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

/* For all graphs of this process that are made from now on. 0: none, as before. */
void topo_declare_nics(const struct topo_declared *nics, int count);

/* Gives them to a graph that is not finished. Other NICs remain as PCI functions that are none. */
void topo_add_declared(struct topo *topo);

#endif
