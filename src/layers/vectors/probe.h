/* SPDX-License-Identifier: Apache-2.0
 *
 * Probes: calls that wait until a message has come, from whatever rank, and leave it where it is.
 *
 *    lane of receives from rank 0    m4 runs             a receive was issued: its messages are not the probe's affair
 *    lane of receives from rank 1    (empty)  ◀── look ──┐
 *    lane of receives from rank 2    (empty)  ◀── look ──┤  is there data in the connection of messages?
 *    lane of probes                  p0  ────────────────┘
 *
 * A probe is a post like others (engine.h): a receive whose peer is PROBE_ANY, and whose buffer is where the rank goes.
 */
#ifndef COLLET_LAYERS_VECTORS_PROBE_H
#define COLLET_LAYERS_VECTORS_PROBE_H

#include "api/comm.h"

#define PROBE_ANY (-1)

/* By the driver. SUCCESS: a message is there, and the probe has its rank; IN_PROGRESS; or a failure. */
enum collet_result probe_try(struct collet_comm *comm, struct post *probe);

/* May it still be waited for? *idle_since_ns: when the driver first found nothing; 0: not yet. */
enum collet_result probe_look(const struct collet_comm *comm, uint64_t *idle_since_ns, uint64_t now_ns);

#endif
