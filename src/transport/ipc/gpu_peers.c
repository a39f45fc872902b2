/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ipc/gpu_peers.h"

#include "transport/transport.h"
#include "layers/gpu/gpu.h"

extern const struct transport transport_ipc; /* whose card is a GPU's identity */

int gpu_peer_ordinal(const struct conn_owner *owner, int peer) {
    const struct gpu_driver *driver = owner->gpu->driver;
    const char *why;
    const uint64_t gpu = transport_card(&transport_ipc, &owner->peers[peer]);
    int ordinal = driver->count(&why) - 1;
    while (ordinal >= 0 && driver->identity(ordinal) != gpu)
        ordinal--;
    return ordinal;
}

/* Of a GPU that this process does not see, the host's graph knows (layers/gpu/nvlink.h). */
bool gpu_peer_is_near(const struct conn_owner *owner, int peer) {
    if (owner->peers[peer].node != owner->peers[owner->rank].node)
        return false;
    const int ordinal = gpu_peer_ordinal(owner, peer);
    return ordinal >= 0 ? owner->gpu->driver->sharing->keeps_lines(owner->gpu->ordinal, ordinal) : owner->joined;
}
