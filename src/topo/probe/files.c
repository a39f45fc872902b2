/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads documents. libxml2 parses a document, its root tells the format, and the reader of this format makes the graph.
 *
 *      text ─▶ parse ─▶ <system>   topo_read_nccl() ──┬─▶ of this machine: what else is known ─▶ topo_finish()
 *                   └─▶ <topology> topo_read_hwloc() ─┘
 *
 * A file is not trusted: its size, its depth and every number are bounded, declarations of entities are refused,
 * nothing is loaded from elsewhere.
 */
#include "base/memory.h"
#include "topo/probe/declared.h"
#include "topo/probe/formats.h"
#include "topo/probe/gpus.h"
#include "topo/probe/sysfs.h"
#include "topo/probe/text.h"
#include "topo/probe/xml_attrs.h"

/* Adds what the kernel and NVML know of this machine: network interfaces, and GPUs with their links. */
static void add_what_is_here(struct topo *topo) {
    topo_read_sysfs(topo, "/sys");
    topo_add_declared(topo);
    topo_add_interfaces(topo, "/sys");
    topo_probe_gpus(topo);
}

static enum collet_result read_root(const xmlNode *root, const char *name, enum topo_whose whose,
                                    struct topo **topo_p) {
    if (xml_is(root, "system"))
        return topo_read_nccl(root, name, whose, topo_p);
    if (xml_is(root, "topology"))
        return topo_read_hwloc(root, name, whose, topo_p);
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s:%ld: <%.40s> is neither <system> (NCCL) nor <topology> (hwloc)",
                   name, xmlGetLineNo(root), (const char *)root->name);
}

static enum collet_result read_document(const xmlDoc *document, const char *name, enum topo_whose whose,
                                        struct topo **topo_p) {
    struct topo *topo;
    COLLET_TRY(read_root(xmlDocGetRootElement(document), name, whose, &topo));
    if (whose != TOPO_RECORDED)
        add_what_is_here(topo);
    return topo_give(topo, topo_finish(topo), topo_p);
}

enum collet_result topo_read_text(const char *text, size_t bytes, const char *name, enum topo_whose whose,
                                  struct topo **topo_p) {
    xmlDoc *document;
    COLLET_TRY(xml_parse(text, bytes, name, &document));
    enum collet_result status = read_document(document, name, whose, topo_p);
    xmlFreeDoc(document);
    return status;
}

enum collet_result topo_read_file(const char *path, enum topo_whose whose, struct topo **topo_p) {
    SCOPED_FREE char *text = NULL;
    size_t bytes;
    COLLET_TRY(text_load("", path, COLLET_ERR_INVALID_ARGUMENT, &text, &bytes));
    return topo_read_text(text, bytes, path, whose, topo_p);
}
