/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "outlet": it writes lines of the log without waiting for a file system, and lists network interfaces
 * without waiting for other programs. Without the layer its callers wait.
 */
#ifndef COLLET_SEAMS_OUTLET_H
#define COLLET_SEAMS_OUTLET_H

#include "collet.h"

#include <stdbool.h>

/* Like output_open() and output_write(). */
int outlet_open(const char *pattern, int rank, int flags);
bool outlet_add(int fd, const char *text, unsigned long bytes, int wait_ms);

/* Lists the network interfaces of this host; the caller frees the list. known: the last list is good enough, as for a name in a text.
 * Errors: SYSTEM (the kernel cannot), TIMEOUT (the kernel does not answer), NO_MEMORY. */
struct interfaces;
enum collet_result outlet_interfaces(bool known, struct interfaces **interfaces_p);

#endif
