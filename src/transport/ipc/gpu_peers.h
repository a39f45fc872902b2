/* SPDX-License-Identifier: Apache-2.0
 *
 * Which GPU a peer of this host is on, and how the GPU of this rank reaches it.
 */
#ifndef COLLET_TRANSPORT_IPC_GPU_PEERS_H
#define COLLET_TRANSPORT_IPC_GPU_PEERS_H

#include "transport/conn.h"

/* The number of that GPU in this process; −1: this process does not see it. */
int gpu_peer_ordinal(const struct conn_owner *owner, int peer);

/* Are the two on one GPU, or on GPUs that NVLink joins? Then the GPU of this rank reads memory of the other one's, and both may
 * exchange a word of it (native atomics). */
bool gpu_peer_is_near(const struct conn_owner *owner, int peer);

#endif
