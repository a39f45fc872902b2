/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a graph, and fusing the graphs of several hosts into one.
 *
 * While a graph is built, the first failure stays in topo->status, and later calls do nothing. So the code that builds has no
 * error handling: topo_finish() tells the failure.
 */
#include "topo/probe/topo.h"

#include "base/grow.h"
#include "base/log.h"
#include "base/memory.h"
#include "topo/probe/speeds.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static enum collet_result make_hosts(struct topo *topo, int nhosts) {
    free(topo->hosts);
    topo->hosts = NULL;
    topo->nhosts = nhosts;
    return memory_get(&topo->hosts, (size_t)nhosts, sizeof *topo->hosts, "no memory for %d hosts", nhosts);
}

enum collet_result topo_give(struct topo *topo, enum collet_result status, struct topo **topo_p) {
    if (status == COLLET_SUCCESS)
        *topo_p = topo;
    else
        topo_destroy(topo);
    return status;
}

enum collet_result topo_create(struct topo **topo_p) {
    struct topo *topo;
    COLLET_TRY(memory_get(&topo, 1, sizeof *topo, "no memory for the graph of a host"));
    topo->net = -1;
    return topo_give(topo, make_hosts(topo, 1), topo_p);
}

void topo_destroy(struct topo *topo) {
    if (topo == NULL)
        return;
    free(topo->nodes);
    free(topo->links);
    free(topo->hosts);
    free(topo);
}

struct topo_node topo_blank(enum topo_kind kind, int parent) {
    struct topo_node node = {.kind = kind, .parent = parent};
    if (kind == TOPO_CPU) {
        node.cpu.familyid = node.cpu.modelid = node.cpu.package = -1;
    } else if (kind == TOPO_GPU) {
        node.gpu.dev = node.gpu.rank = -1;
    } else if (kind == TOPO_NIC) {
        node.nic.dev = -1;
    }
    return node;
}

bool topo_pci_is_gpu(const struct topo_pci *pci) {
    bool computes = pci->vendor == 0 || pci->vendor == 0x10de || pci->vendor == 0x1002;
    return computes && (pci->class >> 16 == 0x03 || pci->class >> 16 == 0x12);
}

bool topo_pci_is_nic(const struct topo_pci *pci) { return pci->class >> 16 == 0x02; }

/* --------------------------------------------------------------------------------------------------------- building */

static void append_link(struct topo *topo, const struct topo_link *link) {
    if (!grow(&topo->links, (size_t)topo->nlinks, 1, &topo->room_links, sizeof *link)) {
        topo->status = err_set(COLLET_ERR_NO_MEMORY, "no memory for %d links of a graph", topo->nlinks + 1);
        return;
    }
    struct topo_link *mine = &topo->links[topo->nlinks];
    *mine = *link;
    mine->next = topo->nodes[link->from].first_link;
    topo->nodes[link->from].first_link = topo->nlinks++;
}

static struct topo_link *find_link(const struct topo *topo, int from, int to, enum topo_medium medium) {
    for (int l = topo->nodes[from].first_link; l >= 0; l = topo->links[l].next)
        if (topo->links[l].to == to && topo->links[l].medium == medium)
            return &topo->links[l];
    return NULL;
}

void topo_add_link(struct topo *topo, int from, int to, enum topo_medium medium, int count, double gbps) {
    if (topo->status != COLLET_SUCCESS || from < 0 || to < 0)
        return;
    struct topo_link *present = find_link(topo, from, to, medium);
    if (present == NULL) {
        append_link(topo, &(struct topo_link){.from = from, .to = to, .medium = medium, .count = count, .gbps = gbps});
    } else {
        present->gbps += gbps;
        present->count += count; /* The count is bounded, so that the graph can be written and read again. */
        if (present->count > TOPO_PARALLEL_LINKS_MAX)
            present->count = TOPO_PARALLEL_LINKS_MAX;
    }
}

