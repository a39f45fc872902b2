/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns hwloc's XML into a graph. NUMA nodes become CPU nodes. Of the PCI tree, only what matters remains.
 *
 *      <object type=…>                              here
 *      NUMANode 0                                   CPU 0
 *      Bridge 0-1, of the host                       │
 *      └ Bridge, root port                           │
 *        └ Bridge, upstream port of a switch        PCI          joins two: stays
 *          ├ Bridge, downstream port ─ PCIDev GPU   ├ GPU        one thing behind it: no node
 *          ├ Bridge, downstream port ─ PCIDev NIC   └ NIC
 *          └ Bridge, downstream port ─ PCIDev disk               neither GPU nor NIC: not here
 *
 * A bridge with only one thing of interest behind it is no node: this thing moves up, and takes the narrower of the two
 * links.
 *
 * The probe of this machine makes such XML too (probe.c), so there is one way from hwloc to a graph. hwloc itself does not
 * read files here: it trusts them, and a damaged file can make it crash.
 */
#include "topo/probe/formats.h"

#include "base/err.h"
#include "base/log.h"
#include "topo/probe/speeds.h"
#include "topo/probe/sysfs.h"
#include "topo/probe/xml_attrs.h"

#include <hwloc/bitmap.h>
#include <limits.h>
#include <string.h>

struct hwloc_reader {
    struct xml_attrs attrs;
    enum topo_whose whose;
    struct topo *topo;
    const xmlNode *topology;
};

static bool going(const struct hwloc_reader *r) {
    return r->attrs.status == COLLET_SUCCESS && r->topo->status == COLLET_SUCCESS;
}

static bool is_type(const xmlNode *object, const char *type) { return strcmp(xml_value(object, "type"), type) == 0; }

/* The set that an attribute names. The set is empty if the attribute is missing, or if its set is not finite. The caller
 * frees the set with hwloc_bitmap_free(). */
static hwloc_bitmap_t set_of(const xmlNode *object, const char *name) {
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    const char *text = xml_value(object, name);
    if (set != NULL && (text[0] == '\0' || hwloc_bitmap_sscanf(set, text) != 0 || hwloc_bitmap_last(set) < 0))
        hwloc_bitmap_zero(set);
    return set;
}

/* ------------------------------------------------------------------------------------------------------------- CPUs */

static const char *info_of(const xmlNode *object, const char *name) {
    XML_FOR_EACH(info, object)
    if (xml_is(info, "info") && strcmp(xml_value(info, "name"), name) == 0)
        return xml_value(info, "value");
    return "";
}

static int number_or(const char *text, int otherwise) {
    char *end;
    long number = strtol(text, &end, 10);
    return end == text || number < 0 || number > INT_MAX ? otherwise : (int)number;
}

static bool shares_cpus(const xmlNode *object, hwloc_const_bitmap_t cpus) {
    hwloc_bitmap_t mine = set_of(object, "cpuset");
    bool shares = hwloc_bitmap_intersects(mine, cpus);
    hwloc_bitmap_free(mine);
    return shares;
}

/* Describes a CPU by the packages, caches and cores that have CPUs in common with its NUMA node, however these objects are
 * nested. */
static void describe_cpus(struct topo_cpu *cpu, const xmlNode *parent, hwloc_const_bitmap_t cpus) {
    XML_FOR_EACH(object, parent) {
        if (!xml_is(object, "object") || !shares_cpus(object, cpus))
            continue;
        if (is_type(object, "Package") || is_type(object, "Socket")) {
            cpu->package = number_or(xml_value(object, "os_index"), -1);
            cpu->familyid = number_or(info_of(object, "CPUFamilyNumber"), -1);
            cpu->modelid = number_or(info_of(object, "CPUModelNumber"), -1);
            snprintf(cpu->vendor, sizeof cpu->vendor, "%s", info_of(object, "CPUVendor"));
        }
        if (is_type(object, "Core"))
            cpu->cores++;
        if (strstr(xml_value(object, "type"), "Cache") != NULL) {
            int mib = (int)(strtoull(xml_value(object, "cache_size"), NULL, 10) >> 20 & INT_MAX);
            cpu->llc_mib = mib > cpu->llc_mib ? mib : cpu->llc_mib;
        }
        describe_cpus(cpu, object, cpus);
    }
}

