/* SPDX-License-Identifier: Apache-2.0
 *
 * A file as one text.
 */
#ifndef COLLET_TOOLS_COMMON_TEXT_H
#define COLLET_TOOLS_COMMON_TEXT_H

#include <stdio.h>

/* Reads a file as text, up to its first zero byte. An empty file gives "". The caller frees the text. NULL: the file cannot
 * be read, or `file` is NULL. */
char *text_read(FILE *file);

#endif
