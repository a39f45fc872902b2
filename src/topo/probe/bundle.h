/* SPDX-License-Identifier: Apache-2.0
 *
 * A message of any length between two ranks. It travels as several letters of the control plane.
 */
#ifndef COLLET_TOPO_PROBE_BUNDLE_H
#define COLLET_TOPO_PROBE_BUNDLE_H

#include "boot/boot.h"

#include <stddef.h>

/* The part of a message that has come. All zero: nothing has come. After bundle_fini() it may take the next message. */
struct bundle {
    void *bytes;
    size_t size, have; /* Bytes of the whole message (0: not known yet); bytes that have come so far. */
};

/* Queues the letters of a whole message. Never waits. */
enum collet_result bundle_send(struct boot *boot, int to, uint64_t key, const void *bytes, size_t size);

/* Returns SUCCESS when the message is complete in *bundle, and IN_PROGRESS before. */
enum collet_result bundle_try_recv(struct bundle *bundle, struct boot *boot, int from, uint64_t key);
void bundle_fini(struct bundle *bundle);

#endif