static void add_cpu(struct hwloc_reader *r, const xmlNode *numa, int numaid) {
    struct topo_node node = topo_blank(TOPO_CPU, -1);
    hwloc_bitmap_t cpus = set_of(numa, "cpuset");
    node.cpu.numaid = numaid;
    for (int n = 0; n < r->topo->nnodes; n++)
        if (r->topo->nodes[n].cpu.numaid == numaid)
            xml_fail(&r->attrs, numa, "os_index=\"%d\": another NUMANode has it already", numaid);
    if (r->topo->nnodes >= TOPO_HOST_NODES_MAX)
        xml_fail(&r->attrs, numa, "is one too many: a host has at most %d nodes", TOPO_HOST_NODES_MAX);
    for (int cpu = hwloc_bitmap_first(cpus); cpu >= 0 && cpu < 32 * TOPO_CPU_WORDS;
         cpu = hwloc_bitmap_next(cpus, cpu)) {
        node.cpu.affinity[cpu / 32] |= UINT32_C(1) << cpu % 32;
        node.cpu.affinity_words = cpu / 32 + 1;
    }
    describe_cpus(&node.cpu, r->topology, cpus);
    XML_FOR_EACH(machine, r->topology)
    if (xml_is(machine, "object"))
        snprintf(node.cpu.arch, sizeof node.cpu.arch, "%s", info_of(machine, "Architecture"));
    topo_add_node(r->topo, &node);
    hwloc_bitmap_free(cpus);
}

static void add_cpus(struct hwloc_reader *r, const xmlNode *parent) {
    XML_FOR_EACH(object, parent) {
        if (!going(r) || !xml_is(object, "object"))
            continue;
        if (is_type(object, "NUMANode"))
            add_cpu(r, object, (int)xml_int(&r->attrs, object, "os_index", 0, INT_MAX, 0));
        add_cpus(r, object);
    }
}

/* Makes the whole machine one CPU. Old versions of hwloc have no NUMANode on machines with one NUMA node. */
static void add_whole_machine(struct hwloc_reader *r) {
    XML_FOR_EACH(machine, r->topology)
    if (xml_is(machine, "object") && r->topo->nnodes == 0)
        add_cpu(r, machine, 0);
}

/* Finds the CPU node next to an object. If several are next to it, or none is known, the result is the first CPU node. */
static int cpu_next_to(const struct topo *topo, const xmlNode *object) {
    int cpu = 0;
    while (object->parent != NULL && xml_value(object, "nodeset")[0] == '\0' && xml_is(object->parent, "object"))
        object = object->parent;
    hwloc_bitmap_t numas = set_of(object, "nodeset");
    for (int n = topo->nnodes - 1; n >= 0; n--)
        if (topo->nodes[n].kind == TOPO_CPU && hwloc_bitmap_isset(numas, (unsigned)topo->nodes[n].cpu.numaid))
            cpu = n;
    hwloc_bitmap_free(numas);
    return cpu;
}

/* -------------------------------------------------------------------------------------------------------------- PCI */

/* pci_type is "0604 [10b5:8747] [0000:0000] ca": class, vendor and device, vendor and device of the subsystem, revision. */
static struct topo_pci pci_of(struct hwloc_reader *r, const xmlNode *object) {
    struct topo_pci pci = {0};
    xml_text(&r->attrs, object, "pci_busid", pci.busid, sizeof pci.busid);
    sscanf(xml_value(object, "pci_type"), "%4x [%4x:%4x] [%4x:%4x]", &pci.class, &pci.vendor, &pci.device,
           &pci.subsystem_vendor, &pci.subsystem_device);
    pci.class <<= 8;
    double gbps = xml_decimal(&r->attrs, object, "pci_link_speed", 1e4);
    /* hwloc tells the present speed, but an idle GPU slows its link down. The kernel also knows the full speed. */
    if (r->whose != TOPO_RECORDED)
        topo_read_sysfs_pci(&pci, "/sys");
    if (gbps > 0 && pci.link_gts <= 0)
        speed_guess_lanes(gbps, &pci);
    return pci;
}

static bool is_bridge(const xmlNode *object) { return xml_is(object, "object") && is_type(object, "Bridge"); }

static bool is_host_bridge(const xmlNode *object) {
    return is_bridge(object) && strcmp(xml_value(object, "bridge_type"), "0-1") == 0;
}

/* The name of the RDMA device (kind 3) wins over the name of the interface (kind 2). */
static void read_nic_name(struct hwloc_reader *r, struct topo_nic *nic, const xmlNode *card) {
    XML_FOR_EACH(object, card) {
        const char *kind = xml_value(object, "osdev_type");
        if (strcmp(kind, "3") == 0 || (strcmp(kind, "2") == 0 && nic->name[0] == '\0'))
            xml_text(&r->attrs, object, "name", nic->name, sizeof nic->name);
    }
}

/* A card of this machine counts if programs can use it. It does not count if it has no driver, if its interface is in
 * another container, or if it has no link now. In a file every card counts, because a recording may lack the names. */
