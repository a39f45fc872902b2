/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a graph as NCCL's topology XML. It is the reverse of xml_read.c, which shows the format. Links between CPUs are not
 * written, because they follow from the CPUs.
 */
#include "topo/probe/topo.h"

#include "base/memory.h"
#include "layers/outlet/outlet.h"
#include "base/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libxml/tree.h>
#include <libxml/xmlwriter.h>

struct xml_writer {
    const struct topo *topo;
    bool shared; /* The text is for other ranks: see topo_share(). */
    xmlTextWriter *xml;
};

/* An error while writing (no memory) shows at the end, because the document is then not closed. */
static void begin(struct xml_writer *w, const char *element) {
    xmlTextWriterStartElement(w->xml, (const xmlChar *)element);
}
static void end(struct xml_writer *w) { xmlTextWriterEndElement(w->xml); }

static void text(struct xml_writer *w, const char *name, const char *value) {
    if (value[0] != '\0')
        xmlTextWriterWriteAttribute(w->xml, (const xmlChar *)name, (const xmlChar *)value);
}

static void number(struct xml_writer *w, const char *name, int64_t value) {
    xmlTextWriterWriteFormatAttribute(w->xml, (const xmlChar *)name, "%" PRId64, value);
}

/* Writes a number, unless it has the value `unknown`. */
static void known_number(struct xml_writer *w, const char *name, int64_t value, int64_t unknown) {
    if (value != unknown)
        number(w, name, value);
}

static void known_hex(struct xml_writer *w, const char *name, int digits, uint64_t value) {
    if (value != 0)
        xmlTextWriterWriteFormatAttribute(w->xml, (const xmlChar *)name, "0x%0*" PRIx64, digits, value);
}

/* Writes a number with three digits behind the point, in any locale. */
static void known_decimal(struct xml_writer *w, const char *name, double value) {
    int64_t thousandths = (int64_t)(value * 1000 + 0.5);
    if (thousandths > 0)
        xmlTextWriterWriteFormatAttribute(w->xml, (const xmlChar *)name, "%" PRId64 ".%03" PRId64, thousandths / 1000,
                                          thousandths % 1000);
}

/* Writes a number as the kernel does: with one digit behind the point. */
static void link_speed(struct xml_writer *w, double gts) {
    int64_t tenths = (int64_t)(gts * 10 + 0.5);
    if (tenths > 0)
        xmlTextWriterWriteFormatAttribute(w->xml, (const xmlChar *)"link_speed", "%" PRId64 ".%" PRId64 " GT/s PCIe",
                                          tenths / 10, tenths % 10);
}

static void mask(struct xml_writer *w, const char *name, const uint32_t *words, int nwords) {
    char line[TOPO_CPU_WORDS * 9 + 1] = "";
    for (int i = nwords - 1; i >= 0; i--)
        sprintf(line + strlen(line), "%08x%s", words[i], i > 0 ? "," : "");
    text(w, name, line);
}

/* ------------------------------------------------------------------------------------------------------------ nodes */

static void write_gpu_link(struct xml_writer *w, const struct topo_link *link) {
    const struct topo_node *to = &w->topo->nodes[link->to];
    if (to->kind == TOPO_CPU) {
        begin(w, "c2c");
        known_decimal(w, "bw", link->gbps * 1000 / link->count);
        number(w, "count", link->count);
        end(w);
    } else {
        bool nvs = to->kind == TOPO_NVS;
        begin(w, "nvlink");
        text(w, "target", nvs ? "ffff:ff:00.0" : to->pci.busid);
        number(w, "count", link->count);
        known_hex(w, "tclass", 6, nvs ? 0x068000 : to->pci.class);
        end(w);
    }
}

static void write_gpu(struct xml_writer *w, int n) {
    const struct topo_gpu *gpu = &w->topo->nodes[n].gpu;
    begin(w, "gpu");
    number(w, "dev", gpu->dev);
    known_number(w, "sm", gpu->sm, 0);
    text(w, "gcn", gpu->gcn);
    if (!w->shared)
        known_number(w, "rank", gpu->rank, -1);
    number(w, "gdr", gpu->gdr);
    for (int l = 0; l < w->topo->nlinks; l++)
        if (w->topo->links[l].from == n && w->topo->links[l].medium == MEDIUM_NVLINK)
            write_gpu_link(w, &w->topo->links[l]);
    end(w);
}

static void write_nic(struct xml_writer *w, int n) {
    const struct topo_nic *nic = &w->topo->nodes[n].nic;
    begin(w, "nic");
    begin(w, "net");
    text(w, "name", nic->name);
    number(w, "dev", nic->dev);
    known_number(w, "speed", nic->mbits, 0);
    known_number(w, "port", nic->port, 0);
    known_hex(w, "guid", 1, w->shared ? 0 : nic->guid);
    known_decimal(w, "latency", nic->latency_us);
    known_number(w, "maxconn", nic->maxconn, 0);
    number(w, "gdr", nic->gdr);
    text(w, "gid", w->shared ? "" : nic->gid);
    end(w);
    end(w);
}

