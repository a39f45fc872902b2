/* SPDX-License-Identifier: Apache-2.0
 *
 * hwloc's objects into a graph: NUMA nodes become CPU nodes, and of the PCI tree what matters remains.
 *
 *      hwloc                                        here
 *      NUMA node 0                                  CPU 0
 *      └ host bridge                                 │
 *        └ root port                                 │
 *          └ upstream port of a switch              PCI          joins two: stays
 *            ├ downstream port ─ GPU                ├ GPU        one thing behind it: a piece of wire
 *            ├ downstream port ─ network card       └ NIC
 *            └ downstream port ─ disk                            neither GPU nor NIC: not here
 *
 * A bridge that has only one thing of interest behind it is a piece of wire: what is behind it moves up, with the
 * narrower of the two links.
 */
#include "topo/hwloc_read.h"

#include "base/err.h"
#include "topo/speeds.h"

#include <hwloc.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------- CPUs */

static int number_of(hwloc_obj_t obj, const char *name) {
    const char *text = hwloc_obj_get_info_by_name(obj, name);
    return text == NULL ? -1 : (int)strtol(text, NULL, 10);
}

static void copy_text(char *to, size_t bytes, const char *from) { snprintf(to, bytes, "%s", from == NULL ? "" : from); }

/* Where hwloc describes a package: an object of the same CPUs, or the machine. */
static void describe_package(struct topo_cpu *cpu, hwloc_topology_t hwloc, hwloc_obj_t numa) {
    hwloc_obj_t package = numa;
    while (package != NULL && package->type != HWLOC_OBJ_PACKAGE)
        package = package->parent;
    if (package == NULL) /* a NUMA node that holds packages, or none at all */
        package = hwloc_get_next_obj_covering_cpuset_by_type(hwloc, numa->cpuset, HWLOC_OBJ_PACKAGE, NULL);
    if (package != NULL) {
        cpu->package = (int)package->logical_index;
        cpu->familyid = number_of(package, "CPUFamilyNumber");
        cpu->modelid = number_of(package, "CPUModelNumber");
        copy_text(cpu->vendor, sizeof cpu->vendor, hwloc_obj_get_info_by_name(package, "CPUVendor"));
    }
    copy_text(cpu->arch, sizeof cpu->arch, hwloc_obj_get_info_by_name(hwloc_get_root_obj(hwloc), "Architecture"));
}

static int last_level_cache_mib(hwloc_topology_t hwloc, hwloc_const_cpuset_t cpus) {
    static const hwloc_obj_type_t levels[] = {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        hwloc_obj_t cache = hwloc_get_next_obj_covering_cpuset_by_type(hwloc, cpus, levels[i], NULL);
        if (cache == NULL)
            cache = hwloc_get_obj_inside_cpuset_by_type(hwloc, cpus, levels[i], 0);
        if (cache != NULL)
            return (int)(cache->attr->cache.size >> 20);
    }
    return 0;
}

