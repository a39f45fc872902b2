/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes of XML elements as numbers and texts, with bounds. The first error stays.
 */
#ifndef COLLET_TOPO_PROBE_XML_ATTRS_H
#define COLLET_TOPO_PROBE_XML_ATTRS_H

#include "collet.h"

#include <libxml/tree.h>
#include <stdbool.h>
#include <stdint.h>

/* Parses a text as a document that has a root. The caller frees it with xmlFreeDoc(). A text is refused if it is too long,
 * or if it declares a document type of its own. `name` names the text in messages. */
enum collet_result xml_parse(const char *text, size_t bytes, const char *name, xmlDoc **document_p);

struct xml_attrs {
    const char *file; /* Name of the file in messages. */
    enum collet_result status;
};

/* Sets the error "file:line: <element> …", unless there was an error before. */
void xml_fail(struct xml_attrs *attrs, const xmlNode *element, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The text of an attribute. "": the attribute is missing. */
const char *xml_value(const xmlNode *element, const char *name);

/* A missing attribute gives `missing`. A wrong attribute is an error and gives `missing`. */
int64_t xml_int(struct xml_attrs *attrs, const xmlNode *element, const char *name, int64_t min, int64_t max,
                int64_t missing);
uint64_t xml_hex(struct xml_attrs *attrs, const xmlNode *element, const char *name, uint64_t max);
/* Reads digits with or without a point, in any locale. "GT/s" may follow. "Unknown" counts as missing. Returns 0 if the
 * attribute is missing. */
double xml_decimal(struct xml_attrs *attrs, const xmlNode *element, const char *name, double max);
/* Copies the text of an attribute; "" if the attribute is missing. A text that does not fit is an error. */
void xml_text(struct xml_attrs *attrs, const xmlNode *element, const char *name, char *text, size_t bytes);
/* Reads at most `max` words of 32 bits, least significant word first. Returns the number of words; 0 if the attribute is
 * missing. */
int xml_mask(struct xml_attrs *attrs, const xmlNode *element, const char *name, uint32_t *words, int max);

bool xml_is(const xmlNode *element, const char *name);

/* The first element among this node and its later siblings. NULL: none. */
const xmlNode *xml_element_from(const xmlNode *node);

#define XML_FOR_EACH(child, parent)                                                                                    \
    for (const xmlNode *child = xml_element_from((parent)->children); child != NULL;                                   \
         child = xml_element_from(child->next))

/* Writes a line at INFO for each attribute that is not in `known`. `known` is a list of names with a space before and behind
 * each. */
void xml_note_unknown(const struct xml_attrs *attrs, const xmlNode *element, const char *known);

#endif
