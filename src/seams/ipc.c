/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "ipc", which joins GPUs of one process and of several: no rank is on a GPU.
 */
#include "transport/self.h"

static bool reaches_nobody(const struct peer_info *a, const struct peer_info *b, const char **why) {
    (void)a, (void)b;
    *why = "it is not in this build";
    return false;
}

const struct transport transport_ipc = {.name = "ipc", .bit = COLLET_TRANSPORT_IPC, .reaches = reaches_nobody};
const struct transport transport_self_on_gpus = {.name = "self", .reaches = reaches_nobody};
