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

/* A text as a document that has a root, to be freed with xmlFreeDoc(). What is too long or declares a document type of its own is
 * refused. `name` names the text in messages. */
enum collet_result xml_parse(const char *text, size_t bytes, const char *name, xmlDoc **document_p);

struct xml_attrs {
    const char *file; /* its name in messages */
    enum collet_result status;
};

/* Says "file:line: <element> …" as the error, unless there was one before. */
void xml_fail(struct xml_attrs *attrs, const xmlNode *element, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The attribute's text, "" if it is missing. */
const char *xml_value(const xmlNode *element, const char *name);

/* A missing attribute gives `missing`. A wrong attribute fails and gives `missing`. */
int64_t xml_int(struct xml_attrs *attrs, const xmlNode *element, const char *name, int64_t min, int64_t max,
                int64_t missing);
uint64_t xml_hex(struct xml_attrs *attrs, const xmlNode *element, const char *name, uint64_t max);
/* Digits with or without a point, in any locale; "GT/s" may follow, "Unknown" counts as missing. 0 if missing. */
double xml_decimal(struct xml_attrs *attrs, const xmlNode *element, const char *name, double max);
/* Copies the text; "" if missing. One that does not fit fails. */
void xml_text(struct xml_attrs *attrs, const xmlNode *element, const char *name, char *text, size_t bytes);
/* Copies at most max words of 32 bits, least significant first; returns how many there are. 0 if missing. */
int xml_mask(struct xml_attrs *attrs, const xmlNode *element, const char *name, uint32_t *words, int max);

bool xml_is(const xmlNode *element, const char *name);

/* The first element from here on among brothers; NULL: none. */
const xmlNode *xml_element_from(const xmlNode *node);

#define XML_FOR_EACH(child, parent)                                                                                    \
    for (const xmlNode *child = xml_element_from((parent)->children); child != NULL;                                   \
         child = xml_element_from(child->next))

/* A line at INFO for each attribute that is not in `known`, a list of names with a space before and behind each. */
void xml_note_unknown(const struct xml_attrs *attrs, const xmlNode *element, const char *known);

#endif