static int append_node(struct topo *topo, const struct topo_node *node) {
    if (topo->status != COLLET_SUCCESS)
        return -1;
    if (!grow(&topo->nodes, (size_t)topo->nnodes, 1, &topo->room_nodes, sizeof *node)) {
        topo->status = err_set(COLLET_ERR_NO_MEMORY, "no memory for %d nodes of a graph", topo->nnodes + 1);
        return -1;
    }
    topo->nodes[topo->nnodes] = *node;
    topo->nodes[topo->nnodes].first_link = -1;
    return topo->nnodes++;
}

static enum topo_medium parent_medium(const struct topo_node *node) {
    return node->pci.busid[0] != '\0' ? MEDIUM_PCI : MEDIUM_LOCAL;
}

int topo_add_node(struct topo *topo, const struct topo_node *node) {
    if (topo->status == COLLET_SUCCESS && topo->nnodes >= TOPO_HOST_NODES_MAX)
        topo->status = err_set(COLLET_ERR_INVALID_ARGUMENT, "a host has more than %d CPUs, bridges and devices",
                               TOPO_HOST_NODES_MAX);
    int n = append_node(topo, node);
    if (n < 0 || node->parent < 0)
        return n;
    topo_add_link(topo, n, node->parent, parent_medium(node), 1, SPEED_LOCAL);
    topo_add_link(topo, node->parent, n, parent_medium(node), 1, SPEED_LOCAL);
    return n;
}

int topo_nvswitch(struct topo *topo) {
    for (int n = 0; n < topo->nnodes; n++)
        if (topo->nodes[n].kind == TOPO_NVS)
            return n;
    struct topo_node nvs = topo_blank(TOPO_NVS, -1);
    return topo_add_node(topo, &nvs);
}

/* -------------------------------------------------------------------------------------------------------- finishing */

static int *dev_of(struct topo_node *node) { return node->kind == TOPO_GPU ? &node->gpu.dev : &node->nic.dev; }

/* Gives the lowest free numbers, in order, to devices without a number. */
static void number_devices(struct topo *topo, enum topo_kind kind) {
    bool taken[TOPO_HOST_NODES_MAX] = {false};
    int next = 0;
    for (int n = 0; n < topo->nnodes; n++)
        if (topo->nodes[n].kind == kind && *dev_of(&topo->nodes[n]) >= 0)
            taken[*dev_of(&topo->nodes[n])] = true;
    for (int n = 0; n < topo->nnodes; n++) {
        if (topo->nodes[n].kind != kind || *dev_of(&topo->nodes[n]) >= 0)
            continue;
        while (taken[next])
            next++;
        *dev_of(&topo->nodes[n]) = next++;
    }
}

static void set_pci_speeds(struct topo *topo) {
    for (int n = 0; n < topo->nnodes; n++) {
        const struct topo_node *node = &topo->nodes[n];
        if (node->parent < 0 || parent_medium(node) != MEDIUM_PCI)
            continue;
        find_link(topo, n, node->parent, MEDIUM_PCI)->gbps = speed_of_pci(&node->pci);
        find_link(topo, node->parent, n, MEDIUM_PCI)->gbps = speed_of_pci(&node->pci);
    }
}

/* Links each pair of CPUs of a host directly. */
static void join_cpus(struct topo *topo) {
    for (int a = 0; a < topo->nnodes; a++)
        for (int b = 0; b < topo->nnodes; b++)
            if (a != b && topo->nodes[a].kind == TOPO_CPU && topo->nodes[b].kind == TOPO_CPU)
                topo_add_link(topo, a, b, MEDIUM_SYS, 1, speed_of_sys(&topo->nodes[a].cpu));
}

