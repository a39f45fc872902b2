/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "outlet": whoever writes waits for the file system.
 */
#include "seams/outlet.h"

#include "base/output.h"

int outlet_open(const char *pattern, int rank, int flags) { return output_open(pattern, rank, flags); }

bool outlet_add(int fd, const char *text, unsigned long bytes, int wait_ms) {
    return output_write(fd, text, bytes, wait_ms);
}
