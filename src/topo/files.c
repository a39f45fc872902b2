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
#include "topo/formats.h"
#include "topo/gpus.h"
#include "topo/sysfs.h"
#include "topo/xml_attrs.h"

#include <pthread.h>
#include <string.h>

#include <libxml/parser.h>
#include <libxml/xmlerror.h>

enum { FILE_BYTES_MAX = 4 << 20 };

/* Network and GPUs. */
static void add_what_is_here(struct topo *topo) {
    topo_read_sysfs(topo, "/sys");
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

static enum collet_result read_document(xmlDoc *document, const char *name, enum topo_whose whose,
                                        struct topo **topo_p) {
    struct topo *topo;
    const xmlNode *root = xmlDocGetRootElement(document);
    if (root == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s:1: it holds no element", name);
    if (document->intSubset != NULL && document->intSubset->children != NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s:1: it declares a document type of its own: remove that",
                       name);
    COLLET_TRY(read_root(root, name, whose, &topo));
    if (whose != TOPO_RECORDED)
        add_what_is_here(topo);
    return topo_give(topo, topo_finish(topo), topo_p);
}

static enum collet_result not_well_formed(xmlParserCtxt *parser, const char *name) {
    const xmlError *error = xmlCtxtGetLastError(parser);
    char text[200] = "not an XML document";
    if (error != NULL && error->message != NULL)
        snprintf(text, sizeof text, "%s", error->message);
    text[strcspn(text, "\n")] = '\0';
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s:%d: %s", name, error == NULL ? 1 : error->line, text);
}

enum collet_result topo_read_text(const char *text, size_t bytes, const char *name, enum topo_whose whose,
                                  struct topo **topo_p) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, xmlInitParser);
    if (bytes > FILE_BYTES_MAX)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s:1: it has more than %d bytes", name, FILE_BYTES_MAX);
    xmlParserCtxt *parser = xmlNewParserCtxt();
    if (parser == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "%.200s: no memory for an XML parser", name);
    xmlDoc *document = xmlCtxtReadMemory(parser, text, (int)bytes, name, NULL,
                                         XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    enum collet_result status =
        document == NULL ? not_well_formed(parser, name) : read_document(document, name, whose, topo_p);
    xmlFreeDoc(document);
    xmlFreeParserCtxt(parser);
    return status;
}

enum collet_result topo_read_file(const char *path, enum topo_whose whose, struct topo **topo_p) {
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s: cannot be read: %m", path);
    SCOPED_FREE char *text = NULL;
    enum collet_result status = memory_get(&text, FILE_BYTES_MAX + 1, 1, "%.200s: no memory to read it", path);
    size_t bytes = text == NULL ? 0 : fread(text, 1, FILE_BYTES_MAX + 1, file);
    if (ferror(file))
        status = err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s: cannot be read: %m", path);
    fclose(file);
    return status != COLLET_SUCCESS ? status : topo_read_text(text, bytes, path, whose, topo_p);
}
