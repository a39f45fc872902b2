/* SPDX-License-Identifier: Apache-2.0
 *
 * From the speed of a host to the constants of the model. The speed is measured by CPUs that all work at once (host_probe.h), because they
 * disturb each other: sixteen pass on a payload more slowly than two.
 *
 *      host_probe ──▶ host_speed_of ──▶ host_speed, the worst of all nodes, of all ranks alike ──▶ host_suit ──▶ cost_table
 */
#ifndef COLLET_LAYERS_TUNER_HOST_H
#define COLLET_LAYERS_TUNER_HOST_H

#include "layers/tuner/costs.h"
#include "layers/tuner/host_probe.h"

/* host_is_far(): are slots passed on faster if they are written past the caches? host_kernel_copies(): does the kernel copy
 * payloads faster than slots pass them on? */
bool host_is_far(const struct host_times *times);
bool host_kernel_copies(const struct host_times *times);

/* Computes the speed of a host, as calls see it, from the times that n CPUs measured. */
struct host_speed host_speed_of(const struct host_times *times, int n);

/* Worsens each number of `speed` to that of `other`, if the other number is worse. If the other host was not measured,
 * nothing changes. */
void host_speed_agree(struct host_speed *speed, const struct host_speed *other);

/* If a host was measured, replaces the constants of host ranks by constants that follow from costs->host. */
void host_suit(struct cost_table *costs);

/* Writes the speed in words. Returns `text`. */
#define HOST_TEXT_BYTES 240
const char *host_text(const struct host_speed *speed, char text[HOST_TEXT_BYTES]);

#endif
