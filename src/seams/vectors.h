/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "vectors": blocks with counts of their own, operators that programs create, probes. Without the
 * layer nobody makes any of these. The operators are a list of the communicator.
 */
#ifndef COLLET_SEAMS_VECTORS_H
#define COLLET_SEAMS_VECTORS_H

#include "api/comm.h"

#define PROBE_ANY (-1) /* a post with this peer is a probe */

/* By the driver. SUCCESS: a message is there, and the probe has its rank; IN_PROGRESS; or a failure, TIMEOUT too. *idle_since_ns: when
 * the driver first found nothing; 0: not yet. */
enum collet_result probe_try(struct collet_comm *comm, struct post *probe, uint64_t *idle_since_ns);

#endif
