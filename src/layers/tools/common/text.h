/* SPDX-License-Identifier: Apache-2.0
 *
 * A file as one text.
 */
#ifndef COLLET_TOOLS_COMMON_TEXT_H
#define COLLET_TOOLS_COMMON_TEXT_H

#include <stdio.h>

/* All of the file, up to its first zero byte; "" if it is empty. The caller frees it. NULL: it cannot be read, or file is NULL. */
char *text_read(FILE *file);

#endif