/* Gives every link its opposite, because a file may name a GPU link at one end only. */
static void add_opposites(struct topo *topo) {
    int nlinks = topo->nlinks;
    for (int l = 0; l < nlinks; l++) {
        struct topo_link link = topo->links[l];
        if (find_link(topo, link.to, link.from, link.medium) == NULL)
            topo_add_link(topo, link.to, link.from, link.medium, link.count, link.gbps);
    }
}

enum collet_result topo_finish(struct topo *topo) {
    if (topo->status == COLLET_SUCCESS && topo_count(topo, 0, TOPO_CPU) == 0)
        topo->status = err_set(COLLET_ERR_INVALID_ARGUMENT, "the machine has no CPU");
    if (topo->status != COLLET_SUCCESS)
        return topo->status;
    set_pci_speeds(topo);
    number_devices(topo, TOPO_GPU);
    number_devices(topo, TOPO_NIC);
    join_cpus(topo);
    add_opposites(topo);
    topo->hosts[0].end_node = topo->nnodes;
    return topo->status;
}

/* ----------------------------------------------------------------------------------------------------------- fusing */

/* Copies host 0 of `host` to the end of topo and renumbers its nodes. */
static void append_host(struct topo *topo, int h, const struct topo *host) {
    int base = topo->nnodes;
    topo->hosts[h].first_node = base;
    for (int n = 0; n < host->nnodes; n++) {
        struct topo_node node = host->nodes[n];
        node.host = h;
        node.parent = node.parent < 0 ? -1 : base + node.parent;
        append_node(topo, &node);
    }
    for (int l = 0; l < host->nlinks && topo->status == COLLET_SUCCESS; l++) {
        struct topo_link link = host->links[l];
        link.from += base;
        link.to += base;
        append_link(topo, &link);
    }
    if (topo_count(host, 0, TOPO_NIC) == 0) {
        struct topo_node nic = topo_blank(TOPO_NIC, base);
        nic.host = h;
        nic.nic.dev = 0;
        nic.nic.mbits = SPEED_NIC_MBITS;
        snprintf(nic.nic.name, sizeof nic.nic.name, "unknown");
        int n = append_node(topo, &nic);
        topo_add_link(topo, n, base, MEDIUM_LOCAL, 1, SPEED_LOCAL);
        topo_add_link(topo, base, n, MEDIUM_LOCAL, 1, SPEED_LOCAL);
    }
    topo->hosts[h].end_node = topo->nnodes;
}

static int shape_of(const struct topo *const *hosts, int h) {
    int shape = 0;
    while (hosts[shape] != hosts[h])
        shape++;
    return shape;
}

static void join_hosts(struct topo *topo) {
    struct topo_node net = topo_blank(TOPO_NET, -1);
    net.host = -1;
    topo->net = append_node(topo, &net);
    for (int n = 0; n < topo->nnodes && topo->status == COLLET_SUCCESS; n++)
        if (topo->nodes[n].kind == TOPO_NIC) {
            double gbps = speed_of_nic(&topo->nodes[n]);
            struct topo_link out = {.from = n, .to = topo->net, .medium = MEDIUM_NET, .count = 1, .gbps = gbps};
            struct topo_link in = {.from = topo->net, .to = n, .medium = MEDIUM_NET, .count = 1, .gbps = gbps};
            append_link(topo, &out);
            append_link(topo, &in);
        }
}

enum collet_result topo_fuse(const struct topo *const *hosts, int nhosts, struct topo **topo_p) {
    struct topo *topo;
    if (nhosts < 1)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "number of hosts is %d: it must be at least 1", nhosts);
    for (int h = 0; h < nhosts; h++)
        if (hosts[h]->nhosts != 1)
            return err_set(COLLET_ERR_INVALID_ARGUMENT, "host %d is itself a graph of %d hosts: only single hosts fuse",
                           h, hosts[h]->nhosts);
    COLLET_TRY(topo_create(&topo));
    topo->status = make_hosts(topo, nhosts);
    for (int h = 0; h < nhosts && topo->status == COLLET_SUCCESS; h++) {
        append_host(topo, h, hosts[h]);
        if (topo->status == COLLET_SUCCESS)
            topo->hosts[h].shape = shape_of(hosts, h);
    }
    if (nhosts > 1 && topo->status == COLLET_SUCCESS)
        join_hosts(topo);
    return topo_give(topo, topo->status, topo_p);
}

