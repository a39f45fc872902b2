/* SPDX-License-Identifier: Apache-2.0
 *
 * Which GPU has a peer of this host, and does this rank's GPU reach that GPU?
 */
#ifndef COLLET_TRANSPORT_IPC_GPU_PEERS_H
#define COLLET_TRANSPORT_IPC_GPU_PEERS_H

#include "transport/conn.h"

/* The CUDA ordinal of the peer's GPU in this process; −1: this process does not see it. */
int gpu_peer_ordinal(const struct conn_owner *owner, int peer);

/* Are this rank and the peer on one GPU, or on GPUs that NVLink joins? Then this rank's GPU can read memory of the
 * peer's GPU, and both can use native atomics there. */
bool gpu_peer_is_near(const struct conn_owner *owner, int peer);

#endif
