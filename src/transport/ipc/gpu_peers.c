/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ipc/gpu_peers.h"

#include "layers/gpu/gpu.h"

/* Returns a rank's card for ipc: the identity of the rank's GPU. */
static uint64_t gpu_of(const struct peer_info *peer) { return peer->cards[__builtin_ctz(COLLET_TRANSPORT_IPC)]; }

int gpu_peer_ordinal(const struct conn_owner *owner, int peer) {
    const struct gpu_driver *driver = owner->gpu->driver;
    const char *why;
    const uint64_t gpu = gpu_of(&owner->peers[peer]);
    int ordinal = driver->count(&why) - 1;
    while (ordinal >= 0 && driver->identity(ordinal) != gpu)
        ordinal--;
    return ordinal;
}

/* If this process does not see a GPU, the graph of the host knows it (layers/gpu/nvlink.h). */
bool gpu_peer_is_near(const struct conn_owner *owner, int peer) {
    if (owner->peers[peer].node != owner->peers[owner->rank].node)
        return false;
    const int ordinal = gpu_peer_ordinal(owner, peer);
    return ordinal >= 0 ? owner->gpu->driver->sharing->keeps_lines(owner->gpu->ordinal, ordinal) : owner->joined;
}
