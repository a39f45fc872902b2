/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's topology XML into a graph.
 *
 *      <system version="1">
 *        <cpu numaid="0" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
 *          <pci busid="0000:10:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">          a bridge
 *            <pci busid="0000:11:00.0" class="0x030200" …>
 *              <gpu dev="0" sm="80" rank="0" gdr="1">
 *                <nvlink target="0000:12:00.0" count="4" tclass="0x030200"/>                        to a GPU
 *                <nvlink target="0000:05:00.0" count="12" tclass="0x068000"/>                       to an NVSwitch
 *                <c2c bw="44712" count="10"/>                               to its own CPU, Mbyte/s of each of 10 links
 *              </gpu>
 *            </pci>
 *            <pci busid="0000:13:00.0" class="0x020000" …>
 *              <nic> <net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x…" gdr="1"/> </nic>  Mbit/s
 *
 * A PCI function that holds one gpu or one net is one node, a GPU or a NIC. A function that holds several things is a PCI node
 * with these things below it. A function that holds nothing is judged by its class. A GPU link names its target by bus id,
 * and this target may come later in the file. So GPU links are made at the end.
 */
#include "topo/probe/formats.h"

#include "base/err.h"
#include "base/log.h"
#include "topo/probe/speeds.h"
#include "topo/probe/sysfs.h"
#include "topo/probe/xml_attrs.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

enum {
    DEPTH_MAX = 32,
    MBITS_LIKELY = 10000000, /* A larger speed of a port is read with a warning. */
};

struct xml_reader {
    struct xml_attrs attrs;
    struct topo *topo;
    enum topo_whose whose;
    char first_host[32];                             /* Attribute host_hash of the first <cpu>. */
    const xmlNode *gpu_element[TOPO_HOST_NODES_MAX]; /* [node]: the <gpu> element of the node. NULL: none. */
};

static bool going(const struct xml_reader *r) {
    return r->attrs.status == COLLET_SUCCESS && r->topo->status == COLLET_SUCCESS;
}

static void check_room(struct xml_reader *r, const xmlNode *element) {
    if (r->topo->nnodes >= TOPO_HOST_NODES_MAX)
        xml_fail(&r->attrs, element, "is one too many: a host has at most %d nodes", TOPO_HOST_NODES_MAX);
}

/* Passes an element over. A known element in the wrong place is an error. An unknown element belongs to a later version of
 * the format. */