static void add_cpu(struct topo *topo, hwloc_topology_t hwloc, hwloc_obj_t numa) {
    struct topo_node node = topo_blank(TOPO_CPU, -1);
    node.cpu.numaid = (int)numa->os_index;
    for (int cpu = hwloc_bitmap_first(numa->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(numa->cpuset, cpu))
        if (cpu < 32 * TOPO_CPU_WORDS) {
            node.cpu.affinity[cpu / 32] |= UINT32_C(1) << cpu % 32;
            node.cpu.affinity_words = cpu / 32 + 1;
        }
    describe_package(&node.cpu, hwloc, numa);
    node.cpu.cores = hwloc_get_nbobjs_inside_cpuset_by_type(hwloc, numa->cpuset, HWLOC_OBJ_CORE);
    node.cpu.llc_mib = last_level_cache_mib(hwloc, numa->cpuset);
    topo_add_node(topo, &node);
}

/* The CPU node next to an object; the first one if it is next to several. */
static int cpu_next_to(const struct topo *topo, hwloc_topology_t hwloc, hwloc_obj_t obj) {
    hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(hwloc, obj);
    for (int n = 0; place != NULL && n < topo->nnodes; n++)
        if (topo->nodes[n].kind == TOPO_CPU && hwloc_bitmap_isset(place->nodeset, (unsigned)topo->nodes[n].cpu.numaid))
            return n;
    return 0;
}

/* -------------------------------------------------------------------------------------------------------------- PCI */

static struct topo_pci pci_of(hwloc_obj_t obj) {
    const struct hwloc_pcidev_attr_s *attr =
        obj->type == HWLOC_OBJ_BRIDGE ? &obj->attr->bridge.upstream.pci : &obj->attr->pcidev;
    struct topo_pci pci = {.class = (uint32_t)attr->class_id << 8,
                           .vendor = attr->vendor_id,
                           .device = attr->device_id,
                           .subsystem_vendor = attr->subvendor_id,
                           .subsystem_device = attr->subdevice_id};
    snprintf(pci.busid, sizeof pci.busid, "%04x:%02x:%02x.%01x", attr->domain & 0xffff, attr->bus, attr->dev,
             attr->func);
    if (attr->linkspeed > 0)
        speed_guess_lanes(attr->linkspeed, &pci);
    return pci;
}

static bool is_pci_bridge(hwloc_obj_t obj) {
    return obj->type == HWLOC_OBJ_BRIDGE && obj->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

static bool is_of_interest(hwloc_obj_t obj) {
    if (obj->type == HWLOC_OBJ_PCI_DEVICE) {
        struct topo_pci pci = pci_of(obj);
        return topo_pci_is_gpu(&pci) || topo_pci_is_nic(&pci);
    }
    if (obj->type != HWLOC_OBJ_BRIDGE)
        return false;
    for (hwloc_obj_t child = obj->io_first_child; child != NULL; child = child->next_sibling)
        if (is_of_interest(child))
            return true;
    return false;
}

static int count_of_interest(hwloc_obj_t bridge) {
    int count = 0;
    for (hwloc_obj_t child = bridge->io_first_child; child != NULL; child = child->next_sibling)
        count += is_of_interest(child);
    return count;
}

static void add_io(struct topo *topo, hwloc_obj_t obj, int parent, const struct topo_pci *above);

static void add_io_below(struct topo *topo, hwloc_obj_t obj, int parent, const struct topo_pci *above) {
    for (hwloc_obj_t child = obj->io_first_child; child != NULL; child = child->next_sibling)
        if (is_of_interest(child))
            add_io(topo, child, parent, above);
}

static void add_nic_names(struct topo_nic *nic, hwloc_obj_t obj) {
    for (hwloc_obj_t child = obj->io_first_child; child != NULL; child = child->next_sibling) {
        bool is_rdma = child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
        if (child->type == HWLOC_OBJ_OS_DEVICE && child->name != NULL &&
            (is_rdma || (child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && nic->name[0] == '\0')))
            copy_text(nic->name, sizeof nic->name, child->name);
    }
}

/* above: the link of the bridges that became wire between obj and its parent. */
static void add_io(struct topo *topo, hwloc_obj_t obj, int parent, const struct topo_pci *above) {
    static const struct topo_pci nothing;
    struct topo_pci pci = pci_of(obj);
    speed_narrow(&pci, above);
    if (is_pci_bridge(obj)) {
        if (count_of_interest(obj) == 1) {
            add_io_below(topo, obj, parent, &pci);
            return;
        }
        struct topo_node node = topo_blank(TOPO_PCI, parent);
        node.pci = pci;
        add_io_below(topo, obj, topo_add_node(topo, &node), &nothing);
        return;
    }
    struct topo_node node = topo_blank(topo_pci_is_gpu(&pci) ? TOPO_GPU : TOPO_NIC, parent);
    node.pci = pci;
    if (node.kind == TOPO_NIC)
        add_nic_names(&node.nic, obj);
    topo_add_node(topo, &node);
}

/* --------------------------------------------------------------------------------------------------------- machines */

static enum collet_result build(hwloc_topology_t hwloc, struct topo **topo_p) {
    static const struct topo_pci nothing;
    struct topo *topo;
    COLLET_TRY(topo_create(&topo));
    hwloc_obj_t numa = NULL, bridge = NULL;
    while ((numa = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, numa)) != NULL)
        add_cpu(topo, hwloc, numa);
    while (topo->nnodes > 0 && (bridge = hwloc_get_next_bridge(hwloc, bridge)) != NULL)
        if (bridge->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST)
            add_io_below(topo, bridge, cpu_next_to(topo, hwloc, bridge), &nothing);
    *topo_p = topo;
    return COLLET_SUCCESS;
}

/* An hwloc that knows devices of I/O too; NULL without memory. Its plugins for accelerators stay out: they would start
 * the drivers of GPUs that this process may not even use. */
static hwloc_topology_t new_hwloc(void) {
    static const char *const unwanted[] = {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"};
    hwloc_topology_t hwloc;
    if (hwloc_topology_init(&hwloc) != 0)
        return NULL;
    hwloc_topology_set_io_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_ALL);
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
    return hwloc;
}

enum collet_result topo_probe_hwloc(struct topo **topo_p) {
    hwloc_topology_t hwloc = new_hwloc();
    if (hwloc == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "hwloc: no memory to look at this machine");
    enum collet_result status;
    if (hwloc_topology_load(hwloc) != 0)
        status = err_set(COLLET_ERR_SYSTEM, "hwloc: this machine cannot be looked at: %m");
    else
        status = build(hwloc, topo_p);
    hwloc_topology_destroy(hwloc);
    return status;
}

static enum collet_result refuse(const char *name) {
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s:1: hwloc cannot make a machine of this <topology>", name);
}

enum collet_result topo_read_hwloc(const char *text, size_t bytes, const char *name, struct topo **topo_p) {
    hwloc_topology_t hwloc = new_hwloc();
    char *document = strndup(text, bytes); /* hwloc wants it with its terminating zero counted */
    struct topo *topo = NULL;
    enum collet_result status = COLLET_SUCCESS;
    if (hwloc == NULL || document == NULL)
        status = err_set(COLLET_ERR_NO_MEMORY, "%.200s: no memory to read it", name);
    else if (hwloc_topology_set_xmlbuffer(hwloc, document, (int)strlen(document) + 1) != 0 ||
             hwloc_topology_load(hwloc) != 0)
        status = refuse(name);
    else
        status = build(hwloc, &topo);
    if (status == COLLET_SUCCESS)
        status = topo_finish(topo);
    if (status == COLLET_SUCCESS)
        *topo_p = topo;
    else
        topo_destroy(topo);
    if (hwloc != NULL)
        hwloc_topology_destroy(hwloc);
    free(document);
    return status;
}
