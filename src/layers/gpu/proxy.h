/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy: a thread that carries slots over networks for executors that cannot do it themselves: executors on GPUs. It knows
 * slots, not collectives: it calls progress() of connections, again and again.
 *
 *    executor (a GPU's blocks)          FIFO in host memory            proxy               network
 *    fills slot s, tail := s + 1  ──▶   slot s, tail          ──▶   progress()   ──▶   slot s
 *    sees the head                ◀──   head                  ◀──   progress()   ◀──   credit
 *
 * A process has one proxy for each GPU of its ranks. With COLLET_PROXY=1 it also has one for its ranks on host memory; then their
 * executor leaves wires alone. A proxy begins with the first connection over a network, and ends with the last rank that has such a
 * connection. COLLET_PROXY=2 and more: so many threads instead of one, because over tcp a CPU's copies may be slower than the network.
 * Then each connection over tcp belongs to one of the threads; all other connections belong to the first thread.
 *
 *    asleep ──── proxy_hold, proxy_launched ───▶ awake: progress of the connections of operations that are under way, and of
 *                                                those that have something left to send
 *           ◀─── nothing held, every launch landed, every connection idle
 *
 * The thread runs on CPUs next to the NICs of its connections, if the process may use such CPUs.
 *
 * Only one thread may call progress() of a connection (transport.h). So a thread makes connections, or takes them away, between
 * proxy_pause() and proxy_resume().
 */
#ifndef COLLET_LAYERS_GPU_PROXY_H
#define COLLET_LAYERS_GPU_PROXY_H

#include "chan/chan.h"
#include "layers/gpu/gpu.h"
#include "seams/proxy.h"

/* Ends what proxy_serve() began. First waits until all published slots are sent and all credit is given, or until the communicator has
 * failed, or until its timeout is over. If chan has no proxy, this function and all below do nothing. */
void proxy_leave(struct chan *chan);

/* Between these two calls the executor of chan may wait for the network, on these connections. Pairs of calls may be nested. */
static inline void proxy_hold(struct chan *chan, struct conn *const *conns, int nconns) {
    proxy_count(chan, conns, nconns, 1);
}
static inline void proxy_release(struct chan *chan, struct conn *const *conns, int nconns) {
    proxy_count(chan, conns, nconns, -1);
}

/* For work in streams, whose end nobody reports. proxy_launched(): something was launched. proxy_landed(): the first `launches` launches
 * have all ended. */
void proxy_launched(struct chan *chan, struct conn *const *conns, int nconns);
uint64_t proxy_launches(const struct chan *chan);
void proxy_landed(struct chan *chan, uint64_t launches);

#endif
