/* SPDX-License-Identifier: Apache-2.0
 *
 * A message of any length between two ranks: as many letters of the control plane as it takes.
 */
#ifndef COLLET_TOPO_PROBE_BUNDLE_H
#define COLLET_TOPO_PROBE_BUNDLE_H

#include "boot/boot.h"

#include <stddef.h>

/* What has come of a message. Zeroed, nothing has; after bundle_fini() it takes the next one. */
struct bundle {
    void *bytes;
    size_t size, have; /* size 0: not known yet */
};

/* Queues all of it; never waits. */
enum collet_result bundle_send(struct boot *boot, int to, uint64_t key, const void *bytes, size_t size);

/* SUCCESS when the message is complete in *bundle, or IN_PROGRESS. */
enum collet_result bundle_try_recv(struct bundle *bundle, struct boot *boot, int from, uint64_t key);
void bundle_fini(struct bundle *bundle);

#endif