static void pass_over(struct xml_reader *r, const xmlNode *element) {
    static const char *const known[] = {"system", "cpu", "pci", "gpu", "nvlink", "xgmi", "c2c", "nic", "net"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (xml_is(element, known[i])) {
            xml_fail(&r->attrs, element, "cannot be inside <%.40s>", (const char *)element->parent->name);
            return;
        }
    log_info(GRAPH, "%s:%ld: <%s> passed over: not known here", r->attrs.file, xmlGetLineNo(element),
             (const char *)element->name);
}

static bool is_gpu_link(const xmlNode *element) { return xml_is(element, "nvlink") || xml_is(element, "xgmi"); }

/* ------------------------------------------------------------------------------------------------------ one element */

static struct topo_pci read_pci_attrs(struct xml_reader *r, const xmlNode *element) {
    struct xml_attrs *a = &r->attrs;
    struct topo_pci pci = {0};
    xml_text(a, element, "busid", pci.busid, sizeof pci.busid);
    for (char *c = pci.busid; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    pci.class = (uint32_t)xml_hex(a, element, "class", 0xffffff);
    pci.vendor = (uint32_t)xml_hex(a, element, "vendor", 0xffff);
    pci.device = (uint32_t)xml_hex(a, element, "device", 0xffff);
    pci.subsystem_vendor = (uint32_t)xml_hex(a, element, "subsystem_vendor", 0xffff);
    pci.subsystem_device = (uint32_t)xml_hex(a, element, "subsystem_device", 0xffff);
    pci.link_gts = xml_decimal(a, element, "link_speed", 1024);
    pci.link_lanes = (int)xml_int(a, element, "link_width", 0, 255, 0); /* A virtual function says 255. */
    if (pci.link_lanes > 64)
        pci.link_lanes = 0;
    xml_note_unknown(a, element, " busid class vendor device subsystem_vendor subsystem_device link_speed link_width ");
    return pci;
}

/* Fails if another GPU has the same device number or rank already. */
static void refuse_numbers_of_others(struct xml_reader *r, const xmlNode *element, const struct topo_gpu *gpu) {
    for (int n = 0; n < r->topo->nnodes; n++) {
        const struct topo_gpu *other = &r->topo->nodes[n].gpu;
        if (r->topo->nodes[n].kind != TOPO_GPU)
            continue;
        if (gpu->dev >= 0 && gpu->dev == other->dev)
            xml_fail(&r->attrs, element, "dev=\"%d\": another GPU has it already", gpu->dev);
        if (gpu->rank >= 0 && gpu->rank == other->rank)
            xml_fail(&r->attrs, element, "rank=\"%d\": another GPU has it already", gpu->rank);
    }
}

static void add_gpu(struct xml_reader *r, const xmlNode *element, int parent, const struct topo_pci *pci) {
    struct xml_attrs *a = &r->attrs;
    struct topo_node node = topo_blank(TOPO_GPU, parent);
    node.pci = *pci;
    if (element != NULL) {
        node.gpu.dev = (int)xml_int(a, element, "dev", -1, TOPO_HOST_NODES_MAX - 1, -1);
        node.gpu.rank = (int)xml_int(a, element, "rank", -1, INT_MAX, -1);
        node.gpu.sm = (int)xml_int(a, element, "sm", 0, 10000, 0);
        node.gpu.gdr = xml_int(a, element, "gdr", 0, 1, 0) == 1;
        xml_text(a, element, "gcn", node.gpu.gcn, sizeof node.gpu.gcn);
        xml_note_unknown(a, element, " dev sm rank gdr gcn arch ");
        refuse_numbers_of_others(r, element, &node.gpu);
        XML_FOR_EACH(child, element)
        if (!is_gpu_link(child) && !xml_is(child, "c2c"))
            pass_over(r, child);
    }
    int gpu = topo_add_node(r->topo, &node);
    if (gpu >= 0)
        r->gpu_element[gpu] = element;
}

static void add_nic(struct xml_reader *r, const xmlNode *element, int parent, const struct topo_pci *pci) {
    struct xml_attrs *a = &r->attrs;
    struct topo_node node = topo_blank(TOPO_NIC, parent);
    node.pci = *pci;
    if (element != NULL) {
        node.nic.dev = (int)xml_int(a, element, "dev", -1, TOPO_HOST_NODES_MAX - 1, -1);
        xml_text(a, element, "name", node.nic.name, sizeof node.nic.name);
        node.nic.port = (int)xml_int(a, element, "port", 0, 255, 0);
        node.nic.guid = xml_hex(a, element, "guid", UINT64_MAX);
        node.nic.mbits = xml_int(a, element, "speed", 0, INT64_C(1) << 40, 0);
        if (node.nic.mbits > MBITS_LIKELY)
            log_warn(GRAPH, "%s:%ld: speed=\"%lld\" is %lld Gbit/s, which no network card has", a->file,
                     xmlGetLineNo(element), (long long)node.nic.mbits, (long long)node.nic.mbits / 1000);
        node.nic.latency_us = xml_decimal(a, element, "latency", 1e6);
        node.nic.maxconn = (int)xml_int(a, element, "maxconn", 0, INT_MAX, 0);
        node.nic.gdr = xml_int(a, element, "gdr", 0, 1, 0) == 1;
        xml_text(a, element, "gid", node.nic.gid, sizeof node.nic.gid);
        xml_note_unknown(a, element, " dev name port guid speed latency maxconn gdr gid coll keep ");
    }
    topo_add_node(r->topo, &node);
}

/* --------------------------------------------------------------------------------------------------------- the tree */

/* Adds a NIC for each <net> in the <nic> elements below `element`, and one for each <nic> that has no <net>. */
static void add_nics_below(struct xml_reader *r, const xmlNode *element, int parent, const struct topo_pci *pci) {
    XML_FOR_EACH(nic, element) {
        int nnets = 0;
        if (!xml_is(nic, "nic"))
            continue;
        xml_note_unknown(&r->attrs, nic, " ");
        check_room(r, nic);
        XML_FOR_EACH(net, nic) {
            if (xml_is(net, "net"))
                add_nic(r, net, parent, pci);
            else
                pass_over(r, net);
            nnets += xml_is(net, "net");
        }
        if (nnets == 0)
            add_nic(r, NULL, parent, pci);
    }
}

/* What a PCI function contains. The contents decide which kind of node it becomes. */
struct contents {
    int pcis, gpus, nics;
    const xmlNode *gpu; /* The last <gpu> element. */
};

static struct contents contents_of(struct xml_reader *r, const xmlNode *element) {
    struct contents c = {0};
    XML_FOR_EACH(child, element) {
        if (xml_is(child, "pci")) {
            c.pcis++;
        } else if (xml_is(child, "gpu")) {
            c.gpus++;
            c.gpu = child;
        } else if (xml_is(child, "nic")) {
            int nets = 0;
            XML_FOR_EACH(net, child)
            nets += xml_is(net, "net");
            c.nics += nets > 0 ? nets : 1;
        } else {
            pass_over(r, child);
        }
    }
    return c;
}

static void read_pci(struct xml_reader *r, const xmlNode *element, int parent, int depth);

static void add_bridge(struct xml_reader *r, const xmlNode *element, int parent, const struct topo_pci *pci,
                       int depth) {
    static const struct topo_pci same_card;
    struct topo_node node = topo_blank(TOPO_PCI, parent);
    node.pci = *pci;
    int bridge = topo_add_node(r->topo, &node);
    XML_FOR_EACH(child, element) {
        if (xml_is(child, "pci"))
            read_pci(r, child, bridge, depth + 1);
        else if (xml_is(child, "gpu"))
            add_gpu(r, child, bridge, &same_card);
    }
    add_nics_below(r, element, bridge, &same_card);
}

static void read_pci(struct xml_reader *r, const xmlNode *element, int parent, int depth) {
    check_room(r, element);
    if (!going(r))
        return;
    struct topo_pci pci = read_pci_attrs(r, element);
    struct contents holds = contents_of(r, element);
    if (pci.busid[0] == '\0')
        xml_fail(&r->attrs, element, "has no busid");
    else if (topo_find_busid(r->topo, pci.busid) >= 0 && !topo_rename_busid(r->topo, pci.busid))
        xml_fail(&r->attrs, element, "busid=\"%s\": many others have it already", pci.busid);
    else if (depth >= DEPTH_MAX)
        xml_fail(&r->attrs, element, "is more than %d deep", DEPTH_MAX);
    if (!going(r))
        return;
    if (r->whose != TOPO_RECORDED)
        topo_read_sysfs_pci(&pci, "/sys");
    bool alone = holds.pcis == 0 && holds.gpus + holds.nics <= 1;
    if (alone && (holds.gpus == 1 || (holds.nics == 0 && topo_pci_is_gpu(&pci))))
        add_gpu(r, holds.gpu, parent, &pci);
    else if (alone && holds.nics == 1)
        add_nics_below(r, element, parent, &pci);
    else if (alone && topo_pci_is_nic(&pci))
        add_nic(r, NULL, parent, &pci);
    else
        add_bridge(r, element, parent, &pci, depth);
}

static bool is_of_another_host(struct xml_reader *r, const xmlNode *element) {
    char host[sizeof r->first_host];
    xml_text(&r->attrs, element, "host_hash", host, sizeof host);
    if (r->topo->nnodes == 0)
        memcpy(r->first_host, host, sizeof host);
    return strcmp(r->first_host, host) != 0;
}

static void read_cpu(struct xml_reader *r, const xmlNode *element) {
    struct xml_attrs *a = &r->attrs;
    struct topo_node node = topo_blank(TOPO_CPU, -1);
    check_room(r, element);
    if (is_of_another_host(r, element)) {
        log_info(GRAPH, "%s:%ld: <cpu> of another host passed over", a->file, xmlGetLineNo(element));
        return;
    }
    node.cpu.numaid = (int)xml_int(a, element, "numaid", -1, INT_MAX, 0);
    node.cpu.familyid = (int)xml_int(a, element, "familyid", -1, INT_MAX, -1);
    node.cpu.modelid = (int)xml_int(a, element, "modelid", -1, INT_MAX, -1);
    xml_text(a, element, "arch", node.cpu.arch, sizeof node.cpu.arch);
    xml_text(a, element, "vendor", node.cpu.vendor, sizeof node.cpu.vendor);
    node.cpu.affinity_words = xml_mask(a, element, "affinity", node.cpu.affinity, TOPO_CPU_WORDS);
    xml_note_unknown(a, element, " numaid affinity arch vendor familyid modelid host_hash ");
    for (int n = 0; n < r->topo->nnodes; n++)
        if (r->topo->nodes[n].kind == TOPO_CPU && r->topo->nodes[n].cpu.numaid == node.cpu.numaid)
            xml_fail(a, element, "numaid=\"%d\": another one has it already", node.cpu.numaid);
    int cpu = topo_add_node(r->topo, &node);
    XML_FOR_EACH(child, element) {
        if (xml_is(child, "pci"))
            read_pci(r, child, cpu, 0);
        else if (!xml_is(child, "nic"))
            pass_over(r, child);
    }
    static const struct topo_pci no_pci;
    add_nics_below(r, element, cpu, &no_pci);
}

/* -------------------------------------------------------------------------------------------------------- GPU links */

static int cpu_of(const struct topo *topo, int node) {
    while (topo->nodes[node].parent >= 0)
        node = topo->nodes[node].parent;
    return node;
}

static void read_gpu_link(struct xml_reader *r, const xmlNode *element, int gpu) {
    char target[TOPO_BUSID_BYTES];
    xml_text(&r->attrs, element, "target", target, sizeof target);
    int count = (int)xml_int(&r->attrs, element, "count", 1, TOPO_PARALLEL_LINKS_MAX, 1);
    uint64_t class = xml_hex(&r->attrs, element, "tclass", 0xffffff);
    xml_note_unknown(&r->attrs, element, " target count tclass ");
    int to = topo_find_busid(r->topo, target);
    if (class == 0x068000)
        to = topo_nvswitch(r->topo);
    else if (class == 0x068001)
        to = cpu_of(r->topo, gpu);
    if (to < 0) {
        log_info(GRAPH, "%s:%ld: <%s> to %s passed over: there is no such device", r->attrs.file, xmlGetLineNo(element),
                 (const char *)element->name, target);
    } else if (to == gpu) {
        log_warn(GRAPH, "%s:%ld: <%s> to its own GPU %s passed over", r->attrs.file, xmlGetLineNo(element),
                 (const char *)element->name, target);
    } else if (r->topo->nodes[to].kind == TOPO_PCI || r->topo->nodes[to].kind == TOPO_NIC) {
        xml_fail(&r->attrs, element, "target=\"%s\": it must be another GPU, an NVSwitch or a CPU", target);
    } else {
        double gbps = count * speed_of_gpu_link(&r->topo->nodes[gpu].gpu);
        topo_add_link(r->topo, gpu, to, MEDIUM_NVLINK, count, gbps);
    }
}

static void read_c2c(struct xml_reader *r, const xmlNode *element, int gpu) {
    int count = (int)xml_int(&r->attrs, element, "count", 1, TOPO_PARALLEL_LINKS_MAX, 1);
    double mbytes = xml_decimal(&r->attrs, element, "bw", 1e7);
    xml_note_unknown(&r->attrs, element, " bw count ");
    if (mbytes > 0)
        topo_add_link(r->topo, gpu, cpu_of(r->topo, gpu), MEDIUM_NVLINK, count, count * mbytes / 1000);
}

static void read_gpu_links(struct xml_reader *r) {
    for (int n = 0; n < TOPO_HOST_NODES_MAX; n++) {
        if (r->gpu_element[n] == NULL)
            continue;
        XML_FOR_EACH(link, r->gpu_element[n]) {
            if (is_gpu_link(link))
                read_gpu_link(r, link, n);
            else if (xml_is(link, "c2c"))
                read_c2c(r, link, n);
        }
    }
}

/* Warns of GPUs without links. NCCL asks the driver for the links of GPUs that a file only has as PCI functions, but the
 * driver of a recorded machine cannot be asked. */
static void say_what_is_left_out(const struct xml_reader *r) {
    int silent = 0;
    for (int n = 0; n < r->topo->nnodes; n++)
        silent += r->topo->nodes[n].kind == TOPO_GPU && r->gpu_element[n] == NULL;
    if (silent > 1 && r->whose == TOPO_RECORDED)
        log_warn(
            GRAPH,
            "%s leaves the links of %d GPUs to the driver of the recorded machine: they count as linked by PCI alone. "
            "Add <gpu> elements with <nvlink>, or record the machine with COLLET_TOPO_DUMP_FILE",
            r->attrs.file, silent);
}

static void read_machine(struct xml_reader *r, const xmlNode *system) {
    xml_note_unknown(&r->attrs, system, " version ");
    XML_FOR_EACH(child, system) {
        if (!going(r))
            return;
        if (xml_is(child, "cpu"))
            read_cpu(r, child);
        else
            pass_over(r, child);
    }
    if (going(r))
        read_gpu_links(r);
    say_what_is_left_out(r);
    if (going(r) && r->topo->nnodes == 0)
        xml_fail(&r->attrs, system, "has no <cpu>");
}

enum collet_result topo_read_nccl(const xmlNode *system, const char *name, enum topo_whose whose,
                                  struct topo **topo_p) {
    struct xml_reader r = {.attrs = {.file = name}, .whose = whose};
    COLLET_TRY(topo_create(&r.topo));
    read_machine(&r, system);
    return topo_give(r.topo, r.attrs.status != COLLET_SUCCESS ? r.attrs.status : r.topo->status, topo_p);
}
