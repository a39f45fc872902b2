/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of proxies (layers/gpu/proxy.h), threads that carry slots over networks in an executor's place. Without the layer
 * "gpu" there are none: the host executor carries its slots itself.
 */
#ifndef COLLET_SEAMS_PROXY_H
#define COLLET_SEAMS_PROXY_H

#include "collet.h"

struct chan;
struct conn;

/* From now on a proxy carries the connections of chan, those to come too. Again: no effect. All below do nothing where chan has no
 * proxy. */
enum collet_result proxy_serve(struct chan *chan);

/* Between these two no proxy looks at any connection of chan. */
void proxy_pause(struct chan *chan);
void proxy_resume(struct chan *chan);

/* Counts, for chan and for each of these connections, calls under way: `more` is 1 or −1. While there are any, the executor may wait
 * for the network on these connections. */
void proxy_count(struct chan *chan, struct conn *const *conns, int nconns, int more);

#endif
