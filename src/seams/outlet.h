/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "outlet": how a line of the log leaves without waiting for a file system. Without the layer it waits.
 */
#ifndef COLLET_SEAMS_OUTLET_H
#define COLLET_SEAMS_OUTLET_H

#include <stdbool.h>

/* As output_open() and output_write(). */
int outlet_open(const char *pattern, int rank, int flags);
bool outlet_add(int fd, const char *text, unsigned long bytes, int wait_ms);

#endif
