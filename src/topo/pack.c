/* SPDX-License-Identifier: Apache-2.0
 *
 * A host's graph on its way to other ranks. It holds what paths, rings and messages need. It holds nothing that distinguishes
 * two equal hosts (GUIDs, addresses, sets of CPUs), so equal hosts have equal bytes.
 *
 *      │ header │ node 0 │ node 1 │ … │ link 0 │ link 1 │ …        in the order of the graph: searches then go the same way
 */
#include "topo/topo.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { LABEL_BYTES = 32, LINKS_MAX = 64 * TOPO_HOST_NODES_MAX };

struct packed_header {
    uint32_t nnodes, nlinks;
};

struct packed_node {
    int32_t kind, parent;
    int32_t number;           /* numaid of a CPU, dev of a GPU or NIC */
    int16_t link_lanes, port; /* port: of a NIC */
    double link_gts;
    int64_t mbits;
    char label[LABEL_BYTES]; /* name of a NIC, architecture of a CPU, bus id of the others */
};

struct packed_link {
    int32_t from, to, wire, count;
    double gbps;
};

static size_t packed_bytes(uint32_t nnodes, uint32_t nlinks) {
    return sizeof(struct packed_header) + nnodes * sizeof(struct packed_node) + nlinks * sizeof(struct packed_link);
}

/* ---------------------------------------------------------------------------------------------------------- packing */

static void pack_node(const struct topo_node *node, struct packed_node *packed) {
    *packed = (struct packed_node){
        .kind = (int32_t)node->kind,
        .parent = node->parent,
        .number = node->kind == TOPO_CPU   ? node->cpu.numaid
                  : node->kind == TOPO_GPU ? node->gpu.dev
                                           : -1,
        .link_lanes = (int16_t)node->pci.link_lanes,
        .link_gts = node->pci.link_gts,
    };
    const char *label = node->pci.busid;
    if (node->kind == TOPO_NIC) {
        packed->number = node->nic.dev;
        packed->mbits = node->nic.mbits;
        packed->port = (int16_t)node->nic.port;
        label = node->nic.name;
    } else if (node->kind == TOPO_CPU) {
        label = node->cpu.arch;
    }
    snprintf(packed->label, sizeof packed->label, "%.*s", LABEL_BYTES - 1, label);
}

enum collet_result topo_pack(const struct topo *topo, void **bytes_p, size_t *size_p) {
    struct packed_header header = {(uint32_t)topo->nnodes, (uint32_t)topo->nlinks};
    size_t size = packed_bytes(header.nnodes, header.nlinks);
    char *at;
    COLLET_TRY(memory_get(bytes_p, size, 1, "no memory to pack a graph of %d nodes", topo->nnodes));
    at = *bytes_p;
    at = (char *)memcpy(at, &header, sizeof header) + sizeof header;
    for (int n = 0; n < topo->nnodes; n++) {
        struct packed_node packed;
        pack_node(&topo->nodes[n], &packed);
        at = (char *)memcpy(at, &packed, sizeof packed) + sizeof packed;
    }
    for (int l = 0; l < topo->nlinks; l++) {
        const struct topo_link *link = &topo->links[l];
        struct packed_link packed = {link->from, link->to, (int32_t)link->wire, link->count, link->gbps};
        at = (char *)memcpy(at, &packed, sizeof packed) + sizeof packed;
    }
    *size_p = size;
    return COLLET_SUCCESS;
}

/* -------------------------------------------------------------------------------------------------------- unpacking */

static bool node_is_sound(const struct packed_node *packed, int self, int nnodes) {
    bool of_a_host = packed->kind >= 0 && packed->kind < TOPO_NET;
    return of_a_host && packed->parent >= -1 && packed->parent < nnodes && packed->parent != self &&
           memchr(packed->label, '\0', LABEL_BYTES) != NULL;
}

static bool link_is_sound(const struct packed_link *packed, int nnodes) {
    return packed->from >= 0 && packed->from < nnodes && packed->to >= 0 && packed->to < nnodes && packed->wire >= 0 &&
           packed->wire < WIRE_NET && packed->count >= 1 && packed->count <= TOPO_PARALLEL_LINKS_MAX &&
           isfinite(packed->gbps) && packed->gbps > 0;
}

static void unpack_node(struct topo *topo, const struct packed_node *packed) {
    struct topo_node node = topo_blank((enum topo_kind)packed->kind, -1);
    node.pci.link_lanes = packed->link_lanes;
    node.pci.link_gts = packed->link_gts;
    switch (node.kind) {
    case TOPO_CPU:
        node.cpu.numaid = packed->number;
        snprintf(node.cpu.arch, sizeof node.cpu.arch, "%.15s", packed->label);
        break;
    case TOPO_NIC:
        node.nic.dev = packed->number;
        node.nic.mbits = packed->mbits;
        node.nic.port = packed->port;
        snprintf(node.nic.name, sizeof node.nic.name, "%s", packed->label);
        break;
    case TOPO_GPU:
        node.gpu.dev = packed->number; /* and the bus id, as all others */
        /* fall through */
    default: snprintf(node.pci.busid, sizeof node.pci.busid, "%.*s", TOPO_BUSID_BYTES - 1, packed->label);
    }
    int n = topo_add_node(topo, &node);
    if (n >= 0)
        topo->nodes[n].parent = packed->parent; /* its links are packed as well */
}

/* False if the bytes are no graph. */
static bool unpack(struct topo *topo, const struct packed_header *header, const char *at) {
    int nnodes = (int)header->nnodes;
    for (int n = 0; n < nnodes; n++, at += sizeof(struct packed_node)) {
        struct packed_node packed;
        memcpy(&packed, at, sizeof packed);
        if (!node_is_sound(&packed, n, nnodes))
            return false;
        unpack_node(topo, &packed);
    }
    for (uint32_t l = 0; l < header->nlinks; l++, at += sizeof(struct packed_link)) {
        struct packed_link packed;
        memcpy(&packed, at, sizeof packed);
        if (!link_is_sound(&packed, nnodes))
            return false;
        topo_add_link(topo, packed.from, packed.to, (enum topo_wire)packed.wire, packed.count, packed.gbps);
    }
    topo->hosts[0].end_node = topo->nnodes;
    return topo->status != COLLET_SUCCESS || topo_count(topo, 0, TOPO_CPU) > 0;
}

enum collet_result topo_unpack(const void *bytes, size_t size, struct topo **topo_p) {
    struct packed_header header = {0, 0};
    struct topo *topo;
    if (size >= sizeof header)
        memcpy(&header, bytes, sizeof header);
    if (header.nnodes < 1 || header.nnodes > TOPO_HOST_NODES_MAX || header.nlinks > LINKS_MAX ||
        size != packed_bytes(header.nnodes, header.nlinks))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%zu bytes are no packed graph of a host", size);
    COLLET_TRY(topo_create(&topo));
    bool sound = unpack(topo, &header, (const char *)bytes + sizeof header);
    enum collet_result status = topo->status;
    if (status == COLLET_SUCCESS && !sound)
        status = err_set(COLLET_ERR_INVALID_ARGUMENT, "a packed graph of %u nodes contradicts itself", header.nnodes);
    return topo_give(topo, status, topo_p);
}
