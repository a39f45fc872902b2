/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/probe/xml_attrs.h"

#include "base/log.h"
#include "base/memory.h"
#include "topo/probe/text.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libxml/parser.h>
#include <libxml/xmlerror.h>

static enum collet_result not_well_formed(xmlParserCtxt *parser, const char *name) {
    const xmlError *error = xmlCtxtGetLastError(parser);
    char text[200] = "not an XML document";
    if (error != NULL && error->message != NULL)
        snprintf(text, sizeof text, "%s", error->message);
    text[strcspn(text, "\n")] = '\0';
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s:%d: %s", name, error == NULL ? 1 : error->line, text);
}

enum collet_result xml_parse(const char *text, size_t bytes, const char *name, xmlDoc **document_p) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, xmlInitParser);
    if (bytes > TEXT_BYTES_MAX)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s:1: it has more than %d bytes", name, TEXT_BYTES_MAX);
    xmlParserCtxt *parser = xmlNewParserCtxt();
    if (parser == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "%.200s: no memory for an XML parser", name);
    xmlDoc *document = xmlCtxtReadMemory(parser, text, (int)bytes, name, NULL,
                                         XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    enum collet_result status = COLLET_SUCCESS;
    if (document == NULL)
        status = not_well_formed(parser, name);
    else if (xmlDocGetRootElement(document) == NULL)
        status = err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s:1: it holds no element", name);
    else if (document->intSubset != NULL && document->intSubset->children != NULL)
        status =
            err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s:1: it declares a document type of its own: remove that", name);
    if (status == COLLET_SUCCESS)
        *document_p = document;
    else
        xmlFreeDoc(document);
    xmlFreeParserCtxt(parser);
    return status;
}

void xml_fail(struct xml_attrs *attrs, const xmlNode *element, const char *format, ...) {
    char text[256];
    va_list args;
    if (attrs->status != COLLET_SUCCESS)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    attrs->status = err_set(COLLET_ERR_INVALID_ARGUMENT, "%.200s:%ld: <%.40s> %s", attrs->file, xmlGetLineNo(element),
                            (const char *)element->name, text);
}

/* The text of an attribute is its only child, unless the attribute refers to entities. */
const char *xml_value(const xmlNode *element, const char *name) {
    for (const xmlAttr *a = element->properties; a != NULL; a = a->next)
        if (strcmp((const char *)a->name, name) == 0 && a->children != NULL && a->children->content != NULL)
            return (const char *)a->children->content;
    return "";
}

int64_t xml_int(struct xml_attrs *attrs, const xmlNode *element, const char *name, int64_t min, int64_t max,
                int64_t missing) {
    const char *value = xml_value(element, name);
    char *end;
    if (value[0] == '\0')
        return missing;
    errno = 0;
    long long number = strtoll(value, &end, 0);
    if (errno == 0 && *end == '\0' && number >= min && number <= max)
        return number;
    xml_fail(attrs, element, "%s=\"%.40s\": it must be a whole number from %" PRId64 " to %" PRId64, name, value, min,
             max);
    return missing;
}

uint64_t xml_hex(struct xml_attrs *attrs, const xmlNode *element, const char *name, uint64_t max) {
    const char *value = xml_value(element, name);
    char *end;
    if (value[0] == '\0')
        return 0;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 16);
    if (errno == 0 && *end == '\0' && value[0] != '-' && number <= max)
        return number;
    xml_fail(attrs, element, "%s=\"%.40s\": it must be a hexadecimal number up to 0x%" PRIx64, name, value, max);
    return 0;
}

/* Reads a decimal number. strtod() would ask the program's locale what a decimal point is. If there is no number, *end_p is
 * `value`. */
static double read_decimal(const char *value, const char **end_p) {
    double number = 0, digit = 1;
    const char *at = value;
    for (; *at >= '0' && *at <= '9'; at++)
        number = 10 * number + (*at - '0');
    if (at > value && *at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++)
            number += (*at - '0') * (digit /= 10);
    *end_p = at;
    return number;
}

double xml_decimal(struct xml_attrs *attrs, const xmlNode *element, const char *name, double max) {
    const char *value = xml_value(element, name), *end;
    double number = read_decimal(value, &end);
    bool is_unit = strncmp(end, " GT/s", 5) == 0;
    if (value[0] == '\0' || strncasecmp(value, "unknown", 7) == 0)
        return 0;
    if (end != value && (*end == '\0' || is_unit) && number <= max)
        return number;
    xml_fail(attrs, element, "%s=\"%.40s\": it must be a number from 0 to %g", name, value, max);
    return 0;
}

void xml_text(struct xml_attrs *attrs, const xmlNode *element, const char *name, char *text, size_t bytes) {
    const char *value = xml_value(element, name);
    text[0] = '\0';
    if (strlen(value) >= bytes)
        xml_fail(attrs, element, "%s=\"%.40s\": it must have at most %zu characters", name, value, bytes - 1);
    else
        memcpy(text, value, strlen(value) + 1);
}

int xml_mask(struct xml_attrs *attrs, const xmlNode *element, const char *name, uint32_t *words, int max) {
    const char *value = xml_value(element, name);
    int nwords = 0;
    /* The most significant word comes first, so the words are read from the end. */
    for (const char *end = value + strlen(value); end > value && nwords < max; nwords++) {
        const char *start = end;
        while (start > value && start[-1] != ',')
            start--;
        char *stop;
        unsigned long word = strtoul(start, &stop, 16);
        if (stop != end || end - start > 8 || start == end || *start == '-') {
            xml_fail(attrs, element, "%s=\"%.80s\": it must be words of 32 bits in hexadecimal, with commas between",
                     name, value);
            return 0;
        }
        words[nwords] = (uint32_t)word;
        end = start > value ? start - 1 : value;
    }
    return nwords;
}

const xmlNode *xml_element_from(const xmlNode *node) {
    while (node != NULL && node->type != XML_ELEMENT_NODE)
        node = node->next;
    return node;
}

bool xml_is(const xmlNode *element, const char *name) { return strcmp((const char *)element->name, name) == 0; }

void xml_note_unknown(const struct xml_attrs *attrs, const xmlNode *element, const char *known) {
    for (const xmlAttr *a = element->properties; a != NULL; a = a->next) {
        char name[64];
        snprintf(name, sizeof name, " %.40s ", (const char *)a->name);
        if (strstr(known, name) == NULL)
            log_info(GRAPH, "%s:%ld: <%s> has%spassed over: not known here", attrs->file, xmlGetLineNo(element),
                     (const char *)element->name, name);
    }
}