static void write_pci_attrs(struct xml_writer *w, const struct topo_pci *pci) {
    text(w, "busid", pci->busid);
    known_hex(w, "class", 6, pci->class);
    known_hex(w, "vendor", 4, pci->vendor);
    known_hex(w, "device", 4, pci->device);
    known_hex(w, "subsystem_vendor", 4, pci->subsystem_vendor);
    known_hex(w, "subsystem_device", 4, pci->subsystem_device);
    link_speed(w, pci->link_gts);
    known_number(w, "link_width", pci->link_lanes, 0);
}

static void write_below(struct xml_writer *w, int parent);

static void write_device(struct xml_writer *w, int n) {
    const struct topo_node *node = &w->topo->nodes[n];
    bool is_function = node->pci.busid[0] != '\0';
    if (is_function) {
        begin(w, "pci");
        write_pci_attrs(w, &node->pci);
    }
    if (node->kind == TOPO_GPU)
        write_gpu(w, n);
    else if (node->kind == TOPO_NIC)
        write_nic(w, n);
    else
        write_below(w, n);
    if (is_function)
        end(w);
}

static void write_below(struct xml_writer *w, int parent) {
    for (int n = 0; n < w->topo->hosts[0].end_node; n++)
        if (w->topo->nodes[n].parent == parent)
            write_device(w, n);
}

static void write_cpu(struct xml_writer *w, int n) {
    const struct topo_cpu *cpu = &w->topo->nodes[n].cpu;
    begin(w, "cpu");
    number(w, "numaid", cpu->numaid);
    mask(w, "affinity", cpu->affinity, w->shared ? 0 : cpu->affinity_words);
    text(w, "arch", cpu->arch);
    text(w, "vendor", cpu->vendor);
    known_number(w, "familyid", cpu->familyid, -1);
    known_number(w, "modelid", cpu->modelid, -1);
    write_below(w, n);
    end(w);
}

/* -------------------------------------------------------------------------------------------------------- documents */

static enum collet_result write_text(const struct topo *topo, bool shared, char **text_p) {
    xmlBuffer *buffer = xmlBufferCreate();
    struct xml_writer w = {topo, shared, buffer == NULL ? NULL : xmlNewTextWriterMemory(buffer, 0)};
    int written = -1;
    if (w.xml != NULL) {
        xmlTextWriterSetIndent(w.xml, 1);
        xmlTextWriterSetIndentString(w.xml, (const xmlChar *)"  ");
        begin(&w, "system");
        number(&w, "version", 1);
        for (int n = 0; n < topo->hosts[0].end_node; n++)
            if (topo->nodes[n].kind == TOPO_CPU)
                write_cpu(&w, n);
        end(&w);
        written = xmlTextWriterFlush(w.xml);
        xmlFreeTextWriter(w.xml);
    }
    char *copy = written < 0 ? NULL : strdup((const char *)xmlBufferContent(buffer));
    xmlBufferFree(buffer);
    if (copy == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to write a topology of %d nodes", topo->nnodes);
    *text_p = copy;
    return COLLET_SUCCESS;
}

/* Gives host 0 of the graph as NCCL's topology XML. The caller frees the text with free(). */
static enum collet_result topo_write_text(const struct topo *topo, char **text_p) {
    return write_text(topo, false, text_p);
}

/* Finds the node of `topo` that has the same name as this node of `other`. −1: none. */
static int find_like(const struct topo *topo, const struct topo *other, int node) {
    char name[TOPO_NAME_BYTES + 16], wanted[TOPO_NAME_BYTES + 16];
    topo_node_name(other, node, wanted);
    for (int n = 0; n < topo->nnodes; n++)
        if (strcmp(topo_node_name(topo, n, name), wanted) == 0)
            return n;
    return -1;
}

enum collet_result topo_share(const struct topo *topo, int n, int32_t *place, char **text_p) {
    SCOPED_FREE char *text = NULL;
    struct topo *read;
    COLLET_TRY(write_text(topo, true, &text));
    COLLET_TRY(topo_read_text(text, strlen(text), "the text for other ranks", TOPO_RECORDED, &read));
    for (int i = 0; i < n; i++)
        place[i] = find_like(read, topo, place[i]);
    topo_destroy(read);
    *text_p = text;
    text = NULL;
    return COLLET_SUCCESS;
}

#define WRITE_MS 5000 /* Maximum time for writing the whole file. */

enum collet_result topo_write_file(const struct topo *topo, const char *path) {
    SCOPED_FREE char *document = NULL;
    COLLET_TRY(topo_write_text(topo, &document));
    if (outlet_save(path, -1, document, strlen(document), WRITE_MS))
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_SYSTEM, "%.200s: the topology cannot be written: %s", path, output_why());
}