static bool is_way_out(struct hwloc_reader *r, const xmlNode *card) {
    struct topo_nic nic = {.name = ""};
    read_nic_name(r, &nic, card);
    if (r->whose == TOPO_RECORDED)
        return true;
    return nic.name[0] != '\0' && !(r->whose == TOPO_PROBED && topo_nic_is_down(nic.name, "/sys"));
}

static bool is_of_interest(struct hwloc_reader *r, const xmlNode *object) {
    if (xml_is(object, "object") && is_type(object, "PCIDev")) {
        struct topo_pci pci = pci_of(r, object);
        return topo_pci_is_gpu(&pci) || (topo_pci_is_nic(&pci) && is_way_out(r, object));
    }
    if (is_bridge(object))
        XML_FOR_EACH(child, object)
    if (is_of_interest(r, child))
        return true;
    return false;
}

static int count_of_interest(struct hwloc_reader *r, const xmlNode *bridge) {
    int count = 0;
    XML_FOR_EACH(child, bridge)
    count += is_of_interest(r, child);
    return count;
}

static void add_io(struct hwloc_reader *r, const xmlNode *object, int parent, const struct topo_pci *above);

static void add_io_below(struct hwloc_reader *r, const xmlNode *object, int parent, const struct topo_pci *above) {
    XML_FOR_EACH(child, object)
    if (going(r) && is_of_interest(r, child))
        add_io(r, child, parent, above);
}

/* above: the narrowest link of those bridges between this object and its parent that became no nodes. */
static void add_io(struct hwloc_reader *r, const xmlNode *object, int parent, const struct topo_pci *above) {
    static const struct topo_pci nothing;
    struct topo_pci pci = pci_of(r, object);
    speed_narrow(&pci, above);
    if (is_bridge(object) && count_of_interest(r, object) == 1) {
        add_io_below(r, object, parent, &pci);
        return;
    }
    if (topo_find_busid(r->topo, pci.busid) >= 0 && !topo_rename_busid(r->topo, pci.busid))
        xml_fail(&r->attrs, object, "pci_busid=\"%s\": many others have it already", pci.busid);
    else if (pci.busid[0] == '\0')
        xml_fail(&r->attrs, object, "has no pci_busid");
    else if (r->topo->nnodes >= TOPO_HOST_NODES_MAX)
        xml_fail(&r->attrs, object, "is one too many: a host has at most %d nodes", TOPO_HOST_NODES_MAX);
    if (!going(r))
        return;
    struct topo_node node = topo_blank(is_bridge(object)       ? TOPO_PCI
                                       : topo_pci_is_gpu(&pci) ? TOPO_GPU
                                                               : TOPO_NIC,
                                       parent);
    node.pci = pci;
    if (node.kind == TOPO_NIC)
        read_nic_name(r, &node.nic, object);
    int n = topo_add_node(r->topo, &node);
    if (node.kind == TOPO_PCI)
        add_io_below(r, object, n, &nothing);
}

static void add_host_bridges(struct hwloc_reader *r, const xmlNode *parent) {
    static const struct topo_pci nothing;
    XML_FOR_EACH(object, parent) {
        if (is_host_bridge(object))
            add_io_below(r, object, cpu_next_to(r->topo, object), &nothing);
        else if (xml_is(object, "object"))
            add_host_bridges(r, object);
    }
}

/* -------------------------------------------------------------------------------------------------------- GPU links */

/*      <distances2hetero nbobjs="3" kind="25" name="NVLinkBandwidth">          Mbyte/s of all links from one to the other:
 *        <indexes length="29">OSDev:332 OSDev:333 Package:3 </indexes>         0   1   P
 *        <u64values …>1000000 40000 20000 40000 1000000 0 …</u64values>      0 own 40  20
 *                                                                            1  40 own  0 …
 * A matrix of one type has plain numbers, which are gp_index too. Texts may be cut into several elements. */

enum { MATRIX_MAX = 256, LINK_MBYTES = 25000 };
#define LINK_EFFICIENCY 0.8 /* The share of hwloc's raw speed that large transfers reach. */

static const xmlNode *find_object(const xmlNode *parent, const char *gp_index) {
    XML_FOR_EACH(object, parent) {
        if (!xml_is(object, "object"))
            continue;
        const xmlNode *found =
            strcmp(xml_value(object, "gp_index"), gp_index) == 0 ? object : find_object(object, gp_index);
        if (found != NULL)
            return found;
    }
    return NULL;
}

