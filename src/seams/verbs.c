/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "verbs".
 */
#include "transport/transport.h"

static bool reaches_nobody(const struct peer_info *a, const struct peer_info *b, const char **why) {
    (void)a, (void)b;
    *why = "it is not in this build";
    return false;
}

const struct transport transport_verbs = {.name = "verbs", .bit = COLLET_TRANSPORT_VERBS, .reaches = reaches_nobody};
