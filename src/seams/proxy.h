/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of proxies (layers/gpu/proxy.h): threads that carry slots over networks for an executor. Without the layer
 * "gpu" there are no proxies: the host executor carries its slots itself.
 */
#ifndef COLLET_SEAMS_PROXY_H
#define COLLET_SEAMS_PROXY_H

#include "collet.h"

struct chan;
struct conn;

/* From now on a proxy serves all connections of chan, also those that are made later. A second call has no effect. The functions below do
 * nothing if chan has no proxy. */
enum collet_result proxy_serve(struct chan *chan);

/* Between these two calls, no proxy uses any connection of chan. */
void proxy_pause(struct chan *chan);
void proxy_resume(struct chan *chan);

/* Adds `more`, which is 1 or −1, to the number of calls in progress, for chan and for each of these connections. While the number is
 * positive, the executor may wait for the network on these connections. */
void proxy_count(struct chan *chan, struct conn *const *conns, int nconns, int more);

#endif