/* The graph's node that an object belongs to: a GPU, the NVSwitch, or the CPU next to the object. −1: none. */
static int node_of_object(struct hwloc_reader *r, const xmlNode *object) {
    if (object == NULL)
        return -1;
    if (!is_type(object, "OSDev") && !is_type(object, "PCIDev"))
        return cpu_next_to(r->topo, object);
    struct topo_pci pci = pci_of(r, is_type(object, "OSDev") ? object->parent : object);
    int node = topo_find_busid(r->topo, pci.busid);
    return node < 0 && strcmp(xml_value(object, "subtype"), "NVSwitch") == 0 ? topo_nvswitch(r->topo) : node;
}

/* All words of the elements of this name, as one text. The caller frees the text. */
static char *words_of(const xmlNode *matrix, const char *name) {
    xmlBuffer *buffer = xmlBufferCreate();
    XML_FOR_EACH(element, matrix) {
        if (!xml_is(element, name) || buffer == NULL)
            continue;
        xmlChar *text = xmlNodeGetContent(element);
        xmlBufferCat(buffer, text);
        xmlBufferCat(buffer, (const xmlChar *)" ");
        xmlFree(text);
    }
    char *words = buffer == NULL ? NULL : (char *)xmlBufferDetach(buffer);
    xmlBufferFree(buffer);
    return words;
}

static int read_ends(struct hwloc_reader *r, char *words, int ends[MATRIX_MAX]) {
    int n = 0;
    char *rest = NULL;
    for (char *word = words == NULL ? NULL : strtok_r(words, " \n\t", &rest); word != NULL && n < MATRIX_MAX;
         word = strtok_r(NULL, " \n\t", &rest)) {
        char *colon = strchr(word, ':');
        ends[n++] = node_of_object(r, find_object(r->topology, colon == NULL ? word : colon + 1));
    }
    return n;
}

static void add_gpu_links(struct hwloc_reader *r, const xmlNode *matrix) {
    int ends[MATRIX_MAX];
    char *indexes = words_of(matrix, "indexes"), *values = words_of(matrix, "u64values"), *rest = NULL;
    int n = read_ends(r, indexes, ends), at = 0;
    for (char *word = values == NULL ? NULL : strtok_r(values, " \n\t", &rest); word != NULL && at < n * n;
         word = strtok_r(NULL, " \n\t", &rest), at++) {
        int from = ends[at / n], to = ends[at % n];
        double mbytes = number_or(word, 0);
        bool of_gpu =
            from >= 0 && to >= 0 && (r->topo->nodes[from].kind == TOPO_GPU || r->topo->nodes[to].kind == TOPO_GPU);
        int count = (int)(mbytes / LINK_MBYTES + 0.5);
        if (of_gpu && from != to && mbytes > 0)
            topo_add_link(r->topo, from, to, MEDIUM_NVLINK, count > 1 ? count : 1, mbytes / 1000 * LINK_EFFICIENCY);
    }
    xmlFree(indexes);
    xmlFree(values);
}

static void add_all_gpu_links(struct hwloc_reader *r) {
    XML_FOR_EACH(matrix, r->topology)
    if (going(r) && (xml_is(matrix, "distances2") || xml_is(matrix, "distances2hetero")) &&
        strcmp(xml_value(matrix, "name"), "NVLinkBandwidth") == 0)
        add_gpu_links(r, matrix);
}

static void say_what_is_down(struct hwloc_reader *r, const xmlNode *parent) {
    XML_FOR_EACH(object, parent) {
        struct topo_nic nic = {.name = ""};
        if (!xml_is(object, "object"))
            continue;
        if (is_type(object, "PCIDev"))
            read_nic_name(r, &nic, object);
        if (nic.name[0] != '\0' && topo_nic_is_down(nic.name, "/sys"))
            log_info(GRAPH, "%s has no link and is left out", nic.name);
        say_what_is_down(r, object);
    }
}

enum collet_result topo_read_hwloc(const xmlNode *topology, const char *name, enum topo_whose whose,
                                   struct topo **topo_p) {
    struct hwloc_reader r = {.attrs = {.file = name}, .whose = whose, .topology = topology};
    COLLET_TRY(topo_create(&r.topo));
    add_cpus(&r, topology);
    add_whole_machine(&r);
    if (going(&r) && r.topo->nnodes == 0)
        xml_fail(&r.attrs, topology, "has no <object>");
    if (whose == TOPO_PROBED)
        say_what_is_down(&r, topology);
    if (going(&r))
        add_host_bridges(&r, topology);
    if (whose == TOPO_RECORDED) /* On this machine, NVML tells the GPU links. */
        add_all_gpu_links(&r);
    return topo_give(r.topo, r.attrs.status != COLLET_SUCCESS ? r.attrs.status : r.topo->status, topo_p);
}
