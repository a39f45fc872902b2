/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "ipc".
 */
long gpu_fifo_give_back(void);
long gpu_fifo_give_back(void) { return 0; }
long gpu_fifo_take(void);
long gpu_fifo_take(void) { return 0; }
long gpu_heads_create(void);
long gpu_heads_create(void) { return 0; }
long gpu_heads_destroy(void);
long gpu_heads_destroy(void) { return 0; }
#include "transport/transport.h"

static bool reaches_nobody(const struct peer_info *a, const struct peer_info *b, const char **why) {
    (void)a;
    (void)b;
    *why = "it is not in this build";
    return false;
}

const struct transport transport_ipc = {.name = "ipc", .bit = COLLET_TRANSPORT_IPC, .reaches = reaches_nobody};
