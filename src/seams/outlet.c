/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "outlet" a writer waits for the file system, and a rank that needs network interfaces waits for the kernel.
 */
#include "seams/outlet.h"

#include "base/err.h"
#include "base/output.h"
#include "base/remedy.h"
#include "boot/interfaces.h"

int outlet_open(const char *pattern, int rank, int flags) { return output_open(pattern, rank, flags); }

bool outlet_add(int fd, const char *text, unsigned long bytes, int wait_ms) {
    return output_write(fd, text, bytes, wait_ms);
}

enum collet_result outlet_interfaces(bool known, struct interfaces **interfaces_p) {
    (void)known;
    *interfaces_p = interfaces_read();
    return *interfaces_p != NULL ? COLLET_SUCCESS
                                 : err_set(COLLET_ERR_SYSTEM, "cannot list the network interfaces: %m%s", os_remedy());
}
