/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy: a thread that carries slots over networks for executors that do not do it themselves, those of GPUs. It knows
 * slots, not collectives: it calls progress() of connections, again and again.
 *
 *    executor (a GPU's blocks)          FIFO in host memory            proxy               network
 *    fills slot s, tail := s + 1  ──▶   slot s, tail          ──▶   progress()   ──▶   slot s
 *    sees the head                ◀──   head                  ◀──   progress()   ◀──   credit
 *
 * A process has one for each GPU that it has ranks on; with COLLET_PROXY=1 also one for its ranks on host memory, whose
 * executor then leaves wires alone. It begins with the first connection over a network and ends with the last rank that has
 * one. With COLLET_PROXY=2 and more there are as many instead of one, because over tcp a CPU's copies may be slower than the
 * network. Each connection over tcp is one thread's; the first thread has all others.
 *
 *    asleep ──── proxy_hold, proxy_launched ───▶ awake: progress of the connections of operations that are under way, and of
 *                                                those that have something left to send
 *           ◀─── nothing held, every launch landed, every connection idle
 *
 * It runs next to the NICs of its connections, as far as the process may.
 *
 * progress() of a connection is called by one thread, as transport.h asks: whoever makes connections, or takes them away, does
 * so between proxy_pause() and proxy_resume().
 */
#ifndef COLLET_LAYERS_GPU_PROXY_H
#define COLLET_LAYERS_GPU_PROXY_H

#include "chan/chan.h"
#include "layers/gpu/gpu.h"
#include "seams/proxy.h"

/* Ends what proxy_serve() began, once all that was published is sent and all credit given, or the communicator has failed, or its timeout is
 * over. All below, and this, do nothing where chan has no proxy. */
void proxy_leave(struct chan *chan);

/* Between these two the executor of chan may wait for the network, on these connections. They nest. */
static inline void proxy_hold(struct chan *chan, struct conn *const *conns, int nconns) {
    proxy_count(chan, conns, nconns, 1);
}
static inline void proxy_release(struct chan *chan, struct conn *const *conns, int nconns) {
    proxy_count(chan, conns, nconns, -1);
}

/* The same for work in streams, whose end nobody tells: something was launched; and all of the first `launches` launches
 * have ended. */
void proxy_launched(struct chan *chan, struct conn *const *conns, int nconns);
uint64_t proxy_launches(const struct chan *chan);
void proxy_landed(struct chan *chan, uint64_t launches);

#endif
