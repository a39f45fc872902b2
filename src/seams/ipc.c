/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "ipc", which joins GPUs of several processes. There is no memory of GPUs.
 */
#include "base/err.h"
#include "transport/ipc/gpu_fifos.h"
#include "transport/transport.h"

enum collet_result gpu_fifo_take(const struct gpu_driver *driver, int ordinal, size_t bytes, void **memory_p) {
    (void)driver;
    (void)bytes;
    (void)memory_p;
    return err_set(COLLET_ERR_UNSUPPORTED, "GPU %d: this build of collet knows host memory only", ordinal);
}

void gpu_fifo_give_back(const struct gpu_driver *driver, void *memory) {
    (void)driver;
    (void)memory;
}

static bool reaches_nobody(const struct peer_info *a, const struct peer_info *b, const char **why) {
    (void)a;
    (void)b;
    *why = "it is not in this build";
    return false;
}

const struct transport transport_ipc = {.name = "ipc", .bit = COLLET_TRANSPORT_IPC, .reaches = reaches_nobody};
