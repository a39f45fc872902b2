/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "vectors": blocks with counts of their own, operators that programs create, probes. Without the
 * layer nobody makes any of these. The operators are a list of the communicator.
 */
#ifndef COLLET_SEAMS_VECTORS_H
#define COLLET_SEAMS_VECTORS_H

#include "api/comm.h"

#define PROBE_ANY (-1) /* the peer of a post that is a probe */

/* Tries a probe; called by the driver. SUCCESS: a message is there, and the probe has its rank. IN_PROGRESS: not yet. Else a failure, also
 * TIMEOUT. *idle_since_ns: time at which nothing was found first; 0: none. */
enum collet_result probe_try(struct collet_comm *comm, struct post *probe, uint64_t *idle_since_ns);

#endif