enum collet_result topo_repeat(const struct topo *host, int nhosts, struct topo **topo_p) {
    SCOPED_FREE const struct topo **hosts = NULL;
    COLLET_TRY(memory_get(&hosts, (size_t)nhosts, sizeof *hosts, "no memory for %d hosts", nhosts));
    for (int h = 0; h < nhosts; h++)
        hosts[h] = host;
    return topo_fuse(hosts, nhosts, topo_p);
}

/* ----------------------------------------------------------------------------------------------------------- asking */

int topo_find_busid(const struct topo *topo, const char *busid) {
    for (int n = topo->hosts[0].first_node; n < topo->nnodes && topo->nodes[n].host == 0; n++)
        if (busid[0] != '\0' && strcasecmp(topo->nodes[n].pci.busid, busid) == 0)
            return n;
    return -1;
}

bool topo_rename_busid(const struct topo *topo, char busid[TOPO_BUSID_BYTES]) {
    char renamed[TOPO_BUSID_BYTES];
    size_t length = strlen(busid);
    memcpy(renamed, busid, sizeof renamed);
    for (char function = '1'; function <= '7' && length > 0; function++) {
        renamed[length - 1] = function;
        if (topo_find_busid(topo, renamed) >= 0)
            continue;
        log_warn(GRAPH, "bus id %s is there already: the second one counts as %s", busid, renamed);
        memcpy(busid, renamed, sizeof renamed);
        return true;
    }
    return false;
}

int topo_count(const struct topo *topo, int host, enum topo_kind kind) {
    int count = 0;
    for (int n = 0; n < topo->nnodes; n++)
        count += topo->nodes[n].host == host && topo->nodes[n].kind == kind;
    return count;
}

#define X(id, name) name,
static const char *kind_name(enum topo_kind kind) {
    static const char *const names[] = {TOPO_KINDS(X)};
    return names[kind];
}

const char *topo_medium_name(enum topo_medium medium) {
    static const char *const names[] = {TOPO_MEDIA(X)};
    return names[medium];
}

static bool is_amd(const struct topo_node *node) { return node->kind == TOPO_GPU && node->gpu.gcn[0] != '\0'; }

const char *topo_link_name(const struct topo *topo, const struct topo_link *link) {
    bool amd = is_amd(&topo->nodes[link->from]) || is_amd(&topo->nodes[link->to]);
    return link->medium == MEDIUM_NVLINK && amd ? "xGMI" : topo_medium_name(link->medium);
}

const char *topo_class_name(enum topo_class class) {
    static const char *const names[] = {TOPO_CLASSES(X)};
    return names[class];
}
#undef X

const char *topo_node_name(const struct topo *topo, int n, char text[TOPO_NAME_BYTES + 16]) {
    const struct topo_node *node = &topo->nodes[n];
    const char *kind = kind_name(node->kind);
    size_t bytes = TOPO_NAME_BYTES + 16;
    switch (node->kind) {
    case TOPO_CPU: snprintf(text, bytes, "%s %d", kind, node->cpu.numaid); break;
    case TOPO_PCI: snprintf(text, bytes, "%s %s", kind, node->pci.busid); break;
    case TOPO_GPU: snprintf(text, bytes, "%s %d", kind, node->gpu.dev); break;
    case TOPO_NIC:
        if (node->nic.name[0] != '\0')
            snprintf(text, bytes, "%s %s", kind, node->nic.name);
        else
            snprintf(text, bytes, "%s %d", kind, node->nic.dev);
        break;
    default: snprintf(text, bytes, "%s", kind);
    }
    return text;
}
