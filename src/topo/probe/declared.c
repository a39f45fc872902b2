/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/probe/declared.h"

#include "base/memory.h"

#include <string.h>

PROCESS_LOCK(lock);
static struct topo_declared declared[TOPO_DECLARED_MAX];
static int ndeclared;

void topo_declare_nics(const struct topo_declared *nics, int count) {
    SCOPED_LOCK(&lock);
    ndeclared = count < TOPO_DECLARED_MAX ? count : TOPO_DECLARED_MAX;
    if (ndeclared > 0)
        memcpy(declared, nics, (size_t)ndeclared * sizeof *nics);
}

/* Each port of a PCI function is a NIC. The first takes the function's node; the others get nodes beside it. */
static void add_one(struct topo *topo, const struct topo_declared *one) {
    int at = topo_find_busid(topo, one->busid);
    struct topo_node node = topo_blank(TOPO_NIC, at > 0 ? topo->nodes[at].parent : 0);
    node.nic = one->nic;
    if (at > 0 && topo->nodes[at].kind == TOPO_PCI && topo_pci_is_nic(&topo->nodes[at].pci)) {
        topo->nodes[at].kind = TOPO_NIC;
        topo->nodes[at].nic = one->nic;
    } else
        topo_add_node(topo, &node);
}

void topo_add_declared(struct topo *topo) {
    SCOPED_LOCK(&lock);
    for (int n = 0; ndeclared > 0 && n < topo->nnodes; n++)
        if (topo->nodes[n].kind == TOPO_NIC)
            topo->nodes[n].kind = TOPO_PCI;
    for (int k = 0; k < ndeclared; k++)
        add_one(topo, &declared[k]);
}
